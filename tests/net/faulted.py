"""Training over two rails while faults are thrown at it, for test_rails.py (a handful) and test_faults.py (a hundred and
more): every loss and the final weights must be those of the undisturbed run, and nothing may stay behind."""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lab import Lab, permitted, skip
from waiting import until

RANKS = (2, 2)  # on each host
ITERATIONS = 150
QUIET_S = 15    # no fault lasts so long, so without an iteration for so long something hangs
OUTAGE_S = 30   # configured; every outage thrown here is shorter


def run_file(source, iterations=ITERATIONS, pace=True, rails=2, **keys):
    run = {"model": {"kind": "gpt2", "layers": 4, "width": 64, "heads": 4, "context": 64},
           "data": {"files": [os.path.join(source, "docs", "*.md"), os.path.join(source, "src", "plan", "*", "*.c")], "seed": 3},
           "parallel": {"pipeline": sum(RANKS)}, "batch": {"microbatches": 6, "size": 2}, "iterations": iterations,
           "optimizer": {"kind": "adamw", "lr": 1e-3}, "schedule": "adaptra", "adapt": False}
    if pace:
        run |= {"device": {"kind": "cpu", "pace_ms": {"F": 4, "I": 4, "W": 4}}, "transport": "delegated",
                "network": {"rails": [f"rail{rail}" for rail in range(rails)], "outage_s": OUTAGE_S}}
    return run | keys


def write(path, run):
    with open(path, "w") as file:
        json.dump(run, file)
    return path


class Outcome:
    """The losses as text (nine digits tell every f32 apart) and the weights of a run that ended well."""

    def __init__(self, folder):
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            rows = [json.loads(line, parse_float=str) for line in file]
        self.losses = [row["loss"] for row in rows]
        self.times = [float(row["time_ms"]) for row in rows]
        with open(os.path.join(folder, "summary.json")) as file:
            self.weights = json.load(file)["weights_hash"]

    def __eq__(self, other):
        return self.losses == other.losses and self.weights == other.weights

    def difference(self, other):
        for i, (mine, theirs) in enumerate(zip(self.losses, other.losses)):
            if mine != theirs:
                return f"iteration {i}: loss {mine}, undisturbed {theirs}"
        return (f"{len(self.losses)} iterations and weights {self.weights}, undisturbed {len(other.losses)} and "
                f"{other.weights}")


# ---- faults: each takes the laboratory and a random generator, does its worst, and puts it right again ----------------


def delegates(lab):
    found = []
    for process in lab.processes():
        try:
            with open(f"/proc/{process}/comm") as file:
                if file.read().startswith("slackline-deleg"):
                    found.append(process)
        except OSError:
            pass
    return found


