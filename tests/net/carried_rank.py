"""A rank of the job of test_adapt_transport.py: carried_rank.py SOURCE BUILD STORE RANK RAILS. Steps a given schedule over Gloo, then the same steps
of an adapted one with transport="slackline", and writes a line of JSON at the begin and at the end of each of those, and one at the end. In the
steps of KILLS, a delegate of one of the ranks is killed while messages are under way."""
import json
import os
import signal
import sys
import threading
import time
import warnings
from datetime import timedelta

source, build, store, rank, rails = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5].split(",")
os.environ["SLACKLINE_LIBRARY"] = os.path.join(build, "libslackline.so")
sys.path.insert(0, os.path.join(source, "python"))
import slackline  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.pipelining import PipelineStage, Schedule1F1B  # noqa: E402

STEPS, MICROBATCHES, ROWS, WIDTH = 66, 6, 512, 256  # a message has 1 MiB
KILLS = {44: 0, 48: 1, 52: 0, 56: 1}  # the step, and the rank


def say(**what):
    print(json.dumps(what), flush=True)


def killed():
    """Kills one of this rank's delegates in the middle of the step, which takes some ms."""
    time.sleep(0.004)
    pids = adapted._agent.carrier.transport.delegates()
    os.kill(pids[step % len(pids)], signal.SIGKILL)


def made():
    torch.manual_seed(rank)
    stage = PipelineStage(torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64), rank, 2, torch.device("cpu"))
    return stage, Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)


def stepped(stage, schedule, step):
    draw = torch.Generator().manual_seed(step)
    x, y = (torch.randn(MICROBATCHES * ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    stage.submod.zero_grad()
    losses = []
    schedule.step(*(() if rank else (x,)), target=y if rank else None, losses=losses)
    return [loss.item() for loss in losses], [parameter.grad.clone() for parameter in stage.submod.parameters()]


torch.set_num_threads(1)
dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
stage, given = made()
wanted = [stepped(stage, given, step) for step in range(STEPS)]
stage, schedule = made()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    adapted = slackline.adapt(schedule, transport=slackline.Delegates(rails=rails), frozen=True)
say(warnings=[str(one.message) for one in caught], carried=adapted._agent is not None and adapted._agent.carrier is not None)
wrong = []
for step in range(STEPS):
    if KILLS.get(step) == rank:
        threading.Thread(target=killed).start()
    say(begin=step)
    began = time.monotonic()
    losses, grads = stepped(stage, adapted, step)
    say(step=step, ms=round((time.monotonic() - began) * 1e3, 1))
    if losses != wanted[step][0] or not all(torch.equal(a, b) for a, b in zip(grads, wanted[step][1])):
        wrong.append(step)
time.sleep(0.5)
say(wrong=wrong, events=[[one.kind, one.text, one.fields.get("link")] for one in adapted.adaptation.events])
dist.barrier()
dist.destroy_process_group()
