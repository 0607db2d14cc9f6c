"""Adaptra, figure 15: a delay on the last link of a pipeline."""
from command import table
from live import shape

HEADING = "Delay on one link, live"
DELAYS = (0, 20, 40, 60)
RANKS, MICROBATCHES, OP = 8, 16, 10.0
WINDOW, SETTLES = 9, 5  # iterations per delay, and how many of them pass until the swap
PUBLISHED = {"1F1B": 2.70, "ZB": 4.24, "ZB, delegated": 2.15, "adapted and delegated": 1.13}
SYSTEMS = {"1F1B": {"schedule": "1f1b", "communication": "inorder", "adapt": False},
           "ZB": {"schedule": "zb-h2", "communication": "inorder", "adapt": False},
           "ZB, sent in groups": {"schedule": "zb-h2", "communication": "batched", "adapt": False},
           "ZB, delegated": {"schedule": "zb-h2", "transport": "delegated", "adapt": False},
           "adapted and delegated": {"schedule": "adaptra", "communication": "inorder", "transport": "auto", "adapt": True,
                                     "adaptation": {"strategies": ["schedule", "delegate"]}},
           "the ladder, with topology": {"schedule": "adaptra", "communication": "inorder", "transport": "auto", "adapt": True}}


def measure(bench, name, keys):
    """The median of each delay. All come from one run, with one window after the other."""
    settles = SETTLES if keys["adapt"] else 0
    length = WINDOW - SETTLES + 1 + settles
    faults = [{"iterations": [number * length, (number + 1) * length], "link": [RANKS - 2, RANKS - 1], "latency_ms": delay}
              for number, delay in enumerate(DELAYS) if delay]
    run = bench.run(f"figure 15, {name}", shape(RANKS, 1, MICROBATCHES, OP, length * len(DELAYS), faults=faults, **keys))
    times = [run.phase(number * length, (number + 1) * length, skip=max(1, settles)) for number in range(len(DELAYS))]
    return times, run


def section(bench):
    rows, slow = [], {}
    for name, keys in SYSTEMS.items():
        times, run = measure(bench, name, keys)
        slow[name] = times[-1]
        rows.append([name, *(f"{ms:.0f}" for ms in times), *(f"{ms / times[0]:.2f}" for ms in times[1:]), f"{PUBLISHED[name]:.2f}" if name in PUBLISHED else "", run.late])
    zb, delegated, adapted = (slow[name] for name in ("ZB, sent in groups", "ZB, delegated", "adapted and delegated"))
    return f"""\
Adaptra's figure 15: 14 B parameters on 8 pipeline ranks, 0 to 60 ms one way between the last two. Here {RANKS} ranks, {MICROBATCHES}
microbatches (the paper does not say how many), F = I = W = {OP:g} ms as in its figure 4, gpt2 of {RANKS} blocks of width 32. ZB is
`zb-h2`; 1F1B and ZB send in order (`communication: inorder`), or in groups as Megatron does (`batched`), ZB delegated has `transport: delegated`, adapted and
delegated: `strategies: [schedule, delegate]`, `transport: auto`, starting with `adaptra`, measured from {SETTLES} iterations after each change
of the delay on. The last row may do all that keeps every bit: it exchanges the ranks' places until the slow link is nobody's. A row is
one run with the delays one after the other; slowdowns are against its own 0 ms.

{table(["", *(f"{delay} ms" for delay in DELAYS), *(f"slowdown at {delay} ms" for delay in DELAYS[1:]), "published at 60 ms",
        "late iterations"], rows)}
At 60 ms delegates take {100 * (1 - delegated / zb):.1f}% off the time of ZB in groups and adapting another {100 * (1 - adapted / delegated):.1f}% (published:
48.1 % and 24.6 %). Part of ZB's own 4.24 is nothing that any regime here shows: forward and backward messages behind each other in NCCL's
streams, with kernels between them.
"""
