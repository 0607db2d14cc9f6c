# labels: long torch
"""What goes wrong in a step goes wrong as without slackline.adapt: the same errors on the same ranks, for the given schedule and the adapted one."""
import gc
import os
import sys
import threading
import time
from datetime import timedelta

from adapt_torch import batch, judged, made, run, slackline, stages_of, stepped
from runner import expect

import torch
import torch.distributed as dist

MICROBATCHES, LIMIT_S = 4, 10


def rows_of(rows, rank, ranks):
    x = torch.ones(rows, 16, dtype=torch.float64)
    return (x,) if rank == 0 else (), x if rank == ranks - 1 else None


def another_number_of_microbatches(schedule, stages, rank, ranks):
    x = [(torch.ones(2, 16, dtype=torch.float64),)] * (MICROBATCHES + 1)
    schedule._step_microbatches(x if rank == 0 else [()] * (MICROBATCHES + 1), None, [one[0] for one in x] if rank == ranks - 1 else None)


def no_target(schedule, stages, rank, ranks):
    schedule.step(*rows_of(2 * MICROBATCHES, rank, ranks)[0], losses=[])


def raising(error):
    def job(schedule, stages, rank, ranks):
        """The last rank raises while the others wait for it."""
        loss_of, count = schedule._loss_fn, []

        def loss(*arguments):
            count.append(1)
            if len(count) == 3:
                raise error("on purpose")
            return loss_of(*arguments)
        schedule._loss_fn = loss
        x, y = rows_of(2 * MICROBATCHES, rank, ranks)
        schedule.step(*x, target=y, losses=[])
    return job


def after_the_end(schedule, stages, rank, ranks):
    dist.barrier()
    dist.destroy_process_group()
    x, y = rows_of(2 * MICROBATCHES, rank, ranks)
    schedule.step(*x, target=y, losses=[])


TROUBLE = {"another number": another_number_of_microbatches, "no target": no_target, "an exception": raising(ArithmeticError),
           "an interrupt": raising(KeyboardInterrupt), "after the end": after_the_end}


def trouble_main(rank, world, file, store, results, where):
    """Each kind of trouble with the given schedule and with the adapted one, after six steps: what it returned, or the type of what it raised."""
    torch.set_num_threads(1)
    for name, trouble in TROUBLE.items():
        for adapts in (False, True):
            dist.init_process_group("gloo", f"file://{store}.{name}.{adapts}".replace(" ", "-"), rank=rank, world_size=world, timeout=timedelta(seconds=LIMIT_S))
            stages = stages_of("linear", rank, world)
            schedule = made("1F1B", stages, MICROBATCHES)
            schedule = slackline.adapt(schedule) if adapts else schedule
            for step in range(6):
                stepped(schedule, stages, step, MICROBATCHES)
            try:
                found = repr(trouble(schedule, stages, rank, world))
            except BaseException as error:
                found = type(error).__name__
            results.put((name, rank, adapts, found))
            if dist.is_initialized():
                dist.destroy_process_group()
            del schedule, stages


def test_trouble_is_as_without():
    codes, said = run(os.path.abspath(__file__), 2, trouble_main)
    expect(codes == [0, 0], f"exit codes {codes}, {said}")
    found = {(name, rank, adapts): what for name, rank, adapts, what in said}
    print(found)
    for name in TROUBLE:
        for rank in range(2):
            expect((name, rank, False) in found and found.get((name, rank, False)) == found.get((name, rank, True)),
                   f"{name}: rank {rank}: {found.get((name, rank, True))}, without {found.get((name, rank, False))}")
    for name, wanted in (("an exception", "ArithmeticError"), ("an interrupt", "KeyboardInterrupt")):
        expect(found.get((name, 1, True)) == wanted and found.get((name, 0, True)) == "RuntimeError", f"{name}: {found}")


# ---- which go on ---------------------------------------------------------------------------------------------------------------


def from_two_threads_at_once(rank, ranks, group, where):
    """Steps of two threads follow each other, each with the losses of the given schedule."""
    one, two = (stages_of("linear", rank, ranks, group) for _ in range(2))
    given, adapted = made("1F1B", one, MICROBATCHES), slackline.adapt(made("1F1B", two, MICROBATCHES))
    wanted, found = [stepped(given, one, 0, MICROBATCHES) for _ in range(12)], []

    def steps():
        x, y = batch(0, MICROBATCHES)
        for _ in range(6):
            losses = []
            adapted.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None, losses=losses)
            found.append([loss.item() for loss in losses])
    threads = [threading.Thread(target=steps) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "" if found == wanted and adapted.adaptation.active else f"losses {found}, given {wanted[0]}"


def child_of(work, patience_s=60, leave=os._exit):
    """The exit status of a process forked now, which runs `work` and ends; None: it has not ended after `patience_s`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = work()
        finally:
            leave(status)
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


def forked(rank, ranks, group, where):
    """Children that collect garbage and end, or look at the adaptation, between steps; the parent goes on."""
    stages, alone = (stages_of("linear", rank, ranks, group) for _ in range(2))
    given, adapted = made("1F1B", alone, MICROBATCHES), slackline.adapt(made("1F1B", stages, MICROBATCHES))

    def look():
        gc.collect()
        return int(adapted.adaptation.active)
    for step in range(12):
        if stepped(adapted, stages, step, MICROBATCHES) != stepped(given, alone, step, MICROBATCHES):
            return f"step {step}: other losses"
        status = child_of(look) if step % 4 == 2 else 0
        if status != 0:
            return f"step {step}: a child ended with {status}"
    return "" if adapted.adaptation.active else "it gave up"


def ending(rank, ranks, group, where):
    """A child that ends by sys.exit may hang in the end of PyTorch's groups, as without slackline.adapt, but does not crash."""
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for step in range(12):
        stepped(adapted, stages, step, MICROBATCHES)
        if step % 6 == 3:
            status = child_of(lambda: 0, 5, sys.exit)
            if status not in (0, None):
                return f"step {step}: a child ended with {status}"
    return "" if adapted.adaptation.active else "it gave up"


def loaded_by(context):
    """By worker processes that start anew for each epoch while the job adapts."""
    def job(rank, ranks, group, where):
        stages = stages_of("linear", rank, ranks, group)
        data = torch.utils.data.TensorDataset(*(torch.stack(parts) for parts in zip(*(batch(step, MICROBATCHES) for step in range(8)))))
        adapted, count = slackline.adapt(made("1F1B", stages, MICROBATCHES)), 0
        for _ in range(3 if context == "fork" else 1):
            for x, y in torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=context):
                adapted.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None, losses=[])
                count += 1
        return "" if adapted.adaptation.active and count in (8, 24) else f"{count} steps, or it gave up"
    return job


CASES = {"two threads at once": (from_two_threads_at_once, 2), "forked": (forked, 2), "forked, sys.exit": (ending, 2), "loaders, forked": (loaded_by("fork"), 2),
         "loaders, spawned": (loaded_by("spawn"), 2)}


def test_threads_and_children():
    judged(os.path.abspath(__file__), 2, CASES)
