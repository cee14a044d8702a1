"""State files: tensors as safetensors, the rest as JSON beside them; nothing in one can run.

A state is a tree (`state_tree.py`). Its file is a safetensors file, which any reader of that format opens. In the
file's metadata stand `lpm`, the manifest as JSON: format, kind, versions, the SHA-256 of everything else, and the tree
with tensors by name; and `sha256`, the checksum of the manifest. So the header alone stands for the whole content.

Written here, tensor by tensor, because the package's writer holds the whole file in memory; read by the package, after
a look at the header, of which the package would take the last of two equal keys.
"""

import hashlib
import io
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from lpm.storage.files import open_regular, parse_json, replacing
from lpm.storage.state_tree import DTYPE_NAMES, StateError, decode, encode, require
from lpm.utils.versions import versions

FORMAT = "lpm.state/3"
MAX_HEADER = 16 * 2**20
"""Bytes of a header, which holds names and plain values only."""


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
        return from_bytes(stream.read(), kind, str(path))


def to_bytes(state: Any, kind: str) -> bytes:
    """A state as the content of a file."""
    stream = io.BytesIO()
    write(stream, state, kind)
    return stream.getvalue()


def from_bytes(content: bytes, kind: str, where: str) -> Any:
    """Undo `to_bytes`; `where` is for messages."""
    if not isinstance(content, bytes):
        raise StateError(f"{where}: expected bytes, got {type(content).__name__}")
    stored = parse(content, kind, where)
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
    if (differing := differing_versions(written)) and differing not in _warned:
        _warned.add(differing)
        warnings.warn(f"{where}: written with {differing}; numbers may differ from here on", stacklevel=4)


@cache
def _versions() -> dict[str, str]:
    return {"lpm": import_module("lpm").__version__, **versions("torch", "numpy")}


# ---- writing and reading --------------------------------------------------------------------------------------
def write(stream: BinaryIO, state: Any, kind: str) -> str:
    """Write a state; the checksum of its header."""
    tensors: dict[str, Tensor] = {}
    tree = encode(state, "", tensors)
    entries: dict[str, Any] = {}
    # large elements first, so that each tensor begins at a multiple of its element's size
    parts, offset = [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        parts.append(_bytes(tensor))
        span = [offset, offset + tensor.nbytes]
        entries[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": span}
        offset = span[1]
    manifest = {"format": FORMAT, "kind": kind, "versions": _versions(), "sha256": _digest(entries, parts)}
    text = json.dumps({**manifest, "tree": tree}, allow_nan=False)
    header = json.dumps({"__metadata__": {"lpm": text, "sha256": _sha256(text.encode())}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ValueError(f"state: expected names and plain values of at most {MAX_HEADER:,} bytes, got {len(header):,}")
    stream.write(len(header).to_bytes(8, "little"))
    stream.write(header)
    for part in parts:
        stream.write(part)
    return _sha256(header)


def parse(content: bytes, kind: str, where: str) -> Stored:
    """The state in the content of a file; `where` is for messages."""
    try:
        header = _header(content)
        entries = _parsed(header, "header")
        manifest = _manifest(entries.pop("__metadata__", None), kind)
        if _digest(entries, [memoryview(content)[8 + len(header) :]]) != manifest["sha256"]:
            raise StateError("its tensors are damaged: the checksum is not the one in the manifest")
        tensors: dict[str, Tensor] = load_tensors(content)
        for name, tensor in tensors.items():
            if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
                raise StateError(f"{name}: expected booleans as 0 and 1, got other bytes")
        used: set[str] = set()
        state = decode(manifest["tree"], tensors, used)
        require(used == set(tensors), "a tree that names every tensor", sorted(set(tensors) - used)[:3])
    except StateError as problem:
        raise StateError(f"{where}: {problem}") from None
    except (SafetensorError, KeyError, ValueError, OverflowError, RuntimeError, MemoryError, RecursionError) as problem:
        raise StateError(f"{where}: expected tensors that can be read: {str(problem)[:200]}") from None
    return Stored(state, manifest["versions"], _sha256(header))


def _header(content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    if content[:4] == b"PK\x03\x04" or (content[:1] == b"\x80" and length > MAX_HEADER):
        raise StateError(
            "expected a state file, got a pickle or an archive of one, as torch.save writes; "
            "it is not read, because opening one can run code"
        )
    if not 0 < length <= min(MAX_HEADER, len(content) - 8):
        raise StateError(
            f"expected a state file, but it cannot be read: its header claims {length:,} bytes, expected 1 to "
            f"{MAX_HEADER:,} within the {len(content):,} of the file"
        )
    return content[8 : 8 + length]


def _parsed(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = parse_json(text)
    except ValueError as problem:
        raise StateError(f"expected a state file, but its {what} cannot be read: {problem}") from None
    require(isinstance(value, dict), f"a {what} with names", type(value).__name__)
    return value


def _manifest(metadata: Any, kind: str) -> dict[str, Any]:
    ours = isinstance(metadata, dict) and set(metadata) == {"lpm", "sha256"}
    require(ours and all(isinstance(value, str) for value in metadata.values()), "a file that lpm wrote", "another")
    if _sha256(metadata["lpm"].encode()) != metadata["sha256"]:
        raise StateError("its manifest is damaged: the checksum is not the one beside it")
    manifest = _parsed(metadata["lpm"], "manifest")
    require(manifest.get("format") == FORMAT, f"format {FORMAT}", manifest.get("format"))
    require(set(manifest) == {"format", "kind", "versions", "sha256", "tree"}, "a whole manifest", sorted(manifest))
    require(manifest["kind"] == kind, f"a file of kind {kind!r}", manifest["kind"])
    table = manifest["versions"]
    fits = isinstance(table, dict) and all(isinstance(value, str) for value in table.values())
    require(fits, "versions: names to text", table)
    return manifest


def _digest(entries: Mapping[str, Any], parts: Iterable[memoryview]) -> str:
    """The checksum of names, types and shapes of tensors and of their bytes."""
    checksum = hashlib.sha256(json.dumps(entries).encode())
    for part in parts:
        checksum.update(part)
    return checksum.hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    if not tensor.numel():
        return memoryview(bytearray())
    return tensor.reshape(-1).view(torch.uint8).numpy().data
