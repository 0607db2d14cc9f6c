"""Static plans: PyTorch's own schedules next to plans for a slow link, measured and predicted; then a PyTorch profile, the problem from
it, a better plan, and a run of that plan."""
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile

import ranks
import slackline
import torch
from cases import Case, Fault
from page import finish, machine, table

RANKS, MICROBATCHES, OP_MS, DELAY_MS = 4, 12, 10.0, 60.0
SLOW = {"pipeline.links.list.0.latency_ms": DELAY_MS}
NAMES = {"linear": "1, linear", "loop": "2, loop", "wave": "2, wave (V)"}


@functools.lru_cache(maxsize=None)
def overhead_ms():
    """Of PyTorch's runtime, per op, as an adapted 1F1B measures it."""
    steady = Case("1F1B, adapted", "1F1B", RANKS, MICROBATCHES, {kind: [OP_MS] * RANKS for kind in "FIW"}, (Fault(0, 0),), steps=10)
    return max(0.0, steady.overhead_ms(ranks.run(steady, live=True)["problem"]))


def problem(placement):
    each = 1 if placement == "linear" else 2
    return {"pipeline": {"ranks": RANKS, "microbatches": MICROBATCHES, "placement": placement,
                         "times_ms": {kind: OP_MS / each for kind in "FIW"}, "overhead_ms": {"op": overhead_ms()},
                         "links": {"list": [{"between": [0, 1], "latency_ms": 0}]}}}


def middle(times):
    """The median and range, in ms."""
    return f"{statistics.median(times) * 1e3:.0f} ({min(times) * 1e3:.0f} to {max(times) * 1e3:.0f})"


def side_by_side(arguments):
    """Every schedule on the healthy link and on the slow one."""
    kinds = [("GPipe", "linear"), ("1F1B", "linear"), ("Interleaved1F1B", "loop"), ("InterleavedZeroBubble", "loop"),
             ("ZBVZeroBubble", "wave")]
    theirs = [(f"PyTorch's Schedule{name}", placement, name, None) for name, placement in kinds]
    ours = []
    for placement in ("linear", "wave"):
        healthy = slackline.plan(problem(placement), "auto", 2)
        slow = slackline.plan(problem(placement), "auto", 2, changes=SLOW)
        ours += [("slackline's plan for the healthy link", placement, None, healthy), ("slackline's plan for the slow link", placement, None, slow)]
    rows = theirs + ours
    runs = [ranks.Run(name, placement, delay, their, plan) for name, placement, their, plan in rows for delay in (0.0, DELAY_MS)]
    found = ranks.measure(RANKS, MICROBATCHES, OP_MS, arguments.iterations, runs)
    shown, apart, far = [], 0.0, []
    for at, (name, placement, their, _) in enumerate(rows):
        cells = [name, NAMES[placement]]
        each = 1 if placement == "linear" else 2
        for offset, changes in ((0, None), (1, SLOW)):
            times, losses, order = found[2 * at + offset]
            if order is None:  # PyTorch's two schedules with one stage per rank do not expose their order
                order = slackline.plan(problem(placement), their.lower()).csv()
            predicted = slackline.simulate(problem(placement), order, changes=changes)
            reference = found[0 if placement == "linear" else 4][1]
            apart = max([apart, *(abs(a - b) for a, b in zip(losses, reference))])
            far.append(statistics.median(times) * 1e3 / predicted.makespan_ms - 1)
            cells += [middle(times), f"{predicted.makespan_ms:g}"]
        cells.append(f"{max(predicted.peak_memory) / each:g}")
        shown.append(cells)
    heads = ["schedule", "stages per rank", "healthy: measured ms", "predicted", "slow link: measured ms", "predicted",
             "microbatches held, max per rank"]
    best_theirs = min(statistics.median(found[2 * at + 1][0]) for at in range(len(theirs)))
    best_ours = min(statistics.median(found[2 * at + 1][0]) for at in range(len(theirs), len(rows)))
    healthy = min(statistics.median(found[2 * at][0]) for at in range(len(theirs)))
    finish(arguments.write, "A slow link, before and after", f"""`bench/pytorch/run.py --static`, {machine()}, load {os.getloadavg()[0]:.1f} at its end, PyTorch {torch.__version__}. {RANKS} processes over
Gloo, {MICROBATCHES} microbatches; F, I, and W of a rank take {OP_MS:g} ms each (half of that for each of two stages): the ops
compute and then wait until this time has passed. On the slow link, messages between ranks 0 and 1 leave {DELAY_MS:g} ms late, and the sender continues meanwhile. Times are of an iteration on
the slowest rank: median (min to max) of {arguments.iterations}. Predicted: slackline's replay of the same order, with the overhead of the
runtime that an adapted 1F1B measures before ({overhead_ms():.2f} ms per op). All losses agree to {apart:.0e}. Plans had no memory limit. The last
column shows what each schedule holds.

{table(heads, shown)}
On the slow link, the best of PyTorch's own schedules takes {best_theirs * 1e3:.0f} ms, and the best plan {best_ours * 1e3:.0f} ms ({best_theirs / best_ours:.2f} times as fast). On the healthy link, the best
of PyTorch's takes {healthy * 1e3:.0f} ms. Measured times are {min(far) * 100:+.1f} to {max(far) * 100:+.1f}% off the predicted ones, {statistics.mean(map(abs, far)) * 100:.1f}% on average.""")
    return apart


