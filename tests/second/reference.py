# SPDX-License-Identifier: Apache-2.0
"""A second opinion on the timing model: plain and slow, from docs/formats.md. It was written before its author had seen src/plan; where the
page was silent (ties at a wire, parts, what FB saves of two stages, which cells of PyTorch's lowering take turns), the page was completed
first.

`Problem` is a problem file's content. `check` and `check_ends` say whether an order, and the order of issue of its messages, are valid. `Replay`
advances time from event to event. An order is a list of rows, one per rank, and a row is a list of blocks: a tuple with one op, or with an F
and the B that overlaps it. Times are whole ns."""
import collections
import functools
import heapq

Op = collections.namedtuple("Op", "stage kind microbatch part", defaults=(0,))
Message = collections.namedtuple("Message", "stage kind microbatch sender receiver")  # of the op that makes it; kind F or B (gradient)
Link = collections.namedtuple("Link", "latency transfer bytes")
End = collections.namedtuple("End", "way message after")  # a SEND or RECV: way S or R, after so many blocks of its row


def ns(ms):
    return round(ms * 1_000_000)


def per(value, count, default=0):
    """A key's value for each stage or rank: a number stands for all."""
    if value is None:
        value = default
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


class Problem:
    def __init__(self, given):
        self.ranks, self.microbatches = given["ranks"], given["microbatches"]
        self.placement = given.get("placement", "linear")
        self.stages = given.get("stages") or (self.ranks if self.placement == "linear" else 2 * self.ranks)
        self.parts = given.get("parts", 1)
        for asked_often in ("rank", "received", "sent", "whole"):
            setattr(self, asked_often, functools.cache(getattr(self, "_" + asked_often)))
        self._read_times(given)
        self._read_memory(given.get("memory", {}))
        self._read_links(given.get("links", {}))
        self._read_collectives(given.get("data_parallel", {}))
        said = given.get("communication", "decoupled")
        said = {"regime": said} if isinstance(said, str) else said
        self.regime, self.queue = said.get("regime", "decoupled"), given.get("queue", 1)
        self.communicators, self.eager_bytes = said.get("communicators", "pipeline"), said.get("eager_kb", 0) * 1000
        self.buffers = said.get("receive_buffers", 0)
        self.buffer_memory = said.get("receive_buffers", 0) * said.get("receive_memory", 0)
        self.objective, self.synchronization = given.get("objective", "makespan"), given.get("synchronization", "update")

    def _read_times(self, given):
        said = given["times_ms"]
        kept = {kind: [ns(ms) for ms in per(said[kind], self.stages)] for kind in "FIW"}
        both = [i + w for i, w in zip(kept["I"], kept["W"])]
        kept["B"] = [ns(ms) for ms in per(said["B"], self.stages)] if "B" in said else both
        forward_and_backward = [ns(ms) for ms in per(said["FB"], self.stages)] if "FB" in said else [f + b for f, b in zip(kept["F"], kept["B"])]
        self.saved = [f + b - fb for f, b, fb in zip(kept["F"], kept["B"], forward_and_backward)]  # by overlapping the two
        self.recompute = per(given.get("recompute"), self.stages, False)
        self.time = {kind: [ms + (kept["F"][stage] if self.recompute[stage] and kind in "IB" else 0) for stage, ms in enumerate(times)]
                     for kind, times in kept.items()}
        overhead = given.get("overhead_ms", {})
        self.op_overhead, self.message_overhead = ns(overhead.get("op", 0)), ns(overhead.get("message", 0))

    def _read_memory(self, said):
        delta = said.get("delta", {})
        self.delta = {kind: per(delta.get(kind), self.stages, default) for kind, default in (("F", 1), ("I", 0), ("W", -1))}
        self.delta["B"] = per(delta["B"], self.stages) if "B" in delta else [i + w for i, w in zip(self.delta["I"], self.delta["W"])]
        self.at_start, self.input = per(delta.get("I_start"), self.stages), per(delta.get("input"), self.stages)
        self.limit = per(said.get("limit"), self.ranks, float("inf"))
        self.fixed = per(said.get("fixed"), self.ranks)
        self.host_limit = per(said.get("host_limit"), self.ranks)
        self.offload = [ns(ms) for ms in per(said.get("offload_ms"), self.stages)]

    def _read_links(self, said):
        def link(item):
            size = item.get("message_mb", 0)
            transfer = ns(size * 8 / item["bandwidth_gbps"]) if item.get("bandwidth_gbps") else ns(item.get("transfer_ms", 0))
            return Link(ns(item.get("latency_ms", 0)), transfer, size * 1_000_000)
        ranks = range(self.ranks)
        self.link = {(a, b): link(said.get("default", {})) for a in ranks for b in ranks if a != b}
        for item in said.get("list", []):
            a, b = item["between"]
            for way in [(a, b)] + ([] if item.get("one_way") else [(b, a)]):
                self.link[way] = link(item)
        self.wire = {way: way for way in self.link}
        for number, item in enumerate(said.get("shared", [])):
            for a, b in item["links"]:
                self.wire[a, b], self.wire[b, a] = ("there", number), ("back", number)

    def _read_collectives(self, said):
        self.reduce = [ns(ms) for ms in per(said.get("reduce_ms"), self.stages)]
        self.gather = [ns(ms) for ms in per(said.get("gather_ms"), self.stages)]
        replicas = said.get("replicas", 1)
        if replicas > 1:  # a ring: twice replicas - 1 steps of the slowest link
            latency, bandwidth = max(per(said.get("latency_ms"), 1)), min(per(said["bandwidth_gbps"], 1))
            for stage, volume in enumerate(per(said["volume_mb"], self.stages)):
                half = (replicas - 1) * (latency + volume * 8 / (replicas * bandwidth))
                self.reduce[stage] = ns(half if said.get("zero") else 2 * half)
                self.gather[stage] = ns(half) if said.get("zero") else 0

    # ---- which stage is where ----

    def _rank(self, stage):
        lap, position = divmod(stage, self.ranks)
        turned = self.placement in ("wave", "bidirectional") and lap % 2 == 1
        return self.ranks - 1 - position if turned else position

    def before(self, stage):
        """The stage that feeds this one, or None."""
        first = stage == 0 or self.placement == "bidirectional" and stage == self.ranks
        return None if first else stage - 1

    def after(self, stage):
        last = stage == self.stages - 1 or self.placement == "bidirectional" and stage == self.ranks - 1
        return None if last else stage + 1

    def microbatches_of(self, stage):
        if self.placement != "bidirectional":
            return range(self.microbatches)
        return range(0 if stage < self.ranks else 1, self.microbatches, 2)

    # ---- what an op waits for, makes and takes ----

    def needs(self, op):
        """The (stage, kinds, microbatch) of which one must have ended before: kinds are alternatives."""
        stage, kind, microbatch = op.stage, op.kind, op.microbatch
        if kind == "F":
            return [(self.before(stage), "F", microbatch)] if self.before(stage) is not None else []
        if kind == "W":
            return [(stage, "I", microbatch)]
        return [(stage, "F", microbatch)] + ([(self.after(stage), "IB", microbatch)] if self.after(stage) is not None else [])

    def _received(self, op):
        """The messages that an op waits for: those of its needs that are on other ranks. Its first part waits."""
        return [Message(stage, "F" if kinds == "F" else "B", microbatch, self.rank(stage), self.rank(op.stage))
                for stage, kinds, microbatch in self.needs(op) if self.rank(stage) != self.rank(op.stage)] if op.part == 0 else []

    def _sent(self, op):
        """The message that an op makes, if any, when its last part ends."""
        to = {"F": self.after, "I": self.before, "B": self.before, "W": lambda stage: None}[op.kind](op.stage)
        if to is None or self.rank(to) == self.rank(op.stage) or op.part != self.parts - 1:
            return []
        return [Message(op.stage, "F" if op.kind == "F" else "B", op.microbatch, self.rank(op.stage), self.rank(to))]

    def _whole(self, op):
        """How long a rank is busy with all parts of an op."""
        messages = len(self.received(op._replace(part=0))) + len(self.sent(op._replace(part=self.parts - 1)))
        return self.time[op.kind][op.stage] + self.op_overhead + self.message_overhead * messages

    def busy(self, block):
        """How long a rank is busy with a block. Parts are equal; the first ones take the ns that remain. An F and a B that overlap save half of
        what FB saves on each of their stages."""
        total = sum(self.whole(op) // self.parts + (op.part < self.whole(op) % self.parts) for op in block)
        return total - ((self.saved[block[0].stage] + self.saved[block[1].stage]) // 2 if len(block) == 2 else 0)


# ---- whether an order is a schedule ----


def check(problem, order):
    """None, or why the order is no schedule: each op once, on the rank of its stage, after what it needs; and the rows do not wait for each
    other in a circle."""
    seen = {}
    for rank, row in enumerate(order):
        for at, block in enumerate(row):
            for op in block:
                if problem.rank(op.stage) != rank:
                    return f"{op} is on rank {rank}"
                if op in seen:
                    return f"{op} comes twice"
                seen[op] = rank, at
    for stage in range(problem.stages):
        for microbatch in problem.microbatches_of(stage):
            for part in range(problem.parts):
                has = "".join(kind for kind in "FIWB" if Op(stage, kind, microbatch, part) in seen)
                if has not in ("FIW", "FB"):
                    return f"stage {stage}, microbatch {microbatch}, part {part} has {has or 'nothing'}"
    if any(op.microbatch not in problem.microbatches_of(op.stage) for op in seen):
        return "an op of no microbatch"
    for op, (rank, at) in seen.items():
        if op.part and seen[op._replace(part=op.part - 1)][1] >= at:
            return f"{op} comes before the part before it"
        for stage, kinds, microbatch in problem.needs(op):
            if problem.rank(stage) == rank:
                made = [seen[last] for kind in kinds if (last := Op(stage, kind, microbatch, problem.parts - 1)) in seen]
                if not made or made[0][1] >= at:
                    return f"{op} comes before its {kinds} of stage {stage}"
    return None if runs_through(problem, order) else "deadlock"


def runs_through(problem, order):
    """Whether rows that wait only for each other's ops come to their ends."""
    ended, position = set(), [0] * problem.ranks
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(order):
            if position[rank] < len(row):
                block = row[position[rank]]
                if all(any(Op(stage, kind, microbatch, problem.parts - 1) in ended for kind in kinds)
                       for op in block for stage, kinds, microbatch in problem.needs(op) if op.part == 0):
                    ended.update(block)
                    position[rank] += 1
                    moved = True
    return all(position[rank] == len(row) for rank, row in enumerate(order))


# ---- the order in which messages are issued ----


def turns(problem, row):
    """A row of PyTorch's lowering before it has messages: the positions of its blocks, and None for each cell between them. A rank holds the
    weights of the next three stages of its row (_add_unshard_reshard), and reduces a stage's gradients after its last W or B
    (_add_reduce_grad); each such cell takes a turn."""
    cells, held = [], set()
    last = {op.stage: at for at, block in enumerate(row) for op in block if op.kind in "WB"}
    for at, block in enumerate(row):
        following = set()
        for later in row[at:]:
            if len(following) < 3:
                following |= {op.stage for op in later}
        changed = held ^ following  # reshards and unshards
        held = following
        cells += [None] * len(changed) + [at] + [None for stage in last if last[stage] == at]
    return cells


def pytorch_ends(problem, order):
    """The sends and receives of each rank where PyTorch's lowering puts them (_add_send_recv of torch.distributed.pipelining): ranks take
    turns, one cell each; a send comes right after its op, and at the same turn its receive in the row of the other rank. A block has its
    turn when its receives are there."""
    ends, position, there = [[] for _ in order], [0] * problem.ranks, set()
    cells = [turns(problem, row) for row in order]
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(order):
            at = cells[rank][0] if cells[rank] else None
            if not cells[rank] or at is not None and not all(message in there for op in row[at] for message in problem.received(op)):
                continue
            cells[rank].pop(0)
            moved = True
            if at is None:
                continue
            position[rank] = at + 1
            for op in row[at]:
                for message in problem.sent(op):
                    ends[rank].append(End("S", message, position[rank]))
                    ends[message.receiver].append(End("R", message, position[message.receiver]))
                    there.add(message)
    return ends


def communicator(problem, message):
    return {"pipeline": "all", "pair": tuple(sorted((message.sender, message.receiver))), "direction": (message.sender, message.receiver),
            "kind": (message.sender, message.receiver, message.kind)}[problem.communicators]


def is_eager(problem, message):
    return 0 < problem.eager_bytes and problem.link[message.sender, message.receiver].bytes <= problem.eager_bytes


def check_ends(problem, order, ends):
    """None, or why an order's sends and receives are wrong: a send before its op, a receive after the op that needs it, either one not once, or
    sends from one rank to another in another order than their receives."""
    made, needed, ways = {}, {}, collections.defaultdict(lambda: ([], []))
    for row in order:
        for at, block in enumerate(row):
            for op in block:
                made.update({message: at + 1 for message in problem.sent(op)})
                needed.update({message: at for message in problem.received(op)})
    for rank, row in enumerate(ends):
        for way, message, after in row:
            if rank != (message.sender if way == "S" else message.receiver):
                return f"{way} of {message} is on rank {rank}"
            if way == "S" and after < made[message] or way == "R" and after > needed[message]:
                return f"{way} of {message} is at the wrong op"
            ways[message.sender, message.receiver][way == "R"].append(message)
        for at, end in enumerate(row):
            used = sum(earlier.way == "R" and needed[earlier.message] >= end.after for earlier in row[:at])
            if end.way == "R" and 0 < problem.buffers <= used:
                return f"rank {rank} has no buffer for {end.message}"
    if sorted(message for sends, _ in ways.values() for message in sends) != sorted(made):
        return "a message is sent twice or never"
    return None if all(sends == receives for sends, receives in ways.values()) else "sends and receives of two ranks are in different orders"


# ---- time ----


class Replay:
    """An iteration of an order. `start` and `end` of each op; of each message `request` (it comes to its wire), `leave`, `free` (the wire) and
    `arrive`; `collectives`, a list of (rank, name, stage, start, end). `stuck`: the ranks wait for each other."""

    def __init__(self, problem, order, ends=None, regime=None, free_links=False, not_before=None):
        self.problem, self.order, self.now = problem, order, 0
        self.regime, self.free_links = regime or problem.regime, free_links
        self.start, self.end, self.request, self.leave, self.free, self.arrive = {}, {}, {}, {}, {}, {}
        self.not_before, self.could = not_before or {}, {}  # of ops that wait for moves to or from host memory, too; when they could start without
        self.later = sorted(set(self.not_before.values()))  # instants to come, a heap
        self.position = [0] * problem.ranks  # of each rank's next block
        self.waiting = collections.defaultdict(list)  # at each wire
        self.wire_free = collections.defaultdict(int)
        self.under_way = collections.defaultdict(list)  # messages from one rank to another that were issued
        self.collectives, self.collectives_free, self.gathered = [], [0] * problem.ranks, {}
        self._gather()
        if self.regime == "fifo":
            self._queue(ends if ends is not None else pytorch_ends(problem, order))
        while self._act() or self._take_wire() or self._pass_time():
            pass
        self.stuck = any(self.position[rank] < len(row) for rank, row in enumerate(order))
        if not self.stuck:
            self._reduce()

    def _at(self, times, key, time):
        times[key] = time
        heapq.heappush(self.later, time)

    def _over(self, times, key):
        """Whether something has happened by now."""
        return key in times and times[key] <= self.now

    def _pass_time(self):
        """To the next instant at which something ends, frees a wire or arrives; False if there is none."""
        while self.later and self.later[0] <= self.now:
            heapq.heappop(self.later)
        if self.later:
            self.now = self.later[0]
        return bool(self.later)

    def _act(self):
        """What ranks do now; wires choose after that, when all that comes to them at this instant is there."""
        acted = False
        for rank in range(self.problem.ranks):
            acted |= self._reach_ends(rank) if self.regime == "fifo" else self._issue(rank)
            if self._may_start(rank):
                block = self.order[rank][self.position[rank]]
                self.could.setdefault(block[0], self.now)
                if self.now < self.not_before.get(block[0], 0):
                    continue
                acted = True
                for op in block:
                    self.start[op] = self.now
                    self._at(self.end, op, self.now + self.problem.busy(block))
                self.position[rank] += 1
        return acted

    def _have_ended(self, rank, blocks):
        """Whether so many first blocks of a row have ended."""
        return self.position[rank] >= blocks and (blocks == 0 or self._over(self.end, self.order[rank][blocks - 1][0]))

    def _may_start(self, rank):
        row, at = self.order[rank], self.position[rank]
        if at == len(row) or not self._have_ended(rank, at):
            return False
        if not all(self._received(message) for op in row[at] for message in self.problem.received(op)):
            return False
        if any(self.gathered.get(op.stage, 0) > self.now for op in row[at]):
            return False
        made = [message for op in row[at - 1] for message in self.problem.sent(op)] if at else []
        if self.regime == "inorder":
            return all(message in self.request for message in made)
        if self.regime == "batched":
            return all(self._over(self.arrive, message) for message in made)
        return True

    def _received(self, message):
        return self._done("R", message) if self.regime == "fifo" else self._over(self.arrive, message)

    def _come_to_wire(self, message):
        self.request[message] = self.now
        self.waiting[self.problem.wire[message.sender, message.receiver]].append(message)

    def _issue(self, rank):
        """The sends of a rank's last block, if each has a slot, where it needs one."""
        acted, at = False, self.position[rank]
        if at and self._have_ended(rank, at):
            for op in self.order[rank][at - 1]:
                for message in self.problem.sent(op):
                    if message in self.request:
                        continue
                    under_way = self.under_way[message.sender, message.receiver]
                    if self.regime == "inorder" and sum(not self._over(self.arrive, other) for other in under_way) >= self.problem.queue:
                        continue
                    under_way.append(message)
                    self._come_to_wire(message)
                    acted = True
        return acted

    def _take_wire(self):
        """First come, first served; of those that came together, the lowest microbatch, but those of a rank in the order of its ops. One at a
        time: a message that takes no time may bring another at the same instant."""
        free = []
        for wire, waiting in self.waiting.items():
            if waiting and self.wire_free[wire] <= self.now:
                free += {self._line(message): message for message in reversed(waiting)}.values()
        if not free:
            return False
        message = min(free, key=lambda message: (self.request[message], message.microbatch))
        link, wire = self.problem.link[message.sender, message.receiver], self.problem.wire[message.sender, message.receiver]
        latency, transfer = (0, 0) if self.free_links else (link.latency, link.transfer)
        self.waiting[wire].remove(message)
        self.leave[message] = self.now
        self._at(self.free, message, self.now + transfer)
        self._at(self.arrive, message, self.now + transfer + latency)
        self.wire_free[wire] = self.now + transfer
        return True

    def _line(self, message):
        """Messages of one line keep their order: those of a rank, or of its communicator."""
        return (message.sender, communicator(self.problem, message) if self.regime == "fifo" else None)

    # ---- fifo: the ends of messages, in the queues of communicators ----

    def _queue(self, ends):
        self.reached = {}  # (way, message): since when
        self.queues = [collections.defaultdict(list) for _ in ends]  # by rank and communicator, in the order of issue
        for rank, row in enumerate(ends):
            for end in row:
                self.queues[rank][communicator(self.problem, end.message)].append(end)

    def taken(self, message):
        """When its receive is done: an eager message may have arrived before."""
        return max(self.arrive[message], self.reached["R", message]) if self.regime == "fifo" else self.arrive[message]

    def _done(self, way, message):
        """Whether an end of a message is done: when it arrives, but an eager send when it has left its wire, and an eager receive not before
        it is reached."""
        eager_send = way == "S" and is_eager(self.problem, message)
        return (way, message) in self.reached and self._over(self.free if eager_send else self.arrive, message)

    def _reach_ends(self, rank):
        """An end is reached when the op before it has ended and the end before it in its communicator is done. A message comes to its wire
        when both of its ends are reached, an eager one with its send."""
        acted = False
        for queue in self.queues[rank].values():
            while queue and (queue[0].way, queue[0].message) in self.reached and self._done(queue[0].way, queue[0].message):
                queue.pop(0)
            if queue and (queue[0].way, queue[0].message) not in self.reached and self._have_ended(rank, queue[0].after):
                way, message = queue[0].way, queue[0].message
                self.reached[way, message] = self.now
                sends, receives = ("S", message) in self.reached, ("R", message) in self.reached
                if message not in self.request and sends and (receives or is_eager(self.problem, message)):
                    self._come_to_wire(message)
                acted = True
        return acted

    # ---- collectives, next to the ops: those of a rank one after another ----

    def _collective(self, rank, name, stage, ready, length):
        if length:
            begin = max(ready, self.collectives_free[rank])
            self.collectives_free[rank] = begin + length
            self.collectives.append((rank, name, stage, begin, begin + length))

    def _gather(self):
        """From the begin of the iteration, in the order of the stages' first ops."""
        for rank, row in enumerate(self.order):
            for stage in dict.fromkeys(op.stage for block in row for op in block):
                self._collective(rank, "gather", stage, 0, self.problem.gather[stage])
        for _, _, stage, _, end in self.collectives:
            self._at(self.gathered, stage, end)

    def _reduce(self):
        """After a stage's last W or B, first come, first served."""
        for rank, row in enumerate(self.order):
            last = {op.stage: self.end[op] for block in row for op in block if op.kind in "WB"}
            for stage in sorted(last, key=lambda stage: last[stage]):
                self._collective(rank, "reduce", stage, last[stage], self.problem.reduce[stage])
