# SPDX-License-Identifier: Apache-2.0
"""The agreement between ranks to adapt together, through the job's store: all of them do, or none.

    agreed    every rank says what it knows; it goes on if nothing speaks against it
    together  every rank opens what it needs, then they meet again; if one has failed, the others undo what they have opened

In a meeting, each rank puts what it says into the store, with a token that only this call has. The first rank waits until all have done so, judges, and
answers every rank that is there under its token. Each key has one writer, which also deletes it. Calls are not counted, because a rank that misses
a call of `adapt`, or calls it once more, would then be one call behind for ever. The ranks that agree get a new name for their round instead.

A rank that came too late for a call must not meet the others in their next one, for another schedule. So who ends a call without another rank
leaves a note, and that rank's next call is taken for the late one and ends at once. The note is void after a step, which all ranks take part in, and
after some time. And it is void if the rank's call before has also ended so: then it is one call short, not late.
"""
from __future__ import annotations

import json
import secrets
import socket
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

import torch.distributed as dist

from .replicas import Replicas

PATIENCE_S = 30.0  # for other ranks to call adapt
VALID = 1.5  # of the time that a rank has waited in vain, for its note: as long as it may wait in its next call
AGAIN_S = 0.01  # until a message is looked at again that its rank is about to delete
SAME = ("memory", "objective", "communicators", "transport", "frozen", "problem", "microbatches", "order", "replicas")  # what all ranks must say alike
Said = Dict[str, Any]
Made = TypeVar("Made")


class Cannot(Exception):
    """The reason why a job is not adapted."""


# ---- a meeting ---------------------------------------------------------------------------------------------------------------


class Meeting:
    """Of `parts` parts, the first of which judges."""
    _answered: Dict[str, str] = {}  # by the first part of a meeting: the latest token of each other one

    def __init__(self, store: Any, name: str, part: int, parts: int, notes: Optional[Notes] = None) -> None:
        """notes: if the meeting is for calls of a program, which a part may miss."""
        self._store, self._name, self._part, self._parts, self._notes = store, name, part, parts, notes

    def hold(self, said: Any, judge: Callable[[List[Any], str], Any], wait_s: float, patience_s: float, who: str) -> Any:
        """The verdict: judge(what each part has said, why not). The first part waits for the others for wait_s, they for the verdict for patience_s;
        `who`: has called, if not all have. Raises Cannot without a verdict."""
        late = f"not all {who} have called adapt within {wait_s:g} s: the others have gone on before this call"
        if self._notes is not None and self._notes.is_late():
            raise Cannot(late)
        if self._part > 0:
            return self._ask(said, patience_s)
        found, until = {0: (said, "")}, time.monotonic() + wait_s
        for part in range(1, self._parts):
            message = self._heard(part, until, late)
            if message is not None:
                found[part] = message["said"], message["token"]
        absent = [part for part in range(self._parts) if part not in found]
        why = f"not all {who} have called adapt within {wait_s:g} s" if absent else ""
        try:
            verdict = judge([one for one, _ in found.values()], why)
        except Exception as error:
            verdict = _refused(f"{type(error).__name__}: {error}")
        if self._notes is not None:
            self._notes.leave(absent, wait_s)
        for part, (_, token) in found.items():
            if part > 0:
                self._answer(part, token, verdict)
        return verdict

    def _key(self, part: int) -> str:
        return f"{self._name}/{part}"

    def _answer(self, part: int, token: str, verdict: Any) -> None:
        self._store.set(f"{self._key(part)}/{token}", json.dumps(verdict))
        self._answered[self._key(part)] = token

    def _heard(self, part: int, until: float, late: str) -> Optional[Dict[str, Any]]:
        """What another part says in this call; None: it has not come, or has gone on to its next call."""
        while True:
            message = self._read(part, until)
            if message is not None and message["token"] != self._answered.get(self._key(part)):
                passed = self._notes.compared(part, message["notes"]) if self._notes is not None else 0
                if passed <= 0:
                    return message if passed == 0 else None
                self._answer(part, message["token"], _refused(late))  # and it may come to this call, too
            if time.monotonic() >= until:
                return None
            time.sleep(AGAIN_S)

    def _read(self, part: int, until: float) -> Optional[Dict[str, Any]]:
        key, left = self._key(part), until - time.monotonic()
        try:
            if left > 0:
                self._store.wait([key], timedelta(seconds=left))
            return json.loads(self._store.get(key)) if left > 0 or self._store.check([key]) else None
        except Exception:  # it has not come, or has just been deleted
            return None

    def _ask(self, said: Any, patience_s: float) -> Any:
        token, key = secrets.token_hex(8), self._key(self._part)
        self._store.set(key, json.dumps({"token": token, "said": said, "notes": self._notes.view(0) if self._notes is not None else []}))
        try:
            self._store.wait([f"{key}/{token}"], timedelta(seconds=patience_s))
            return json.loads(self._store.get(f"{key}/{token}"))
        except Exception as error:
            if self._notes is not None:
                self._notes.leave([0], patience_s)
            raise Cannot(f"the first rank or replica has not called adapt within {patience_s:g} s ({type(error).__name__})") from None
        finally:
            for one in (key, f"{key}/{token}"):
                _delete(self._store, one)


