#!/usr/bin/env python3
"""Bubble rates of Zero Bubble Pipeline Parallelism (arXiv 2401.10241): ours, published, difference.

Usage: bench/planner/zero_bubble.py [BUILD_DIR]
bubble = (cost - m (F + B + W)) / cost; cost is the largest span of a rank from its first start to its last end. T_comm is
the latency of a decoupled link: with it 1F1B, ZB-H1 and ZB-H2 agree in every digit."""
from command import NoPlan, folded, main, table

# model, ranks, microbatches, T_F, T_B, T_W, T_comm (ms), hidden, heads, chunks of 1F1B-I; published: 1F1B, 1F1B-I, H1,
# H2, 1p, 2p. From the table in the authors' repository (sail-sg/zero-bubble-pipeline-parallelism,
# megatron/core/pipeline_parallel/efficiency.py); 1F1B-I is that program's output for these settings.
PROFILES = [
    ("1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 2304, 24, 3, .2431, .1090, .1585, .1083, .1585, .0433),
    ("1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, 2304, 24, 3, .1985, .0847, .1242, .0837, .1242, .0039),
    ("1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, 2304, 24, 3, .1240, .0461, .0674, .0444, .0674, .0026),
    ("6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, 4096, 32, 4, .2347, .0827, .1323, .0698, .1323, .0029),
    ("6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 4096, 32, 4, .1898, .0644, .1045, .0559, .1045, .0022),
    ("6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535, 4096, 32, 4, .1091, .0328, .0554, .0294, .0554, .0010),
    ("14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 5120, 40, 3, .2552, .1136, .1397, .0672, .1397, .0066),
    ("14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, 5120, 40, 3, .2082, .0878, .1088, .0516, .1088, .0054),
    ("14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, 5120, 40, 3, .1251, .0459, .0576, .0266, .0576, .0028),
    ("28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, 6144, 48, 2, .2646, .1528, .1421, .0641, .1421, .0038),
    ("28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 6144, 48, 2, .2168, .1192, .1106, .0490, .1106, .0029),
    ("28.3B", 32, 256, 10.402, 10.248, 7.698, 0.460, 6144, 48, 2, .1352, .0641, .0594, .0257, .0594, .0018),
]
# The profiles of ZB-V: times of one of a rank's two stages; published: 1F1B, 1F1B-I, H1, H2, ZB-V, from that
# program's output.
WAVES = [
    ("6.2B", 16, 48, 14.407, 14.380, 9.676, 1.610, 4096, 32, 2, .2668, .1549, .1536, .0823, .0697),
    ("6.2B", 16, 64, 14.412, 14.393, 9.688, 1.621, 4096, 32, 2, .2206, .1209, .1198, .0630, .0533),
    ("6.2B", 16, 128, 14.316, 14.306, 9.639, 1.619, 4096, 32, 2, .1390, .0644, .0637, .0325, .0274),
    ("14.6B", 24, 72, 6.763, 6.969, 5.251, 0.755, 5120, 40, 2, .2699, .1566, .1439, .0628, .0638),
    ("14.6B", 24, 96, 6.783, 6.984, 5.259, 0.758, 5120, 40, 2, .2229, .1223, .1121, .0480, .0483),
    ("14.6B", 24, 192, 6.785, 6.990, 5.260, 0.770, 5120, 40, 2, .1403, .0652, .0595, .0247, .0250),
    ("28.3B", 32, 96, 9.458, 9.748, 7.288, 0.879, 6144, 48, 2, .2676, .1549, .1429, .0629, .0593),
    ("28.3B", 32, 128, 9.469, 9.744, 7.306, 0.892, 6144, 48, 2, .2204, .1210, .1111, .0478, .0451),
    ("28.3B", 32, 256, 9.447, 9.644, 7.193, 0.887, 6144, 48, 2, .1362, .0644, .0593, .0251, .0236),
]
SECONDS = {"ZB-1p": 1, "ZB-2p": 4, "ZB-V": 3}


def shape(ranks, microbatches, F, I, W, latency, chunks=1, placement="linear"):
    keys = {"ranks": ranks, "microbatches": microbatches}
    if placement != "linear":
        keys |= {"placement": placement, "stages": chunks * ranks}
    return keys | {"times_ms": {"F": F / chunks, "I": I / chunks, "W": W / chunks, "B": (I + W) / chunks},
                   "links.default.latency_ms": latency}


def memory(times, heads, hidden):
    """The authors' model: a microbatch needs 34 h + 5 a s with s = 1024, and W keeps 32 h of it until its end.
    `times` is the limit in microbatches."""
    whole, kept = 34 * hidden + 5 * heads * 1024, 32 * hidden
    return {"memory": {"delta": {"F": whole, "I": kept - whole, "W": -kept}, "limit": whole * times}}


SPAN = {"objective": "span"}


class Cells:
    """One row of a table: cells of ours / published, and their commands."""

    def __init__(self, command, lines):
        self.command, self.lines, self.worst = command, lines, {}

    def rate(self, tries, seconds=None):
        best = None
        for schedule, keys in tries:
            if schedule != "auto" and not self.command.has(schedule):
                continue
            try:
                limit = seconds if schedule == "auto" else None
                plan = self.command.plan("zero-bubble.yaml", schedule, keys, limit)
            except NoPlan:
                continue
            if best is None or plan["bubble"]["span"] < best[0]:
                best = (plan["bubble"]["span"], self.command.line("zero-bubble.yaml", schedule, keys, seconds=limit))
        return best

    def cell(self, name, published, tries):
        best = self.rate(tries, SECONDS.get(name))
        if best is None:
            return f"- / {published:.4f}"
        self.lines.append(best[1])
        ours = round(best[0], 4)
        self.worst[name] = max(self.worst.get(name, -1), ours - published)
        sign = "=" if ours == published else f"{ours - published:+.4f}"
        return f"{ours:.4f} / {published:.4f} ({sign})"


def profile_rows(cells):
    for model, p, m, F, I, W, c, hidden, heads, chunks, *published in PROFILES:
        line = shape(p, m, F, I, W, c)
        one, two = memory(p, heads, hidden), memory(2 * p, heads, hidden)
        tries = [[("1f1b", line)], [("interleaved-1f1b", shape(p, m, F, I, W, c, chunks, "loop"))], [("zb-h1", line)],
                 [("zb-h2", line)],
                 [("auto", line | one | SPAN)], [("auto", line | two | SPAN)]]
        names = ("1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p")
        yield [model, p, m] + [cells.cell(*item) for item in zip(names, published, tries)]


def wave_rows(cells):
    for model, p, m, F, I, W, c, hidden, heads, chunks, *published in WAVES:
        line = shape(p, m, 2 * F, 2 * I, 2 * W, c)
        wave = shape(p, m, 2 * F, 2 * I, 2 * W, c, 2, "wave")
        limit = memory(2 * p, heads, hidden)
        tries = [[("1f1b", line)], [("interleaved-1f1b", shape(p, m, 2 * F, 2 * I, 2 * W, c, chunks, "loop"))],
                 [("zb-h1", line)], [("zb-h2", line)],
                 [("auto", wave | limit | SPAN)]]
        names = ("1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-V")
        yield [model, p, m] + [cells.cell(*item) for item in zip(names, published, tries)]


def report(command):
    lines = []
    cells = Cells(command, lines)
    text = ("## Zero Bubble: bubble rates\n\nEach cell: ours / published (difference). Published: the table that the "
            "authors keep with their program (sail-sg/zero-bubble-pipeline-parallelism, `efficiency.py`), at the profiled "
            "times that it lists; 1F1B-I and the second table are what that program computes at its settings, since the "
            "paper's own 1F1B-I column uses profiles that are not published. T_comm is the latency of every link. The "
            "recipes (1F1B, 1F1B-I, H1, H2) are ours as they are; for the automatic ones (1p, 2p, ZB-V) ours is `auto` with "
            "objective `span`, the paper's cost, under the same memory limit and the authors' memory model.\n\n")
    text += table(("model", "p", "m", "1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p"), profile_rows(cells))
    text += folded("commands, in the order of the cells", lines)
    first = dict(cells.worst)
    lines.clear()
    cells.worst.clear()
    text += table(("model", "p", "m", "1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-V"), wave_rows(cells))
    text += folded("commands, in the order of the cells", lines)
    above = [f"{name} (by up to {worst:.4f})" for name, worst in {**first, **cells.worst}.items() if worst >= 5e-5]
    if above:
        text += (f"Above the published figure: {', '.join(above)}. There, several ranks would have to change together before a "
                 "plan gets shorter, which the search's moves, one rank at a time, rarely do.\n\n")
    return text


if __name__ == "__main__":
    main(report)
