"""CUDA graphs: a function of tensors with fixed shapes, recorded once and replayed in one launch.

At batch size 1 a forward of a hundred small kernels waits for the processor that launches them; a replay
does not. What may be recorded never asks the host for a value and never makes a tensor of a Python list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from operator import is_
from typing import Any, TypeAlias

import torch
from torch import Tensor

log = logging.getLogger(__name__)

Compute: TypeAlias = Callable[..., tuple[Tensor, ...]]
WARM_UPS = 3  # runs before the recording: libraries choose kernels and make room for themselves


class Graphs:
    """Recordings by key, for one device; elsewhere than on CUDA the functions are simply called.

    They share memory: what a recording returned holds until any of them is run again.
    """

    def __init__(self, device: torch.device) -> None:
        self._captures = device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if self._captures else None
        self._known: dict[Hashable, Compute] = {}
        self._memory: tuple[Tensor, ...] = ()

    def run(
        self,
        key: Hashable,
        memory: tuple[Tensor, ...],
        make: Callable[[], Compute],
        inputs: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        """What the function that `make` gives for `key` returns for `inputs`, whose shapes go with the key.

        `memory` are tensors that it reads beside them: where one is another than before, all is forgotten.
        """
        same = len(self._memory) == len(memory) and all(map(is_, self._memory, memory))
        if not same:
            self._known.clear()
        self._memory = memory
        if key not in self._known:
            compute = make()
            self._known[key] = _captured(compute, inputs, self._pool) if self._captures else compute
        return self._known[key](*inputs)


def _captured(compute: Compute, inputs: tuple[Tensor, ...], pool: Any) -> Compute:
    """`compute` as a graph; itself where it cannot be recorded."""
    device = next(x.device for x in inputs if x.device.type == "cuda")
    held = tuple(x.to(device, copy=True) for x in inputs)
    graph = torch.cuda.CUDAGraph()
    try:
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                compute(*held)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(graph, pool=pool, stream=stream):  # its own would be on the first GPU
            outputs = compute(*held)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        log.warning("no CUDA graph (%s): kernels are launched one by one", str(error).partition("\n")[0])
        return lambda *given: compute(*(x.to(device) for x in given))

    def replay(*given: Tensor) -> tuple[Tensor, ...]:
        for place, x in zip(held, given, strict=True):
            place.copy_(x, non_blocking=True)
        graph.replay()
        return outputs

    return replay
