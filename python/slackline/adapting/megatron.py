# SPDX-License-Identifier: Apache-2.0
"""megatron-core's configuration (0.16.1): `microbatch_group_size_per_vp_stage`, which of its orders the interleaved schedule runs.

The orders of megatron-core are code. What can be set between two steps is how many microbatches a virtual stage runs before the next one does,
and with it the warm-up: (virtual stages - 1) x this number + 2 x (ranks after this one). A larger number leaves more room for late messages, and
keeps more activations. megatron-core's messages hold their rank in ways that the timing model does not have, so nothing is predicted: the
job tries each number that it may run, for a few steps, and keeps the fastest. It tries again when the time of a step has changed.

Tensor, data and pipeline ranks all run the same number, which global rank 0 announces before each step.
"""
from __future__ import annotations

import logging
import os
import time
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist
from megatron.core.pipeline_parallel import schedules

from . import engines
from .adaptation import Adaptation, not_adapted
from .agreement import Round, agreed, together
from .deciding import Happening
from .groups import new_group, release, timeout_of
from .kept import Kept
from .memory import free_bytes
from .timings import Clock
from .tuning import Tuner, sizes

log = logging.getLogger("slackline")
_adapted: Dict[int, "_Configured"] = {}  # by the configuration's identity


class Setting(Adaptation):
    """The adaptation of a configuration: its events, on global rank 0, and the times of the changes."""

    def __init__(self, configured: "_Configured") -> None:
        super().__init__(None)
        self._configured = configured

    def __deepcopy__(self, memo: Any) -> "Setting":
        return self  # megatron-core copies its configuration

    @property
    def active(self) -> bool:
        return not self._configured.over

    @property
    def events(self) -> List[Happening]:
        return list(self._configured.tuner.events)

    @property
    def swap_ms(self) -> List[float]:
        return list(self._configured.swap_ms)


