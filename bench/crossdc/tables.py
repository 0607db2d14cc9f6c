#!/usr/bin/env python3
"""CrossPipe, tables 5 and 6, case 1 (8 ranks, 16 microbatches, 2 and 4 sites): every schedule of a row on paced ranks, next to the
published time and the model's.

Usage: bench/crossdc/tables.py [BUILD_DIR] [--scale X] [--iterations N] [--sites 2|4] [--write FILE]
Static schedules send in groups, as in Megatron; those that know the links send decoupled. All times are those of the paper times X
(default 0.5), and are divided by X in the table. Table 5 has 2 sites, table 6 has 4 (default: both).
About 10 minutes."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table
from command import Command
from crosspipe import COLUMNS, DELAYS, PUBLISHED, STATIC, TIMES, Bench, in_order
from training import Problem, Slackline

RANKS, MICROBATCHES = 8, 16
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--scale", type=float, default=0.5)
parser.add_argument("--iterations", type=int, default=4, help="the first one is left out")
parser.add_argument("--sites", type=int, choices=sorted(PUBLISHED))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()


def nested(keys):
    """Keys of --set as the data of a problem file."""
    data = {}
    for key, value in keys.items():
        *above, last = key.split(".")
        within = data
        for name in above:
            within = within.setdefault(name, {})
        within[last] = value
    data.setdefault("placement", "linear")
    data.setdefault("memory", {}).setdefault("delta", {"F": 1, "W": -1})
    return data


def measure(slackline, bench, item, sites, latency, bandwidth):
    """(predicted, measured) ms of an iteration, and the share of its iterations that the machine delayed."""
    times = [arguments.scale * x for x in TIMES]
    keys = bench.keys(item, RANKS, MICROBATCHES, times, sites, latency * times[0], bandwidth * times[0])
    regime = "batched" if item[0] in STATIC else "decoupled"
    problem = Problem(**nested(keys | {"communication": regime}))
    plan, order = slackline.plan(problem, item[1], 1 if item[1] == "optimal" else None)
    links = [(*link["between"], link["latency_ms"], link["transfer_ms"]) for link in keys["links.list"]]
    how = {"order": order}
    if order is None:  # ops in parts: the run reads the plan itself
        how = {"plan": plan, "model": {"kind": "gpt2", "layers": keys["parts"] * RANKS, "width": 64, "heads": 4, "context": 32}}
    result = slackline.train(problem, iterations=arguments.iterations, links=links, communication=regime, **how)
    return plan["makespan_ms"], result.median(skip=1), result.late / len(result.rows)


bench, load = Bench(Command(os.path.abspath(arguments.build))), [os.getloadavg()[0]]
per_microbatch = 1 / arguments.scale / MICROBATCHES / 1e3  # from ms to the paper's seconds
rows, ratios, apart, kept, pairs, same_best, late = [], [], [], 0, 0, 0, []
with Slackline(arguments.build) as slackline:
    for sites, cells in PUBLISHED.items():
        if arguments.sites not in (None, sites):
            continue
        for (latency, bandwidth), cases in zip(DELAYS, cells):
            row, ours, published = [sites, f"{latency:g}", f"{bandwidth:g}"], {}, dict(zip(COLUMNS, cases[0]))
            for item in (i for name in COLUMNS for i in bench.schedules if i[0] == name):
                predicted, measured, share = measure(slackline, bench, item, sites, latency, bandwidth)
                ours[item[0]] = measured * per_microbatch
                ratios.append(measured / predicted)
                late.append(share)
                if item[0] in STATIC:
                    apart.append(abs(ours[item[0]] / published[item[0]] - 1))
                row.append(f"{predicted * per_microbatch:.3f} / {ours[item[0]]:.3f} / {published[item[0]]:.3f}")
                print(*row[:3], item[0], row[-1], file=sys.stderr, flush=True)
            load.append(os.getloadavg()[0])
            found = in_order(ours, published)
            kept, pairs = kept + found[0], pairs + found[1]
            same_best += ours[min(published, key=published.get)] <= min(ours.values()) * 1.005
            rows.append(row)
names = [name for name in COLUMNS if any(item[0] == name for item in bench.schedules)]
finish(arguments.write, "CrossPipe: tables 5 and 6 on paced ranks", f"""\
`bench/crossdc/tables.py --scale {arguments.scale:g} --iterations {arguments.iterations}{f' --sites {arguments.sites}' if arguments.sites else ''}`, measured, {machine()}, load {min(load):.1f} to {max(load):.1f} (of the bench and
of others). Case 1: {RANKS} ranks, {MICROBATCHES} microbatches. Ops are paced at the paper's times times {arguments.scale:g}, and the links between sites are injected as
faults. Static schedules send in groups; CrossUDSub, CrossUD and CrossWave send decoupled. Cells: predicted / measured / published, in
the paper's seconds per microbatch.

{len(ratios)} runs, measured over predicted {min(ratios):.4f} to {max(ratios):.4f}; {100 * sum(late) / len(late):.0f}% of the iterations had a message that the machine delayed by
more than 1 ms. Static schedules, measured to published: mean {100 * sum(apart) / len(apart):.1f}%, largest {100 * max(apart):.1f}% ({len(apart)} cells). The published best of a row is the best
here (within 0.5%) in {same_best} of {len(rows)} rows. Of {pairs} pairs of schedules whose published times differ by more than 2%, {kept} are in the same order.

""" + table(("sites", "latency / T_F", "bandwidth / T_F", *names), rows))
