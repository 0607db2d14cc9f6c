"""Adaptra, figure 18, and Falcon, figure 15: a link between replicas becomes slow, and then one of a pipeline."""
from statistics import mean

from command import table
from live import HOLD, quoted, reduced, shape

CHAIN, SEVERITY, CARDS = "A slow link between replicas, live", "Congestion between replicas, live", "A congested card, live"
STAGES, REPLICAS, OP = 4, 2, 10.0
HEALTHY = 6

# ---- the whole chain ----

MICROBATCHES, WIDTH, CONTEXT = 12, 160, 16
MESSAGE = WIDTH * CONTEXT * 4  # bytes of an activation, f32
LATENCY, TRANSFER = 10.0, 20.0  # ms of a message between stages on that link: 30 in all
SLOW, LONG, END = 4, 26, 8  # iterations: slow before the move by hand; slow in total; measured at the end
STAY = {"schedule": "zb-h2", "adapt": False}
FALCON = {"schedule": "zb-h2", "adapt": True, "adaptation": {"strategies": ["topology"]}}
# new plans follow `schedule`, and zb-h2 ignores links
ADAPTED = {"schedule": "adaptra", "adapt": True, "transport": "auto", "adaptation": {"strategies": ["schedule", "delegate"]}}
LADDER = {**ADAPTED, "adaptation": {"strategies": ["schedule", "delegate", "topology"]}}
# the rank map: the two ends of the link, both in stage 0, become stages 0 and 1 of replica 0
BY_HAND = [{"iteration": HEALTHY + SLOW, "positions": [0, 2, 1, 3, 4, 5, 6, 7]}]


# name: stages, keys
AS_PUBLISHED = {"ZB": (4, STAY), "link moved (by hand)": (4, {**STAY, "arrangements": BY_HAND}),
                "moved (by hand), adapted and delegated": (4, {**ADAPTED, "arrangements": BY_HAND})}
BY_ITSELF = {"the ladder": (4, LADDER)}
CORNERED = {"the ladder, topology only": (2, FALCON), "the ladder": (2, LADDER)}


def gbps(transfer, message):
    return message * 8 / (transfer * 1e6)


def moved_at(run):
    changes = [change for change in run.arranged() if change[0] > HEALTHY]
    return changes[0][0] if changes else None


def link_run(bench, name, stages, keys, faults):
    """(row, ms at the end, run): slow from iteration HEALTHY on."""
    moves = keys["adapt"] or "arrangements" in keys
    iterations = HEALTHY + (LONG if moves else 7)
    slow_link = {"iterations": [HEALTHY, iterations], "latency_ms": LATENCY, "bandwidth_gbps": gbps(TRANSFER, MESSAGE)}
    run = bench.run(f"figure 18, {stages} stages, {name}", shape(stages, REPLICAS, MICROBATCHES, OP, iterations, width=WIDTH, context=CONTEXT,
                                                communication="batched",
                                                faults=[{**slow_link, **fault} for fault in faults], **keys))
    at = moved_at(run)
    healthy, slow = run.phase(0, HEALTHY), run.phase(HEALTHY, at or iterations)
    end = run.phase(iterations - END, iterations, skip=0) if at else slow
    last = run.rows[-1]
    return [name, f"{healthy:.0f}", f"{slow:.0f}", f"{end:.0f}", f"{slow / healthy:.2f}", f"{end / healthy:.2f}",
            " ".join(map(str, run.arranged()[-1][1])) if at else "", last["schedule"].replace(" | ", " / "), last["delegates"],
            f"{run.look():.1f}", run.late], end, run


COLUMNS = ["", "healthy ms", "link slow ms", "at the end ms", "slowdown", "at the end", "seats", "schedule", "delegates",
           "look at the network s", "late iterations"]


def several(bench, systems, faults):
    rows, ends, log = [], [], []
    for name, (stages, keys) in systems.items():
        row, end, run = link_run(bench, name, stages, keys, faults)
        rows.append(row)
        ends.append(end)
        log = run.log()
    return rows, ends, log


