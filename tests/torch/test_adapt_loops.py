# labels: slow torch
"""slackline.adapt in loops as users write them: handlers that do what they should not, runs that follow each other, and what a loop does around its
steps. Losses and gradients are those of the given schedule, bit for bit."""
import gc
import logging
import os
import threading
import warnings

from adapt_torch import SlowLink, batch, compared, judged, made, said, slackline, stages_of, stepped
from test_adapt_jobs import labels_of
from waiting import until

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

MICROBATCHES, STEPS = 6, 24


# ---- handlers and folders --------------------------------------------------------------------------------------------------------


def handled_slowly(rank, ranks, group, where):
    """A handler that does not return from the first event holds up neither steps nor decisions."""
    released, seen, link = threading.Event(), [], SlowLink(1 - rank, 0.0) if rank < 2 else None

    def on_event(event):
        seen.append(event)
        released.wait(100)
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), on_event=on_event)
    for step in range(2 * STEPS):
        if link:
            link.delay = 0.02 if step >= STEPS // 2 else 0.0
        stepped(adapted, stages, step, MICROBATCHES)
    if link:
        link.delay = 0.0
    told, swaps = len(seen), len(adapted.adaptation.swap_ms)
    released.set()
    until(lambda: rank > 0 or len(seen) == len(adapted.adaptation.events), 20)
    if not adapted.adaptation.active or not swaps or told != (rank == 0) or rank == 0 and seen != adapted.adaptation.events:
        return f"{swaps} swaps, {told} events told while the first was handled, then {len(seen)} of {len(adapted.adaptation.events)}"
    return ""


def handled_by_a_step(rank, ranks, group, where):
    """A handler that steps or evaluates the schedule gets an error, and one warning says so."""
    for what in ("step", "eval"):
        one, two = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
        holder = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            adapted = slackline.adapt(made("1F1B", two, MICROBATCHES), on_event=lambda event: getattr(holder[0], what)(*batch(0, MICROBATCHES)[:1]))
            holder.append(adapted)
            wrong = compared(made("1F1B", one, MICROBATCHES), adapted, one, two, STEPS, MICROBATCHES)
            until(lambda: rank > 0 or said(caught), 10)
        found = said(caught)
        if wrong or len(found) != (rank == 0) or found and "all ranks" not in found[0] or not adapted.adaptation.active:
            return f"{what}: {wrong} {found}"
    return ""


def again_into_its_folder(rank, ranks, group, where):
    """Two jobs write to one folder, one after the other: the second one to the next free one, and the logger says so."""
    logged, logger = [], logging.getLogger("slackline")
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: logged.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for _ in range(2):
            stages = stages_of("linear", rank, ranks, group)
            adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), out=os.path.join(where, "again"))
            for step in range(6):
                stepped(adapted, stages, step, MICROBATCHES)
            dist.barrier(group)
            if rank == 0:
                folder = adapted._agent.leader.folder
                del adapted, stages
                gc.collect()
                folder.end()
            dist.barrier(group)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    if rank:
        return ""
    runs = sorted(name for name in os.listdir(where) if name.startswith("again"))
    whole = [all(os.path.exists(os.path.join(where, run, name)) for name in ("summary.json", "metrics.jsonl")) for run in runs]
    return "" if runs == ["again", "again-2"] and all(whole) and any("again-2" in text for text in logged) else f"{runs}, {whole}, {logged}"


# ---- loops -----------------------------------------------------------------------------------------------------------------------


def made_again(rank, ranks, group, where):
    """Every 7 steps, the schedule is dropped, also in the midst of a change of its order, and another one is made of the same stages."""
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    one, two = stages_of("wave", rank, ranks, group), stages_of("wave", rank, ranks, group)
    given, adapted, swaps = made("ZBVZeroBubble", one, MICROBATCHES), None, 0
    for step in range(35):
        if link:
            link.delay = 0.01 if step >= 14 else 0.0
        if step % 7 == 0:
            swaps += len(adapted.adaptation.swap_ms) if adapted is not None else 0
            adapted = None
            gc.collect()
            adapted = slackline.adapt(made("ZBVZeroBubble", two, MICROBATCHES))
        wrong = compared(given, adapted, one, two, 1, MICROBATCHES)
        if wrong or not adapted.adaptation.active:
            return f"{step}: {wrong} {adapted.adaptation.why}"
    if link:
        link.delay = 0.0
    return ""


