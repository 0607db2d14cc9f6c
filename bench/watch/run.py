#!/usr/bin/env python3
"""How often `slackline watch` is right: unchanged programs, each with a random fault from a seed, or with none.

Usage: bench/watch/run.py [BUILD_DIR] [--runs N] [--seed S] [--first N] [--program P] [--fault F] [--keep DIR] [--rows FILE] [--write docs/results/watch.md]
Run N of a seed is always the same program, fault and place: --first N --runs 1 repeats it, --program and --fault restrict all runs.
--rows keeps each result in a file, with the build that it was measured on; a bench that was broken off goes on from it.

A fault comes once the healthy profile is kept; 25 s later the run ends. Every suspect and every verdict counts. A run is right when
the faulty ranks or links are named and nothing else is, or when nothing is wrong and nothing is named; abstained when nothing is named
that could be acted on, or only one of two; wrong when something healthy is named; without a fault that is a false alarm. Also wrong is
a cause that is not the fault's. A run that would be abstained is "not felt" if the system shows that the fault took nothing from the
program: a quota that stops its process for less than a fifth of the time, load for which the rank waits no longer than before, a link that carries little."""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.dirname(here)]
from page import finish, machine, source, table  # noqa: E402
from programs import MEGABIT, PROGRAMS, Load, Quota, Star, Tools, Watched, below, bound, mpirun, permitted, ranks_of  # noqa: E402

FAULTS = ["inside", "quota", "load", "link", "host", "two at once", "none"]
PATIENCE = {"reference": 60, "verdict": 25, "quiet": 12}  # s
SERVED = ("master", "waitany", "farm", "parameter server")  # rank 0 serves: its work hides behind that of others
SLOW_MEGABIT = 20  # 128 KiB take 52 ms: longer than any work that they could hide behind


def drawn(seed, number, arguments):
    """Run `number` of a seed: program, fault, ranks or link, size."""
    dice = random.Random(f"{seed} {number}")
    programs = [one for one in PROGRAMS if not arguments.program or one.name in arguments.program]
    program = programs[number % len(programs)]
    fault = dice.choice([*program.faults, *program.faults, "none"])
    if arguments.fault:
        usable = [one for one in arguments.fault if one in (*program.faults, "none")]
        fault = dice.choice(usable) if usable else None
    first, second = dice.sample(range(1 if program.name in SERVED else 0, 4), 2)
    if fault == "load":
        first = 3  # it has a core of its own
    if fault == "link" and any(name in program.name for name in ("pipeline", "blocking", "stream")):
        first = dice.randrange(3)
        second = first + 1
        if program.name != "stream":  # which sends one way
            first, second = dice.sample([first, second], 2)
    elif fault == "link":
        second = (first + dice.choice((1, 3))) % 4
    factor = [round(dice.uniform(1.4, 2.5), 2) for _ in range(2)]
    return {"number": number, "program": program, "fault": fault, "ranks": [first, second], "factor": factor, "ms": dice.choice((12, 20, 30))}


