# labels: long torch
"""slackline.adapt(transport="slackline"): delegates carry the messages of a pipeline. Losses and gradients are those of the given schedule over
Gloo bit for bit, also when delegates are killed in the middle of steps; a rank that dies ends the others with an error that names the link;
what cannot be opened leaves the messages to the backend on all ranks; nothing is left behind."""
import os
import signal
import threading
import time
import warnings
from datetime import timedelta

from adapt_torch import Given, Paced, gradients, judged, made, run, slackline, stages_of, stepped
from replicas_torch import Job, OP_S, alike as alike_replicas, happened, is_known
from runner import build, expect

import torch
import torch.distributed as dist
from slackline import _transport
from slackline.adapting import carrying
from slackline.adapting.agreement import Round
from slackline.adapting.engines import Member
from slackline.adapting.replicas import Replicas

os.environ.pop("SLACKLINE_RAILS", None)


def carrier_of(schedule):
    return schedule._agent.carrier


def alike(rank, ranks, group, kind, placement, microbatches, steps, around=None, **more):
    """What differs between the given schedule over Gloo and the adapted one, and the adapted one."""
    given_stages, stages = stages_of(placement, rank, ranks, group), stages_of(placement, rank, ranks, group)
    given = Given(made(kind, given_stages, microbatches), given_stages, microbatches)
    adapted = slackline.adapt(made(kind, stages, microbatches), **{"transport": "slackline", **more})
    if not isinstance(adapted, slackline.adapting.schedule.AdaptedSchedule):
        return f"not adapted: {adapted.adaptation.why}", adapted
    for step in range(steps):
        wanted = given.step(step)
        if around:
            around(step, adapted)
        found = stepped(adapted, stages, step, microbatches), gradients(stages)
        if wanted[0] != found[0] or not all(torch.equal(a, b) for a, b in zip(wanted[1], found[1])):
            return f"step {step}: losses {found[0]}, given {wanted[0]}", adapted
    return "" if adapted.adaptation.active else "it gave up", adapted


def same(kind, placement, microbatches, **more):
    """more: of slackline.Delegates"""
    def job(rank, ranks, group, where):
        wrong, adapted = alike(rank, ranks, group, kind, placement, microbatches, 12, **({"transport": slackline.Delegates(**more)} if more else {}))
        if wrong:
            return wrong
        count = len(carrier_of(adapted).transport.delegates()) if carrier_of(adapted) is not None else 0
        return "" if count and count % more.get("number", 1) == 0 else f"{count} delegates carry it"
    return job


def replicas(sums):
    """A replica that becomes slow takes fewer microbatches, and gradients stay those of one model on all samples."""
    def case(rank, world, group, where):
        job = Job("1F1B", "linear", 2, 6, sums)
        job.schedule = slackline.adapt(job.schedule, replicas=job.copies, transport="slackline")
        ran, slow_at = [], None
        for step in range(300):
            if slow_at is None and is_known(job):
                slow_at = step + 5
            Paced.op = OP_S * (4 if job.replica == 1 and slow_at is not None and step >= slow_at else 1)
            text = str(job.schedule.pipeline_order)
            wrong = job.step(step)
            if wrong:
                return wrong
            ran.append((job.schedule.split, text))
            if job.schedule.split[0] > job.schedule.split[1] or (slow_at is not None and step > slow_at + 100):
                break
        if carrier_of(job.schedule) is None or not job.schedule.adaptation.active:
            return f"not carried, or not adapted: {job.schedule.adaptation.why}"
        return alike_replicas(job, ran) or ("" if ran[-1][0][0] > ran[-1][0][1] else f"split {ran[-1][0]}: {happened(job)}")
    return case


def killed_delegates(rank, ranks, group, where):
    out = os.path.join(where, "killed")

    def kill(step, adapted):
        def later():
            time.sleep(0.004 * (1 + step % 3))  # in the middle of the step
            pids = carrier_of(adapted).transport.delegates()
            os.kill(pids[(step + rank) % len(pids)], signal.SIGKILL)
        if step in (4, 6, 8):
            threading.Thread(target=later).start()
    wrong, adapted = alike(rank, ranks, group, "1F1B", "linear", 8, 24, kill, out=out)
    if wrong:
        return wrong
    dist.barrier(group)
    time.sleep(0.5)
    replaced = [one for one in adapted.adaptation.events if one.kind == "replaced"]
    if not replaced or "signal 9" not in replaced[0].text:
        return f"no replaced delegate among {[(one.kind, one.text) for one in adapted.adaptation.events]}"
    if rank == 0:
        with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
            lines = [line for line in file if '"kind": "replaced"' in line]
        links = {tuple(one.fields["link"]) for one in replaced}
        if not lines or '"link": [' not in lines[0] or len(links) < 2:
            return f"events.jsonl: {lines}, links {links}"  # of other ranks, too
    return ""


