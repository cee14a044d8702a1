"""State files: tensors as safetensors, the rest as JSON beside them; nothing in one can run.

A state is a tree (`state_tree.py`). Its file is a safetensors file, which any reader of that format opens. In the
file's metadata stand `lpm`, the manifest as JSON: format, kind, versions, the SHA-256 of every tensor, and the tree
with tensors by name; and `sha256`, the checksum of the manifest. So the header alone stands for the whole content.

The format is written and read here rather than by the package of that name, whose reader takes the last of two equal
keys, and whose writer leaves a temporary file of its own when it is killed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from lpm.storage.files import open_regular, parse_json, replacing
from lpm.storage.state_tree import DTYPE_NAMES, DTYPES, StateError, decode, encode, require
from lpm.utils.versions import versions

FORMAT = "lpm.state/2"
MAX_HEADER = 16 * 2**20
"""Bytes of a header, which holds names and plain values only."""

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Stored:
    """What a state file holds."""

    state: Any
    versions: dict[str, str]
    """Of lpm, torch and others that it was written with."""
    checksum: str
    """SHA-256 of the header, which stands for the whole content."""


# ---- files and bytes ------------------------------------------------------------------------------------------
def save_state(state: Any, path: str | Path) -> None:
    """Write a state, such as a bonus's `state_dict()`, to a file: whole or not at all."""
    with replacing(Path(path)) as stream:
        write(stream, state, "state")


def load_state(path: str | Path) -> Any:
    """Read what `save_state` wrote. Nothing in the file can run; what is damaged or of another kind is refused."""
    return load(Path(path), "state")


def load(path: Path, kind: str) -> Any:
    """The state in a file of this kind; warns once if other versions wrote it."""
    with open_regular(path) as stream:
        stored = read(stream, os.fstat(stream.fileno()).st_size, str(path), kind)
    warn_of_versions(stored.versions, str(path))
    return stored.state


def to_bytes(state: Any, kind: str) -> bytes:
    """A state as the content of a file."""
    stream = io.BytesIO()
    write(stream, state, kind)
    return stream.getvalue()


def from_bytes(content: bytes, kind: str, where: str) -> Any:
    """Undo `to_bytes`; `where` is for messages."""
    if not isinstance(content, bytes):
        raise StateError(f"{where}: expected bytes, got {type(content).__name__}")
    stored = read(io.BytesIO(content), len(content), where, kind)
    warn_of_versions(stored.versions, where)
    return stored.state


def differing_versions(written: Mapping[str, str]) -> str:
    """In words, how the versions of lpm and torch differ from those here; empty if they do not."""
    here = _versions()
    return ", ".join(
        f"{name} {written.get(name, 'unknown')} (here {here[name]})"
        for name in ("lpm", "torch")
        if written.get(name) != here[name]
    )


_warned: set[str] = set()


def warn_of_versions(written: Mapping[str, str], where: str) -> None:
    """Warn, once for each difference, that a state was written with other versions."""
    differing = differing_versions(written)
    if differing and differing not in _warned:
        _warned.add(differing)
        warnings.warn(f"{where}: written with {differing}; numbers may differ from here on", stacklevel=4)


@cache
def _versions() -> dict[str, str]:
    return {"lpm": import_module("lpm").__version__, **versions("torch", "numpy")}