def from_a_trace(arguments):
    """Traces PyTorch's 1F1B on the slow link with the profiler, derives the problem, plans a better order, and runs it."""
    with tempfile.TemporaryDirectory() as folder:
        before = ranks.Run("PyTorch's 1F1B, profiled", "linear", DELAY_MS, "Interleaved1F1B", trace=folder)
        times, _, _ = ranks.measure(RANKS, MICROBATCHES, OP_MS, arguments.iterations, [before])[0]
        file, order = os.path.join(folder, "problem.yaml"), os.path.join(folder, "order.csv")
        done = subprocess.run([os.path.join(arguments.build, "slackline"), "import", *[os.path.join(folder, f"rank{rank}.json") for rank in range(RANKS)],
                               "-o", file, "--order", order, "--format", "json", "--time-limit", "2"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"slackline import: {done.stderr}")
        profile = json.loads(done.stdout)
        plan = slackline.plan(file, "auto", 2)
        after = ranks.Run("the plan for the traced problem", "linear", DELAY_MS, plan=plan)
        realised, _, _ = ranks.measure(RANKS, MICROBATCHES, OP_MS, arguments.iterations, [after])[0]
        print(json.dumps(profile, indent=1), file=sys.stderr)
        simulated = slackline.simulate(file, order).makespan_ms
    times_ms = {kind: statistics.median(values) for kind, values in profile["times_ms"].items() if values}
    rows = [["the traced iteration", f"{profile['traced_ms']:.0f}", "in the trace"],
            ["its order simulated on the problem of the trace", f"{simulated:.0f}", f"{100 * (simulated / profile['traced_ms'] - 1):+.1f}% of the traced"],
            ["PyTorch's 1F1B without the profiler", middle(times), "measured"],
            ["a plan for that problem", f"{plan.makespan_ms:.0f}", "predicted"],
            ["that plan, run by PyTorch", middle(realised), f"measured: {100 * (statistics.median(realised) * 1e3 / plan.makespan_ms - 1):+.1f}% of the predicted"]]
    links = ", ".join(f"{link['from']} to {link['to']} {link['latency_ms']:.1f}" for link in profile["links"] if "latency_ms" in link)
    finish(arguments.write, "From PyTorch's profiler to a better plan", f"""`bench/pytorch/run.py --static`, the same machine and load. PyTorch's 1F1B on the slow link (`ScheduleInterleaved1F1B` with one stage per
rank, which labels its ops for the profiler) runs under `torch.profiler`, with one trace per rank.
`slackline import rank*.json -o problem.yaml --order order.csv` makes the problem from the traces alone: op times (ms, median over stages:
{', '.join(f'{kind} {value:.1f}' for kind, value in times_ms.items())}; emulated: {OP_MS:g} for F, {2 * OP_MS:g} for B){', delays of links (ms: ' + links + '; emulated: ' + f'{DELAY_MS:g} between 0 and 1)' if links else ''}. `slackline.plan`
plans this problem, and PyTorch runs the plan.

{table(["what", "ms per iteration", ""], rows)}
The profiled schedule takes {statistics.median(times) / statistics.median(realised):.2f} times as long as that plan.""")


def run(arguments):
    """The largest difference between two losses."""
    apart = side_by_side(arguments)
    from_a_trace(arguments)
    return apart
