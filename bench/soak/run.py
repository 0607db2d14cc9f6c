#!/usr/bin/env python3
"""Hours of training with a random fault every few seconds, then hours of watching short programs: the result stays bit-identical, and
memory, descriptors, threads, shared memory, files, and the memory of Redis stay flat.

Usage: bench/soak/run.py [BUILD_DIR] [--train MINUTES] [--watch MINUTES] [--seed S] [--write docs/results/evidence/soak.md]
Training: 4 ranks, in parts of about 10 minutes, each compared with an undisturbed run of the same settings. Faults in the run file slow
down links and ranks; the bench kills ranks, delegates, mpirun, the reaper, and the supervisor, fills the disk of the run's folder for
some seconds, and stops processes for up to 2 s. Watching: programs of 2 to 4 ranks that run for seconds, one after the other, on one
Redis server, which is killed and started again now and then. Samples are taken every 5 s. A series is flat if its median over
the last third is at most 10% and a small constant above that of the middle third. Exit code 1 if anything differs or grows."""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(here)]
from page import finish, machine, source, table  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--train", type=float, default=120, metavar="MINUTES")
parser.add_argument("--watch", type=float, default=120, metavar="MINUTES")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
arguments.build = os.path.abspath(arguments.build)
sys.argv[1:] = [arguments.build, source]
sys.path[:0] = [os.path.join(source, "tests"), os.path.join(source, "tests", "train")]
from training import Result, Training, command_line, descendants, is_alive, kill, lines, parent_and_state, shared_files, train  # noqa: E402

PART = 1500  # iterations of one part
EVERY = 20   # iterations between two faults of the run file
RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 4}
batch: {microbatches: 8, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: %d
schedule: adaptra
transport: auto
adapt: true
adaptation: {hold: 2, dwell: 4, gain: 0.01, strategies: [schedule, delegate]}
device: {pace_ms: {F: 4, I: 4, W: 4}}
checkpoint: {every: 20, keep: 3}
restarts: 100000
"""


class Samples:
    """Series of what the processes below this one hold, by name."""

    def __init__(self, folder, redis=None):
        self.folder, self.redis, self.series, self.peak = folder, redis, {}, {}
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ends.wait(5):
            for name, value in self.look().items():
                self.series.setdefault(name, []).append(value)

    def look(self):
        roles, zombies = {}, 0
        for pid in descendants(os.getpid()):
            words = command_line(pid)
            zombies += parent_and_state(pid)[1] == "Z" and not words
            name = os.path.basename(words[0]) if words else ""
            if not name.startswith(("slackline", "redis-server")):
                continue
            name = {"slackline": "supervisor"}.get(name, name.split(" ")[0].removeprefix("slackline-"))
            try:
                with open(f"/proc/{pid}/statm") as file:
                    memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                of = roles.setdefault(name, [0, 0, 0])
                of[0] = max(of[0], memory)
                of[1] = max(of[1], len(os.listdir(f"/proc/{pid}/fd")))
                of[2] = max(of[2], len(os.listdir(f"/proc/{pid}/task")))
            except OSError:
                continue
        found = {"zombies": zombies}
        for role, (memory, files, threads) in roles.items():
            found.update({f"{role}: MiB": memory / 2**20, f"{role}: descriptors": files, f"{role}: threads": threads})
        found["/dev/shm: MiB"] = tree_bytes("/dev/shm") / 2**20
        found["checkpoints: MiB"] = sum(tree_bytes(path) for path in glob.glob(os.path.join(self.folder, "*", "checkpoints"))) / 2**20
        if self.redis:
            found["keys in Redis"] = self.redis.keys()
        return found

    def close(self):
        self.ends.set()
        self.thread.join()

    def rows(self):
        """name, samples, median of the middle and of the last third, most; and the names of those that grew."""
        made, grew = [], []
        for name, values in sorted(self.series.items()):
            third = len(values) // 3
            if third < 4:
                continue
            middle, last = statistics.median(values[third: 2 * third]), statistics.median(values[2 * third:])
            if last > 1.1 * middle + (1 if "MiB" in name else 2):
                grew.append(name)
            made.append([name, str(len(values)), f"{middle:.1f}", f"{last:.1f}", f"{max(values):.1f}", "grew" if name in grew else "flat"])
        return made, grew


def tree_bytes(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total


# ---- training ----

def faults(draw):
    made = []
    for start in range(EVERY, PART - EVERY, EVERY):
        kind = draw.choice(("link", "link", "rank", "none"))
        until = start + draw.randrange(5, EVERY)
        if kind == "link":
            a = draw.randrange(3)
            made.append(f"{{iterations: [{start}, {until}], link: [{a}, {a + 1}], latency_ms: {draw.randrange(5, 40)}}}")
        elif kind == "rank":
            made.append(f"{{iterations: [{start}, {until}], rank: {draw.randrange(4)}, slowdown: {draw.uniform(1.2, 2):.2f}}}")
    return f"faults=[{', '.join(made)}]"


class Disk:
    """A file system of a run's own that can be filled."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)
        self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "slackline-soak", path], capture_output=True).returncode == 0

    def fill(self):
        try:
            with open(os.path.join(self.path, "filler"), "wb") as file:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
        except OSError:
            pass

    def free(self):
        if os.path.exists(os.path.join(self.path, "filler")):
            os.unlink(os.path.join(self.path, "filler"))

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path])


