"""Traces of hybrid-parallel jobs whose causes of lost time are known, made by a small simulator of its own.

A job has `pipeline` ranks, `data` replicas and `chunks` per rank. An op is (kind, chunk, microbatch); ranks run them in 1F1B order (Megatron's
interleaved one with several chunks). The simulation repeats until no time changes (the longest path by relaxation): an op starts after the one
before it on its rank and after its input; a transfer starts when the producer has ended and the receiver has ended the op of the same kind
before, and after the transfer before it on its link; a collective when all members have come. What a fault costs is the simulated time with it
minus the time without it, of the same job with the same noise."""
import gzip
import json
import random


def order_1f1b(ranks, rank, microbatches):
    warm = min(ranks - rank - 1, microbatches)
    ops = [("F", 0, m) for m in range(warm)]
    for i in range(microbatches - warm):
        ops += [("F", 0, warm + i), ("B", 0, i)]
    return ops + [("B", 0, m) for m in range(microbatches - warm, microbatches)]


def order_interleaved(ranks, rank, microbatches, chunks):
    """As Megatron-LM's forward_backward_pipelining_with_interleaving; microbatches are a multiple of ranks."""
    def at(k, forward):
        inside = k % (ranks * chunks)
        chunk = inside // ranks
        return (chunk if forward else chunks - 1 - chunk), k // (ranks * chunks) * ranks + inside % ranks
    total = microbatches * chunks
    warm = min((ranks - rank - 1) * 2 + (chunks - 1) * ranks, total)
    ops = [("F", *at(k, True)) for k in range(warm)]
    for k in range(total - warm):
        ops += [("F", *at(warm + k, True)), ("B", *at(k, False))]
    return ops + [("B", *at(k, False)) for k in range(total - warm, total)]


