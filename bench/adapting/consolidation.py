"""Falcon, figure 16: several congested links between replicas, 4 replicas of 4 stages."""
from command import table
from congestion import moved_at
from live import HOLD, quoted, reduced, shape

HEADING = "Several congested links, live"
STAGES, REPLICAS, MICROBATCHES, OP, WIDTH, CONTEXT = 4, 4, 12, 10.0, 64, 16
HEALTHY, SLOW = 6, 24  # iterations
MBITS = 2.9
LINKS = [(1, [0, 1]), (2, [2, 3]), (0, [1, 2])]  # (stage, replicas)
PUBLISHED = ["1.6 -> 1.3", "1.7 -> 1.3", "1.9 -> 1.7"]


def section(bench):
    rows, log = [], []
    for count, published in enumerate(PUBLISHED, 1):
        faults = [{"iterations": [HEALTHY, HEALTHY + SLOW], "rank": rank, "replicas": pair, "bandwidth_gbps": MBITS / 1e3}
                  for rank, pair in LINKS[:count]]
        run = bench.run(f"figure 16, {count}", shape(STAGES, REPLICAS, MICROBATCHES, OP, HEALTHY + SLOW, width=WIDTH, context=CONTEXT,
                                                     schedule="1f1b", adapt=True, faults=faults,
                                                     adaptation={"strategies": ["topology"]}))
        at = moved_at(run)
        last = run.arranged()[-1] if at else (HEALTHY + SLOW, [], [])
        healthy, slow = run.phase(0, HEALTHY), run.phase(HEALTHY, at or HEALTHY + SLOW)
        end = run.phase(last[0], HEALTHY + SLOW) if at else slow
        moved = sum(home != seat for seat, home in enumerate(last[1]))
        rows.append([count, f"{healthy:.0f}", f"{slow:.0f}", f"{end:.0f}", f"{slow / healthy:.2f} -> {end / healthy:.2f}", published,
                     f"{reduced(healthy, slow, end):.1f}%", moved, len(run.arranged()), f"{run.look():.1f}",
                     run.late])
        log = run.log()
    return f"""\
Falcon's figure 16: {REPLICAS} replicas x {STAGES} stages on {REPLICAS * STAGES} devices; one, two, three congested links between two replicas of a stage, in other stages
(of stages 1, 2 and 0). {MICROBATCHES} microbatches a replica, F = I = W = {OP:g} ms, 1F1B, gpt2 of a block a stage of width {WIDTH}; {MBITS:g} Mbit/s on a congested link
(the paper gives no rates). `strategies: [topology]`, a change must last {HOLD} iterations. Which pair of the four replicas is slow the run
finds out by a look at the network between two iterations, which sends a few messages over every link, slow ones too. Here other places leave the links without traffic.

{table(["congested links", "healthy ms", "slow ms", "at the end ms", "slowdown", "published", "slowdown reduced by", "processes moved", "changes of places", "look at the network s", "late iterations"], rows)}
decisions.txt of the last run:

{quoted(log)}"""