def trouble(draw, run, disk, counts):
    """One fault from outside the run. Returns whether its first process was killed."""
    workers, delegates = run.workers(), run.delegates()
    found = {"rank": draw.choice(sorted(workers.values())) if workers else 0, "supervisor": run.process.pid,
             "delegate": draw.choice(sorted(delegates.values())) if delegates else 0}
    if workers:
        found["mpirun"] = parent_and_state(found["rank"])[0]
        found["reaper"] = parent_and_state(found["mpirun"])[0]
    kind = draw.choice(("rank", "delegate", "delegate", "delegate", "stop", "stop", "mpirun", "reaper", "supervisor", *(("disk",) if disk.mounted else ())))
    if kind == "disk":
        disk.fill()
        time.sleep(draw.uniform(1, 6))
        disk.free()
    elif kind == "stop":
        pid = draw.choice([pid for pid in (found["rank"], found["delegate"]) if pid] or [0])
        if not pid or not kill(pid, signal.SIGSTOP):
            return False
        time.sleep(draw.uniform(0.05, 2))
        kill(pid, signal.SIGCONT)
    elif found.get(kind, 0) < 2 or not is_alive(found[kind]) or not kill(found[kind]):
        return False
    counts[kind] = counts.get(kind, 0) + 1
    return kind == "supervisor"


def train_part(number, folder, draw, counts, reference):
    out, disk = os.path.join(folder, f"disk{number}"), None
    disk = Disk(out)
    settings, starts, ended = [faults(draw)], 0, ""
    try:
        while True:
            with Training(arguments.build, reference["file"], os.path.join(out, "run"), *settings, resume=starts > 0) as run:
                starts += 1
                while run.process.poll() is None:
                    time.sleep(draw.uniform(1, 8))
                    if run.process.poll() is None and trouble(draw, run, disk, counts):
                        run.process.wait()
                code, said = run.end(120)
            if code == 0:
                result = Result(os.path.join(out, "run"))
                losses, *ends = result.bits
                before = {line["iteration"]: line["loss"] for line in reference["metrics"]}
                other = [line["iteration"] for line in result.metrics if line["loss"] != before.get(line["iteration"])]
                unwritten = sorted(set(before) - {line["iteration"] for line in result.metrics})
                same = ends == reference["ends"] and not other
                if not same or unwritten:
                    print(f"part {number}: weights {'equal' if ends == reference['ends'] else 'differ'}; other losses: {other[:5]}; lines that were not written: "
                          f"{len(unwritten)}, {unwritten[:3]} to {unwritten[-3:]}", file=sys.stderr, flush=True)
                return {"iterations": len(before), "unwritten": len(unwritten), "starts": starts, "restarts": len(result.kinds("restart")),
                        "swaps": len(result.kinds("swap", "return", "delegate")), "same": same}
            ended = said.strip().splitlines()[-1] if said.strip() else ""
            print(f"part {number}: exit {code}: {ended}", file=sys.stderr, flush=True)
            if starts > 1000:
                return {"iterations": 0, "unwritten": 0, "starts": starts, "restarts": 0, "swaps": 0, "same": False}
    finally:
        disk.close()


def soak_train(folder):
    draw, counts, parts = random.Random(arguments.seed), {}, []
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN % (source, PART))
    began = time.time()
    undisturbed = train(arguments.build, file, os.path.join(folder, "undisturbed"), "adapt=false", "transport=direct", "device={kind: cpu}", "checkpoint.every=0")
    reference = {"file": file, "metrics": undisturbed.metrics, "ends": list(undisturbed.bits[1:])}
    assert len(set(undisturbed.bits[0])) > PART // 2, "nothing is trained"
    samples, until = Samples(folder), time.time() + 60 * arguments.train
    while time.time() < until:
        parts.append(train_part(len(parts), folder, draw, counts, reference))
        print(f"part {len(parts)}: {parts[-1]}", file=sys.stderr, flush=True)
        shutil.rmtree(os.path.join(folder, f"disk{len(parts) - 1}"), ignore_errors=True)
    samples.close()
    time.sleep(2)
    left = [path for path in shared_files(began) if "slackline-soak" not in path and not folder.startswith(path)]
    return parts, counts, samples, left


# ---- watching ----

