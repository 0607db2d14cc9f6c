# SPDX-License-Identifier: Apache-2.0
"""What a rank knows of its stages beside their times: the memory that a microbatch keeps until its backward, whether a backward may run as I and W,
and whether a forward draws random numbers.

A program may change its stages at any time: register hooks, recompute activations, freeze parameters. So every forward is watched, and every backward
that PyTorch is about to split is examined, by what PyTorch has found out about it by then. One that turns out not to be for two halves runs as
a whole in the place of its I, and its W does nothing: gradients are right at once, and the first rank soon plans without halves.
"""
from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

_watched = threading.local()  # .recomputes: a set and a stage to add to it if this thread recomputes activations later; .roots: of the backward being examined
_own_hooks = 0  # that PyTorch's split backwards have registered


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
        self._now: Set[int] = set()  # stages whose hooks have been looked for in this step
        self._looked: Dict[int, int] = {}  # the number of hooks registered in the process when a stage was last found without any
        self._done: Set[Tuple[int, int]] = set()  # stages and microbatches whose W has nothing left to do
        self._halves: Dict[int, List[int]] = {}  # microbatches of each stage whose I has run, and W not yet
        self.splits_itself = False  # the given schedule has split backwards, which run as they did
        self.mixes = False  # this rank has several stages, whose forwards may be in another order than the given one
        self._random: List[Any] = []  # the state of random numbers at the begin of a measured step
        self._drawn = False  # random numbers were drawn in the latest measured step

    def begin(self, measured: bool, device: Any) -> None:
        """A step of the adapted schedule begins."""
        self.adapted = True
        self._now.clear()
        self._halves.clear()
        self._random = _random_state(device) if measured and self.mixes else []

    def end(self, device: Any) -> None:
        self.adapted = False
        if self._random:
            self._drawn = self._random != _random_state(device)
            self._random = []

    def wanted(self, stage: int) -> bool:
        return stage not in self.bytes

    def forward(self, stage: Any, measured: bool, run: Callable[[], Any]) -> Any:
        """Runs a forward of a stage, and watches it."""
        index, before, outer = stage.stage_index, hooks(), getattr(_watched, "recomputes", None)
        _watched.recomputes = self.whole, index
        try:
            if measured and self.wanted(index):
                with self.counting(index, stage.submod, stage.device):
                    made = run()
            elif measured and self._drawn and self.mixes and index not in self.draws:
                state = _random_state(stage.device)
                made = run()
                if state != _random_state(stage.device):
                    self.draws.add(index)
            else:
                made = run()
        finally:
            _watched.recomputes = outer
        self.notice_hooks(stage, before)
        return made

    def notice_hooks(self, stage: Any, before: int) -> None:
        """Notices that a forward, or a loss, has registered hooks of tensors. before: `hooks()` before it."""
        if hooks() != before and not stage.is_first and not _is_sharded(stage.submod):
            self.whole.add(stage.stage_index)

    def backward_input(self, stage: Any, run: Callable[..., Any], weigh: Callable[[int], Any], chunk: int, options: Dict[str, Any]) -> Any:
        """Runs the I of a microbatch, or its whole backward in this place. weigh: runs a W."""
        index = stage.stage_index
        self._done.discard((index, chunk))
        if self.splits_itself or stage.is_first or stage.dw_builder:
            return run(chunk, **options)
        if index not in self.whole and not _are_views(stage, chunk, options.get("loss")) and not self._is_hooked(stage):
            kept, _watched.roots = stage.fwd_cache[chunk], []
            try:
                made = run(chunk, **options)
                self._halves.setdefault(index, []).append(chunk)
                return made
            except _Whole:
                stage.fwd_cache[chunk] = kept
            finally:
                _watched.roots = None
        self.whole.add(index)
        for earlier in sorted(self._halves.pop(index, [])):  # their W come now: gradients are added in the order of microbatches
            weigh(earlier)
            self._done.add((index, earlier))
        self._done.add((index, chunk))
        return run(chunk, **{**options, "full_backward": True})

    def takes_weight(self, stage: int, chunk: int) -> bool:
        """Asked at a W: whether there is anything left to do."""
        if chunk in self._halves.get(stage, []):
            self._halves[stage].remove(chunk)
        return (stage, chunk) not in self._done

    def _is_hooked(self, stage: Any) -> bool:
        """Looks once in a step, and only if hooks have been registered since the last time by other than PyTorch's split backwards."""
        index, count = stage.stage_index, hooks() - _own_hooks
        if index in self._now or self._looked.get(index) == count:
            return False
        if _has_hooks(stage.submod):
            return True
        self._now.add(index)
        self._looked[index] = count
        return False

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
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
        if state != _random_state(device):
            self.draws.add(stage)

    def examine(self, stage: Any, chunk: int, loss: Any) -> None:
        """Before the first backward of a stage: no plan is known yet."""
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
    if numpy is None:
        return [*(one.tolist() for one in states), random.getstate()]
    _, keys, at, *rest = numpy.random.get_state()
    return [*(one.numpy().tobytes() for one in states), random.getstate(), keys.tobytes(), at, rest]


