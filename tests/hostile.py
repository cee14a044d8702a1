"""Files that a stranger might send: a good one, changed in the ways that have been used against other readers."""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import os
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def taken_apart(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Entries, manifest and data of a state file."""
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    manifest = json.loads(entries.pop("__metadata__")["lpm"])
    return entries, manifest, content[8 + length :]


def put_together(entries: dict[str, Any], manifest: dict[str, Any] | str, data: bytes) -> bytes:
    """A state file with every checksum right."""
    if isinstance(manifest, dict):
        manifest["sha256"] = hashlib.sha256(json.dumps(entries).encode() + data).hexdigest()
        manifest = json.dumps(manifest)
    metadata = {"lpm": manifest, "sha256": hashlib.sha256(manifest.encode()).hexdigest()}
    return with_header(json.dumps({"__metadata__": metadata, **entries}), data)


def with_header(header: str, data: bytes, claimed: int | None = None) -> bytes:
    raw = header.encode()
    return struct.pack("<Q", len(raw) if claimed is None else claimed) + raw + data


def changed(change: Callable[[dict[str, Any], dict[str, Any]], bytes | None]) -> Callable[[bytes], bytes]:
    """An attack that edits entries and manifest in place and may return other data."""

    def attack(content: bytes) -> bytes:
        entries, manifest, data = taken_apart(content)
        other = change(entries, manifest)
        return put_together(entries, manifest, data if other is None else other)

    return attack


def first(entries: dict[str, Any], dtype: str = "F32") -> dict[str, Any]:
    """The first tensor of a type that is not a single number."""
    return next(entry for entry in entries.values() if entry["dtype"] == dtype and len(entry["shape"]) > 1)


def wrong_dtype(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    first(entries)["dtype"] = "I32"


def wrong_shape(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    entry = first(entries)
    entry["shape"] = [*entry["shape"][::-1], 1]


def half_precision(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    entry = first(entries)
    entry["dtype"], entry["shape"] = "F16", [2 * entry["shape"][0], *entry["shape"][1:]]


def overflowing(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    first(entries)["shape"] = [2**61, 2**61]


def empty_and_endless(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    entries["more"] = {"dtype": "F32", "shape": [0, 2**61, 2**61], "data_offsets": [0, 0]}
    manifest["tree"] = [manifest["tree"], {"$tensor": "more"}]


def bad_order(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["tree"] = [{"$tensor": next(iter(entries)), "order": ["x", 0]}]


def without_content(entries: dict[str, Any], manifest: dict[str, Any]) -> bytes:
    entries.clear()
    manifest["tree"] = {}
    return b""


def negative(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    entry = first(entries)
    entry["shape"] = [-entry["shape"][0], *entry["shape"][1:-1], -entry["shape"][-1]]


def overlapping(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    large = sorted(entries.values(), key=lambda entry: -entry["data_offsets"][1])
    large[0]["data_offsets"], large[0]["dtype"], large[0]["shape"] = (
        large[1]["data_offsets"],
        large[1]["dtype"],
        large[1]["shape"],
    )


def outside(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    entry = max(entries.values(), key=lambda entry: int(entry["data_offsets"][1]))
    entry["data_offsets"] = [entry["data_offsets"][0], entry["data_offsets"][1] + 4096]


def unknown_dtype(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    first(entries)["dtype"] = "OBJECT"


def named_twice(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["tree"] = [manifest["tree"], {"$tensor": next(iter(entries))}]


def unnamed(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["tree"] = {}


def climbing(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    """A name that is a path out of the folder, which a reader that makes files of names would follow."""
    name = next(iter(entries))
    entries["../../../climbed"] = entries.pop(name)


def unknown_tag(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["tree"] = {"$object": "os.system", "args": ["true"]}


def keys_twice_in_map(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["tree"] = {"$map": [[0, 1], [0, 2]]}


def other_kind(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["kind"] = "another"


def other_format(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["format"] = "lpm.state/99"


def versions_no_text(entries: dict[str, Any], manifest: dict[str, Any]) -> None:
    manifest["versions"] = {"torch": {"$tensor": "x"}}


def _pickled(mark: Path) -> Callable[[bytes], bytes]:
    return lambda content: pickle.dumps(Bomb(mark))


def _archived(mark: Path) -> Callable[[bytes], bytes]:
    def attack(content: bytes) -> bytes:
        stream = io.BytesIO()
        torch.save({"state": Bomb(mark)}, stream)
        return stream.getvalue()

    return attack


def _zip_bomb(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    return stream.getvalue()


def _double_key(content: bytes) -> bytes:
    entries, manifest, data = taken_apart(content)
    name, entry = next(iter(entries.items()))
    header = put_together(entries, manifest, b"")[8:].decode()
    return with_header(f"{header[:-1]}, {json.dumps(name)}: {json.dumps(entry)}}}", data)


def _double_key_in_manifest(content: bytes) -> bytes:
    entries, manifest, data = taken_apart(content)
    text = json.dumps(manifest)
    return put_together(entries, text[:-1] + ', "kind": "state"}', data)


def _nan(content: bytes) -> bytes:
    entries, manifest, data = taken_apart(content)
    return put_together(entries, json.dumps(manifest)[:-1] + ', "more": NaN}', data)


def _deep(content: bytes) -> bytes:
    entries, manifest, data = taken_apart(content)
    text = json.dumps({**manifest, "tree": 0})
    return put_together(entries, text.replace('"tree": 0', '"tree": ' + "[" * 200_000 + "]" * 200_000), data)


def attacks(mark: Path) -> dict[str, Callable[[bytes], bytes]]:
    """Attack by name: from the content of a good state file to that of a bad one. A bomb that goes off makes `mark`."""
    return {
        "a pickle renamed": _pickled(mark),
        "an archive of torch.save": _archived(mark),
        "a zip bomb": _zip_bomb,
        "a gzip bomb": lambda content: gzip.compress(bytes(10**7)),
        "nothing": lambda content: b"",
        "seven bytes": lambda content: content[:7],
        "a huge header": lambda content: struct.pack("<Q", 2**63) + content[8:],
        "a header of 4 GB": lambda content: struct.pack("<Q", 2**32) + content[8:],
        "a header longer than the file": lambda content: struct.pack("<Q", len(content)) + content[8:],
        "a header that is no JSON": lambda content: with_header("{,}", b""),
        "a header that is a list": lambda content: with_header("[]", b""),
        "no manifest": lambda content: with_header("{}", b""),
        "nested without end": _deep,
        "truncated tensors": lambda content: content[:-9],
        "more than its tensors": lambda content: content + bytes(8),
        "a flipped bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        "keys twice": _double_key,
        "keys twice in the manifest": _double_key_in_manifest,
        "keys twice in a map": changed(keys_twice_in_map),
        "NaN in the manifest": _nan,
        "wrong dtype": changed(wrong_dtype),
        "wrong shape": changed(wrong_shape),
        "half precision": changed(half_precision),
        "a shape that overflows": changed(overflowing),
        "an empty tensor with endless sides": changed(empty_and_endless),
        "axes in no order": changed(bad_order),
        "an empty tree": changed(without_content),
        "a negative shape": changed(negative),
        "tensors over each other": changed(overlapping),
        "a tensor outside": changed(outside),
        "an unknown dtype": changed(unknown_dtype),
        "a tensor named twice": changed(named_twice),
        "tensors that are not named": changed(unnamed),
        "a name that climbs out": changed(climbing),
        "an unknown tag": changed(unknown_tag),
        "another kind": changed(other_kind),
        "another format": changed(other_format),
        "versions that are no text": changed(versions_no_text),
    }


ATTACKS = tuple(attacks(Path()))
FITTING_ONLY = ("wrong dtype", "wrong shape", "half precision", "an empty tree")
"""Attacks that only a reader notices who knows what it expects."""


# ---- JSON -----------------------------------------------------------------------------------------------------
LEAVES: tuple[Any, ...] = (
    None, True, -1, 1e308, -1e308, 10**400, 2**63, "x", "<script>alert(1)</script>", "[red]x[/red]", "\x1b[2J", [], {},
    [[]], {"a": {}}, 1e-320, "9" * 5000, "../../../etc/passwd", [None], [1e308, 1e308], "\u202e",
)  # fmt: skip
NAMES = ("<script>alert(1)</script>", "[bold]", "\x1b[2J", "a" * 3000, "")


def mutated(tree: Any, rng: random.Random) -> Any:
    """JSON with one of its values replaced, left out or renamed."""
    tree, places = copy.deepcopy(tree), []

    def walk(part: Any) -> None:
        keys = list(part) if isinstance(part, dict) else range(min(len(part), 4)) if isinstance(part, list) else ()
        for key in keys:
            places.append((part, key))
            walk(part[key])

    walk(tree)
    part, key = rng.choice(places)
    how = rng.random()
    if how < 0.7:
        part[key] = rng.choice(LEAVES)
    elif how < 0.85 and isinstance(part, dict):
        part[rng.choice(NAMES)] = part.pop(key)
    else:
        del part[key]
    return tree
