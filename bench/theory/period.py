"""The time of one more microbatch with a slow link: simulated, and predicted from the order by the loop through that link.

Usage: python3 bench/theory/period.py SCHEDULE [--set KEY=VALUE]... [--delays C,C,..] [--problem FILE] [--link N]

The order is planned for a healthy link, for 24 and for 48 microbatches. It does not change while the latency of the link between
ranks N and N + 1 grows. The prediction follows a loop: a gradient that arrives at rank N, the next forward there, its activation to
rank N + 1, the next gradient there, and its way back. The work and the delays on this loop, divided by the microbatches that it
advances, are the least period of the order (docs/theory.md). A rank's own work is the other bound. slackline is taken from PATH."""
import argparse
import json
import os
import re
import subprocess
import tempfile

FEW, MANY = 24, 48


def slackline(*arguments):
    done = subprocess.run(["slackline", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout


def sets(pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def read_order(text):
    """[rank][(kind, microbatch)]"""
    return [[(kind, int(m)) for kind, m in re.findall(r"\d+([FIWB])(\d+)", line)] for line in text.splitlines()]


def times_of(plan):
    """{(rank, kind, microbatch): ms}"""
    return {(op["rank"], op["op"], op["microbatch"]): op["end_ms"] - op["start_ms"] for op in plan["ops"]}


def back_at(row, at):
    """The next I or B at or after position `at`."""
    while row[at][0] not in "IB":
        at += 1
    return at


def loop_of(order, time, rank):
    """(work, microbatches, turns) of the loop over the link between `rank` and the next rank, in the middle of the iteration."""
    here, there = order[rank], order[rank + 1]
    place_here = {op: i for i, op in enumerate(here)}
    place_there = {op: i for i, op in enumerate(there)}
    kind = "B" if any(k == "B" for k, _ in here) else "I"
    first = at = MANY // 3
    work = 0
    while at < 2 * MANY // 3:
        i = place_here[(kind, at)]
        if all(k != "F" for k, _ in here[i:]):
            raise SystemExit("no forward is left in the middle of the iteration: the order has no steady part there")
        while here[i][0] != "F":  # the gradient's op, and the ops before the next forward
            work += time[(rank, *here[i])]
            i += 1
        work += time[(rank, *here[i])]
        i = place_there[here[i]]
        end = back_at(there, i)
        work += sum(time[(rank + 1, *op)] for op in there[i:end + 1])
        at = there[end][1]
    turns = 0
    step = first
    while step < at:  # number of round trips over the link
        i = place_here[(kind, step)]
        while here[i][0] != "F":
            i += 1
        step = there[back_at(there, place_there[here[i]])][1]
        turns += 1
    return work, at - first, turns


def own_period(order, time):
    """The work of the busiest rank per microbatch in the middle of the iteration."""
    most = 0
    for rank, row in enumerate(order):
        kind = "B" if any(k == "B" for k, _ in row) else "I"
        begin, end = row.index((kind, MANY // 3)), row.index((kind, 2 * MANY // 3))
        most = max(most, sum(time[(rank, *op)] for op in row[begin:end]) / (2 * MANY // 3 - MANY // 3))
    return most


def measure(schedule, problem, pairs, link, delays):
    """{delay: (simulated, predicted)}, ms that extra ms per microbatch than without the delay; slack by warm-up, Adaptra's tolerance."""
    with tempfile.TemporaryDirectory() as folder:
        orders, found = {}, {}
        for count in (FEW, MANY):
            own = sets([*pairs, f"pipeline.microbatches={count}"])
            orders[count] = os.path.join(folder, f"{count}.csv")
            slackline("plan", problem, "--schedule", schedule, "--format", "csv", "-o", orders[count], *own)

        def simulate(count, delay):
            slow = f"pipeline.links.list=[{{between: [{link}, {link + 1}], latency_ms: {delay:g}}}]"
            return json.loads(slackline("simulate", problem, "--order", orders[count], "--format", "json", *sets([*pairs, f"pipeline.microbatches={count}", slow])))

        healthy = {count: simulate(count, 0) for count in (FEW, MANY)}
        order, time = read_order(open(orders[MANY]).read()), times_of(healthy[MANY])
        work, advanced, turns = loop_of(order, time, link)
        period = own_period(order, time)
        for delay in delays:
            cost = [simulate(count, delay)["makespan_ms"] - healthy[count]["makespan_ms"] for count in (FEW, MANY)]
            found[delay] = ((cost[1] - cost[0]) / (MANY - FEW), max(0, (2 * turns * delay + work) / advanced - period))
        warm = healthy[MANY]["links"][link]
        tolerance = max(0, (period * advanced - work) / (2 * turns))
        return found, warm["slack"], warm["tolerance_ms"], tolerance, advanced / turns - 1


def main():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("schedule")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--delays", default="0,5,10,15,20,40,60")
    parser.add_argument("--problem", default="examples/four-ranks.yaml")
    parser.add_argument("--link", type=int, default=0)
    a = parser.parse_args()
    found, slack, published, tolerance, middle = measure(a.schedule, a.problem, a.set, a.link, [float(d) for d in a.delays.split(",")])
    print(f"{a.schedule}: slack by warm-up {slack}, in the middle {middle:g}; tolerance by warm-up {published:g} ms, by the loop {tolerance:g} ms")
    print("delay (ms)             " + "".join(f"{delay:8g}" for delay in found))
    print("extra ms per microbatch" + "".join(f"{cost:8.2f}" for cost, _ in found.values()))
    print("predicted by the loop  " + "".join(f"{cost:8.2f}" for _, cost in found.values()))


if __name__ == "__main__":
    main()
