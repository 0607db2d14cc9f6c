# labels: long torch
"""PyTorch's pipeline runtime executes what `slackline plan` exports.

Every family, in both CSV forms, is loaded into torch.distributed.pipelining's _PipelineScheduleRuntime, one process a
rank over Gloo. Losses and every gradient of a step must be those of the same model run in sequence, in f64. Cell for
cell, csv-comms is what PyTorch's own lowering makes of csv."""
import os
import re

from runner import expect, folder, has_facts
from venv_torch import dumps, families, problem, slackline

import multiprocessing
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

torch.set_num_threads(1)
WIDTH, ROWS = 6, 2  # of a layer, of a microbatch
MAX_RANKS = 4

# ---- what is exported -----------------------------------------------------------------------------------------------

# placement: shapes (ranks, microbatches); the number of stages follows from the placement
SHAPES = {"linear": [(2, 4), (3, 7), (4, 8)], "loop": [(2, 4), (4, 8)], "wave": [(2, 6), (4, 9)]}
# times that no two kinds of op share, and links that make the adapted schedules differ
TIMES = {"F": 10, "I": 11, "W": 7}


def write_both(label, *arguments):
    """Both forms of what the command prints; the error text when it refuses. A search may end elsewhere the second time,
    so its order is read back for the second form."""
    problem, first = arguments[1], os.path.join(folder, label + ".csv")
    for form in ("csv", "csv-comms"):
        if form == "csv-comms" and arguments[-1] in ("auto", "optimal"):
            arguments = ("simulate", problem, "--order", first)
        done = slackline(*arguments, "--time-limit", "0.2", "--format", form, "-o",
                         os.path.join(folder, f"{label}.{form}"))
        if done.returncode:
            return done.stderr
    return ""


def case(label, ranks, stages, microbatches):
    path = os.path.join(folder, label)
    return label, ranks, stages, microbatches, path + ".csv", path + ".csv-comms"


def export():
    """Cases as (name, ranks, stages, microbatches, file of csv, file of csv-comms): our families, and PyTorch's own
    schedules through our reader and writer. Then the families that have no placement here."""
    cases, without = [], []
    for name in families():
        count = len(cases)
        for placement, shapes in SHAPES.items():
            for ranks, microbatches, latency in [shape + (latency,) for shape in shapes for latency in (0, 15)]:
                label = f"{name}-{placement}-{ranks}-{microbatches}-{latency}"
                file = problem(os.path.join(folder, label + ".yaml"), placement, ranks, microbatches, TIMES, latency)
                wrong = write_both(label, "plan", file, "--schedule", name)
                if "placement" in wrong:
                    continue  # the family is for another one
                assert not wrong, f"{label}: {wrong}"
                cases.append(case(label, ranks, ranks if placement == "linear" else 2 * ranks, microbatches))
        if len(cases) == count:
            without.append(name)
    for name, placement, ranks, stages, microbatches, files in dumps():
        label = f"torch-{name}-{placement}-{ranks}-{stages}-{microbatches}"
        file = problem(os.path.join(folder, label + ".yaml"), placement, ranks, microbatches, TIMES, stages=stages)
        wrong = write_both(label, "simulate", file, "--order", files[0])
        assert not wrong, f"{label}: {wrong}"
        cases.append(case(label, ranks, stages, microbatches))
    return cases, without


# ---- one rank ---------------------------------------------------------------------------------------------------------


def layer(stage):
    generator = torch.Generator().manual_seed(1000 + stage)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return module


def batch(microbatches):
    generator = torch.Generator().manual_seed(7)
    draw = lambda: torch.randn(microbatches * ROWS, WIDTH, generator=generator, dtype=torch.float64)
    return draw(), draw()


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def in_sequence(stages, microbatches):
    """Loss of every microbatch, and the gradients of their mean, by stage."""
    model = [layer(stage) for stage in range(stages)]
    x, y = batch(microbatches)
    losses = []
    for part, target in zip(x.chunk(microbatches), y.chunk(microbatches)):
        for module in model:
            part = module(part)
        losses.append(loss_of(part, target))
    (sum(losses) / microbatches).backward()
    return [loss.item() for loss in losses], [[p.grad for p in module.parameters()] for module in model]


def held(path, rank):
    """The stages whose cells stand in this rank's row: PyTorch takes the placement from there."""
    row = open(path).read().splitlines()[rank]
    return sorted({int(n) for n in re.findall(r"(\d+)[FIB]", row)})


def run_case(rank, group, ranks, stages, microbatches, path, form):
    """None, or what is wrong."""
    losses, gradients = in_sequence(stages, microbatches)
    mine = [PipelineStage(layer(stage), stage, stages, torch.device("cpu"), group=group) for stage in held(path, rank)]
    schedule = _PipelineScheduleRuntime(mine, microbatches, loss_fn=loss_of)
    schedule._load_csv(path, format=form)
    if form == "compute_only":
        schedule._dump_csv(f"{path}.lowered.{rank}", format="compute_comms")
    x, y = batch(microbatches)
    found = []
    arguments = (x,) if any(stage.is_first for stage in mine) else ()
    schedule.step(*arguments, target=y if any(stage.is_last for stage in mine) else None, losses=found)
    if any(stage.is_last for stage in mine):
        if len(found) != microbatches:
            return f"{len(found)} losses"
        for m in range(microbatches):
            if not abs(found[m].item() - losses[m]) <= 1e-13 * abs(losses[m]):
                return f"loss of microbatch {m} is {found[m].item()!r}, in sequence {losses[m]!r}"
    for stage in mine:
        for i, (p, wanted) in enumerate(zip(stage.submod.parameters(), gradients[stage.stage_index], strict=True)):
            if p.grad is None:
                return f"stage {stage.stage_index}, parameter {i}: no gradient"
            if not torch.allclose(p.grad, wanted, rtol=1e-11, atol=1e-13):
                return (f"stage {stage.stage_index}, parameter {i}: gradients differ, ratio of norms "
                        f"{(p.grad.norm() / wanted.norm()).item():.6g}")
    return None