class _Configured:
    """A configuration whose number changes between two steps."""

    def __init__(self, config: Any, group: Any, frozen: bool, memory: Any, sharing: int, on_event: Optional[Callable[[Any], None]]) -> None:
        self._config, self._group, self._frozen, self._memory, self._sharing, self._on_event = config, group, frozen, memory, sharing, on_event
        self._given = int(config.microbatch_group_size_per_vp_stage)
        self.tuner, self.over = Tuner(self._given), False
        self.swap_ms: List[float] = []
        self._step = self._reported = 0
        self._began = time.monotonic()
        self._marks: Optional[Any] = None
        self._clock: Optional[Clock] = None
        self._kept: Optional[Kept] = Kept()
        self._most: Optional[int] = None  # that memory allows

    def run(self, function: Callable[..., Any], arguments: Dict[str, Any]) -> Any:
        model, config, microbatches = arguments["model"], self._config, int(arguments["num_microbatches"])
        if self.over or arguments.get("forward_only"):
            self._set(self._given)
            return function(**arguments)
        try:
            self._announce(microbatches, model)
        except Exception as error:  # of the group, on all ranks sooner or later: the number stays
            self.over = True
            not_adapted(error)
        device = next(model[0].parameters()).device
        self._clock = self._clock or Clock(device)
        began = self._clock.mark()
        result = function(**self._counting(arguments))
        self._marks = began, self._clock.mark()
        self._step += 1
        return result

    def _announce(self, microbatches: int, model: Any) -> None:
        if self._kept is not None and self._step > 0:
            self._limit(len(model), microbatches, next(model[0].parameters()).device)
        value = torch.zeros(1, dtype=torch.int64)
        if dist.get_rank() == 0:
            known = self._step > 0 and not self._frozen  # the first step sets up connections, and memory is unknown
            candidates = sizes(int(self._config.pipeline_model_parallel_size), microbatches, self._most) if known else []
            value[0] = self.tuner.next(self._step, self._time_ms(), candidates, (time.monotonic() - self._began) * 1e3)
            self._report()
        dist.broadcast(value, 0, group=self._group)
        self._set(int(value[0]))

    def _report(self) -> None:
        for one in self.tuner.events[self._reported:]:
            log.info("step %d: %s: %s", one.step, one.kind, one.text)
            if self._on_event is not None:
                self._on_event(one)
        self._reported = len(self.tuner.events)

    def _set(self, size: int) -> None:
        if self._config.microbatch_group_size_per_vp_stage != size:
            began = time.monotonic_ns()
            self._config.microbatch_group_size_per_vp_stage = size
            self.swap_ms.append((time.monotonic_ns() - began) / 1e6)

    def _time_ms(self) -> Optional[float]:
        """The time of the step before, on its device."""
        if self._marks is None or self._clock is None or not self._clock.reached(self._marks[1]):
            return None
        began, ended = self._marks
        return (ended - began) / 1e6 if isinstance(began, int) else float(began.elapsed_time(ended))

    # ---- memory

    def _counting(self, arguments: Dict[str, Any]) -> Dict[str, Any]:
        """The arguments of the first step, in which the bytes are counted that a microbatch of each virtual stage keeps."""
        kept, chunks, forward = self._kept, arguments["model"], arguments["forward_step_func"]
        if kept is None or self._step > 0:
            return arguments

        def counted(data: Any, model: Any, *rest: Any) -> Any:
            chunk = next((at for at, one in enumerate(chunks) if one is model), 0)
            if not kept.wanted(chunk):
                return forward(data, model, *rest)
            with kept.counting(chunk, model):
                return forward(data, model, *rest)
        return {**arguments, "forward_step_func": counted}

    def _limit(self, chunks: int, microbatches: int, device: Any) -> None:
        """The largest number whose activations fit on all ranks."""
        assert self._kept is not None
        each = max(self._kept.bytes.values(), default=0) * max(chunks - 1, 1)  # bytes by which the warm-up grows with the number
        more = 0.0 if self._memory == "same" else free_bytes(device, self._sharing) if self._memory == "free" else float(self._memory) - each * self._given
        most = torch.tensor([self._given + min(microbatches, int(max(more, 0.0) // max(each, 1)))])
        dist.all_reduce(most, op=dist.ReduceOp.MIN, group=self._group)
        self._most, self._kept = max(int(most[0]), self._given), None


def _install() -> None:
    """Wraps the interleaved schedule, once. It changes only for adapted configurations."""
    given = schedules.forward_backward_pipelining_with_interleaving
    if getattr(given, "slackline", None):
        return

    def forward_backward_pipelining_with_interleaving(**arguments: Any) -> Any:
        configured = _adapted.get(id(schedules.get_model_config(arguments["model"][0])))
        return given(**arguments) if configured is None else configured.run(given, arguments)
    forward_backward_pipelining_with_interleaving.slackline = True  # type: ignore[attr-defined]
    schedules.forward_backward_pipelining_with_interleaving = forward_backward_pipelining_with_interleaving


def adapted(config: Any, **options: Any) -> Any:
    """The configuration, with its `adaptation`."""
    engines.refuse("megatron-core", options)
    why = ""
    if int(config.pipeline_model_parallel_size) < 2 or config.virtual_pipeline_model_parallel_size is None:
        why = "there are no virtual stages (virtual_pipeline_model_parallel_size is None): megatron-core's order then has no setting"
    elif config.overlap_moe_expert_parallel_comm:
        why = "overlap_moe_expert_parallel_comm is set: megatron-core's order then has no setting"
    elif options["out"] is not None:
        why = "out: the ops of megatron-core are not measured, so there is no folder of a run"
    try:
        member, said = engines.Member(None, dist.get_rank(), dist.get_world_size()), engines.said_by(why, [], 0, options)
        round = agreed(member, {**said, "order": str(config.microbatch_group_size_per_vp_stage)}, engines.alone())
        configured = together(round, lambda: _open(round, config, options))
        _install()
        _adapted[id(config)] = configured
        config.adaptation = Setting(configured)
    except Exception as error:
        config.adaptation = not_adapted(error)
    return config


def _open(round: Round, config: Any, options: Dict[str, Any]) -> _Configured:
    group = new_group(round, round.members, "gloo", "control", timeout_of(dist.distributed_c10d._get_default_group()))
    round.undo.append(lambda: release([group], os.getpid()))
    return _Configured(config, group, options["frozen"], options["memory"], round.sharing, options["on_event"])