# ---- tensors ----------------------------------------------------------------------------------------------------------------


def tensors():
    draw = torch.Generator().manual_seed(3)
    wide = torch.randn(64, 96, generator=draw)
    yield wide
    yield wide.t()  # not contiguous
    yield wide[::3, 5:50:7]
    yield wide.to(torch.bfloat16)
    yield wide.to(torch.float16)[1:]
    yield (wide * 100).to(torch.int64)
    yield (wide * 100).to(torch.int8)
    yield wide > 0
    yield torch.tensor(4.5, dtype=torch.float64)  # no dimension
    yield torch.empty(0, 7)
    yield wide.to(torch.complex64)
    yield wide.requires_grad_()
    yield torch.randn(1_500_000, generator=draw)  # more than a piece, more than all slots
    yield torch.randn(3 * 1024 * 1024 + 1, generator=draw)
    yield torch.randn(1 << 18, generator=draw)  # exactly a piece


def any_tensor_arrives(rank, ranks, group, where):
    carrier, channels = carrying.opened(Round(Member(group, rank, ranks), Replicas([rank], 0), [0, 1], "tensors", []), [0, 1, 0, 1], timedelta(seconds=30))
    if channels != 2:
        return f"{channels} channels"
    both = [carrying.CarriedGroup(rank, ranks, carrier, channel, f"c{channel}") for channel in range(channels)]
    other, sent = 1 - rank, list(tensors())
    # rank 1 sends them in the other order on the other channel; strides of the receiver differ from the sender's
    mine, theirs = (sent, sent[::-1]) if rank == 0 else (sent[::-1], sent)
    for tensor in mine:
        both[rank].send([torch.view_as_real(tensor) if tensor.is_complex() else tensor], other)  # the Work is dropped
    received = []
    for index, tensor in enumerate(theirs):
        buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
        if index % 2 and tensor.dim() == 2:
            buffer = torch.empty(tensor.shape[::-1], dtype=tensor.dtype).t()
        received.append((buffer, both[other].recv([torch.view_as_real(buffer) if buffer.is_complex() else buffer], other)))
    for (buffer, work), tensor in zip(reversed(received), reversed(theirs)):
        work.wait()
        if not work.is_completed() or not work.is_success() or not torch.equal(buffer, tensor.detach()):
            return f"{tensor.dtype} {tuple(tensor.shape)} differs"
    for wrong in (lambda: both[0].send([sent[0]], other, 3), lambda: both[0].send([sent[0].detach().to_sparse()], other)):
        try:
            wrong()
            return "it took what it cannot carry"
        except ValueError:
            pass
    dist.barrier(group)
    if rank == 0:
        both[0].send([torch.zeros(3)], 1).wait()
    else:
        try:
            both[0].recv([torch.zeros(4)], 0).wait()
            return "another size was taken"
        except RuntimeError as error:
            if "link 0 -> 1" not in str(error) or "16 bytes" not in str(error):
                return f"another size: {error}"
    dist.barrier(group)
    began = time.monotonic()
    carrier.close()
    return "" if time.monotonic() - began < 20 and not carrier.transport.delegates() else "it does not close"


# ---- what cannot be opened --------------------------------------------------------------------------------------------------


def left_to_the_backend(break_it, mend, says):
    def job(rank, ranks, group, where):
        if rank == 1:
            break_it()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                wrong, adapted = alike(rank, ranks, group, "1F1B", "linear", 6, 8)
        finally:
            if rank == 1:
                mend()
        mine = [str(one.message) for one in caught if "the backend carries the messages" in str(one.message)]
        if wrong or len(mine) != 1 or says not in mine[0] or "rank 1" not in mine[0]:
            return f"{wrong}; warnings {mine}"
        return "" if carrier_of(adapted) is None else "it has a carrier"
    return job


def no_program():
    os.environ["SLACKLINE_DELEGATE"] = "/nowhere/slackline-delegate"


def program_again():
    del os.environ["SLACKLINE_DELEGATE"]


def no_library():
    os.environ["SLACKLINE_TRANSPORT_LIBRARY"] = "/nowhere/libslackline_transport.so"
    _transport.library.cache_clear()


def library_again():
    del os.environ["SLACKLINE_TRANSPORT_LIBRARY"]
    _transport.library.cache_clear()


