"""A run on a device whose memory the host cannot reach (tests/run/device/separate_device.c) has the bits of the same run on
the cpu: every way in which weights, gradients, activations and losses travel goes through the device's copies, and no result
is used before the device has finished."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from bits import SMALL
from runner import build, folder, require, source
from training import train, train_swapping

require("separate/slackline-worker")
SEPARATE = os.path.join(build, "separate")
LLAMA = "model={kind: llama, layers: 4, width: 64, heads: 4, kv_heads: 2, context: 32}"
NINE = "model={kind: gpt2, layers: 9, width: 32, heads: 4, context: 16}"
PACED = ["device.pace_ms={F: 4, I: 4, W: 4}"]
ADAPTS = ["parallel.pipeline=4", "schedule=adaptra", "adapt=true", "iterations=26", "batch.microbatches=12", *PACED,
          "adaptation={hold: 2, dwell: 5, gain: 0.01}", "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]"]


def test_the_worker_has_that_device():
    about = subprocess.run([os.path.join(SEPARATE, "slackline-worker"), "--about"], capture_output=True, text=True, timeout=60)
    assert "isa: separate" in about.stdout, about


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text % (source, source, source))
    return path


def compare(variants):
    file = write("run.yaml", SMALL)
    results = {}
    for name, settings in variants.items():
        cpu = train(build, file, os.path.join(folder, name + "-cpu"), *settings)
        assert len(set(cpu.bits[0])) > 1, f"{name}: the loss does not move: nothing is trained"
        how = train_swapping if settings[:len(ADAPTS)] == ADAPTS else train
        results[name] = how(SEPARATE, file, os.path.join(folder, name), *settings)
        assert results[name].bits == cpu.bits, f"{name}: {results[name].bits} is not {cpu.bits}"
        print(f"{name}: the same bits")
    return results


def test_both_models_have_the_same_bits():
    compare({
        "one": [],
        "four": ["parallel.pipeline=4"],
        "four-untied": ["parallel.pipeline=4", LLAMA],
        "llama-tied": [LLAMA, "model.tied=true"],
        "two-llama-tied": ["parallel.pipeline=2", LLAMA, "model.tied=true", "schedule=zb-h1"],
        "recomputed": ["parallel.pipeline=2", "device.recompute=true"],
    })


def test_every_placement_has_the_same_bits():
    compare({
        "loop": [NINE, "parallel.pipeline=3", "parallel.stages=9", "parallel.placement=loop", "schedule=interleaved-1f1b"],
        "wave": [NINE, "parallel.pipeline=2", "schedule=zb-v", "communication=inorder"],
        "wave-on-one": [NINE, "parallel.pipeline=1", "schedule=zb-v"],
        "parts": [NINE, "parallel.pipeline=2", "schedule=zb-v", "parallel.parts=2"],
    })


def test_replicas_tensor_ranks_and_zero_have_the_same_bits():
    compare({
        "replicas": ["parallel={pipeline: 2, data: 2}"],
        "replicas-of-one": ["parallel={pipeline: 1, data: 2}"],
        "zero": ["parallel={pipeline: 2, data: 2, zero: 1}"],
        "tensor": ["parallel={pipeline: 1, tensor: 2}"],
        "tensor-pipelines": ["parallel={pipeline: 2, tensor: 2}", "schedule=1f1b", "iterations=40"],  # two ranks never wait for each other
        "all": [LLAMA, "parallel={pipeline: 2, data: 2, tensor: 2, zero: 1}"],
    })


def test_swaps_and_delegates_have_the_same_bits():
    compare({"swap": ADAPTS, "delegates": [*ADAPTS, "transport=delegated"]})
