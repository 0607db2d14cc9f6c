"""Traces of hybrid jobs whose sends are buffered and whose workers ask for a message when they need it, not before, as over Gloo or an eager MPI: the
receive of a late worker ends with its asking, so only messages that were awaited show how far clocks are apart. A cause is planted by what takes
longer; the same job without it, of the same random numbers, gives what it costs."""
import json
import random

FORWARD, BACKWARD = "forward", "backward"


class Job:
    def __init__(self, pipeline, data, microbatches, steps, chunks=1, seed=1, forward=10.0, backward=20.0, send=1.0, gather=6.0, scatter=8.0, optimizer=3.0, noise=0.01):
        self.p, self.d, self.m, self.steps, self.v = pipeline, data, microbatches, steps, chunks
        self.time = {FORWARD: forward / chunks, BACKWARD: backward / chunks}
        self.send, self.gather, self.scatter, self.optimizer, self.noise = send, gather, scatter, optimizer, noise
        self.seed = seed
        # what can be planted
        self.worker = {}     # (replica, stage) -> times as long
        self.stage = {}      # stage of a pipeline (chunk * p + rank) -> times as long
        self.length = None   # (step, replica, microbatch) -> times as long
        self.link = {}       # (replica, from rank, to rank) -> ms more
        self.group = {}      # rank of the pipeline -> times as long in its collectives
        self.stall = {}      # (step, replica, stage, op) -> ms more
        self.counts = None   # step -> microbatches
        self.drift = 0.0     # parts per million by which clocks of workers differ, drawn for each

    def order(self, s):
        total = self.m * self.v
        def forward(k):
            return (k // self.p) % self.v, k // (self.p * self.v) * self.p + k % self.p
        if self.v == 1:
            warm = min(self.m, self.p - s - 1)
            f = [(FORWARD, 0, k) for k in range(self.m)]
            b = [(BACKWARD, 0, k) for k in range(self.m)]
        else:
            warm = min(total, (self.p - s - 1) * 2 + (self.v - 1) * self.p)
            f = [(FORWARD, *forward(k)) for k in range(total)]
            b = [(BACKWARD, self.v - 1 - forward(k)[0], forward(k)[1]) for k in range(total)]
        ops = f[:warm]
        for k in range(total - warm):
            ops += [f[warm + k], b[k]]
        return ops + b[total - warm:]

    def run(self):
        """Events (name, replica, rank, start, end, step, microbatch, chunk), in ms, and the time of each step."""
        rnd = random.Random(self.seed)
        events, times, clock = [], [], {(d, s): 0.0 for d in range(self.d) for s in range(self.p)}
        lengths = {}
        for step in range(self.steps):
            begin = max(clock.values())
            clock = {w: begin for w in clock}
            for s in range(self.p):
                took = self.gather * self.group.get(s, 1) * (1 + rnd.gauss(0, self.noise))
                start = {d: clock[d, s] for d in range(self.d)}
                end = max(start.values()) + took
                for d in range(self.d):
                    events.append(("params-all-gather", d, s, start[d], end, step, None, 0))
                    clock[d, s] = end
            if self.counts:
                self.m = self.counts(step)
            arrival, at, order = {}, {w: 0 for w in clock}, {s: self.order(s) for s in range(self.p)}
            wire = {}
            moved = True
            while moved:
                moved = False
                for (d, s), _ in list(clock.items()):
                    while at[d, s] < len(order[s]):
                        kind, chunk, m = order[s][at[d, s]]
                        place = chunk * self.p + s
                        before = place - 1 if kind == FORWARD else place + 1
                        after = place + 1 if kind == FORWARD else place - 1
                        last = self.p * self.v - 1
                        needs = 0 <= before <= last and not (kind == BACKWARD and place == last)
                        if needs and (kind, d, before, m) not in arrival:
                            break
                        start = clock[d, s]
                        if needs:
                            came = arrival[kind, d, before, m]
                            events.append((f"{kind}-recv", d, s, start, max(start, came) + 0.05, step, m, chunk))
                            start = max(start, came) + 0.05
                        length = 1.0
                        if self.length:
                            length = lengths.setdefault((step, d, m), self.length(step, d, m))
                        took = self.time[kind] * length * self.worker.get((d, s), 1) * self.stage.get(place, 1) * (1 + rnd.gauss(0, self.noise))
                        took += self.stall.get((step, d, s, at[d, s]), 0)
                        end = start + took
                        events.append((f"{kind}-compute", d, s, start, end, step, m, chunk))
                        clock[d, s] = end
                        if 0 <= after <= last:
                            to = after % self.p
                            depart = max(end, wire.get((d, s, kind), 0))
                            arrive = depart + (self.send + self.link.get((d, s, to), 0)) * (1 + rnd.gauss(0, self.noise))
                            wire[d, s, kind] = arrive
                            arrival[kind, d, place, m] = arrive
                            events.append((f"{kind}-send", d, s, depart, arrive, step, m, chunk))
                        at[d, s] += 1
                        moved = True
            assert all(at[d, s] == len(order[s]) for d, s in at)
            for s in range(self.p):
                took = self.scatter * self.group.get(s, 1) * (1 + rnd.gauss(0, self.noise))
                start = {d: clock[d, s] for d in range(self.d)}
                end = max(start.values()) + took
                for d in range(self.d):
                    events.append(("grads-reduce-scatter", d, s, start[d], end, step, None, 0))
                    opt = self.optimizer * (1 + rnd.gauss(0, self.noise))
                    events.append(("optimizer", d, s, end, end + opt, step, None, 0))
                    clock[d, s] = end + opt
            times.append(max(clock.values()) - begin)
        return events, times

    def cost(self, **without):
        """The share of the time that the planted cause costs: against the same job without it, of the same random numbers."""
        _, slow = self.run()
        kept = {key: getattr(self, key) for key in without}
        for key, value in without.items():
            setattr(self, key, value)
        _, fast = self.run()
        for key, value in kept.items():
            setattr(self, key, value)
        return 1 - sum(fast) / sum(slow)


TID = {"forward-compute": 0, "backward-compute": 0, "optimizer": 0, "forward-send": 1, "forward-recv": 2, "backward-send": 3, "backward-recv": 4,
       "params-all-gather": 5, "grads-reduce-scatter": 5}


def chrome(job, apart=0.0, spell=str, number="mb_id", pairs=False, without=0.0, seed=7):
    """`apart`: ms by which clocks of workers differ; `pairs`: B and E instead of X; `without`: share of sends without a duration."""
    rnd = random.Random(seed)
    events, _ = job.run()
    off, rate = {}, {}
    out = []
    for name, d, s, start, end, step, m, chunk in sorted(events, key=lambda e: e[3]):
        worker = d * job.p + s
        shift = off.setdefault(worker, rnd.uniform(-apart, apart))
        fast = rate.setdefault(worker, 1 + rnd.uniform(-job.drift, job.drift) * 1e-6)
        start, end = start * fast, end * fast
        args = {"step": step}
        if m is not None:
            args[number] = m
        if job.v > 1 and m is not None:
            args["model_chunk"] = chunk
        one = {"name": spell(name), "pid": worker, "tid": TID[name], "ts": round(1e3 * (start + shift) + 5e6, 3), "args": args}
        if pairs:
            out.append({**one, "ph": "B"})
            out.append({**{k: v for k, v in one.items() if k != "args"}, "ph": "E", "ts": round(1e3 * (end + shift) + 5e6, 3)})
        else:
            one.update(ph="X", dur=round(1e3 * (end - start), 3))
            if name.endswith("-send") and rnd.random() < without:
                del one["dur"]
            out.append(one)
    return {"traceEvents": out}
