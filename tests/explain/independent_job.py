"""Traces of hybrid-parallel jobs (tensor x data x pipeline x chunks) by a simulator whose rules are neither those of `slackline explain` nor those
of hybrid_job.py. Here

- a message leaves when its producer has ended and the sender's card is free, whether or not the receiver has asked for it. Several may be on
  their way. Its send is over once it has left (`eager`) or has come. Receives are posted `ahead` ops early;
- the tensor ranks of a position are workers of their own, each with its clock and jitter;
- gathers and reductions of chunks run next to the computation, on one stream per position;
- orders are Megatron's interleaved one, or all forwards chunk by chunk and then all backwards ("breadth").

All times are drawn before anything is simulated, in one order, so a job without its fault has the same other times. What the fault costs is
the difference of both simulations."""
import collections
import random


def interleaved(job, rank):
    """Groups of `pipeline` microbatches go through the chunks in turn; warm-up as Megatron-LM counts it."""
    forward, backward = [], []
    for first in range(0, job.microbatches, job.pipeline):
        group = range(first, min(first + job.pipeline, job.microbatches))
        forward += [("F", chunk, m) for chunk in range(job.chunks) for m in group]
        backward += [("B", chunk, m) for chunk in reversed(range(job.chunks)) for m in group]
    warm = job.pipeline - rank - 1 if job.chunks == 1 else 2 * (job.pipeline - rank - 1) + (job.chunks - 1) * job.pipeline
    warm = min(warm, len(forward))
    steady = [op for pair in zip(forward[warm:], backward) for op in pair]
    return forward[:warm] + steady + backward[len(forward) - warm:]


def breadth(job, _):
    every = range(job.microbatches)
    return [("F", chunk, m) for chunk in range(job.chunks) for m in every] + [("B", chunk, m) for chunk in reversed(range(job.chunks)) for m in every]


HEALTHY = {"slow": {}, "cut": {}, "lengths": 0.0, "links": {}, "collectives": {}}
NAMES = {"F": "forward", "B": "backward"}