def kill_delegate(lab, draw):
    found = delegates(lab)
    if not found:
        return None
    try:
        os.kill(draw.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return None
    return "SIGKILL"


def rail_down(lab, draw):
    rail, host, seconds = draw.randrange(lab.rails), draw.randrange(2), draw.uniform(0.05, 1.5)
    lab.down(rail, host)
    time.sleep(seconds)
    lab.up(rail, host)
    return f"rail {rail} down on host {host} for {seconds:.2f} s"


def flap(lab, draw):
    rail, host, times = draw.randrange(lab.rails), draw.randrange(2), draw.randint(3, 8)
    lab.flap(rail, times, draw.uniform(0.01, 0.15), draw.uniform(0.01, 0.25), host)
    return f"rail {rail} flaps {times} times on host {host}"


def one_way(lab, draw):
    rail, host, seconds = draw.randrange(lab.rails), draw.randrange(2), draw.uniform(0.1, 1.5)
    how = draw.choice((lab.blackhole, lab.unreachable))
    how(rail, host)
    time.sleep(seconds)
    lab.heal(rail, host)
    return f"{how.__name__} from host {host} on rail {rail} for {seconds:.2f} s"


def both_down(lab, draw):
    seconds, host = draw.uniform(0.2, 5), draw.randrange(2)
    lab.outage(seconds, host)
    return f"all rails down on host {host} for {seconds:.2f} s"


def both_deaf(lab, draw):
    """No rail down, but nothing arrives in one direction."""
    seconds, host = draw.uniform(0.2, 3), draw.randrange(2)
    for rail in range(lab.rails):
        lab.blackhole(rail, host)
    time.sleep(seconds)
    for rail in range(lab.rails):
        lab.heal(rail, host)
    return f"blackhole from host {host} on all rails for {seconds:.2f} s"


def kill_while_down(lab, draw):
    rail = draw.randrange(lab.rails)
    lab.down(rail)
    time.sleep(draw.uniform(0, 0.3))
    killed = kill_delegate(lab, draw)
    time.sleep(draw.uniform(0, 0.5))
    lab.up(rail)
    return killed and f"SIGKILL with rail {rail} down"


KINDS = {"delegate killed": (kill_delegate, 4), "rail down": (rail_down, 4), "flapping rail": (flap, 3),
         "one direction only": (one_way, 4), "all rails down": (both_down, 2), "all rails deaf": (both_deaf, 1),
         "delegate killed, rail down": (kill_while_down, 2)}


def ticks(process):
    """Hundredths of a second that a process has run."""
    try:
        with open(f"/proc/{process}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) * 100 // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0


def memory_of(lab):
    """Names below /dev/shm that processes of the laboratory use; others' runs on this machine are not ours."""
    found = set()
    for process in lab.processes():
        for name, pattern in (("maps", r"/dev/shm/[^/\s]+"), ("environ", r"/dev/shm/[^/\0]+")):
            try:
                with open(f"/proc/{process}/{name}") as file:
                    found |= set(re.findall(pattern, file.read()))
            except OSError:
                pass
    return found


class Watch(threading.Thread):
    """Notes when each iteration ends, from the lines of metrics.jsonl as they come."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.ends, self.over = path, [], False

    def run(self):
        while not self.over and not os.path.exists(self.path):
            time.sleep(0.01)
        count = 0
        while not self.over:
            with open(self.path) as file:
                now = sum(1 for _ in file)
            self.ends += [time.monotonic()] * (now - count)
            count = now
            time.sleep(0.01)

    def longest(self, begin, end, others):
        """The longest time between two ends of iterations that touches [begin, end] and no other fault."""
        ends = list(self.ends)
        touches = lambda a, b, fault: b >= fault[0] and a <= fault[1]
        return max((b - a for a, b in zip(ends, ends[1:]) if touches(a, b, (begin, end))
                    and not any(touches(a, b, other) for other in others)), default=None)


class Faulted:
    def __init__(self, build, source, seed):
        self.build, self.source, self.draw, self.thrown = build, source, random.Random(seed), []
        self.command = os.path.join(build, "slackline")
        self.folder = tempfile.mkdtemp(prefix="slackline-faults-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def undisturbed(self):
        """One host, no delegates, no pace: the bits are the same whatever carries the messages."""
        done = subprocess.run([self.command, "train", write(self.path("calm.yaml"), run_file(self.source, pace=False)), "--out",
                               self.path("calm")], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        self.reference = Outcome(self.path("calm"))
        assert len(set(self.reference.losses)) > ITERATIONS // 2, "the loss does not move: nothing is trained"

    def begin(self, lab, name, **keys):
        """A run over both hosts, once it trains; (process, Watch)."""
        shutil.rmtree(self.path(name), ignore_errors=True)
        words = [self.command, "train", write(self.path(name + ".yaml"), run_file(self.source, **keys)), "--out", self.path(name)]
        self.log = open(self.path(name + ".log"), "w+")
        process = subprocess.Popen(lab.mpirun(self.folder, RANKS, words), stdout=self.log, stderr=subprocess.STDOUT)
        watch = Watch(os.path.join(self.path(name), "metrics.jsonl"))
        watch.start()
        until(lambda: watch.ends or process.poll() is not None, 60, 0.01)
        assert watch.ends, f"the run does not train: {self.said()}"
        return process, watch

    def wait_for_checkpoint(self, name, process):
        saved = lambda: glob.glob(os.path.join(self.path(name), "checkpoints", "step-*[0-9]"))
        until(lambda: saved() or process.poll() is not None, 30, 0.01)
        assert saved() or process.poll() is None, self.said()

    def resumed(self, name):
        """What a run that was lost has left is whole: it goes on from there on one host and ends with the undisturbed bits."""
        calm = self.path(name + "-on.yaml")
        keys = {"checkpoint": {"every": 2, "keep": 2}}
        done = subprocess.run([self.command, "train", write(calm, run_file(self.source, pace=False, **keys)), "--resume", "--out",
                               self.path(name)], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stdout.splitlines() if "resumes from step-" in line]
        assert said, f"it did not go on from a checkpoint: {done.stdout}"
        outcome = Outcome(self.path(name))
        assert outcome == self.reference, outcome.difference(self.reference)
        return said[0]

    def said(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def throw(self, lab, kind, process, watch):
        begin = time.monotonic()
        what = KINDS[kind][0](lab, self.draw)
        if what is None:
            return
        end = time.monotonic()
        time.sleep(self.draw.uniform(0.1, 0.6))
        if process.poll() is None:
            self.thrown.append((kind, what, begin, end, watch))
            print(f"  {len(self.thrown):3d}  {kind}: {what}", flush=True)

    def finish(self, lab, process, watch):
        """Waits for the end; so long without an iteration and without a fault is a hang, and we say what stands."""
        while process.poll() is None:
            quiet = time.monotonic() - watch.ends[-1]
            if quiet > 2 * QUIET_S:
                print(self.standing(lab, watch), flush=True)
                raise AssertionError(f"no iteration for {quiet:.0f} s after {self.thrown[-1][:2]}: {self.said()}")
            time.sleep(0.05)

    def standing(self, lab, watch):
        """What a run that hangs looks like from outside."""
        text = [f"iteration {len(watch.ends)}; faults so far {len(self.thrown)}"]
        for host in (0, 1):
            for words in (["ip", "-brief", "link"], ["ip", "neighbour"], ["ip", "route"], ["ss", "-tnpoi"]):
                done = lab.run(host, words, capture_output=True, text=True)
                text.append(f"host {host}: {' '.join(words)}\n{done.stdout}{done.stderr}")
        before = {process: ticks(process) for process in lab.processes()}
        time.sleep(1)
        for process, then in before.items():
            facts = []
            for name in ("cmdline", "wchan", "syscall"):
                try:
                    with open(f"/proc/{process}/{name}") as file:
                        facts.append(file.read().replace("\0", " ").strip()[-120:])
                except OSError:
                    facts.append("?")
            text.append(f"{process}: {ticks(process) - then} % of a core | {' | '.join(facts)}")
        try:
            with open(os.path.join(self.path("storm"), "events.jsonl")) as file:
                text += file.read().splitlines()[-40:]
        except OSError:
            pass
        return "\n".join(text)

    def round(self, lab, most, kinds=None, transport="delegated"):
        """One training run with faults until it ends or `most` have been thrown: first those of `kinds`, then any."""
        process, watch = self.begin(lab, "storm", transport=transport)
        memory = memory_of(lab)
        try:
            assert memory, "nothing of the run is found below /dev/shm"
            assert bool(delegates(lab)) == (transport == "delegated"), f"{transport}, but delegates {delegates(lab)}"
            names, weights = zip(*((name, weight) for name, (_, weight) in KINDS.items()))
            queue = list(kinds or [])
            while process.poll() is None and len(self.thrown) < most:
                kind = queue.pop(0) if queue else self.draw.choices(names, weights)[0]
                self.throw(lab, kind, process, watch)
                if time.monotonic() - watch.ends[-1] > QUIET_S:  # no fault lasts so long: it must not be hidden by others
                    lab.restore()
                    time.sleep(5)
                    if time.monotonic() - watch.ends[-1] > QUIET_S:
                        print(self.standing(lab, watch), flush=True)
                        assert process.poll() is not None, f"no iteration for {QUIET_S + 5} s, all rails up: {self.said()}"
            self.finish(lab, process, watch)
        finally:
            watch.over = True
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode == 0, f"exit {process.returncode} after {self.thrown[-1:]}: {self.said()}"
        outcome = Outcome(self.path("storm"))
        assert outcome == self.reference, outcome.difference(self.reference)
        lab.restore()
        left = lambda: [path for path in memory if os.path.exists(path)]
        until(lambda: not lab.processes() and not left(), 10, 0.05)
        assert not lab.processes(), f"processes stay: {lab.processes()}"
        assert not left(), f"memory stays: {left()}"
        return outcome


def needs(build):
    """Skips where the system or the build cannot do it."""
    for name in ("slackline-worker", "slackline-delegate"):
        if not os.path.exists(os.path.join(build, name)):
            skip(f"{name} is not built")
    why = permitted()
    if why:
        skip(why)


def seed_of():
    seed = int(os.environ.get("SL_SEED", time.time_ns() % 10**9))
    print(f"seed {seed} (SL_SEED)", flush=True)
    return seed


def summary(thrown, reference, outcomes):
    """The section of docs/results/evidence/data-plane.md: figures by kind of fault."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
    from page import table
    import statistics
    calm = statistics.median(time for outcome in outcomes for time in outcome.times)
    rows = []
    for kind in KINDS:
        # what one iteration took longer than usual; iterations that met two faults belong to neither
        found = []
        for one in thrown:
            name, _, begin, end, watch = one
            others = [(other[2], other[3]) for other in thrown if other is not one and other[4] is watch]
            longest = watch.longest(begin, end, others)
            if name == kind and longest is not None:
                found.append((1e3 * longest - calm, end - begin))
        if not found:
            continue
        stalls = sorted(max(0, stall) for stall, _ in found)
        lasted = sorted(lasting for _, lasting in found)
        rows.append((kind, sum(one[0] == kind for one in thrown), f"{statistics.median(lasted):.2f}", f"{lasted[-1]:.2f}", f"{statistics.median(stalls):.0f}",
                     f"{stalls[-1]:.0f}"))
    return (f"{len(thrown)} faults in {len(outcomes)} runs of {ITERATIONS} iterations, 4 ranks on two hosts, two rails, an iteration "
            f"of {calm:.0f} ms at the median. After each run every loss and the final weights were those of the undisturbed one "
            f"(weights {reference.weights}), and no process and no memory of it was left.\n\n"
            + table(("fault", "number", "lasted s, median", "longest", "longest iteration above the median, ms: median of faults",
                     "worst"), rows))