def _cannot_split(stage: Any, chunk: int, loss: Any) -> bool:
    """Whether PyTorch's split backward of a microbatch would fail, leave out gradients, or run hooks otherwise than the whole one."""
    from torch.distributed.pipelining._backward import _get_grad_fn_or_grad_acc, construct_reverse_graph, get_param_groups

    def nodes(tensors: Any) -> Any:
        return [node for one in tensors if hasattr(one, "requires_grad") and (node := _get_grad_fn_or_grad_acc(one)) is not None]
    if _are_views(stage, chunk, loss) or _has_hooks(stage.submod):
        return True
    outputs, inputs = stage.fwd_cache[chunk]
    roots, sources = nodes((loss,) if stage.is_last else outputs), nodes(inputs)
    reverse = construct_reverse_graph(roots)
    return _needs_whole(roots, sources, reverse, get_param_groups(sources, nodes(stage.submod.parameters()), reverse))


class _Whole(Exception):
    """Raised in PyTorch's split backward before it has changed anything: it must be a whole one."""


def hooks() -> int:
    """The number of hooks that have been registered so far, of tensors, modules and nodes. Asked twice in each forward."""
    return int(_removable_handle().next_id)


@functools.lru_cache(maxsize=None)
def _removable_handle() -> Any:
    from torch.utils.hooks import RemovableHandle
    return RemovableHandle


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


def _needs_whole(roots: Sequence[Any], sources: Sequence[Any], reverse: Any, groups: Sequence[Any]) -> bool:
    """Whether a backward reaches a function that torch.compile has made, which may free what it keeps after one run; or tensors that its
    second half leaves out: those that are not parameters of the stage, such as parameters of the loss, or parameters as they were before a loss
    or a forward has resharded them; and parameters on no path to an input that needs a gradient. Or whether both halves would run a function
    of the program's own, which may add to gradients or free what it keeps; or a parameter is used in several places: PyTorch's second half adds
    their gradients in another order, or fails if other parameters are used between them.

    A backward has many nodes of few types: only types are asked."""
    from torch.autograd.function import BackwardCFunction
    types = {type(node) for node in reverse}.union(type(node) for node in roots)
    if any("CompiledFunction" in one.__name__ for one in types):
        return True
    if any(len(group["intermediates"]) > 1 or any(isinstance(node, BackwardCFunction) for node in group["intermediates"]) for group in groups):
        return True
    leaves = {one for one in types if hasattr(one, "variable")}
    reached = {node for node in reverse if type(node) in leaves}.union(node for node in roots if type(node) in leaves)
    return not reached <= {node for group in groups for node in group["params"]}.union(sources)


def install() -> None:
    """Wraps the two implementations of PyTorch's checkpointing, and the functions by which its split backward looks at the graph; once."""
    from torch.distributed.pipelining import _backward
    from torch.utils import checkpoint
    if getattr(checkpoint._checkpoint_without_reentrant_generator, "slackline", None):
        return
    reentrant, other = checkpoint.CheckpointFunction, checkpoint._checkpoint_without_reentrant_generator
    construct, group = _backward.construct_reverse_graph, _backward.get_param_groups

    def saw() -> None:
        seen = getattr(_watched, "recomputes", None)
        if seen is not None:
            seen[0].add(seen[1])

    def apply(cls: Any, *arguments: Any) -> Any:
        saw()
        return super(reentrant, cls).apply(*arguments)

    def _checkpoint_without_reentrant_generator(*arguments: Any, **options: Any) -> Any:
        saw()
        return other(*arguments, **options)

    def construct_reverse_graph(roots: Any) -> Any:
        if getattr(_watched, "roots", None) is not None:
            _watched.roots = roots
        return construct(roots)

    def get_param_groups(inputs: Any, params: Any, reverse: Any) -> Any:
        global _own_hooks
        groups, roots = group(inputs, params, reverse), getattr(_watched, "roots", None)
        if roots is not None:
            if _needs_whole(roots, inputs, reverse, groups):
                raise _Whole
            _own_hooks += sum(len(one["intermediates"]) for one in groups)  # which PyTorch's backward now registers
        return groups
    _checkpoint_without_reentrant_generator.slackline = True  # type: ignore[attr-defined]
    reentrant.apply = classmethod(apply)
    modules: List[Any] = [checkpoint, sys.modules.get("torch.distributed._composable.checkpoint_activation")]
    for module in filter(None, modules):
        module._checkpoint_without_reentrant_generator = _checkpoint_without_reentrant_generator
    _backward.construct_reverse_graph, _backward.get_param_groups = construct_reverse_graph, get_param_groups