class Fault:
    """Puts a fault into a running program, until close(). felt(): whether the system has seen it."""

    def __init__(self, case, folder, run, star):
        self.undo, self.star, self.began = [], star, time.monotonic()
        self.kind, self.ranks, factor = case["fault"], case["ranks"], case["factor"]
        first, second = self.ranks
        if self.kind in ("inside", "two at once", "host"):
            slow = [(first, factor[0])]
            slow += [(second, factor[1])] if self.kind == "two at once" else []
            if self.kind == "host":  # two ranks a host
                slow = [(rank, factor[0]) for rank in (2 * (first // 2), 2 * (first // 2) + 1)]
            with open(os.path.join(folder, "slow.new"), "w") as file:
                file.writelines(f"{rank} {value}\n" for rank, value in slow)
            os.rename(os.path.join(folder, "slow.new"), os.path.join(folder, "slow"))
        elif self.kind in ("quota", "load"):
            self.pid = ranks_of(run.process.pid)[first]
            ran, self.waited_before = share_of_processor(self.pid, 1)
            self.began = time.monotonic()
            self._enter(Quota(self.pid, max(0.05, ran / 4)) if self.kind == "quota" else Load(core=1, processes=7))
            self.waited = scheduled(self.pid)[1]
        elif self.kind == "link":
            star.slow(first, second, SLOW_MEGABIT)

    def _enter(self, trouble):
        trouble.__enter__()
        self.undo.append(trouble)

    def felt(self):
        """Read before close(); None: what makes the program slow is in the program."""
        elapsed = time.monotonic() - self.began
        if self.kind == "quota":
            return self.undo[0].throttled() > 0.2 * elapsed
        if self.kind == "load":
            try:
                return (scheduled(self.pid)[1] - self.waited) / elapsed > self.waited_before + 0.2
            except OSError:  # it has ended
                return None
        if self.kind == "link":
            return self.star.slow_bytes(*self.ranks) * 8 > 0.1 * elapsed * SLOW_MEGABIT * 1e6
        return None

    def close(self):
        for trouble in self.undo:
            trouble.__exit__()


def scheduled(pid):
    """Seconds that a process has run, and has waited for a processor."""
    with open(f"/proc/{pid}/schedstat") as file:
        ran, waited, _ = file.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def used(pid):
    """Seconds of processor time of a process and of its children that have ended, such as those of a validation."""
    with open(f"/proc/{pid}/stat") as file:
        user, system, *children = map(int, file.read().rpartition(")")[2].split()[11:15])
    return (user + system + sum(children)) / os.sysconf("SC_CLK_TCK")


def share_of_processor(pid, seconds):
    before = scheduled(pid)
    time.sleep(seconds)
    return [(after - one) / seconds for one, after in zip(before, scheduled(pid))]


def started(case, folder, tools, star):
    """The watched program, running."""
    program, fault = case["program"], case["fault"]
    words, environment = tools.words(program, folder, fault, case["ms"]), tools.environment(program)
    os.environ.update(environment)
    try:
        if star:
            ranks = 2 if fault == "host" else 1
            return Watched(arguments.build, folder, words, ["--http", "off"], inside=lambda watch: star.mpirun(folder, ranks, watch))
        if program.kind == "torch":
            os.environ.update(PYTHONPATH=os.path.join(source, "python"), SLACKLINE_COMMAND=os.path.join(arguments.build, "slackline"),
                              SLACKLINE_LIBRARY=os.path.join(arguments.build, "libslackline.so"))
            return Watched(arguments.build, folder, words, ["--http", "off"],
                           inside=lambda watch: [tools.torch(), "-m", "slackline", *watch[1:]])
        if fault in ("quota", "load"):  # three ranks share a core, so that the fourth has one for itself
            return Watched(arguments.build, folder, bound(words, 4, [0, 0, 0, 1] if fault == "load" else [0, 1, 0, 1]), ["--http", "off"])
        return Watched(arguments.build, folder, mpirun(4, words), ["--http", "off"])
    finally:
        for name in ("PYTHONPATH", "SLACKLINE_COMMAND", "SLACKLINE_LIBRARY", "MPI4PY_MPIABI", "OMP_NUM_THREADS"):
            os.environ.pop(name, None)


class Foreign:
    """Load that is neither this program's nor below it, since the last look: what it takes from a rank is found rightly, whatever the fault."""

    def __init__(self, run):
        self.run, self.last = run, None
        self.look()

    def look(self):
        """The ranks that have waited for a processor for a tenth of the time or more while others kept 0.3 processors busy or more."""
        waited, own = {}, 0.0
        for pid in [os.getpid(), *below(os.getpid())]:
            try:
                own += used(pid)
            except OSError:
                pass
        for rank, pid in ranks_of(self.run.process.pid).items():
            try:
                waited[rank] = pid, scheduled(pid)[1]
            except OSError:
                pass
        with open("/proc/stat") as file:
            user, nice, system, _, _, interrupt, soft, *_ = map(int, file.readline().split()[1:])
        now = time.monotonic(), (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK"), own, waited
        before, self.last = self.last or now, now
        elapsed = max(now[0] - before[0], 1e-9)
        foreign = (now[1] - before[1]) - (own - before[2])
        return {rank for rank, (pid, seconds) in waited.items()
                if foreign > 0.3 * elapsed and before[3].get(rank, (0, 0))[0] == pid and seconds - before[3][rank][1] > 0.1 * elapsed}


def components(event):
    """What an event of suspects or verdicts names, as sets: ("rank", 2), ("link", 1, 2)."""
    import re
    found = set()
    for what, number in re.findall(r"(device|host) of rank (\d+) x ", event["seen"] + " x "):
        found.add((what, int(number)))
    for begin, arrow, end in re.findall(r"link (\d+) (<->|->) (\d+) x ", event["seen"]):
        found.add(("link", int(begin), int(end)))
        if arrow == "<->":
            found.add(("link", int(end), int(begin)))
    return found


def faulty(case):
    """What may be named, and of that what must be: alternatives."""
    kind, (first, second) = case["fault"], case["ranks"]
    if kind == "none":
        return set(), []
    if kind == "link":
        return {("link", first, second)}, [{("link", first, second)}]
    if kind == "host":
        both = {2 * (first // 2), 2 * (first // 2) + 1}
        return {(what, rank) for what in ("device", "host") for rank in both}, [{("host", rank)} for rank in both] + [{("device", rank) for rank in both}]
    named = [first, second] if kind == "two at once" else [first]
    return {("device", rank) for rank in named}, [{("device", rank) for rank in named}]


def judge(case, before, after, began, loaded=((), ())):
    """The words of the result, and seconds to the verdict. `loaded`: ranks from which foreign load took time, before and after the fault
    began. What is named of them, or of links of theirs (hosts are of one machine, whose processors carry all messages), is not counted."""
    allowed, alternatives = faulty(case)
    early = {one for event in before if event["kind"] in ("verdict", "profiled") for one in components(event)}
    if any(not set(one[1:]) & set(loaded[0]) for one in early):
        return "false alarm", None
    named, verdict, seconds = set(), set(), None
    for event in after:
        if event["kind"] == "verdict" or (event["kind"] == "profiled" and "reference" not in event.get("decided", "")):
            named |= components(event)
        if event["kind"] == "verdict":
            verdict |= components(event)
            if seconds is None and any(one <= verdict for one in alternatives):
                seconds = event["time_s"] - began
    if any(not set(one[1:]) & set(loaded[1]) for one in named - allowed):
        return ("false alarm" if case["fault"] == "none" else "wrong"), seconds
    if case["fault"] == "none":
        return "right", None
    if case["fault"] != "load" and any("contention" in event["seen"] and any(one[1] not in loaded[1] for one in components(event))
                                       for event in after if event["kind"] == "verdict"):
        return "wrong", seconds
    return ("right" if any(one <= verdict for one in alternatives) else "abstained"), seconds


def one_run(case, tools, keep):
    folder = tempfile.mkdtemp(prefix="slackline-bench-", dir=keep)
    star = None
    try:
        if case["fault"] in ("link", "host"):
            star = Star(hosts=2 if case["fault"] == "host" else 4, mbit=MEGABIT)
            star.__enter__()
        with started(case, folder, tools, star) as run:
            return watched(case, folder, run, star)
    finally:
        if star:
            star.close()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def has_reference(run):
    """Waits until there is a healthy profile and nothing has changed for 3 s, or for 6 s if the healthy level has changed since."""
    until = time.monotonic() + PATIENCE["reference"]
    while time.monotonic() < until and run.process.poll() is None:
        changes = [event for event in run.events() if event["kind"] in ("profiled", "tracked", "relief", "onset")]
        if any(event["kind"] == "profiled" for event in changes):
            time.sleep(3 if changes[-1]["kind"] == "profiled" else 6)
            if run.events()[-1]["time_s"] == changes[-1]["time_s"]:
                return True
        time.sleep(0.1)
    return False


def watched(case, folder, run, star):
    until = time.monotonic() + 10
    while len(ranks_of(run.process.pid)) < 4 and time.monotonic() < until and run.process.poll() is None:
        time.sleep(0.1)  # what has waited before is not known of ranks that have not begun
    foreign = Foreign(run)
    if not has_reference(run):
        return {"result": "abstained", "why": "no healthy profile: " + ("; ".join(e["seen"] for e in run.events())[-200:] or run.words()[-200:])}
    before, loaded_before = run.events(), foreign.look()
    began, until = time.monotonic(), time.monotonic() + PATIENCE["quiet" if case["fault"] == "none" else "verdict"]
    began_s = before[-1]["time_s"] + 3
    fault = Fault(case, folder, run, star)
    try:
        while time.monotonic() < until and run.process.poll() is None:
            time.sleep(0.25)
            after = run.events()[len(before):]
            verdicts = [event for event in after if event["kind"] == "verdict"]
            if verdicts and time.monotonic() - began > 3 and judge(case, before, after, began_s)[0] != "abstained":
                time.sleep(1)  # the others of the same verdict
                break
        felt, loaded = fault.felt(), (loaded_before, foreign.look())
    finally:
        fault.close()
    after = run.events()[len(before):]
    result, seconds = judge(case, before, after, began_s, loaded)
    if felt is False and result == "abstained":
        result = "not felt"
    return {"result": result, "seconds": seconds, "loaded": [sorted(ranks) for ranks in loaded], "why": [f"{event['kind']}: {event['seen']}" for event in (before if result == "false alarm" else before[-1:]) + after if event["kind"] in
                                                         ("onset", "profiled", "verdict", "tracked")]}


RESULTS = ["right", "abstained", "wrong", "false alarm", "not felt"]


def rows(done, key):
    made = []
    for name in sorted({key(case) for case, _ in done}, key=str.lower) + [None]:
        of = [result for case, result in done if name in (None, key(case))]
        seconds = sorted(result["seconds"] for result in of if result.get("seconds"))
        made.append([name or "**all**", str(len(of)), *(str(sum(result["result"] == word for result in of)) for word in RESULTS),
                     f"{statistics.median(seconds):.1f}, {seconds[-1]:.1f}" if seconds else "-"])
    return made


def build_id():
    said = subprocess.run([os.path.join(arguments.build, "slackline"), "--version"], capture_output=True, text=True, check=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("id "))


def kept_rows():
    """The results in --rows by number: those of this build and seed."""
    if not arguments.rows or not os.path.exists(arguments.rows):
        return {}
    with open(arguments.rows) as file:
        rows = [json.loads(line) for line in file]
    return {row["number"]: row for row in rows if row["build"] == build_id() and row["seed"] == arguments.seed}


def main():
    tools = Tools(scratch)
    done, left_out, kept = [], set(), kept_rows()
    for number in range(arguments.first, arguments.first + arguments.runs):
        case = drawn(arguments.seed, number, arguments)
        if not case["fault"]:
            continue
        if tools.environment(case["program"]) is None or (case["fault"] in ("link", "host") and permitted()):
            left_out.add(f"{case['program'].name} with {case['fault']}")
            continue
        result = kept.get(number)
        if result is None:
            result = one_run(case, tools, arguments.keep)
            if arguments.rows:
                with open(arguments.rows, "a") as file:
                    print(json.dumps({"build": build_id(), "seed": arguments.seed, "number": number, **result}), file=file)
        done.append((case, result))
        print(f"{number}: {case['program'].name}, {case['fault']}, {case['ranks']} x {case['factor']}, {case['ms']} ms: {result['result']}"
              + (f" after {result['seconds']:.1f} s" if result.get("seconds") else "")
              + (f", foreign load on ranks {sorted(set().union(*result['loaded']))}" if any(result.get("loaded", ())) else ""), file=sys.stderr, flush=True)
        if result["result"] != "right":
            print("    " + json.dumps(result["why"], ensure_ascii=False), file=sys.stderr, flush=True)
    for what in sorted(left_out):
        print(f"left out, cannot run here: {what}", file=sys.stderr)
    heads = ["runs", *RESULTS, "s to the verdict: median, longest"]
    finish(arguments.write, "The culprit", f"""`bench/watch/run.py --runs {arguments.runs} --seed {arguments.seed}`, {machine()}{'' if arguments.rows else f', load {os.getloadavg()[0]:.1f} at its end'}. Programs of 4 ranks are unchanged.
A fault comes once the healthy profile is kept: a rank works 1.4 to 2.5 times as long (inside), a processor quota, seven processes on its core (load), one direction of
one link at {SLOW_MEGABIT} instead of {MEGABIT} Mbit/s, both ranks of one of two hosts (host), two ranks at once, none. Every suspect and every verdict
counts: a run is wrong if anything healthy is named. Goals: wrong 0, false alarms 0, right 95%.
`--first N --runs 1` repeats run N; `--program P --fault F` repeat a row.

{table(["program", *heads], rows(done, lambda case: case["program"].name))}

{table(["fault", *heads], rows(done, lambda case: case["fault"]))}""")
    return 1 if any(result["result"] in ("wrong", "false alarm") for _, result in done) else 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--runs", type=int, default=len(PROGRAMS))
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--program", action="append", choices=[one.name for one in PROGRAMS], metavar="P")
parser.add_argument("--fault", action="append", choices=FAULTS, metavar="F")
parser.add_argument("--keep", metavar="DIR", help="keeps the folders of the runs there")
parser.add_argument("--rows", metavar="FILE", help="keeps the results there, and goes on from those of the same build and seed")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
arguments.build = os.path.abspath(arguments.build)
with tempfile.TemporaryDirectory(prefix="slackline-bench-") as scratch:
    sys.exit(main())