def trained(rank, ranks, group, adapts):
    """Losses, norms and weights of a loop with a scaler in its loss, clipping, and a schedule of learning rates."""
    stages = stages_of("linear", rank, ranks, group)
    scaler, last = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5), rank == ranks - 1

    def loss(output, target):
        return torch.nn.functional.mse_loss(output, target) * scaler.get_scale()
    schedule = schedules.Schedule1F1B(stages[0], MICROBATCHES, loss_fn=loss)
    schedule = slackline.adapt(schedule) if adapts else schedule
    parameters = list(stages[0].submod.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=0.01)
    rates, found = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS + 1), []
    scaler.scale(torch.zeros(1))  # which makes its scale
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        x, y = batch(step, MICROBATCHES)
        losses = []
        schedule.step(*((x,) if rank == 0 else ()), target=y if last else None, losses=losses)
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        scaler.step(optimizer)
        scaler.update()
        rates.step()
        found += [*losses, norm, *(one.detach().clone() for one in parameters)]
    return found, schedule


def a_loop_with_a_scaler(rank, ranks, group, where):
    (wanted, _), (found, schedule) = trained(rank, ranks, group, False), trained(rank, ranks, group, True)
    differ = [at for at, (a, b) in enumerate(zip(wanted, found)) if not torch.equal(a, b)]
    return "" if len(wanted) == len(found) and not differ and schedule.adaptation.active else f"{differ} of {len(wanted)} differ; {schedule.adaptation.why}"


def compiled(backend, each=1):
    def job(rank, ranks, group, where):
        kind = "Interleaved1F1B" if each > 1 else "1F1B"

        def stages():
            return [PipelineStage(torch.compile(stage.submod, backend=backend), stage.stage_index, stage.num_stages, torch.device("cpu"), group=group)
                    for stage in stages_of("loop" if each > 1 else "linear", rank, ranks, group)]
        one, two = stages(), stages()
        adapted = slackline.adapt(made(kind, two, MICROBATCHES))
        wrong = compared(made(kind, one, MICROBATCHES), adapted, one, two, 10, MICROBATCHES)
        torch._dynamo.reset()
        return wrong or ("" if adapted.adaptation.active else f"it gave up: {adapted.adaptation.why}")
    return job


def without_a_loss(rank, ranks, group, where):
    """A schedule without a loss function only evaluates: it is not adapted, with one warning, and evaluates as before."""
    stages = stages_of("linear", rank, ranks, group)
    given = schedules.ScheduleGPipe(stages[0], MICROBATCHES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = slackline.adapt(given)
    x = batch(0, MICROBATCHES)[0]
    with torch.no_grad():
        outputs = [found.eval(*((x,) if rank == 0 else ())) for _ in range(3)]
    same_outputs = rank < ranks - 1 or all(torch.equal(outputs[0], one) for one in outputs)
    return "" if len(said(caught)) == 1 and "loss_fn" in found.adaptation.why and found is given and same_outputs else f"{said(caught)}, {found.adaptation.why}"


def recording_stays_off(rank, ranks, group, where):
    """A program that has turned PyTorch's recording of functions off keeps it off, and on after it has turned it on."""
    stages, found = stages_of("linear", rank, ranks, group), []
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for on in (False, True):
        torch.autograd._enable_record_function(on)
        for step in range(6):
            stepped(adapted, stages, step, MICROBATCHES)
        found.append(len(labels_of(adapted, stages)))
    return "" if found[0] == 0 and found[1] > 2 * MICROBATCHES and adapted.adaptation.active else f"labels while off and on: {found}"


CASES = {
    "a slow handler": (handled_slowly, 2), "a handler that steps": (handled_by_a_step, 2), "the folder of a run": (again_into_its_folder, 2),
    "made again": (made_again, 2), "a scaler": (a_loop_with_a_scaler, 2), "torch.compile, inductor": (compiled("inductor"), 2),
    "torch.compile, eager, 2 stages per rank": (compiled("eager", 2), 2), "without a loss": (without_a_loss, 2), "recording off": (recording_stays_off, 2),
}


def test_loops_of_users_train_as_without():
    judged(os.path.abspath(__file__), 2, CASES)