PROGRAMS = r"""
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    int rank, size, kind = atoi(argv[1]), steps = atoi(argv[2]);
    double value[1024] = {1}, sum[1024];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < steps; i++) {
        nanosleep(&(struct timespec){0, (rank == 0 && i > steps / 2 && kind & 4 ? 24 : 8) * 1000000}, NULL);
        if (kind & 1)
            MPI_Allreduce(value, sum, 1024, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (kind & 2)
            MPI_Sendrecv(value, 1024, MPI_DOUBLE, (rank + 1) % size, 0, sum, 1024, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (kind & 8)
        abort();
    MPI_Finalize();
    return 0;
}
"""


class Server:
    """A Redis server that is killed and started again."""

    def __init__(self, folder):
        self.folder, self.path, self.process = folder, os.path.join(folder, "redis.sock"), None
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", self.folder], stdout=subprocess.DEVNULL)

    def again(self):
        self.process.kill()
        self.process.wait()
        self.begin()

    def keys(self):
        done = subprocess.run(["redis-cli", "-s", self.path, "DBSIZE"], capture_output=True, text=True)
        return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else 0


def soak_watch(folder):
    draw, counts, wrong = random.Random(arguments.seed + 1), {}, []
    with open(os.path.join(folder, "program.c"), "w") as file:
        file.write(PROGRAMS)
    program = os.path.join(folder, "program")
    subprocess.run(["mpicc", "-O1", "-w", "-o", program, program + ".c"], check=True)
    began, server = time.time(), Server(folder)
    samples, until = Samples(folder, server), time.time() + 60 * arguments.watch
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    while time.time() < until:
        kind, ranks, steps = draw.randrange(1, 4) + draw.choice((0, 0, 4, 8)), draw.randrange(2, 5), draw.randrange(50, 900)
        out = os.path.join(folder, "watched")
        words = [os.path.join(arguments.build, "slackline"), "watch", "--http", "off", "--redis", "unix:" + server.path, "--out", out, "--overwrite", "--"]
        watch = subprocess.Popen([*words, "mpirun", *root, "--oversubscribe", "-np", str(ranks), program, str(kind), str(steps)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        act = draw.choice(("none", "none", "none", "redis", "kill", "interrupt"))
        time.sleep(draw.uniform(0.2, 3))
        if act == "redis":
            server.again()
        elif act == "interrupt" and watch.poll() is None:
            watch.send_signal(signal.SIGINT)
        elif act == "kill":
            workers = [pid for pid in descendants(watch.pid) if command_line(pid)[:1] == [program]]
            if workers:
                kill(draw.choice(workers))
        try:
            said = watch.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            wrong.append(f"watch {sum(counts.values())}: still there after 120 s ({act}, kind {kind})")
            watch.kill()
            said = watch.communicate()[1]
        counts[act] = counts.get(act, 0) + 1
        if act in ("none", "redis") and (watch.returncode == 0) != (not kind & 8):
            wrong.append(f"watch {sum(counts.values())}: exit {watch.returncode} ({act}, kind {kind}): {said[-200:]}")
        if not os.path.exists(os.path.join(out, "report.txt")) and act in ("none", "redis"):
            wrong.append(f"watch {sum(counts.values())}: no report ({act}, kind {kind})")
    samples.close()
    server.process.kill()
    server.process.wait()
    time.sleep(2)
    left = [path for path in shared_files(began) if not folder.startswith(path) and "slackline-soak" not in path]
    return counts, wrong, samples, left


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    text, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="slackline-soak-") as folder:
        if arguments.train > 0:
            parts, counts, samples, left = soak_train(folder)
            made, grew = samples.rows()
            bad += len(grew) + len(left) + sum(not part["same"] for part in parts)
            text.append(f"""Training: {sum(part['iterations'] for part in parts)} iterations in {len(parts)} parts, {sum(part['same'] for part in parts)} of them with the losses and weights of the undisturbed run, bit by bit; {sum(part['unwritten'] for part in parts)} lines
of metrics.jsonl could not be written to the full disk;
{sum(part['starts'] - 1 for part in parts)} new starts of the command, {sum(part['restarts'] for part in parts)} restarts by itself, {sum(part['swaps'] for part in parts)} changes of schedule or transport. From outside: {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}.
Left behind: {', '.join(left) or 'nothing'}.

{table(["training", "samples", "median, middle third", "last third", "highest", ""], made)}""")
        if arguments.watch > 0:
            counts, wrong, samples, left = soak_watch(folder)
            made, grew = samples.rows()
            bad += len(grew) + len(left) + len(wrong)
            text.append(f"""Watching: {sum(counts.values())} programs, {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}. Wrong: {'; '.join(wrong) or 'none'}. Left behind: {', '.join(left) or 'nothing'}.

{table(["watching", "samples", "median, middle third", "last third", "highest", ""], made)}""")
    finish(arguments.write, "Hours of running", f"`bench/soak/run.py --train {arguments.train:g} --watch {arguments.watch:g} --seed {arguments.seed}`, {machine()}.\n\n" + "\n\n".join(text))
    return 1 if bad else 0


sys.exit(main())
