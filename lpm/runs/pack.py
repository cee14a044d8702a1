"""Nested states as what `torch.load(weights_only=True)` accepts: tensors and plain Python, nothing executable."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_DTYPE, _BYTES = "__numpy__", "__bytes__"


def pack(tree: Any) -> Any:
    """Replace NumPy arrays and byte strings, at any depth, by tensors of bytes with their type and shape."""
    if isinstance(tree, dict):
        return {key: pack(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(pack(value) for value in tree)
    if isinstance(tree, np.ndarray):
        if tree.dtype.hasobject or tree.dtype.names is not None:
            raise ValueError(f"expected an array of numbers, booleans or text, got dtype {tree.dtype}")
        data = torch.frombuffer(bytearray(tree.tobytes()), dtype=torch.uint8) if tree.size else torch.zeros(0)
        return {_DTYPE: tree.dtype.str, "shape": list(tree.shape), "data": data}
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, bytes):
        return {_BYTES: torch.frombuffer(bytearray(tree), dtype=torch.uint8) if tree else torch.zeros(0)}
    return tree


def unpack(tree: Any) -> Any:
    """Undo `pack`."""
    if isinstance(tree, dict):
        if _DTYPE in tree:
            data = tree["data"].numpy().tobytes() if tree["data"].numel() else b""
            return np.frombuffer(data, dtype=np.dtype(tree[_DTYPE])).reshape(tree["shape"]).copy()
        if _BYTES in tree:
            return tree[_BYTES].numpy().tobytes() if tree[_BYTES].numel() else b""
        return {key: unpack(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(unpack(value) for value in tree)
    return tree
