# labels: gpu
"""Training on an NVIDIA GPU, which several ranks share: loss and weights are the same bits for every schedule, number of pipeline
ranks, placement, transport and moves to host memory, and the first losses are near those of the CPU."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from bits import SMALL
from runner import build, folder, skip, source
from training import arguments, train

about = subprocess.run([os.path.join(build, "slackline-worker"), "--about"], capture_output=True, text=True, timeout=60).stdout
card = re.search(r"^CUDA: (.*)$", about, re.M)
card or skip(re.search(r"^CUDA is not there: .*$", about, re.M)[0])
print(card[0])
LLAMA = "model={kind: llama, layers: 4, width: 64, heads: 4, kv_heads: 2, context: 32}"
file = os.path.join(folder, "run.yaml")
with open(file, "w") as out:
    out.write(SMALL % (source, source, source))


def run(name, *settings):
    return train(build, file, os.path.join(folder, name), "device.kind=cuda", *settings)


def compare(model, variants):
    reference = run("one-" + variants, *model)
    assert len(set(reference.bits[0])) > 1, "the loss does not move: nothing is trained"
    for name, settings in {
        "2-gpipe": ["parallel.pipeline=2", "schedule=gpipe"],
        "4-zb-h2": ["parallel.pipeline=4", "schedule=zb-h2", "transport=delegated"],
        "wave": ["parallel.pipeline=2", "schedule=zb-v"],
    }.items():
        result = run(f"{variants}-{name}", *model, *settings)
        assert result.bits == reference.bits, f"{variants} {name}: {result.bits} is not {reference.bits}"
    return reference


def test_schedules_and_ranks_change_no_bit_and_the_cpu_is_near():
    on_card = compare([], "gpt2")
    on_cpu = train(build, file, os.path.join(folder, "cpu"))
    for ours, theirs in zip(on_card.bits[0], on_cpu.bits[0]):
        assert abs(float(ours) - float(theirs)) < 1e-3, f"{on_card.bits[0]} and {on_cpu.bits[0]}"


def test_the_same_of_llama_with_bf16():
    compare([LLAMA, "device.precision=bf16"], "llama")


def test_memory_that_does_not_fit_is_refused():
    settings = ["device.kind=cuda", "model={kind: gpt2, layers: 96, width: 12288, heads: 96, context: 2048}", "data.seed=1"]
    done = subprocess.run(arguments(build, file, os.path.join(folder, "large"), settings), capture_output=True, text=True, timeout=200)
    assert done.returncode != 0 and "of the card's memory" in done.stderr, done
