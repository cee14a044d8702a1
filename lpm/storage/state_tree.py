"""Trees of tensors and plain values: as JSON with the tensors beside it, back again, and compared with an example.

A tree has dicts, lists, tuples, tensors, NumPy arrays, byte strings, numbers, text and None. In JSON, what is not plain
is an object with one key that begins with "$".
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

DTYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of dtypes in safetensors."""
_TEXT = re.compile(r"[<|>]?[US][1-9]\d{0,3}")


class StateError(ValueError):
    """A file or a stream of bytes is not a state that can be used; the message says why."""


def require(fits: bool, expected: str, came: Any) -> None:
    """Raise a `StateError` unless something fits."""
    if not fits:
        raise StateError(f"expected {expected}, got {str(came)[:200]}")


# ---- to JSON and back ------------------------------------------------------------------------------------------
def encode(tree: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The tree as JSON; what is not plain goes into `tensors` and is named in its place by an object with a "$" key."""
    if tree is None or isinstance(tree, (bool, str, int)):
        return tree
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else {"$float": repr(tree)}
    if isinstance(tree, np.generic):
        return encode(tree.item(), path, tensors)
    if isinstance(tree, Mapping):
        values = [(key, encode(value, f"{path}/{key}", tensors)) for key, value in tree.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key in tree):
            return dict(values)
        if not all(isinstance(key, (str, int)) for key in tree):
            raise ValueError(f"state{path}: expected text or integers as keys, got {list(tree)[:5]}")
        return {"$map": [list(pair) for pair in values]}
    if isinstance(tree, (list, tuple)):
        items = [encode(value, f"{path}/{i}", tensors) for i, value in enumerate(tree)]
        return items if isinstance(tree, list) else {"$tuple": items}
    if isinstance(tree, bytes):
        data = torch.frombuffer(bytearray(tree), dtype=torch.uint8) if tree else torch.zeros(0, dtype=torch.uint8)
        return {"$bytes": _keep(data, path, tensors)}
    if isinstance(tree, np.ndarray):
        return _encode_array(tree, path, tensors)
    if isinstance(tree, Tensor):
        return _encode_tensor(tree, path, tensors)
    wanted = "tensors, arrays, numbers, text, bytes, lists, tuples and dicts"
    raise ValueError(f"state{path}: expected {wanted}, got {type(tree).__name__}")


def _encode_array(array: np.ndarray[Any, Any], path: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if array.dtype.kind in "US":  # text: its bytes, and how to read them
        if not array.dtype.itemsize:
            array = array.astype(f"{array.dtype.kind}1")
        raw = np.frombuffer(array.tobytes(), dtype=np.uint8).reshape(*array.shape, array.dtype.itemsize)
        return {"$array": _keep(torch.from_numpy(raw.copy()), path, tensors), "text": array.dtype.str}
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"state{path}: expected an array of numbers, booleans or text, got dtype {array.dtype}")
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    # a copy only of what torch would refuse to share
    return {"$array": _keep(torch.from_numpy(native if native.flags.writeable else native.copy()), path, tensors)}


def _encode_tensor(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise ValueError(f"state{path}: expected a dense tensor of numbers, got {tensor.dtype}, {tensor.layout}")
    tensor = tensor.cpu()
    if not tensor.is_contiguous():
        # such as channels last: the same memory read in the order in which it lies, so that nothing is copied
        order = sorted(range(tensor.ndim), key=tensor.stride().__getitem__, reverse=True)
        if tensor.permute(order).is_contiguous():
            return {"$tensor": _keep(tensor.permute(order), path, tensors), "order": order}
    return {"$tensor": _keep(tensor.contiguous(), path, tensors)}


def _keep(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> str:
    name = path.removeprefix("/") or "state"
    while name in tensors or name == "__metadata__":
        name += "'"
    tensors[name] = tensor
    return name


def decode(tree: Any, tensors: Mapping[str, Tensor], used: set[str]) -> Any:
    """Undo `encode`."""
    if isinstance(tree, list):
        return [decode(value, tensors, used) for value in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next((key for key in tree if key.startswith("$")), None)
    if tag is None:
        return {key: decode(value, tensors, used) for key, value in tree.items()}
    value, more = tree[tag], {key: value for key, value in tree.items() if key != tag}
    if tag == "$float" and not more and value in ("nan", "inf", "-inf"):
        return float(value)
    if tag == "$tuple" and not more and isinstance(value, list):
        return tuple(decode(item, tensors, used) for item in value)
    if tag == "$map" and not more and isinstance(value, list):
        return _decode_map(value, tensors, used)
    if tag in ("$tensor", "$array", "$bytes") and isinstance(value, str) and value in tensors and value not in used:
        used.add(value)
        tensor = tensors[value]
        if tag == "$tensor" and set(more) <= {"order"}:
            order = more.get("order", list(range(tensor.ndim)))
            fits = isinstance(order, list) and all(type(axis) is int for axis in order)
            require(fits and sorted(order) == list(range(tensor.ndim)), f"{value}: an order of its axes", order)
            return tensor.permute([order.index(axis) for axis in range(tensor.ndim)]) if more else tensor
        if tag == "$array" and set(more) <= {"text"}:
            return _decode_text(value, tensor, more["text"]) if more else tensor.numpy()
        if tag == "$bytes" and not more and tensor.dtype == torch.uint8 and tensor.ndim == 1:
            return tensor.numpy().tobytes()
    raise StateError(f"expected a tree of tensors and plain values, got {json.dumps(tree)[:100]}")


def _decode_map(pairs: list[Any], tensors: Mapping[str, Tensor], used: set[str]) -> dict[Any, Any]:
    fits = all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int)) for pair in pairs)
    require(fits and len({pair[0] for pair in pairs}) == len(pairs), "keys that occur once", json.dumps(pairs)[:100])
    return {key: decode(value, tensors, used) for key, value in pairs}


def _decode_text(name: str, tensor: Tensor, dtype: Any) -> np.ndarray[Any, Any]:
    fits = isinstance(dtype, str) and _TEXT.fullmatch(dtype) and tensor.dtype == torch.uint8 and tensor.ndim
    require(bool(fits) and tensor.shape[-1] == np.dtype(dtype).itemsize, f"{name}: text", dtype)
    return np.frombuffer(tensor.numpy().tobytes(), dtype=np.dtype(dtype)).reshape(tensor.shape[:-1]).copy()


# ---- compared with an example ---------------------------------------------------------------------------------
def check_like(expected: Any, came: Any, where: str = "state") -> None:
    """Refuse a tree that has not the names, types, shapes and dtypes of an example.

    An empty dict or list in the example stands for any.
    """
    if isinstance(expected, Mapping):
        require(isinstance(came, Mapping), f"{where}: names", _kind(came))
        if expected:
            differing = sorted(map(str, set(expected) ^ set(came)))
            require(not differing, f"{where}: the same names", f"a difference in {', '.join(differing[:5])}")
            for key, value in expected.items():
                check_like(value, came[key], f"{where}.{key}")
    elif isinstance(expected, (list, tuple)):
        require(isinstance(came, (list, tuple)), f"{where}: a list", _kind(came))
        if expected:
            require(len(expected) == len(came), f"{where}: {len(expected)} entries", len(came))
            for i, (value, other) in enumerate(zip(expected, came, strict=True)):
                check_like(value, other, f"{where}[{i}]")
    elif isinstance(expected, (int, float)) and not isinstance(expected, bool):
        numbers = (int, float) if isinstance(expected, float) else int
        require(isinstance(came, numbers) and not isinstance(came, bool), f"{where}: {_kind(expected)}", _kind(came))
    else:
        require(_kind(came) == _kind(expected), f"{where}: {_kind(expected)}", _kind(came))


def check_optimizer(optimizer: torch.optim.Optimizer, state: Any, where: str = "optimizer") -> None:
    """Refuse the state of an optimiser of other parameters, which torch would take and stumble over later."""
    check_like({**optimizer.state_dict(), "state": {}}, state, where)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in state["state"].items():
        require(type(index) is int and 0 <= index < len(parameters), f"{where}: one of its parameters", index)
        require(isinstance(values, dict), f"{where}: moments by name", _kind(values))
        for name, value in values.items():
            shape = () if name == "step" else tuple(parameters[index].shape)
            fits = isinstance(value, Tensor) and value.is_floating_point() and value.shape == shape
            require(fits, f"{where}.{index}.{name}: shape {shape}", _kind(value))


def check_generator(state: Any, where: str = "generator") -> None:
    """Refuse what torch's generator could not go on from."""
    try:
        torch.Generator("cpu").set_state(state.cpu())
    except (AttributeError, RuntimeError, TypeError) as problem:
        raise StateError(f"{where}: expected the state of a torch generator: {problem}") from None


def _kind(value: Any) -> str:
    """What `check_like` compares, in words."""
    if isinstance(value, Tensor):
        return f"a tensor {value.dtype} of shape {tuple(value.shape)}".replace("torch.", "")
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype} of shape {value.shape}"
    return "None" if value is None else type(value).__name__