def chain(bench):
    between_replicas = {"rank": 0, "replicas": [0, 1]}
    rows, ends, _ = several(bench, AS_PUBLISHED, [between_replicas])
    own, own_ends, own_log = several(bench, BY_ITSELF, [between_replicas])
    cornered, cornered_ends, cornered_log = several(bench, CORNERED, [between_replicas, {"link": [0, 1], "replica": 0}])
    return f"""\
Adaptra's section 7.3 and figure 18, in its layout of {REPLICAS} replicas x 4 stages: the link between both replicas of stage 0 becomes slow. Here
{MICROBATCHES} microbatches a replica, F = I = W = {OP:g} ms, gpt2 of a block a stage of width {WIDTH} and {CONTEXT} tokens; on that link a message between
stages takes {LATENCY + TRANSFER:g} ms ({TRANSFER:g} of them on the wire, {1e3 * gbps(TRANSFER, MESSAGE):.2f} Mbit/s), as at the paper's largest delay. The ratio of gradients to activations is such
that sums suffer about as in the paper. All send in groups, as
Megatron does (`communication: batched`). ZB is `zb-h2`; what adapts begins with `adaptra`, which is as fast while nothing is slow.

The paper's chain: the link becomes one between stages 0 and 1 of a pipeline, here by order of the run file (`arrangements`, {SLOW} iterations after the
onset), which is what Falcon does; then with `strategies: [schedule, delegate]` and `transport: auto`. Seats: who sits where at the end,
by world rank before (stage by stage, replicas side by side).

{table(COLUMNS, rows)}
| | published | here |
|---|---|---|
| ZB with the slow link | 8.04 x | {rows[0][4]} x |
| moving the link makes it faster by | 3.6 x | {ends[0] / ends[1]:.2f} x |
| adapting and delegating by another | 1.96 x | {ends[1] / ends[2]:.2f} x |
| both | 7.06 x | {ends[0] / ends[2]:.2f} x |
| what is left of the slowdown | 1.14 x | {rows[2][5]} x |

Left to itself the ladder finds better places where there are any: the two processes no longer talk to each other at all
({ends[0] / own_ends[-1]:.2f} x faster than ZB with the slow link).

{table(COLUMNS, own)}
Its decisions.txt:

{quoted(own_log)}
Where the link cannot be left idle: {REPLICAS} replicas x 2 stages, and process 0 has two such links, to the other replica and to its next stage.
Whatever the places, it talks over one of them. The whole chain, in one run, without an order: places are changed so that it is a
pipeline's link, then delegates and another schedule ({float(cornered[1][2]) / cornered_ends[0]:.2f} x faster, and another {cornered_ends[0] / cornered_ends[1]:.2f} x).

{table(COLUMNS, cornered)}
decisions.txt of the last of these:

{quoted(cornered_log)}"""


# ---- severities ----

SLOWER = {"weak": 1.3, "medium": 1.6, "severe": 2.0}  # desired slowdown by the slow link; determines its bandwidth
PUBLISHED = {4: 53.7, 8: 24.8}


def gradient_bytes(width, context):
    """Bytes of the gradients of stage 0: embedding, positions and one block."""
    return 4 * (256 * width + context * width + 12 * width * width + 13 * width)


def congested(bench, where, strategies, shapes):
    """Rows of a table, and the last run. Arguments: the keys of a fault, and how much a sum over it adds to an iteration."""
    rows, width, context, microbatches, run = [], 64, 16, 16, None
    for stages in shapes:
        gained = []
        for word, factor in SLOWER.items():
            iterations = HEALTHY + 18
            ideal = OP * (3 * microbatches + stages - 1 + 2 * (stages - 1))
            sent = gradient_bytes(width, context)
            fault = {"iterations": [HEALTHY, iterations], **where, "bandwidth_gbps": sent * 8 / ((factor - 1) * ideal * 1e6)}
            run = bench.run(f"figure 15, {stages} stages, {word}",
                            shape(stages, REPLICAS, microbatches, OP, iterations, width=width, context=context, schedule="1f1b",
                                  adapt=True, faults=[fault], adaptation={"strategies": strategies}))
            at = moved_at(run)
            healthy, slow = run.phase(0, HEALTHY), run.phase(HEALTHY, at or iterations, skip=0)
            end = run.phase(at, iterations) if at else slow
            gained.append(reduced(healthy, slow, end))
            rows.append([stages, word, f"{fault['bandwidth_gbps'] * 1e3:.2f}", f"{healthy:.0f}", f"{slow:.0f}", f"{end:.0f}",
                         f"{slow / healthy:.2f} -> {end / healthy:.2f}", (at or 0) - HEALTHY, f"{gained[-1]:.1f}%", ""])
        rows[-1][-1] = f"{mean(gained):.1f}%, published {PUBLISHED[stages]:g}%"
    return table(["stages", "congestion", "Mbit/s", "healthy ms", "slow ms", "moved ms", "slowdown", "after iterations", "slowdown reduced by", "on average"],
                 rows), run


def severities(bench):
    rows, _ = congested(bench, {"rank": 0, "replicas": [0, 1]}, ["topology"], (4, 8))
    return f"""\
Falcon's figure 15: congestion of a link between replicas, weak, medium and severe, for 4 and 8 stages on 16 devices (neither rates nor
slowdowns are published). Here {REPLICAS} replicas, 16 microbatches each, F = I = W = {OP:g} ms, 1F1B, gpt2 of a block a stage of width 64; the link is
that of stage 0, whose sum nothing hides, with the bandwidth in the table; `strategies: [topology]`, a change must last {HOLD} iterations.

{rows}
The link is left without traffic, which is why nothing of the slowdown is left.
"""


def cards(bench):
    rows, run = congested(bench, {"nic": 0, "replica": 0}, ["schedule", "topology"], (4,))
    return f"""\
Falcon's figure 15 with the card of a process instead of a link: that of stage 0 of replica 0, with the bandwidth that makes the sum of its stage
as slow as above. Its messages to the next stage pass the card, too. Otherwise as there; `strategies: [schedule, topology]`. The process
keeps its card wherever it sits: what is left is what a slow card costs at the stage where it costs least, and the mean stays below the published
figure, which does not say what was congested.

{rows}
decisions.txt of the last run:

{quoted(run.log())}"""
