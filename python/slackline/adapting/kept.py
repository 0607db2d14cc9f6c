# SPDX-License-Identifier: Apache-2.0
"""What a rank knows of its stages beside their times: the memory that a microbatch keeps until its backward, whether a backward may run as I and W,
and whether a forward draws random numbers.

A program may change its stages at any time: register hooks, recompute activations, freeze parameters. So each step that has split backwards
examines the first of each stage, and every forward is watched. A backward that turns out not to be one for two halves runs as a whole in the
place of its I, and its W does nothing: gradients are right at once, and the first rank soon plans without halves.
"""
from __future__ import annotations

import contextlib
import random
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

_watched = threading.local()  # .checkpoint: called when this thread recomputes activations later


class Kept:
    """The bytes that a microbatch of each stage keeps for its backward: the storages that autograd saves, without parameters and
    buffers. Measured in one forward of each stage. And the stages whose backward cannot be split: a forward recomputes activations, and
    PyTorch's checkpointing allows one backward per forward; or it registers hooks, which two halves would call twice; or a backward is not like
    the two halves of a split one. And the process group of a stage's messages of kind "F" or "B"; None: its own."""

    def __init__(self) -> None:
        self.bytes: Dict[int, int] = {}
        self.groups: Optional[Callable[[str, bool], Any]] = None
        self.adapted = False  # the adapted schedule steps, not another one of the same stages
        self.whole: Set[int] = set()
        self.draws: Set[int] = set()  # stages with a forward that draws random numbers
        self.examined: Set[int] = set()  # stages, ever
        self._now: Set[int] = set()  # stages, in this step
        self._ran_whole: Set[Tuple[int, int]] = set()  # stages and microbatches whose backward has run in the place of its I
        self.splits_itself = False  # the given schedule has split backwards, which run as they did
        self.mixes = False  # this rank has several stages, whose forwards may be in another order than the given one

    def begin(self) -> None:
        """A step of the adapted schedule begins."""
        self.adapted = True
        self._now.clear()

    def wanted(self, stage: int) -> bool:
        return stage not in self.bytes

    @contextlib.contextmanager
    def watching(self, stage: Any, measured: bool) -> Iterator[None]:
        """A forward of a stage."""
        index = stage.stage_index
        counts = measured and self.wanted(index)
        state = _random_state(stage.device) if measured and not counts and self.mixes and index not in self.draws else []
        with self.counting(index, stage.submod, stage.device) if counts else contextlib.nullcontext(), \
                _checkpoints(lambda: self.whole.add(index)), self.noticing_hooks(stage):
            yield
        if state and state != _random_state(stage.device):
            self.draws.add(index)

    @contextlib.contextmanager
    def noticing_hooks(self, stage: Any) -> Iterator[None]:
        """Notices that a forward, or a loss, registers hooks of tensors."""
        from torch.utils.hooks import RemovableHandle
        before = RemovableHandle.next_id
        yield
        if RemovableHandle.next_id != before and not stage.is_first and not _is_sharded(stage.submod):
            self.whole.add(stage.stage_index)

    def runs_whole(self, stage: Any, chunk: int, loss: Any) -> bool:
        """Asked before an I: whether the whole backward runs in its place."""
        index = stage.stage_index
        if self.splits_itself or stage.is_first or stage.dw_builder:
            return False
        if index not in self.whole and index not in self._now:
            self._now.add(index)
            self.examine(stage, chunk, loss)
        whole = index in self.whole or _are_views(stage, chunk, loss)
        if whole:
            self.whole.add(index)
            self._ran_whole.add((index, chunk))
        else:
            self._ran_whole.discard((index, chunk))
        return whole

    def has_run_whole(self, stage: int, chunk: int) -> bool:
        """Asked at a W."""
        return (stage, chunk) in self._ran_whole

    @contextlib.contextmanager
    def counting(self, stage: int, module: Any, device: Any = None) -> Iterator[None]:
        import torch
        state = _random_state(device)
        storages: Dict[int, int] = {}
        others = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers())
                  if type(tensor) in (torch.Tensor, torch.nn.Parameter)}

        def pack(tensor: Any) -> Any:
            if type(tensor) is torch.Tensor and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in others:
                    storages[storage.data_ptr()] = storage.nbytes()
            self.bytes[stage] = sum(storages.values())
            return tensor
        self.bytes[stage] = 0
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), _checkpoints(lambda: self.whole.add(stage)):
            yield
        if state != _random_state(device):
            self.draws.add(stage)

    def examine(self, stage: Any, chunk: int, loss: Any) -> None:
        """Before a backward of a stage."""
        self.examined.add(stage.stage_index)
        try:
            if not stage.is_first and not stage.dw_builder and _cannot_split(stage, chunk, loss):  # the first stage's is never split
                self.whole.add(stage.stage_index)
        except Exception:  # of PyTorch's internals
            self.whole.add(stage.stage_index)


