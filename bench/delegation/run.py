#!/usr/bin/env python3
"""The cost of delegates while no link is slow, up to saturation (Adaptra, figure 20): the same paced run with messages sent by the ranks and
by delegates, in turns, at growing rates, with the processor time of both.

Usage: bench/delegation/run.py [BUILD_DIR] [--rounds N] [--seconds S] [--write docs/results/evidence/data-plane.md]
Goal: at most 2% before the processors are full. Published: under 5% up to 30 B, 17% at 60 B. Takes about 10 minutes."""
import argparse
import concurrent.futures
import os
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(here), os.path.join(os.path.dirname(here), "watch")]
from page import finish, machine, middle, source, table  # noqa: E402
from programs import below  # noqa: E402
from training import Slackline, message_bytes, pipeline  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--rounds", type=int, default=5, help="at least 2")
parser.add_argument("--seconds", type=float, default=3, help="of a run")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

RANKS, MICROBATCHES, SKIP = 4, 12, 3
SENT = 2 * MICROBATCHES  # messages of a rank between two others in an iteration
FEW = 0.05  # ops that overrun: from there on the processors are full at times
CORES = len(os.sched_getaffinity(0))
# little arithmetic for the size of the messages: narrow layers, sequences of 8 tokens
MODEL = {"kind": "gpt2", "layers": RANKS, "width": 64, "heads": 1, "hidden": 8, "context": 8}
CASES = [(1, (10, 3, 1, 0.5, 0.25)), (512, (40, 20, 10, 7, 5, 3))]  # sequences of a microbatch: ms of an op


def used():
    """{(program, process): seconds of processor time} of all processes below this one."""
    found = {}
    for pid in below(os.getpid()):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        user, system = map(int, rest.split()[11:13])
        found[name.partition("(")[2], pid] = (user + system) / os.sysconf("SC_CLK_TCK")
    return found


def iterations_of(path):
    try:
        with open(path) as file:
            return file.read().count("\n")
    except OSError:
        return 0


def measured(slackline, size, ms, transport):
    """Times of the iterations; cores that ranks, delegates, and the busiest delegate used meanwhile; share of ops that took longer than ms."""
    iterations = SKIP + max(6, int(1e3 * arguments.seconds / (ms * (3 * MICROBATCHES + RANKS - 1))))
    metrics, seen = os.path.join(slackline.folder, "out", "metrics.jsonl"), []
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        run = thread.submit(slackline.train, pipeline(RANKS, MICROBATCHES, ms), schedule="adaptra", iterations=iterations, model=MODEL,
                            transport=transport, batch={"microbatches": MICROBATCHES, "size": size})
        while not run.done():
            time.sleep(0.1)
            seen.append((time.monotonic(), used(), iterations_of(metrics)))
    (begin, before, _), *_, (end, after, _) = [one for one in seen if SKIP <= one[2] < iterations]
    cores = {key: (after[key] - before[key]) / (end - begin) for key in before if key in after}
    ranks, delegates = ([value for (name, _), value in cores.items() if name == wanted] for wanted in ("slackline-worke", "slackline-deleg"))
    result = run.result()
    return [row["time_ms"] for row in result.rows[SKIP:]], (sum(ranks), sum(delegates), max(delegates, default=0)), result.overruns()


def copied():
    """MB/s that all cores copy at once."""
    program = ("import time; a, b = bytearray(1 << 28), bytearray(1 << 28); a[:] = b; begin = time.monotonic()\n"
               "for _ in range(16): a[:] = b\nprint(16 * len(a) / 1e6 / (time.monotonic() - begin))")
    copies = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(CORES)]
    return sum(float(copy.communicate()[0]) for copy in copies)


found = {}
with Slackline(arguments.build) as slackline:
    for turn in range(arguments.rounds):
        for size, paces in CASES:
            for ms in paces:
                for transport in ("direct", "delegated"):
                    one = measured(slackline, size, ms, transport)
                    print(f"round {turn}: {size} sequences, {ms} ms, {transport}: {statistics.median(one[0]):.2f} ms, cores {one[1]}, overruns {one[2]:.4f}",
                          file=sys.stderr, flush=True)
                    found.setdefault((size, ms, transport), []).append(one)


rows, before, full = [], [], []  # longer by %: before ops overrun, and from there on
for size, paces in CASES:
    megabytes = message_bytes({"batch": {"size": size}, "model": MODEL}) / 1e6
    for ms in paces:
        direct, delegated = found[size, ms, "direct"], found[size, ms, "delegated"]
        took, other = (statistics.median(time for times, *_ in runs for time in times) for runs in (direct, delegated))
        longer = [100 * (statistics.median(b[0]) / statistics.median(a[0]) - 1) for a, b in zip(direct, delegated)]
        (ranks, *_), (carried, delegates, busiest) = ([statistics.median(values) for values in zip(*(one[1] for one in runs))] for runs in (direct, delegated))
        (before if statistics.median(one[2] for one in delegated) < FEW else full).append(statistics.median(longer))
        rows.append([f"{megabytes:g}", f"{ms:g}", f"{SENT * 1e3 / other:.0f}", f"{SENT * 1e3 / other * megabytes:.1f}", f"{took:.2f}", f"{other:.2f}", middle(longer),
                     f"{ranks:.2f}", f"{carried:.2f}", f"{delegates:.2f}", f"{busiest:.2f}",
                     *(f"{100 * statistics.median(one[2] for one in runs):.1f}" for runs in (direct, delegated))])

finish(arguments.write, "Delegates with nothing slow", f"""\
`bench/delegation/run.py --rounds {arguments.rounds} --seconds {arguments.seconds:g}`, {machine()}. {RANKS} ranks on one host, {MICROBATCHES} microbatches, F = I = W; direct and
delegated in turns, {arguments.rounds} rounds, all iterations but the first {SKIP} of a run. The model has little arithmetic for the size of its messages. Cores: processor time
over time, of all ranks, of all delegates, and of the busiest delegate; there are {CORES}. A rank between two others sends {SENT} messages per iteration. Overruns: ops
whose arithmetic took longer than their time. While fewer than {100 * FEW:g}% of the ops overrun, delegates cost at most {max(before, default=0):+.2f}% (goal: 2%); from there on
{", ".join(f"{one:+.1f}" for one in full) or "-"}%. The paper: under 5% up to 30 B, 17% at 60 B. A delegated message is copied four times, twice as often as one between ranks; the cores
copy {copied():.0f} MB/s at once.

""" + table(["message MB", "op ms", "messages/s of a rank", "MB/s of a rank", "direct ms", "delegated ms", "**delegated longer by %**", "cores: ranks, direct",
             "ranks, delegated", "delegates", "busiest delegate", "overruns %, direct", "delegated"], rows))
