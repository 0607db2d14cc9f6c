"""What the tests against PyTorch share: its interpreter, calls of the command, and the orders that PyTorch itself dumps."""
import csv
import os
import re
import subprocess
import sys

from environments import base as python, has_torch
from runner import build, folder, skip, source

command = os.path.join(build, "slackline")


def enter():
    """Starts the caller again under .venv's interpreter; without torch 2.13 it is skipped."""
    if os.environ.get("SL_IN_VENV") == "1":
        return
    if not has_torch():
        skip("no .venv with torch 2.13 (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt)")
    if not os.path.exists(command):
        skip("slackline is not built")
    os.environ["SL_IN_VENV"] = "1"
    os.execv(python, [python, *sys.orig_argv[1:]])


enter()


def slackline(*arguments):
    return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=60)


def families():
    """The names in `slackline plan --help`, which come from the table of families."""
    text = slackline("plan", "--help").stdout
    part = text[text.index("--schedule NAME"):]
    part = part[:part.index("\n  --")]
    return re.findall(r"^ {6}(\S+) ", part, re.M)


def problem(path, placement, ranks, microbatches, times, latency=0, stages=None):
    """Writes a problem file; `times` maps F, I, W (and B) to a number or a list."""
    with open(path, "w") as file:
        file.write(f"pipeline:\n  ranks: {ranks}\n  microbatches: {microbatches}\n  placement: {placement}\n"
                   + (f"  stages: {stages}\n" if stages else "")
                   + "  times_ms: {" + ", ".join(f"{kind}: {value}" for kind, value in times.items()) + "}\n"
                   + f"  links:\n    default: {{latency_ms: {latency}}}\n")
    return path


class _Stage:
    """What PyTorch's schedules ask of a stage when nothing is run."""

    def __init__(self, index, stages, ranks):
        import torch
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, stages, ranks, 0
        self.is_first, self.is_last, self.has_backward = index == 0, index == stages - 1, False
        self.submod = torch.nn.Identity()


def dumps():
    """PyTorch's own schedules as (name, placement, ranks, stages, microbatches, csv, csv-comms); of the two that
    hold one stage a rank there is no dump, so their order is written the way the others are."""
    from torch.distributed.pipelining import schedules as S
    found = []
    for name, placement, ranks, each, microbatches in [
            ("GPipe", "linear", 3, 1, 5), ("Interleaved1F1B", "linear", 4, 1, 8), ("Interleaved1F1B", "loop", 2, 2, 6),
            ("Interleaved1F1B", "loop", 4, 2, 8), ("Interleaved1F1B", "loop", 2, 4, 4),
            ("InterleavedZeroBubble", "loop", 2, 2, 6), ("InterleavedZeroBubble", "loop", 3, 3, 9),
            ("LoopedBFS", "loop", 3, 2, 5), ("LoopedBFS", "loop", 2, 5, 3), ("ZBVZeroBubble", "wave", 2, 2, 6),
            ("ZBVZeroBubble", "wave", 4, 2, 10), ("DualPipeV", "wave", 2, 2, 6), ("DualPipeV", "wave", 4, 2, 11)]:
        stages = ranks * each
        mine = [0, stages - 1] if placement == "wave" else list(range(0, stages, ranks))
        given = [_Stage(stage, stages, ranks) for stage in mine]
        kind = getattr(S, "Schedule" + name)
        path = os.path.join(folder, f"torch-{name}-{ranks}-{each}-{microbatches}")
        files = [path + ".csv", path + ".comms.csv"]
        if issubclass(kind, S.PipelineScheduleSingle):
            order = kind(given[0], microbatches, loss_fn=lambda a, b: 0)._get_pipeline_order()
            files.pop()
            with open(files[0], "w", newline="") as file:
                csv.writer(file).writerows(order[rank] for rank in order)
        else:
            schedule = kind(given, microbatches, loss_fn=lambda a, b: 0)
            schedule._dump_csv(files[0], format="compute_only")
            schedule._dump_csv(files[1], format="compute_comms")
        found.append((name, placement, ranks, stages, microbatches, files))
    return found