def _random_state(device: Any) -> List[Any]:
    """Of the generators that a stage draws from: PyTorch's, Python's, and NumPy's; empty: unknown."""
    if device is None:
        return []
    import torch
    try:
        states = [torch.get_rng_state(), *([torch.get_device_module(device).get_rng_state(device)] if device.type != "cpu" else [])]
    except Exception:  # of a device, such as while it captures a graph
        return []
    numpy = sys.modules.get("numpy")
    return [*(one.tolist() for one in states), random.getstate(), *([numpy.random.get_state()[1].tolist(), numpy.random.get_state()[2]] if numpy else [])]


def _cannot_split(stage: Any, chunk: int, loss: Any) -> bool:
    """Whether PyTorch's split backward of a microbatch would fail, leave out gradients, or run hooks otherwise than the whole one."""
    outputs, inputs = stage.fwd_cache[chunk]
    outputs = (loss,) if stage.is_last else outputs
    return _are_views(stage, chunk, loss) or _has_hooks(stage.submod) or _needs_whole(outputs, inputs, stage.submod.parameters())


def _are_views(stage: Any, chunk: int, loss: Any) -> bool:
    return any(one._is_view() for one in ((loss,) if stage.is_last else stage.fwd_cache[chunk][0]))


def _is_sharded(module: Any) -> bool:
    """FSDP2 registers hooks of its own in each forward, which may be called twice."""
    from torch.distributed.fsdp import FSDPModule
    return any(isinstance(one, FSDPModule) for one in module.modules())


def _has_hooks(module: Any) -> bool:
    """The two halves of a split backward run some nodes twice, and add to gradients themselves."""
    from torch.nn.modules.module import _global_backward_hooks, _global_backward_pre_hooks
    return bool(_global_backward_hooks or _global_backward_pre_hooks) or \
        any(one._backward_hooks or one._backward_pre_hooks for one in module.modules()) or \
        any(one._backward_hooks or one._post_accumulate_grad_hooks for one in module.parameters())


def _needs_whole(outputs: Any, inputs: Any, parameters: Any) -> bool:
    """Whether a backward reaches a function that torch.compile has made, which may free what it keeps after one run; or tensors that its
    second half leaves out: those that are not parameters of the stage, such as parameters of the loss, or parameters as they were before a loss
    or a forward has resharded them; and parameters on no path to an input that needs a gradient. Or whether both halves would run a function
    of the program's own, which may add to gradients or free what it keeps; or a parameter is used in several places: PyTorch's second half adds
    their gradients in another order, or fails if other parameters are used between them."""
    from torch.autograd.function import BackwardCFunction
    from torch.distributed.pipelining._backward import _get_grad_fn_or_grad_acc, construct_reverse_graph, get_param_groups

    def nodes(tensors: Any) -> Any:
        return [node for one in tensors if hasattr(one, "requires_grad") and (node := _get_grad_fn_or_grad_acc(one)) is not None]
    roots, sources = nodes(outputs), nodes(inputs)
    reverse = construct_reverse_graph(roots)
    if any("CompiledFunction" in node.name() for node in (*roots, *reverse)):
        return True
    reached = {node for node in (*roots, *reverse) if hasattr(node, "variable")}
    groups = get_param_groups(sources, nodes(parameters), reverse)
    if any(len(group["intermediates"]) > 1 or any(isinstance(node, BackwardCFunction) for node in group["intermediates"]) for group in groups):
        return True
    return not reached <= {node for group in groups for node in group["params"]}.union(sources)


@contextlib.contextmanager
def _checkpoints(seen: Callable[[], None]) -> Iterator[None]:
    """Calls `seen` for each torch.utils.checkpoint.checkpoint of this thread."""
    _install()
    outer, _watched.checkpoint = getattr(_watched, "checkpoint", None), seen
    try:
        yield
    finally:
        _watched.checkpoint = outer


def _install() -> None:
    """Wraps the two implementations of PyTorch's checkpointing, once."""
    from torch.utils import checkpoint
    if getattr(checkpoint._checkpoint_without_reentrant_generator, "slackline", None):
        return
    reentrant, other = checkpoint.CheckpointFunction, checkpoint._checkpoint_without_reentrant_generator

    def saw() -> None:
        seen = getattr(_watched, "checkpoint", None)
        if seen is not None:
            seen()

    def apply(cls: Any, *arguments: Any) -> Any:
        saw()
        return super(reentrant, cls).apply(*arguments)

    def _checkpoint_without_reentrant_generator(*arguments: Any, **options: Any) -> Any:
        saw()
        return other(*arguments, **options)
    _checkpoint_without_reentrant_generator.slackline = True  # type: ignore[attr-defined]
    reentrant.apply = classmethod(apply)
    modules: List[Any] = [checkpoint, sys.modules.get("torch.distributed._composable.checkpoint_activation")]
    for module in filter(None, modules):
        module._checkpoint_without_reentrant_generator = _checkpoint_without_reentrant_generator