def another_transport(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = slackline.adapt(made("1F1B", stages, 4), transport="slackline" if rank else "torch")
    return "" if "transport 'slackline', rank 0 with 'torch'" in adapted.adaptation.why else f"why: {adapted.adaptation.why}"


# ---- life and death ---------------------------------------------------------------------------------------------------------


def wrong_delegates(rank, ranks, group, where):
    schedule = made("1F1B", stages_of("linear", rank, ranks, group), 4)
    for wrong, says in (("ucx", "'ucx'"), (slackline.Delegates(number=0), "from 1 to 4"), (slackline.Delegates(number=5), "from 1 to 4"),
                        (slackline.Delegates(rails=["lo"] * 9), "at most 8"), (slackline.Delegates(rails=[""]), "at most 8"), (None, "None")):
        try:
            slackline.adapt(schedule, transport=wrong)
            return f"{wrong} was taken"
        except slackline.InvalidRequest as error:
            if says not in str(error):
                return f"{wrong}: {error}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = slackline.adapt(schedule, transport=slackline.Delegates(number=1 + rank))
    return "" if "'slackline, 2 delegates', rank 0 with 'slackline'" in adapted.adaptation.why else f"why: {adapted.adaptation.why}"


def a_fork_changes_nothing(rank, ranks, group, where):
    def fork(step, adapted):
        if step == 3:
            child = os.fork()
            if child == 0:
                carrying._close_all()  # as at the end of a process
                os._exit(0)
            os.waitpid(child, 0)
    return alike(rank, ranks, group, "1F1B", "linear", 4, 8, fork)[0]


def dying(rank, world, file, store, results, where):
    """Rank 1 dies in the middle of a step; the others say how theirs ended, and all say which delegates they had."""
    dist.init_process_group("gloo", f"file://{store}.dying", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    stages = stages_of("linear", rank, world)
    adapted = slackline.adapt(made("1F1B", stages, 4), transport="slackline")
    results.put(("delegates", rank, carrier_of(adapted).transport.delegates(), 0.0))
    dist.barrier()
    try:
        for step in range(30):
            if rank == 1 and step == 5:
                threading.Timer(0.004, os.kill, (os.getpid(), signal.SIGKILL)).start()
            stepped(adapted, stages, step, 4)
    except RuntimeError as error:
        results.put(("error", rank, str(error), 0.0))


def nothing_is_left():
    names = [name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")]  # the test's own queue
    expect(not names, f"left in /dev/shm: {names}")


CASES = {
    "1F1B": (same("1F1B", "linear", 8), 4), "1F1B on two ranks": (same("1F1B", "linear", 6), 2),
    "Interleaved1F1B": (same("Interleaved1F1B", "loop", 8), 4), "Interleaved1F1B on two ranks": (same("Interleaved1F1B", "loop", 8), 2),
    "ZBVZeroBubble": (same("ZBVZeroBubble", "wave", 8), 3), "two delegates": (same("ZBVZeroBubble", "wave", 6, number=2, prove_frames=True), 2),
    "a given program": (same("1F1B", "linear", 6, program=os.path.abspath(os.path.join(build, "slackline-delegate"))), 2),
    "wrong delegates": (wrong_delegates, 2),
    "replicas, by hand": (replicas("hand"), 4), "replicas, DistributedDataParallel": (replicas("ddp"), 4), "killed delegates": (killed_delegates, 3),
    "tensors": (any_tensor_arrives, 2), "a fork": (a_fork_changes_nothing, 2),
    "no program": (left_to_the_backend(no_program, program_again, "SLACKLINE_DELEGATE"), 3),
    "no library": (left_to_the_backend(no_library, library_again, "/nowhere"), 2),
    "another transport": (another_transport, 2),
}


def test_delegates_carry_what_gloo_would():
    judged(os.path.abspath(__file__), 4, CASES)
    nothing_is_left()


def test_a_rank_that_dies_ends_the_others_and_leaves_no_process():
    codes, said = run(os.path.abspath(__file__), 3, dying, 200)
    errors = {rank: text for what, rank, text, _ in said if what == "error"}
    expect(codes[1] == -signal.SIGKILL and codes[0] == codes[2] == 0, f"exit codes {codes}")
    expect(set(errors) == {0, 2} and all(f"link {rank} -> 1" in text or f"link 1 -> {rank}" in text for rank, text in errors.items()), f"{errors}")
    pids = [pid for what, _, found, _ in said if what == "delegates" for pid in found]
    until = time.monotonic() + 20
    while (left := [pid for pid in pids if os.path.exists(f"/proc/{pid}") and "slackline-delegate" in open(f"/proc/{pid}/cmdline").read()]) and time.monotonic() < until:
        time.sleep(0.1)
    expect(len(pids) == 8 and not left, f"delegates {pids}, left {left}")
    nothing_is_left()
