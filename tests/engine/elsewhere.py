"""Devices that a machine without a GPU has all the same: on them PyTorch computes what the CPU does.

A tensor there stands for one on the CPU. As on GPUs, an operation on tensors of two places fails, and only
copies go from one to the other; so a tensor that was left behind shows, which devices of one kind would hide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

KIND = "elsewhere"
CPU = torch.device("cpu")
COPIES = {"aten::_to_copy", "aten::to", "aten::copy_"}


class MisplacedError(RuntimeError):
    """An operation got tensors of several devices."""


class There(Tensor):
    """A tensor elsewhere, by its double `here`."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor, device: torch.device) -> There:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=device,
        )
        made.here = here
        return made

    def __repr__(self) -> str:
        return f"There({self.here}, {self.device})"

    def tolist(self) -> Any:
        """PyTorch refuses this for subclasses."""
        return self.here.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(operation, args, kwargs or {})


class _Everything(TorchDispatchMode):
    """Also what makes tensors of nothing, or moves them from the CPU."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(operation, args, kwargs or {})


class _Lists(TorchFunctionMode):
    """`torch.tensor` copies its numbers to a device where no dispatch mode sees it."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.tensor and (device := kwargs.pop("device", None)) is not None:
            return function(*args, **kwargs).to(device)
        return function(*args, **kwargs)


def _run(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if operation is torch.ops.aten._has_compatible_shallow_copy_type.default:
        return False  # a module that moves makes new parameters
    leaves = tree_leaves((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    # A number of no dimension may come from the CPU, as on GPUs.
    places = {x.device for x in tensors if x.dim() or x.device.type == KIND}
    if len(places) > 1 and operation._schema.name not in COPIES:
        raise MisplacedError(f"{operation} of tensors on {', '.join(sorted(map(str, places)))}")
    asked = next((x for x in leaves if isinstance(x, torch.device)), None)
    doubles = tree_map(_double, (args, kwargs))
    out = operation(*doubles[0], **doubles[1])
    if operation._schema.is_mutable and isinstance(args[0], Tensor):
        return args[0]  # written in place
    where = asked if asked is not None else next(iter(places), CPU)
    if where.type != KIND:
        return out
    with torch.inference_mode(False):  # views of its tensors cannot be wrapped
        return tree_map(lambda x: There(x, where) if isinstance(x, Tensor) else x, out)


def _double(x: Any) -> Any:
    if isinstance(x, torch.device):
        return CPU if x.type == KIND else x
    return x.here if isinstance(x, There) else x


@contextmanager
def elsewhere() -> Iterator[list[torch.device]]:
    """Inside, there are three such devices."""
    if not hasattr(torch, KIND):
        _setup_privateuseone_for_python_backend(KIND)
    with _Everything(), _Lists():
        yield [torch.device(KIND, number) for number in range(3)]
