"""An accelerator that is not there, for one process: tensors of device "pretend" compute in the CPU's memory.

What a GPU refuses is refused: operations on tensors of two devices, and a CPU generator for numbers drawn on the
device. Counted by the place in the code that asks for them: copies from the device to the CPU, and waits for one number
or for a shape that depends on data.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretend")
torch.__future__.set_swap_module_params_on_conversion(True)  # as with CUDA, `.to` keeps the parameters' identity
DEVICE = torch.device("pretend:0")
aten = torch.ops.aten
WAITS = (aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default)
to_cpu: Counter[str] = Counter()
"""Place in lpm -> elements that were copied from the device."""
waits: Counter[str] = Counter()
"""Place in lpm -> times the CPU waited for the device."""


def place() -> str:
    """The innermost line of the library on the stack."""
    frames = (frame for frame in reversed(traceback.extract_stack()) if "/lpm" in frame.filename)
    found = next((frame for frame in frames if "tests" not in Path(frame.filename).parts), None)
    return f"{Path(found.filename).name}:{found.name}" if found else "outside"


class Pretend(Tensor):
    """A tensor that says it is on the device."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> Pretend:
        made: Pretend = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Pretend({self.inner!r})"


def unwrapped(tree: Any) -> Any:
    return tree_map_only(Pretend, lambda x: x.inner, tree)


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One operation: on the device if a tensor of it takes part or is asked for."""
    leaves = tree_leaves((args, kwargs))
    there = [x for x in leaves if isinstance(x, Pretend)]
    here = [x for x in leaves if isinstance(x, Tensor) and not isinstance(x, Pretend) and x.ndim]
    wanted = kwargs.get("device")
    if func is aten.copy_.default and there and isinstance(args[1], Pretend) != isinstance(args[0], Pretend):
        if isinstance(args[1], Pretend):
            to_cpu[place()] += args[1].numel()
        func(*unwrapped(args), **unwrapped(kwargs))
        return args[0]
    if func is aten._to_copy.default and wanted is not None and torch.device(wanted).type == "cpu" and there:
        to_cpu[place()] += args[0].numel()
        return func(*unwrapped(args), **kwargs)
    on_device = bool(there) if wanted is None else torch.device(wanted).type == "pretend"
    if there and here:
        shapes = [tuple(x.shape) for x in here]
        raise RuntimeError(f"{func}: tensors on the CPU {shapes} with tensors on the device at {place()}")
    if on_device and any(isinstance(x, torch.Generator) for x in leaves):
        raise RuntimeError(f"{func}: a CPU generator for numbers on the device at {place()}")
    if there and (func in WAITS or (func is aten.index.Tensor and any(x.dtype == torch.bool for x in there[1:]))):
        waits[place()] += 1
    if not on_device:
        return func(*unwrapped(args), **unwrapped(kwargs))
    if wanted is not None:
        kwargs = {**kwargs, "device": "cpu"}
    out = func(*unwrapped(args), **unwrapped(kwargs))
    out = tree_map_only(Tensor, lambda x: x if isinstance(x, Pretend) else Pretend(x), out)
    return return_and_correct_aliasing(func, args, kwargs, out) if there else out


class Mode(TorchDispatchMode):
    """Factories that are asked for tensors on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class Functions(TorchFunctionMode):
    """Functions that do not come through the dispatcher whole: tensors from lists, and the kernel of GRU cells."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.tolist and isinstance(args[0], Pretend):
            waits[place()] += 1
            return args[0].inner.tolist()
        if func in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == "pretend":
            return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        return gru_cell(*args) if func is torch.gru_cell else func(*args, **kwargs)


def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """A gated recurrent unit, as in the documentation of `torch.nn.GRUCell`."""
    from_x, from_h = linear(x, w_x, b_x).chunk(3, 1), linear(h, w_h, b_h).chunk(3, 1)
    reset, gate = ((a + b).sigmoid() for a, b in zip(from_x[:2], from_h[:2], strict=True))
    new = (from_x[2] + reset * from_h[2]).tanh()
    return (1 - gate) * new + gate * h


@contextmanager
def pretending() -> Iterator[torch.device]:
    """The device exists inside."""
    with Functions(), Mode():
        yield DEVICE


if __name__ == "__main__":  # tests/test_devices.py starts it and reads what it prints
    import json

    from device_cases import BREACHES, CASES

    found: dict[str, Any] = {}
    chosen = [argument for argument in sys.argv[1:] if argument != "--debug"]
    for name, case in (CASES | BREACHES).items():
        if chosen and name not in chosen:
            continue
        to_cpu.clear()
        waits.clear()
        try:
            with pretending() as device:
                case(device)
        except Exception as error:
            if "--debug" in sys.argv:
                traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        else:
            found[name] = {"to_cpu": dict(to_cpu), "waits": dict(waits)}
    print(json.dumps(found))