def worker(rank, cases, results):
    try:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=MAX_RANKS,
                                timeout=timedelta(seconds=40))
        groups = {n: dist.new_group(list(range(n)), timeout=timedelta(seconds=40)) for n in range(1, MAX_RANKS + 1)}
        for index, (label, ranks, stages, microbatches, path, form) in enumerate(cases):
            if rank >= ranks:
                continue
            wrong = run_case(rank, groups[ranks], ranks, stages, microbatches, path, form)
            results.put((index, rank, wrong))
        dist.barrier()
    except Exception as error:
        results.put((None, rank, f"{type(error).__name__}: {str(error)[:300]}"))
    results.close()
    results.join_thread()
    os._exit(0)  # the groups of a failed case would wait for each other


def run_all(cases):
    """{(case, rank): wrong} and the errors that ended a rank."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=worker, args=(rank, cases, results)) for rank in range(MAX_RANKS)]
    for process in processes:
        process.start()
    wanted, got, ended = sum(c[1] for c in cases), {}, []
    until = time.monotonic() + 150
    while len(got) < wanted and not ended and time.monotonic() < until:
        try:
            index, rank, wrong = results.get(timeout=1)
        except Exception:
            continue
        if index is None:
            ended.append(f"rank {rank}: {wrong}")
        else:
            got[index, rank] = wrong
    for process in processes:
        process.join(5)
        process.kill()
    return got, ended


def damaged(cases):
    """Runs of two files that PyTorch takes and that give wrong numbers without a word: sends swapped, which the command
    refuses, and REDUCE_GRAD left out."""
    label, ranks, stages, microbatches, _, path = next(c for c in cases if c[0] == "1f1b-linear-3-7-0")
    text = open(path).read()
    swapped = text.replace("0SEND_F0,0F1,0SEND_F1", "0F1,0SEND_F1,0SEND_F0")
    unreduced = text.replace(",0REDUCE_GRAD", "")
    assert swapped != text and unreduced != text
    for form, content in (("swapped", swapped), ("unreduced", unreduced)):
        with open(f"{path}.{form}", "w") as file:
            file.write(content)
    done = slackline("simulate", os.path.join(folder, label + ".yaml"), "--order", path + ".swapped")
    assert done.returncode == 2 and has_facts(done.stderr, ":1: column 4: message 0 from rank 0 to rank 1"), done.stderr
    return [(f"{label}-{form}", ranks, stages, microbatches, f"{path}.{form}", "compute_comms")
            for form in ("swapped", "unreduced")]


def test_the_runtime_executes_what_is_exported():
    begin = time.monotonic()
    cases, without = export()
    print(f"{len(cases)} schedules exported in {time.monotonic() - begin:.1f} s; no placement that PyTorch holds: "
          f"{', '.join(without) or 'none'}")
    for name in ("gpipe-linear", "1f1b-linear", "zb-h1-linear", "zb-h2-linear", "adaptra-linear", "gpipe-loop",
                 "gpipe-wave", "interleaved-1f1b-loop", "zb-v-wave", "dualpipe-v-wave"):
        assert any(label.startswith(name) for label, *_ in cases), f"{name} was not exported"
    runs = [case[:4] + (path, form) for case in cases for path, form in
            ((case[4], "compute_only"), (case[5], "compute_comms"))]
    wrong_runs = damaged(cases)
    got, ended = run_all(runs + wrong_runs)
    for text in ended:
        expect(False, text)
    for index, (label, ranks, _, _, path, form) in enumerate(runs):
        for rank in range(ranks):
            expect((index, rank) in got and not got[index, rank], f"{label} as {form}, rank {rank}: {got.get((index, rank), 'did not run')}")
    for index, (label, ranks, *_) in enumerate(wrong_runs, len(runs)):
        said = [got.get((index, rank), "did not run") for rank in range(ranks)]
        print(f"{label}: {'; '.join(text for text in said if text) or 'as in sequence'}")
        expect(any(text and ("differ" in text or has_facts(text, "in sequence")) for text in said), f"{label} was not noticed by this test")
    for label, ranks, stages, microbatches, csv, comms in cases:
        lowered = f"{csv}.lowered.0"
        if os.path.exists(lowered) and open(lowered, newline="").read().replace("\r\n", "\n") != open(comms).read():
            expect(False, f"{label}: csv-comms is not PyTorch's lowering of csv")
    print(f"{len(runs)} runs of {len(got)} ranks in {time.monotonic() - begin:.1f} s")