def _refused(why: str) -> Dict[str, Any]:
    return {"why": why, "said": [], "round": ""}


def _delete(store: Any, key: str) -> None:
    try:
        store.delete_key(key)
    except Exception:  # a store that cannot
        pass


# ---- ranks that come too late ------------------------------------------------------------------------------------------------


class Notes:
    """The notes that the parts of a meeting leave for each other: from one part to another, a number and the end of its validity."""
    _valid: List[Tuple[Any, str]] = []  # left by this process: stores, and keys

    def __init__(self, store: Any, name: str, part: int, parts: int) -> None:
        self.store, self._name, self._part, self._others = store, name, part, range(1, parts) if part == 0 else range(1)
        self._seen: Dict[int, int] = {}  # the number of notes from each other part, and to it
        self._left: Dict[int, int] = {}
        self._owed = 0  # calls that the others have ended, and this part is still to come to
        self._short = False

    def _key(self, by: int, part: int) -> str:
        return f"{self._name}/without/{part}/{by}"

    def leave(self, absent: Sequence[int], waited_s: float) -> None:
        for part in absent:
            key = self._key(self._part, part)
            self.store.set(f"{key}/until", repr(time.time() + VALID * waited_s))
            self._left[part] = int(self.store.add(key, 1))
            self._valid.append((self.store, key))

    @classmethod
    def withdraw(cls) -> None:
        for store, key in cls._valid:
            store.set(f"{key}/until", "0")
        cls._valid.clear()

    def is_late(self) -> bool:
        """Whether this call is one that others have ended. Asked once per call."""
        new, valid = 0, False
        for by in self._others:
            key = self._key(by, self._part)
            count = int(self.store.add(key, 0))
            seen, self._seen[by], self._left[by] = min(self._seen.get(by, 0), count), count, int(self.store.add(self._key(self._part, by), 0))
            if count > seen:
                valid = valid or time.time() < float(self.store.get(f"{key}/until"))
                new = max(new, count - seen)
        self._owed += new if valid and not self._short else 0
        late, self._short = self._owed > 0, self._owed == 1
        self._owed -= int(late)
        return late

    def view(self, other: int) -> List[int]:
        """What this part knows in this call: its notes to another one, and those from it."""
        return [self._left[other], self._seen[other]]

    def compared(self, other: int, view: List[int]) -> int:
        """Whether another part, with its view, was in an earlier call than this one (1), the same (0), or in a later one (-1)."""
        left, seen = view
        return 1 if seen < self._left[other] else -1 if left > self._seen[other] else 0


_notes: Dict[str, Notes] = {}  # by the name of a meeting, and the part


def stepped() -> None:
    """After a step that needed all ranks: none of them is still to come to a call of adapt before it."""
    try:
        Notes.withdraw()
    except Exception:  # of the store: they end by themselves
        pass


# ---- the job -----------------------------------------------------------------------------------------------------------------


@dataclass
class Round:
    """The ranks that have agreed to adapt together."""
    member: Any  # group, group_rank and group_size: of this rank in its pipeline
    copies: Replicas
    members: List[int]  # global ranks of the pipeline
    name: str  # which no other round has
    said: List[Said]  # by all ranks of all replicas
    undo: List[Callable[[], None]] = field(default_factory=list)  # what `together` calls if a rank fails

    @property
    def sharing(self) -> int:
        """The ranks on this host."""
        return [one["host"] for one in self.said].count(socket.gethostname())

    def meet(self, what: str, said: Any, judge: Callable[[List[Any], str], Any], patience: float = 1) -> Any:
        """A further meeting of the pipeline."""
        return Meeting(_store(), f"slackline/{self.name}/{what}/{self.members[0]}", self.member.group_rank, self.member.group_size).hold(
            said, judge, patience * PATIENCE_S, 2 * patience * PATIENCE_S, "ranks of the pipeline")


