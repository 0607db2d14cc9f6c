# SPDX-License-Identifier: Apache-2.0
"""The process groups of an adapted job, which only its own ranks take part in: how many carry the pipeline's messages, which message uses which, and
how they are made and released."""
from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist

from . import agreement
from .agreement import Round


def backend_of(group: Any, device: Any) -> str:
    """The backend of a group for tensors of a device; a group may have one per type of device."""
    config = dist.distributed_c10d.BackendConfig(dist.distributed_c10d.Backend(dist.get_backend_config(group)))
    return str(config.get_device_backend_map().get(device.type, "none"))


def fewest_communicators(backend: str, placement: str, ranks: int) -> int:
    """The fewest process groups with which messages of other directions and kinds do not hold up each other. In one group of Gloo, a
    large message holds up small ones in the other direction, too. Groups of other backends cost memory of the device."""
    if backend != "gloo":
        return 2
    return 4 if placement == "wave" or placement == "loop" and ranks == 2 else 2  # otherwise a pair's directions have one kind each


class Groups:
    """The process groups of a pipeline's messages, in addition to the stages' own. They are made when a plan is first offered, and used
    from its first step on."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make
        self.made: List[Any] = []

    def make(self) -> None:
        """On all ranks together."""
        for at in range(len(self.made) + 1, self._count):
            self.made.append(self._make(at))

    def __call__(self, kind: str, up: bool) -> Any:
        """The group of a message; None: the stages' own."""
        return [None, *self.made][communicator(kind, up, self._count)]


def communicator(kind: str, up: bool, count: int) -> int:
    """The number of the group that carries messages of a kind ("F" or "B"), to a higher rank or to a lower one."""
    if count < 3:
        return int(kind == "B") % count
    return int(not up) if kind == "F" else 2 + int(not up) * (count - 3)


def posts_early(backend: str, placement: str, ranks: int, communicators: int) -> bool:
    """Whether receives may be posted long before their ops. Gloo has a queue per message. NCCL and others may have one per pair of
    ranks and group, in which a receive that waits holds up later sends: there, a group must carry messages of one direction per pair."""
    if backend == "gloo":
        return communicators > 1 or placement == "linear"
    return communicators > 3 or communicators > 1 and (placement == "linear" or placement == "loop" and ranks > 2)


def pairs_are_apart() -> bool:
    """Whether each pair of ranks has a queue of its own in a group of NCCL. Before 2.13, PyTorch's runtime sends every message as a batch, and all
    batches of a rank in a group follow each other: a receive that waits would hold up sends to other ranks."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


def may_make_group(backend: str, members: int) -> bool:
    """Whether some ranks alone may make a group. With a device bound to the default group (`device_id`), PyTorch splits its NCCL
    communicator, and all its ranks would have to take part."""
    default = dist.distributed_c10d._get_default_group()
    return backend != "nccl" or not default.bound_device_id or members == default.size()


def release(groups: List[Any], pid: int) -> None:
    """Called when a schedule, or a stage, is collected."""
    if os.getpid() != pid or not dist.is_initialized():
        return
    for group in groups:
        if group in dist.distributed_c10d._world.pg_map:
            dist.destroy_process_group(group)


def new_group(round: Round, members: List[int], backend: str, what: str, timeout: Optional[timedelta]) -> Any:
    """Makes a process group that only its members take part in. `dist.new_group` with use_local_synchronization derives the name
    from the number of groups of each process (2.13), and hangs if these numbers differ."""
    c10d = dist.distributed_c10d
    store = _Impatient(c10d._get_default_store()) if backend == "gloo" else c10d._get_default_store()
    name = f"slackline-{what}-{'-'.join(map(str, members))}-{round.name}"
    group, _ = c10d._new_process_group_helper(len(members), members.index(dist.get_rank()), members, c10d.Backend(backend), store, c10d.GroupName(name),
                                              timeout=timeout or c10d._get_default_timeout(backend), group_desc=f"slackline {what}")
    c10d._world.pg_group_ranks[group] = {member: rank for rank, member in enumerate(members)}
    return group


class _Impatient(dist.Store):  # type: ignore[misc]
    """The job's store, in which the ranks of a Gloo group wait for each other's addresses: not for long, because one may have failed. The timeout
    of a group itself cannot be short for that time alone: its connections keep the one that they are made with."""

    def __init__(self, store: Any) -> None:
        super().__init__()
        self._store = store

    def wait(self, keys: List[str], timeout: Optional[timedelta] = None) -> None:
        limit = timedelta(seconds=agreement.PATIENCE_S)
        self._store.wait(keys, min(timeout, limit) if timeout else limit)

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> Any:
        return self._store.get(key)

    def add(self, key: str, value: int) -> int:
        return int(self._store.add(key, value))

    def compare_set(self, key: str, expected: Any, value: Any) -> Any:
        return self._store.compare_set(key, expected, value)

    def delete_key(self, key: str) -> bool:
        return bool(self._store.delete_key(key))

    def num_keys(self) -> int:
        return int(self._store.num_keys())

    def set_timeout(self, timeout: timedelta) -> None:
        """For all users of the store: unchanged."""


def timeout_of(group: Any) -> Optional[timedelta]:
    """The timeout of the training's own messages."""
    try:
        return group._get_backend(group._device_types[0]).options._timeout  # type: ignore[no-any-return]
    except (AttributeError, IndexError, RuntimeError):
        return None