class Job:
    """Times in ms. slow: {(rank, replica): factor}; cut: factors of ranks; lengths: deviation of the logarithm of a microbatch's length; links: {(receiving rank,
    replica, kind): ms in addition}; collectives: {rank: ms in addition}; noise: deviation of each op."""

    def __init__(self, pipeline=4, data=2, chunks=1, microbatches=8, steps=4, forward=10.0, backward=20.0, transfer=0.5, reduce=6.0, gather=3.0,
                 optimizer=2.0, slow=None, cut=None, lengths=0.0, links=None, collectives=None, noise=0.01, seed=1, equal=0.0):
        self.__dict__.update(locals())
        self.drawn = []
        self.slow, self.cut, self.links, self.collectives = slow or {}, cut or [1.0] * pipeline, links or {}, collectives or {}

    def without(self, **fields):
        """The same job, with the same random numbers."""
        given = {k: v for k, v in self.__dict__.items() if k not in ("self", "drawn")}
        return Job(**{**given, **fields})

    def ops(self, rank):
        if self.chunks == 1:
            return order_1f1b(self.pipeline, rank, self.microbatches)
        return order_interleaved(self.pipeline, rank, self.microbatches, self.chunks)

    def simulate(self):
        """For each step a list of events (rank, replica, name, start, end, args), and its time."""
        draw = random.Random(self.seed)
        return [self.step(draw) for _ in range(self.steps)]

    def step(self, draw):
        ranks, last = self.pipeline, self.pipeline * self.chunks - 1
        time, length = {}, {}
        for d in range(self.data):
            for m in range(self.microbatches):
                length[d, m] = draw.lognormvariate(0, 1) ** self.lengths
        self.drawn += length.values()
        if self.equal:  # the same sum of lengths, over all steps
            length = dict.fromkeys(length, self.equal)
        for d in range(self.data):
            for r in range(ranks):
                for op in self.ops(r):
                    kind, _, m = op
                    base = (self.forward if kind == "F" else self.backward) / self.chunks
                    time[r, d, op] = (base * length[d, m] * self.cut[r] * self.slow.get((r, d), 1.0) * (1 + self.noise * draw.gauss(0, 1)))
        wire = {}
        for d in range(self.data):
            for r in range(ranks):
                for op in self.ops(r):
                    wire[r, d, op] = self.transfer * (1 + 0.1 * draw.random()) + self.links.get((r, d, op[0]), 0.0)
        start, end, sent = {}, {}, {}
        begin = {}
        for d in range(self.data):
            for r in range(ranks):
                begin[r, d] = self.gather
        changed = True
        for key in time:
            start[key], end[key] = 0.0, 0.0
        while changed:
            changed = False
            for d in range(self.data):
                for r in range(ranks):
                    now, before, link = begin[r, d], {"F": 0.0, "B": 0.0}, {"F": 0.0, "B": 0.0}
                    for op in self.ops(r):
                        kind, chunk, m = op
                        g = chunk * ranks + r
                        peer = g - 1 if kind == "F" else g + 1
                        at = now
                        if 0 <= peer <= last:
                            source = (peer % ranks, d, (kind, peer // ranks, m))
                            issued = max(end[source], before[kind], link[kind])
                            sent[r, d, op] = (source, max(before[kind], link[kind]), issued, issued + wire[r, d, op])
                            link[kind] = issued + wire[r, d, op]
                            at = max(at, link[kind])
                        finish = at + time[r, d, op]
                        if finish != end[r, d, op]:
                            start[r, d, op], end[r, d, op], changed = at, finish, True
                        now = before[kind] = finish
        return self.events(start, end, sent)

    def events(self, start, end, sent):
        events, over = [], {}
        names = {"F": "forward", "B": "backward"}
        for (r, d, op), at in start.items():
            kind, chunk, m = op
            events.append((r, d, names[kind] + "-compute", at, end[r, d, op], {"mb_id": m, "model_chunk": chunk}))
            over[r, d] = max(over.get((r, d), 0), end[r, d, op])
        for (r, d, op), (source, posted, issued, arrived) in sent.items():
            produced = end[source]
            events.append((r, d, names[op[0]] + "-recv", posted, arrived, {"model_chunk": op[1]}))
            events.append((*source[:2], names[op[0]] + "-send", produced, arrived, {"model_chunk": source[2][1]}))
        everywhere = 0.0
        for r in range(self.pipeline):
            came = max(over[r, d] for d in range(self.data))
            for d in range(self.data):
                events.append((r, d, "params-all-gather", 0.0, self.gather, {"model_chunk": 0}))
                events.append((r, d, "grads-reduce-scatter", over[r, d], came + self.reduce + self.collectives.get(r, 0.0), {"model_chunk": 0}))
                over[r, d] = came + self.reduce + self.collectives.get(r, 0.0)
                everywhere = max(everywhere, over[r, d])
        for r in range(self.pipeline):
            for d in range(self.data):
                events.append((r, d, "optimizer-clip-main-grad", over[r, d], everywhere + 0.2, {}))
                events.append((r, d, "optimizer", everywhere + 0.2, everywhere + 0.2 + self.optimizer, {}))
        return events, everywhere + 0.2 + self.optimizer

    def mean(self):
        times = [time for _, time in self.simulate()]
        return sum(times) / len(times)

    def of_equal_lengths(self):
        self.drawn = []
        self.simulate()
        return self.without(equal=sum(self.drawn) / len(self.drawn))

    def cost(self, **healthy):
        """The share of the time that the fault costs which these fields take away."""
        return 1 - self.without(**healthy).mean() / self.mean()


def worker_of(job, rank, replica, tensor=1):
    """Megatron's order: tensor ranks first, then replicas, then pipeline ranks."""
    return tensor * (replica + job.data * rank)


def chrome(job, shape="pid", offsets=0.0, no_duration=0.0, sequence=False, tensor=1, first_step=16, gap=2.0, seed=7, begin_end=0.0, phase="X", endless=()):
    """Chrome events. shape: "pid", a worker is a pid and its streams are tids; "published", a replica is a pid, and names of threads say the rest.
    endless: the names of kinds that never have a duration."""
    draw = random.Random(seed)
    streams = {"forward-compute": 0, "backward-compute": 0, "optimizer": 0, "grads-reduce-scatter": 3, "params-all-gather": 3, "optimizer-clip-main-grad": 3}
    shift = {(r, d): draw.uniform(-offsets, offsets) for r in range(job.pipeline) for d in range(job.data)}
    out, at = [], 100.0
    for number, (events, time) in enumerate(job.simulate()):
        counts = {}
        for r, d, name, start, end, args in sorted(events, key=lambda e: e[3]):
            key = (r, d, name)
            counts[key] = counts.get(key, -1) + 1
            args = dict(args, step=first_step + number)
            if sequence:
                args.pop("mb_id", None)
                args["seq_id"] = counts[key]
            for t in range(tensor):
                if shape == "pid":
                    pid, tid = worker_of(job, r, d, tensor) + t, streams.get(name, 1)
                else:
                    pid, tid = d, 5 * (r + job.pipeline * d) + streams.get(name, 1)
                ts, dur = 1000 * (at + start + shift[r, d]), 1000 * (end - start)
                event = {"name": name, "cat": name, "ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
                if draw.random() < no_duration or name in endless:
                    event.pop("dur")
                if draw.random() < begin_end:
                    out += [{**{k: v for k, v in event.items() if k != "dur"}, "ph": "B"}, {"ph": "E", "pid": pid, "tid": tid, "ts": ts + dur}]
                else:
                    out.append(event)
        at += time + gap
    if shape == "published":
        for d in range(job.data):
            out.append({"name": "process_name", "pid": d, "ph": "M", "args": {"name": f"DP rank [{d}]"}})
            for r in range(job.pipeline):
                for i, what in enumerate(("compute", "pp-comm", "tp-comm", "dp-comm", "misc")):
                    out.append({"name": "thread_name", "pid": d, "tid": 5 * (r + job.pipeline * d) + i, "ph": "M",
                                "args": {"name": f"PP rank {r}, TP rank 0, {what}"}})
    return out


def save(path, events, bare=False):
    text = json.dumps(events if bare else {"traceEvents": events}).encode()
    with (gzip.open(path, "wb") if path.endswith(".gz") else open(path, "wb")) as file:
        file.write(text)
    return path


if __name__ == "__main__":  # the example of docs/planning.md
    import sys
    save(sys.argv[1], chrome(Job(data=4, slow={(1, 2): 1.6}), shape="published", offsets=5.0))
