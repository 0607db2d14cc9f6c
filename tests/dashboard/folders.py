"""Run folders as `slackline train` writes them (docs/formats.md), of any size, line by line: for what no test machine can run."""
import fcntl
import json
import os
import random


def lock_of(path):
    """Holds a folder's lock until the descriptor is closed, as a living run or watch does."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


class Folder:
    """Written as a run writes it; `hold` keeps its lock, as a living run does."""

    def __init__(self, path, pipeline=4, data=1, iterations=1000, seed=1):
        self.path, self.pipeline, self.data, self.iteration = path, pipeline, data, 0
        self.random = random.Random(seed)
        self.lock = None
        os.makedirs(path, exist_ok=True)
        self.write("run.yaml", "# slackline 0.1.0\nmodel: {kind: gpt2, layers: %d}\nparallel: {pipeline: %d, data: %d}\nbatch: {microbatches: 12, size: 1}\n"
                   "iterations: %d\nschedule: auto\nadapt: true\n" % (pipeline, pipeline, data, iterations))
        for name in ("metrics.jsonl", "events.jsonl"):
            self.write(name, "")

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w") as out:
            out.write(text)

    def add(self, name, text):
        with open(os.path.join(self.path, name), "a") as out:
            out.write(text)

    def hold(self):
        self.lock = lock_of(self.path)

    def release(self):
        os.close(self.lock)
        self.lock = None

    def event(self, kind, **more):
        self.add("events.jsonl", json.dumps({"time_s": self.iteration * 0.5, "iteration": self.iteration, "kind": kind, **more}) + "\n")

    def start(self, schedule="1f1b"):
        self.event("start", seen=f"{self.pipeline * self.data} ranks, avx2, communication thread SCHED_OTHER", decided=f"schedule {schedule}, predicted 390.00 ms of ops an iteration")

    def line(self, time=400.0, schedule="1f1b", phase="healthy", slow_ranks=(), slow_links=(), predicted=398.0):
        """An iteration: ranks (index over replicas) of slow_ranks take half longer, links (replica, from, to) 60 ms more."""
        near = self.random.gauss
        work = [round(360 * (1.5 if r in slow_ranks else 1) * (1 + near(0, 0.01)), 3) for r in range(self.pipeline * self.data)]
        links = []
        for replica in range(self.data):
            for a in range(self.pipeline - 1):
                for pair in ((a, a + 1), (a + 1, a)):
                    one = {"from": pair[0], "to": pair[1], "latency_ms": round(0.5 + abs(near(0, 0.02)) + (60 if (replica, *pair) in slow_links else 0), 6), "transfer_ms": 0.25}
                    if self.data > 1:
                        one["replica"] = replica
                    links.append(one)
        text = json.dumps({"iteration": self.iteration, "loss": round(5.5 / (1 + self.iteration / 50), 6), "time_ms": round(time * (1 + near(0, 0.01)), 4),
                           "predicted_ms": predicted if self.iteration else None, "schedule": schedule, "delegates": 0, "tokens_per_s": 1e6 / time, "phase": phase, "late": False,
                           "links": links, "work_ms": work}, separators=(",", ":"))
        self.iteration += 1
        return text + "\n"

    def record(self, iteration, ranks=2, microbatches=3, begin=True):
        """Lines of timeline.json (docs/formats.md): a head, and the ops of an iteration."""
        lines = ['{"displayTimeUnit":"ms","traceEvents":['] if begin else []
        if begin:
            lines += [json.dumps({"ph": "M", "pid": r, "tid": 0, "name": "process_name", "args": {"name": f"rank {r}"}}) + "," for r in range(ranks)]
        for r in range(ranks):
            for m in range(microbatches):
                for k, kind in enumerate("FIW"):
                    lines.append(json.dumps({"ph": "X", "pid": r, "tid": 0, "cat": kind, "name": f"{kind}{m}", "ts": 1e6 * iteration + 3000.0 * (3 * m + k), "dur": 2900.0,
                                             "args": {"iteration": iteration, "stage": r, "microbatch": m}}) + ",")
        return "\n".join(lines) + "\n"

    def iterate(self, count=1, **more):
        self.add("metrics.jsonl", "".join(self.line(**more) for _ in range(count)))