class Job:
    """Times in ms. slow {(rank, replica): factor}; cut {rank or (rank, chunk): factor}; lengths: deviation of their logarithm; links {(from, to,
    replica or None, "F" or "B"): ms}; collectives {rank: ms}."""

    def __init__(self, tensor=1, data=4, pipeline=4, chunks=2, microbatches=8, steps=2, forward=5.0, backward=10.0, wire=0.3, busy=0.1, noise=0.02,
                 order=interleaved, eager=False, ahead=1, seed=1, even=None, **fault):
        self.given = {**{name: value for name, value in locals().items() if name not in ("self", "fault")}, **HEALTHY, **fault}
        self.__dict__.update(self.given)

    def healthy(self):
        """Lengths: all as long as the mean."""
        drawn = [length for step in range(self.steps) for length in self.draw(step)["length"].values()]
        without = {"even": sum(drawn) / len(drawn)} if self.lengths else HEALTHY
        return Job(**{**self.given, **without})

    def draw(self, step):
        dice = random.Random(f"{self.seed} {step}")
        drawn = {"length": {}, "noise": {}, "wire": {}, "collective": {}}
        for d in range(self.data):
            for m in range(self.microbatches):
                drawn["length"][d, m] = dice.lognormvariate(0, 1) ** self.lengths
            for op in [(r, d, kind, chunk, m) for r in range(self.pipeline) for kind in "FB" for chunk in range(self.chunks)
                       for m in range(self.microbatches)]:
                drawn["noise"][op] = 1 + self.noise * dice.gauss(0, 1)
                drawn["wire"][op] = self.wire * (0.9 + 0.2 * dice.random())
        for r in range(self.pipeline):
            for chunk in range(self.chunks):
                drawn["collective"][r, chunk] = [time * (0.95 + 0.1 * dice.random()) + self.collectives.get(r, 0.0) for time in (1.5, 3.0)]
        return drawn

    def time_of(self, drawn, r, d, op):
        kind, chunk, m = op
        return ((self.forward if kind == "F" else self.backward) * (self.even or drawn["length"][d, m]) * self.cut.get(r, 1.0)
                * self.cut.get((r, chunk), 1.0) * self.slow.get((r, d), 1.0) * drawn["noise"][(r, d, *op)])

    def step(self, number):
        """Events (rank, replica, name, start, end, arguments) of one iteration from 0, and its length."""
        drawn, events, ready, over = self.draw(number), [], {}, {}
        orders = [self.order(self, r) for r in range(self.pipeline)]
        for r in range(self.pipeline):
            at = 0.0
            for chunk in range(self.chunks):
                ready[r, chunk] = at + drawn["collective"][r, chunk][0]
                events += [(r, d, "params-all-gather", at, ready[r, chunk], {"model_chunk": chunk}) for d in range(self.data)]
                at = ready[r, chunk]
        for d in range(self.data):
            self.replica(d, drawn, orders, ready, events, over)
        finished = self.reduce(drawn, events, over)
        for d in range(self.data):
            end = max(finished[0, d], finished[self.pipeline - 1, d]) + 0.8
            for r in (0, self.pipeline - 1):
                events.append((r, d, "embedding-grads-all-reduce", finished[r, d], end, {}))
                finished[r, d] = end
        last = max(finished.values()) + 0.3
        for (r, d), at in finished.items():
            events += [(r, d, "optimizer-clip-main-grad", at, last, {}), (r, d, "optimizer", last, last + 2.0, {})]
        return events, last + 2.0

    def reduce(self, drawn, events, over):
        """The reductions of gradients; when each position has finished."""
        finished = {}
        for r in range(self.pipeline):
            free = 0.0
            for chunk in sorted(range(self.chunks), key=lambda chunk: max(over[r, d, chunk] for d in range(self.data))):
                came = [max(over[r, d, chunk], free) for d in range(self.data)]
                free = max(came) + drawn["collective"][r, chunk][1]
                events += [(r, d, "grads-reduce-scatter", at, free, {"model_chunk": chunk}) for d, at in enumerate(came)]
            finished.update({(r, d): free for d in range(self.data)})
        return finished

    def replica(self, d, drawn, orders, ready, events, over):
        """Runs each rank as far as its messages have come, until all have ended."""
        stages = self.pipeline * self.chunks
        now, at, card, came, ends = [0.0] * self.pipeline, [0] * self.pipeline, collections.defaultdict(float), {}, {}
        moved = True
        while moved:
            moved = False
            for r in range(self.pipeline):
                while at[r] < len(orders[r]):
                    kind, chunk, m = op = orders[r][at[r]]
                    stage, along = chunk * self.pipeline + r, 1 if kind == "F" else -1
                    if 0 <= stage - along < stages and (r, op) not in came:
                        break
                    begin = max(now[r], came.get((r, op), 0.0), ready[r, chunk] if kind == "F" else 0.0)
                    end = ends[r, at[r]] = now[r] = begin + self.time_of(drawn, r, d, op)
                    events.append((r, d, NAMES[kind] + "-compute", begin, end, {"mb_id": m, "model_chunk": chunk}))
                    if 0 <= stage + along < stages:
                        to = (stage + along) % self.pipeline
                        leaves = max(end, card[r, kind])
                        card[r, kind] = leaves + self.busy
                        arrives = (leaves + drawn["wire"][(r, d, *op)] + self.links.get((r, to, d, kind), 0.0)
                                   + self.links.get((r, to, None, kind), 0.0))
                        came[to, (kind, (stage + along) // self.pipeline, m)] = arrives
                        events.append((r, d, NAMES[kind] + "-send", end, card[r, kind] if self.eager else arrives, {"model_chunk": chunk}))
                    over[r, d, chunk] = end
                    at[r] += 1
                    moved = True
        assert all(at[r] == len(orders[r]) for r in range(self.pipeline)), "the simulated job stops"
        for r in range(self.pipeline):
            self.receives(r, d, orders[r], came, ends, events)

    def receives(self, r, d, order, came, ends, events):
        before = {"F": [], "B": []}
        for i, op in enumerate(order):
            mine = before[op[0]]
            if (r, op) in came:
                posted = min(mine[-1 - self.ahead] if len(mine) > self.ahead else 0.0, came[r, op])
                events.append((r, d, NAMES[op[0]] + "-recv", posted, came[r, op], {"model_chunk": op[1]}))
            mine.append(ends[r, i])

    def mean(self):
        return sum(self.step(number)[1] for number in range(self.steps)) / self.steps

    def cost(self):
        """The share of the time that the fault costs."""
        return 1 - self.healthy().mean() / self.mean()


STREAMS = ["compute", "forward-send", "forward-recv", "backward-send", "backward-recv"]


def chrome(job, clocks, lacking, jitter=0.01, sequence=False, shuffled=False, first_step=3):
    """Chrome events, and the pid of each worker: pid a worker (tensor ranks first, then replicas, then pipeline ranks, unless shuffled), tid a
    stream. Clocks are up to `clocks` ms off, and a share of `lacking` has no duration."""
    dice = random.Random(f"chrome {job.seed}")
    pids = list(range(job.tensor * job.data * job.pipeline))
    if shuffled:
        dice.shuffle(pids)
    shift = [dice.uniform(-clocks, clocks) for _ in pids]
    out, at = [], 50.0
    for number in range(job.steps):
        events, length = job.step(number)
        counted = collections.Counter()
        for r, d, name, start, end, args in sorted(events, key=lambda event: event[3]):
            tid = STREAMS.index(name) if name in STREAMS else 0 if "compute" in name or name == "optimizer" else 5
            for t in range(job.tensor):
                worker = t + job.tensor * (d + job.data * r)
                arguments = {**args, "step": first_step + number}
                if sequence:
                    arguments.pop("mb_id", None)
                    arguments["seq_id"] = counted[r, d, name]
                event = {"name": name, "ph": "X", "pid": pids[worker], "tid": tid, "ts": round(1e3 * (at + start + shift[worker]), 3),
                         "dur": round(1e3 * (end - start + jitter * dice.random()), 3), "args": arguments}
                if dice.random() < lacking:
                    del event["dur"]
                out.append(event)
            counted[r, d, name] += 1
        at += length + 1.5
    return out, pids