# ---- writing --------------------------------------------------------------------------------------------------
def write(stream: BinaryIO, state: Any, kind: str) -> str:
    """Write a state; the checksum of its header."""
    tensors: dict[str, Tensor] = {}
    tree = encode(state, "", tensors)
    # large elements first, so that each tensor begins at a multiple of its element's size
    ordered = dict(sorted(tensors.items(), key=lambda item: -item[1].element_size()))
    manifest = json.dumps(
        {
            "format": FORMAT,
            "kind": kind,
            "versions": _versions(),
            "tensors": {name: hashlib.sha256(_bytes(tensor)).hexdigest() for name, tensor in ordered.items()},
            "tree": tree,
        },
        allow_nan=False,
    )
    entries: dict[str, Any] = {"__metadata__": {"lpm": manifest, "sha256": _digest(manifest)}}
    offset = 0
    for name, tensor in ordered.items():
        end = offset + tensor.nbytes
        entries[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ValueError(f"state: expected names and plain values of at most {MAX_HEADER:,} bytes, got {len(header):,}")
    stream.write(len(header).to_bytes(8, "little"))
    stream.write(header)
    for tensor in ordered.values():
        stream.write(_bytes(tensor))
    return hashlib.sha256(header).hexdigest()


# ---- reading --------------------------------------------------------------------------------------------------
def read(stream: BinaryIO, size: int, where: str, kind: str) -> Stored:
    """Read a state of `size` bytes. Whatever its header claims, no more than that is allocated for tensors."""
    try:
        header = _header(stream, size)
        entries = _parsed(header, "header")
        manifest = _manifest(entries.pop("__metadata__", None), kind)
        tensors = _allocate(entries, manifest["tensors"], size - 8 - len(header))
        for name, tensor in tensors.items():
            _fill(stream, name, tensor, manifest["tensors"][name])
        used: set[str] = set()
        state = decode(manifest["tree"], tensors, used)
        require(used == set(tensors), "a tree that names every tensor", sorted(set(tensors) - used)[:3])
    except StateError as problem:
        raise StateError(f"{where}: {problem}") from None
    except RecursionError:
        raise StateError(f"{where}: expected a state file, got one that is nested too deeply") from None
    return Stored(state, manifest["versions"], hashlib.sha256(header).hexdigest())


def _header(stream: BinaryIO, size: int) -> bytes:
    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 0 < length <= min(MAX_HEADER, size - 8):
        if start[:4] == b"PK\x03\x04" or start[:1] == b"\x80":
            raise StateError(
                "expected a state file, got a pickle or an archive of one, as torch.save writes; "
                "it is not read, because opening one can run code"
            )
        raise StateError(
            f"expected a state file, but it cannot be read: its header claims {length:,} bytes, expected 1 to "
            f"{MAX_HEADER:,} within the {size:,} of the file"
        )
    return stream.read(length)


def _parsed(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as problem:
        raise StateError(f"expected a state file, but its {what} cannot be read: {problem}") from None
    require(isinstance(value, dict), f"a {what} with names", type(value).__name__)
    return dict(value)


def _manifest(metadata: Any, kind: str) -> dict[str, Any]:
    ours = isinstance(metadata, dict) and set(metadata) == {"lpm", "sha256"}
    require(ours and all(isinstance(value, str) for value in metadata.values()), "a file that lpm wrote", "another")
    if _digest(metadata["lpm"]) != metadata["sha256"]:
        raise StateError("its manifest is damaged: the checksum is not the one beside it")
    manifest = _parsed(metadata["lpm"], "manifest")
    require(manifest.get("format") == FORMAT, f"format {FORMAT}", manifest.get("format"))
    require(set(manifest) == {"format", "kind", "versions", "tensors", "tree"}, "a whole manifest", sorted(manifest))
    require(manifest["kind"] == kind, f"a file of kind {kind!r}", manifest["kind"])
    for name in ("versions", "tensors"):
        table = manifest[name]
        fits = isinstance(table, dict) and all(isinstance(value, str) for value in table.values())
        require(fits, f"{name}: names to text", table)
    require(all(map(_HEX.fullmatch, manifest["tensors"].values())), "tensors: SHA-256 checksums", "others")
    return manifest


def _allocate(entries: Mapping[str, Any], expected: Mapping[str, str], size: int) -> dict[str, Tensor]:
    """Empty tensors in the order of their bytes, which must fill the rest of the file exactly."""
    require(set(entries) == set(expected), "the tensors of the manifest", sorted(set(entries) ^ set(expected))[:3])
    begins: dict[str, int] = {}
    for name, entry in entries.items():
        fits = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        require(fits, f"{name}: dtype, shape and data_offsets", entry)
        require(isinstance(entry["dtype"], str) and entry["dtype"] in DTYPES, f"{name}: a known dtype", entry["dtype"])
        for field in ("shape", "data_offsets"):
            fits = isinstance(entry[field], list) and all(type(n) is int and 0 <= n < 2**62 for n in entry[field])
            require(fits and len(entry[field]) <= 16, f"{name}: {field} of whole numbers", entry[field])
        require(len(entry["data_offsets"]) == 2, f"{name}: two data_offsets", entry["data_offsets"])
        begins[name] = entry["data_offsets"][0]
    offset = 0
    ordered = sorted(begins, key=lambda name: (begins[name], entries[name]["data_offsets"][1]))
    for name in ordered:
        entry = entries[name]
        end = offset + math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize
        require(entry["data_offsets"] == [offset, end], f"{name}: bytes {offset:,} to {end:,}", entry["data_offsets"])
        offset = end
    if offset != size:
        raise StateError(f"its tensors are cut short or followed by more: expected {offset:,} bytes, got {size:,}")
    try:
        return {name: torch.empty(entries[name]["shape"], dtype=DTYPES[entries[name]["dtype"]]) for name in ordered}
    except (RuntimeError, MemoryError) as problem:  # an empty tensor may have absurd sides
        raise StateError(f"expected tensors that fit into the memory: {problem}") from None


def _fill(stream: BinaryIO, name: str, tensor: Tensor, checksum: str) -> None:
    view = _bytes(tensor)
    if stream.readinto(view) != len(view):  # type: ignore[attr-defined]
        raise StateError(f"{name} is cut short: expected {len(view):,} bytes")
    if hashlib.sha256(view).hexdigest() != checksum:
        raise StateError(f"{name} is damaged: its checksum is not the one in the manifest")
    if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
        raise StateError(f"{name}: expected booleans as 0 and 1, got other bytes")


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    if not tensor.numel():
        return memoryview(bytearray())
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
