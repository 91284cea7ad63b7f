"""CUDA graphs: a function of tensors with fixed shapes, recorded once and replayed in one launch.

At batch size 1 a forward of a hundred small kernels waits for the processor that launches them; a replay
does not. What may be recorded never asks the host for a value and never makes a tensor of a Python list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from operator import is_
from typing import TypeAlias

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
        self._device = device
        self._records = device.type == "cuda"
        # One stream for all, or they would share nothing: freed memory, and workspaces, stay with a stream.
        self._stream = torch.cuda.Stream(device) if self._records else None
        self._pool = torch.cuda.graph_pool_handle() if self._records else None
        self._failed: torch.cuda.CUDAGraph | None = None
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

        Inputs may be on the host. `memory` are tensors that are read beside them: where one is another than
        before, all is forgotten.
        """
        if len(self._memory) != len(memory) or not all(map(is_, self._memory, memory)):
            self._forget()
        self._memory = memory
        if key not in self._known:
            compute = make()
            self._known[key] = self._recorded(compute, inputs) if self._records else self._launched(compute)
        return self._known[key](*inputs)

    def _forget(self) -> None:
        self._known.clear()
        if self._records:  # torch refuses a pool without graphs while the last output still lives in it
            self._pool = torch.cuda.graph_pool_handle()

    def _launched(self, compute: Compute) -> Compute:
        """`compute` as it is, of inputs that are where it runs."""
        return lambda *given: compute(*(x.to(self._device, non_blocking=True) for x in given))

    def _recorded(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Compute:
        """`compute` as a graph; itself where it cannot be recorded, and from then on."""
        device, stream = self._device, self._stream
        assert stream is not None
        held = tuple(x.to(device, copy=True) for x in inputs)
        graph = torch.cuda.CUDAGraph()
        current = torch.cuda.current_stream(device)
        try:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):  # around it all: a recording that fails leaves its own set
                for _ in range(WARM_UPS):
                    compute(*held)
                current.wait_stream(stream)
                # Other threads of the program may use the GPU meanwhile.
                with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
                    outputs = compute(*held)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            log.warning("no CUDA graph (%s): kernels are launched one by one", str(error).partition("\n")[0])
            self._records, self._failed = False, graph  # which torch's allocator goes on asking
            return self._launched(compute)

        def replay(*given: Tensor) -> tuple[Tensor, ...]:
            for place, x in zip(held, given, strict=True):
                place.copy_(x, non_blocking=True)
            graph.replay()
            return outputs

        return replay
