"""Adaptra, figure 18, and Falcon, figure 15: a link between replicas becomes slow, and then one of a pipeline."""
from statistics import mean

from command import table
from live import HOLD, quoted, reduced, shape

CHAIN, SEVERITY = "A slow link between replicas, live", "Congestion between replicas, live"
STAGES, REPLICAS, OP = 4, 2, 10.0
HEALTHY = 6

# ---- the whole chain ----

MICROBATCHES, WIDTH, CONTEXT = 12, 160, 16
MESSAGE = WIDTH * CONTEXT * 4  # bytes of an activation, f32
LATENCY, TRANSFER = 7.0, 23.0  # ms of a message between stages on that link: 30 in all
SYSTEMS = {"ZB": {"schedule": "zb-h2", "communication": "inorder", "adapt": False},
           "link moved": {"schedule": "zb-h2", "communication": "inorder", "adapt": True,
                          "adaptation": {"strategies": ["topology"]}},
           "moved, adapted and delegated": {"schedule": "zb-h2", "communication": "inorder", "transport": "auto", "adapt": True,
                                            "adaptation": {"strategies": ["schedule", "delegate", "topology"]}}}


def gbps(transfer, message):
    return message * 8 / (transfer * 1e6)


def moved_at(run):
    changes = [change for change in run.arranged() if change[0] > HEALTHY]
    return changes[0][0] if changes else None


def chain(bench):
    fault = {"rank": 0, "replicas": [0, 1], "latency_ms": LATENCY, "bandwidth_gbps": gbps(TRANSFER, MESSAGE)}
    rows, ends, logs = [], {}, []
    for name, keys in SYSTEMS.items():
        iterations = HEALTHY + (6 if not keys["adapt"] else 30)
        run = bench.run(f"figure 18, {name}", shape(STAGES, REPLICAS, MICROBATCHES, OP, iterations, width=WIDTH, context=CONTEXT,
                                                    faults=[{"iterations": [HEALTHY, iterations], **fault}], **keys))
        at = moved_at(run)
        healthy, slow = run.phase(0, HEALTHY), run.phase(HEALTHY, at or iterations, skip=0 if at else 1)
        end = run.phase(iterations - 8, iterations, skip=0) if at else slow
        ends[name] = end
        seats = " ".join(map(str, run.arranged()[-1][1])) if at else ""
        last = run.rows[-1]
        rows.append([name, f"{healthy:.0f}", f"{slow:.0f}", f"{end:.0f}", f"{slow / healthy:.2f}", f"{end / healthy:.2f}", seats,
                     last["schedule"], last["delegates"], run.late])
        logs = run.log()
    zb, moved, adapted = (ends[name] for name in SYSTEMS)
    return f"""\
Adaptra's section 7.3 and figure 18, in its layout of {REPLICAS} replicas x {STAGES} stages: the link between both replicas of stage 0 becomes slow. Here
{MICROBATCHES} microbatches a replica, F = I = W = {OP:g} ms, gpt2 of {STAGES} blocks of width {WIDTH} and {CONTEXT} tokens; on that link a message between
stages takes {LATENCY + TRANSFER:g} ms ({TRANSFER:g} of them on the wire, {1e3 * gbps(TRANSFER, MESSAGE):.2f} Mbit/s), as at the paper's largest delay. The ratio of gradients to activations is such
that sums suffer as in the paper. ZB is `zb-h2`, in order; *link moved* may only change the topology, which is what Falcon does; the last row
has `strategies: [schedule, delegate, topology]` and `transport: auto`, and is one run from health to the end of the chain.
Seats: who sits where afterwards, by world rank before (stage by stage, replicas side by side).

{table(["", "healthy ms", "link slow ms", "at the end ms", "slowdown", "at the end", "seats", "schedule", "delegates", "late iterations"], rows)}
| | published | here |
|---|---|---|
| ZB with the slow link | 8.04 x | {rows[0][4]} x |
| moving the link makes it faster by | 3.6 x | {zb / moved:.2f} x |
| adapting and delegating by another | 1.96 x | {moved / adapted:.2f} x |
| what is left of the slowdown | 1.14 x | {rows[2][5]} x |

decisions.txt of the last row's run:

{quoted(logs)}"""


# ---- severities ----

SLOWER = {"weak": 1.3, "medium": 1.6, "severe": 2.0}  # what the slow link is to cost; gives its bandwidth
PUBLISHED = {4: 53.7, 8: 24.8}


def gradient_bytes(width, context):
    """Of stage 0: embedding, positions and one block."""
    return 4 * (256 * width + context * width + 12 * width * width + 13 * width)


def severities(bench, most_ranks):
    rows, width, context, microbatches = [], 64, 16, 16
    for stages in (4, 8):
        if stages * REPLICAS > most_ranks:
            continue
        gained = []
        for word, factor in SLOWER.items():
            iterations = HEALTHY + 24
            ideal = OP * (3 * microbatches + stages - 1 + 2 * (stages - 1))
            sent = gradient_bytes(width, context)
            fault = {"iterations": [HEALTHY, iterations], "rank": 0, "replicas": [0, 1],
                     "bandwidth_gbps": sent * 8 / ((factor - 1) * ideal * 1e6)}
            run = bench.run(f"figure 15, {stages} stages, {word}",
                            shape(stages, REPLICAS, microbatches, OP, iterations, width=width, context=context, schedule="1f1b",
                                  adapt=True, faults=[fault], adaptation={"strategies": ["topology"]}))
            at = moved_at(run)
            healthy, slow = run.phase(0, HEALTHY), run.phase(HEALTHY, at or iterations, skip=0)
            end = run.phase(at, iterations) if at else slow
            gained.append(reduced(healthy, slow, end))
            rows.append([stages, word, f"{fault['bandwidth_gbps'] * 1e3:.2f}", f"{healthy:.0f}", f"{slow:.0f}", f"{end:.0f}",
                         f"{slow / healthy:.2f} -> {end / healthy:.2f}", (at or 0) - HEALTHY, f"{gained[-1]:.1f} %", ""])
        rows[-1][-1] = f"{mean(gained):.1f} %, published {PUBLISHED[stages]:g} %"
    return f"""\
Falcon's figure 15: congestion of a link between replicas, weak, medium and severe, for 4 and 8 stages on 16 devices (neither rates nor
slowdowns are published). Here {REPLICAS} replicas, {microbatches} microbatches each, F = I = W = {OP:g} ms, 1F1B, gpt2 of a block a stage of width {width}; the link is
that of stage 0, whose sum nothing hides, with the bandwidth in the table; `strategies: [topology]`, a change must last {HOLD} iterations.
{'' if most_ranks >= 16 else 'More than 8 ranks were not run: this machine has too few cores for the times of 16 to be calm.'}

{table(["stages", "congestion", "Mbit/s", "healthy ms", "slow ms", "moved ms", "slowdown", "after iterations", "slowdown reduced by", "on average"], rows)}
Falcon's figure 16 (4 replicas x 4 stages) was not run live; its simulated rows are under Topology.
"""