def agreed(member: Any, said: Said, copies: Replicas) -> Round:
    """What all ranks of all replicas say, if nothing speaks against it. Raises Cannot otherwise. A rank without a call of adapt delays the others
    by at most a few PATIENCE_S."""
    members = _members(member)
    verdict = _meet(member, copies, members, "adapt", said, _compared, _compared_replicas, 1, missed=True)
    return Round(member, copies, members, str(verdict["round"]), list(verdict["said"]))


def together(round: Round, make: Callable[[], Made]) -> Made:
    """On all ranks, or on none: what `make` opens. Raises Cannot on all of them with the first failure if one cannot."""
    began, why, made = time.monotonic(), "", None
    try:
        made = make()
    except Exception as error:
        why = str(error) if isinstance(error, Cannot) else f"rank {dist.get_rank()}: {type(error).__name__}: {error}"
    try:
        _meet(round.member, round.copies, round.members, f"opened/{round.name}", {"why": why, "after_s": time.monotonic() - began}, _failed,
              lambda said: _failed([one for ranks in said for one in ranks], []), 2)
    except Exception:
        for undo in reversed(round.undo):
            undo()
        raise
    assert made is not None
    return made


def _meet(member: Any, copies: Replicas, members: List[int], what: str, said: Said, compared: Callable[[List[Said], List[int]], str],
          compared_replicas: Callable[[List[List[Said]]], str], patience: int, missed: bool = False) -> Any:
    """The meeting of a pipeline's ranks, whose first one meets those of the other replicas before it answers."""
    def judge(ranks: List[Said], why: str) -> Any:
        why = why or compared(ranks, members)
        if copies.count == 1:
            return {"why": why, "said": ranks, "round": secrets.token_hex(8)}

        def judge_replicas(replicas: List[Any], missing: str) -> Any:
            found = next((one["why"] for one in replicas if one["why"]), "") or missing or compared_replicas([one["said"] for one in replicas])
            return {"why": found, "said": [one for of in replicas for one in of["said"]], "round": secrets.token_hex(8)}
        return _held(f"slackline-job-{what}/{_joined(copies.members)}", copies.index, copies.count, {"why": why, "said": ranks}, judge_replicas,
                     2 * patience, 4 * patience, "replicas", missed)
    verdict = _held(f"slackline-{what}/{_joined(members)}", member.group_rank, member.group_size, said, judge, patience,
                    patience * (5 if copies.count > 1 else 2), "ranks of the pipeline", missed)
    if verdict["why"]:
        raise Cannot(verdict["why"])
    return verdict


def _held(name: str, part: int, parts: int, said: Any, judge: Callable[[List[Any], str], Any], wait: float, patience: float, who: str, missed: bool) -> Any:
    """missed: whether a part may miss such a meeting."""
    store, notes = _store(), None
    if missed:
        notes = _notes[f"{name}/{part}"] = _notes.get(f"{name}/{part}") or Notes(store, name, part, parts)
        notes.store = store
    return Meeting(store, name, part, parts, notes).hold(said, judge, wait * PATIENCE_S, patience * PATIENCE_S, who)


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _members(member: Any) -> List[int]:
    group = member.group or dist.distributed_c10d._get_default_group()
    return [dist.get_global_rank(group, rank) for rank in range(member.group_size)]


def _joined(members: Sequence[int]) -> str:
    return "-".join(map(str, members))


# ---- what is compared ----------------------------------------------------------------------------------------------------------


def _compared(said: List[Said], members: List[int]) -> str:
    """The reason why the ranks of a pipeline do not agree; empty: they do."""
    for rank, one in enumerate(said):
        if one["why"]:
            return str(one["why"])
        for what in SAME:
            if one[what] != said[0][what]:
                return f"rank {rank} called adapt with {what} {one[what]!r}, rank 0 with {said[0][what]!r}"
        if one["replica"] != said[0]["replica"] or one["members"][one["replica"]] != members[rank]:
            return f"rank {rank} is in replica {one['replica']}, rank 0 in replica {said[0]['replica']}"
    return ""


def _compared_replicas(said: List[List[Said]]) -> str:
    """The same of the replicas, each of which agrees."""
    for replica, ranks in enumerate(said):
        for what in SAME:
            if ranks[0][what] != said[0][0][what]:
                return f"replica {replica} called adapt with {what} {ranks[0][what]!r}, replica 0 with {said[0][0][what]!r}"
        if len(ranks) != len(said[0]) or any(one["members"] != first["members"] for one, first in zip(ranks, said[0])):
            return f"the ranks of replica {replica} are not those that replica 0 expects"
    return ""


def _failed(said: List[Said], _members: List[int]) -> str:
    """The first failure: the other ranks may have waited for this one."""
    return min(((one["after_s"], str(one["why"])) for one in said if one["why"]), default=(0.0, ""))[1]
