#!/usr/bin/env python3
"""Training in which nothing is paced and nothing emulated: real ops on all cores, over two network namespaces whose links the kernel shapes.

Usage: bench/real/run.py [BUILD_DIR] [--case NAME]... [--iterations N] [--layers N] [--write docs/results/evidence/real.md]
A case runs for N iterations (60). From the first third on something is slow, until the end of the second third. Healthy, slow (the first iterations
of the second third, until the schedule changes), adapted and relieved: medians of the measured time and of measured over predicted. The prediction is
made before an iteration, from what was measured in earlier ones. Goal: within 5%. The model has as many layers as let a healthy iteration of two ranks
take about 0.6 s, found by a short run: ops then last longer than the period of a processor quota.

Links get a rate by tbf. For latency the kernel here has no netem: frames are held back by a process of the bench (far.py), outside of our code.
Needs root, for namespaces, TAP interfaces and processor quotas; says so and ends with 77 where it has no right to them."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(source, "bench"), os.path.join(source, "tests", "net")]
import page  # noqa: E402
from far import NAME as FAR, FarLink  # noqa: E402
from lab import Forbidden, Lab, permitted  # noqa: E402

QUOTA_US = 10000  # the period in which a share of a processor is given: shorter than an op, so that ops are slow, not interrupted

USUAL_MS = 600  # of a healthy iteration

REAL_TIME_US = 800000  # of a second, for the threads that pass messages, of all ranks


# ---- what becomes slow: each has begin(job) and end(job) ---------------------------------------------------------------------


class Latency:
    def __init__(self, seconds):
        self.seconds = seconds

    def begin(self, job):
        job.link.delay(self.seconds)

    def end(self, job):
        job.link.delay(0)


class Rate:
    """The rail between the hosts, both ways."""

    def __init__(self, mbit):
        self.mbit = mbit

    def begin(self, job):
        job.lab.shape(0, self.mbit)

    def end(self, job):
        job.lab.shape(0, 10000)


class Cut:
    """The first of two rails is down."""

    def begin(self, job):
        job.lab.down(0)

    def end(self, job):
        job.lab.up(0)


class Quota:
    """A rank gets a share of a processor."""

    def __init__(self, rank, share):
        self.rank, self.share = rank, share

    def begin(self, job):
        job.groups.give(self.rank, self.share)

    def end(self, job):
        job.groups.give(self.rank, job.case.share or 1)


class Neighbor:
    """A program that computes without end on the core of a rank."""

    def __init__(self, rank):
        self.rank = rank

    def begin(self, job):
        core = sorted(os.sched_getaffinity(0))[self.rank]
        self.process = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"])

    def end(self, job):
        self.process.kill()
        self.process.wait()


class Nothing:
    def begin(self, job):
        pass

    end = begin


class Groups:
    """A control group for each rank, which has its share of a processor."""
    ROOT = "/sys/fs/cgroup/cpu"

    def __init__(self, ranks):
        self.folders = [os.path.join(self.ROOT, f"slackline-real-{os.getpid()}-{rank}") for rank in range(len(ranks))]
        for folder, processes in zip(self.folders, ranks):
            os.makedirs(folder, exist_ok=True)
            self._write(folder, "cpu.cfs_period_us", QUOTA_US)
            if os.path.exists(os.path.join(folder, "cpu.rt_runtime_us")):  # or threads with a priority may not be in it
                self._write(folder, "cpu.rt_runtime_us", REAL_TIME_US // len(ranks))
            for process in processes:
                self._write(folder, "cgroup.procs", process)

    def _write(self, folder, name, value):
        with open(os.path.join(folder, name), "w") as file:
            file.write(str(value))

    def give(self, rank, share):
        """1 and more: all of a processor."""
        self._write(self.folders[rank], "cpu.cfs_quota_us", -1 if share >= 1 else int(share * QUOTA_US))

    def close(self):
        until = time.monotonic() + 10
        for folder in self.folders:
            while os.path.isdir(folder):
                try:
                    os.rmdir(folder)
                except OSError:  # its processes are about to end
                    if time.monotonic() > until:
                        break
                    time.sleep(0.05)


# ---- a run -------------------------------------------------------------------------------------------------------------------


class Case:
    """ranks: on each host. rails: interfaces; share: of a processor, for each rank, all the time; pinned: each rank has a core."""

    def __init__(self, name, ranks, trouble, rails=("rail0",), share=None, pinned=False, **keys):
        self.name, self.ranks, self.trouble, self.rails, self.share, self.pinned, self.keys = name, ranks, trouble, rails, share, pinned, keys

    def run_file(self, iterations, layers):
        ranks = sum(self.ranks)
        return {"model": {"kind": "gpt2", "layers": layers, "width": 128, "heads": 4, "context": 128},
                "data": {"files": [os.path.join(source, "docs", "*.md")], "seed": 1}, "parallel": {"pipeline": ranks},
                "batch": {"microbatches": 8, "size": 2}, "iterations": iterations, "schedule": "1f1b", "adapt": True,
                "device": {"kind": "cpu", "threads": 1}, "transport": "delegated", "network": {"rails": list(self.rails), "outage_s": 60}, **self.keys}


CASES = [
    Case("nothing", (1, 1), Nothing()),
    Case("60 ms of latency", (1, 1), Latency(0.06), rails=(FAR,)),
    Case("a link of 20 Mbit/s", (1, 1), Rate(20)),
    Case("one of two rails cut", (1, 1), Cut(), rails=("rail0", "rail1")),
    Case("half of a processor for rank 1", (1, 1), Quota(1, 0.5)),
    Case("a neighbor on the core of rank 1", (1, 1), Neighbor(1), pinned=True),
    Case("4 ranks with half a processor each, nothing", (2, 2), Nothing(), share=0.5),
    Case("4 ranks with half a processor each, 60 ms of latency", (2, 2), Latency(0.06), rails=(FAR,), share=0.5),
    Case("4 ranks on 2 processors, nothing", (2, 2), Nothing()),
    Case("4 ranks on 2 processors, 60 ms of latency", (2, 2), Latency(0.06), rails=(FAR,)),
]


def workers(lab, count):
    """By rank, the processes of each: [[worker]]."""
    found = {}
    for process in lab.processes():
        try:
            with open(f"/proc/{process}/comm") as comm, open(f"/proc/{process}/environ", "rb") as environ:
                if comm.read().startswith("slackline-worke"):
                    words = dict(word.split(b"=", 1) for word in environ.read().split(b"\0") if b"=" in word)
                    found.setdefault(int(words[b"OMPI_COMM_WORLD_RANK"]), []).append(process)
        except (OSError, KeyError):
            continue
    return [found[rank] for rank in range(count)] if len(found) == count else None


def pin(processes, core):
    """All threads of the processes. The trainer cannot do it here: each of its hosts believes that it has the first core."""
    for process in processes:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), [core])


class Job:
    """One run of a case in its laboratory."""

    def __init__(self, build, case, iterations, layers):
        self.build, self.case, self.iterations, self.layers = build, case, iterations, layers
        self.link = self.groups = None

    def rows(self):
        try:
            with open(os.path.join(self.out, "metrics.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def reach(self, iteration):
        """Waits until so many iterations are over."""
        while len(self.rows()) < iteration:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.case.name}: the run ended with {self.process.returncode}: {open(self.log).read()[-2000:]}")
            time.sleep(0.01)
        return len(self.rows())

    def measure(self):
        """(rows of metrics, number of the first slow and of the first relieved iteration, events)"""
        case, third = self.case, self.iterations // 3
        with Lab(rails=2, mbit=10000) as self.lab, tempfile.TemporaryDirectory(prefix="slackline-real-") as folder, FarLink(self.lab) as self.link:
            self.out, self.log, path = (os.path.join(folder, name) for name in ("out", "log", "run.yaml"))
            with open(path, "w") as file:
                json.dump(case.run_file(self.iterations, self.layers), file)
            words = [os.path.join(self.build, "slackline"), "train", path, "--out", self.out]
            with open(self.log, "w") as log:
                self.process = subprocess.Popen(self.lab.mpirun(folder, case.ranks, words), stdout=log, stderr=subprocess.STDOUT)
            try:
                self.reach(1)
                found = workers(self.lab, sum(case.ranks))
                self.groups = Groups(found)
                for core, processes in zip(sorted(os.sched_getaffinity(0)), found if case.pinned else ()):
                    pin(processes, core)
                for rank in range(sum(case.ranks)):
                    self.groups.give(rank, case.share or 1)
                self.reach(third)
                case.trouble.begin(self)
                slow = len(self.rows()) + 1  # in the one that is under way it began
                self.reach(2 * third)
                case.trouble.end(self)
                relieved = len(self.rows()) + 1
                self.process.wait()
                if self.process.returncode:
                    raise SystemExit(f"{case.name}: {open(self.log).read()[-2000:]}")
                with open(os.path.join(self.out, "events.jsonl")) as file:
                    events = [json.loads(line) for line in file]
                return self.rows(), slow, relieved, events
            finally:
                self.process.kill()
                self.process.wait()
                if self.groups:
                    self.groups.close()


def phases(rows, slow, relieved):
    """{phase: rows}; the first iterations, in which nothing is known, are left out."""
    changes = [at for at in range(slow, relieved) if rows[at]["schedule"] != rows[at - 1]["schedule"]]
    adapted = changes[-1] + 1 if changes else relieved
    back = [at for at in range(relieved, len(rows)) if rows[at]["schedule"] != rows[at - 1]["schedule"]]
    return {"healthy": rows[5:slow - 1], "slow": rows[slow:changes[0] if changes else relieved], "adapted": rows[adapted:relieved - 1],
            "relieved": rows[(back[-1] if back else relieved) + 1:]}


def table(found):
    lines = ["| case | phase | iterations | measured ms | measured / predicted |", "|---|---|---|---|---|"]
    for name, parts in found.items():
        for phase, rows in parts.items():
            ratios = [row["time_ms"] / row["predicted_ms"] for row in rows if row["predicted_ms"]]
            if len(rows) >= 3:
                ratio = f"{statistics.median(ratios):.3f}" if len(ratios) >= 3 else "-"
                lines.append(f"| {name} | {phase} | {len(rows)} | {statistics.median(row['time_ms'] for row in rows):.0f} | {ratio} |")
    return "\n".join(lines)


def enough_layers(build):
    """A multiple of 4, so that 4 ranks have equal stages."""
    rows, _, _, _ = Job(build, CASES[0], 12, 4).measure()
    return 4 * max(1, round(USUAL_MS / statistics.median(row["time_ms"] for row in rows[4:])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--case", action="append", help="one of: " + "; ".join(case.name for case in CASES))
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--write")
    arguments = parser.parse_args()
    why = permitted() or (None if os.access(Groups.ROOT, os.W_OK) and os.path.exists("/dev/net/tun") else "no cgroup of processors, or no /dev/net/tun")
    if why:
        print("skipped:", why)
        return 77
    build, found = os.path.abspath(arguments.build), {}
    layers = arguments.layers or enough_layers(build)
    for case in CASES:
        if arguments.case and case.name not in arguments.case:
            continue
        rows, slow, relieved, events = Job(build, case, arguments.iterations, layers).measure()
        found[case.name] = phases(rows, slow, relieved)
        print(f"{case.name}: slow from {slow} to {relieved};", "; ".join(f"{one['iteration']} {one['kind']} {one.get('seen', '')[:70]} -> {one.get('decided', '')[:70]}" for one in events if one["kind"] != "profile"),
              file=sys.stderr)
    command = "bench/real/run.py" + "".join(f' --case "{name}"' for name in arguments.case or []) + (f" --layers {layers}" if arguments.layers else "") + (f" --write {arguments.write}" if arguments.write else "")
    page.finish(arguments.write, "Nothing paced, nothing emulated",
                f"`{command}`: {arguments.iterations} iterations each of a model of {layers} layers, {page.machine()}. Ops are real, rails are shaped by the kernel, latency is made by a\n"
                "process that holds back frames. The trouble lasts from the first third to the end of the second one.\n\n" + table(found))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Forbidden as error:
        print("skipped:", error)
        sys.exit(77)
