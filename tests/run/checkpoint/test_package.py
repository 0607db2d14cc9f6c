# labels: long
"""What a checkpoint holds, as the Python package `safetensors` reads it: names, shapes and index are Hugging Face's, every
weight is there once, and values are the ones that training started with (moved by nothing at a learning rate of next to 0) and
that PyTorch's arithmetic gives for the moments. Weights that the package writes, in f32, f16 and bf16, with and without
the prefix "transformer.", in one file and in shards, are trained from; what does not fit is named."""
import json
import os
import subprocess
import sys

from runner import build, folder, require, skip, source

command, python = os.path.join(build, "slackline"), os.path.join(source, ".venv", "bin", "python")
require("slackline-worker")
if os.environ.get("SL_IN_VENV") != "1":
    probe = "import torch, safetensors.torch"
    if not os.path.exists(python) or subprocess.call([python, "-c", probe], stderr=subprocess.DEVNULL):
        skip("no .venv with torch and safetensors (tests/requirements.txt)")
    os.environ["SL_IN_VENV"] = "1"
    os.execv(python, [python, *sys.orig_argv[1:]])

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

LAYERS, WIDTH, HEADS, CONTEXT = 3, 32, 4, 16
RUN = f"""
model: {{kind: gpt2, layers: {LAYERS}, width: {WIDTH}, heads: {HEADS}, context: {CONTEXT}}}
data: {{files: ["{source}/docs/design.md"], seed: 3}}
parallel: {{pipeline: 2}}
batch: {{microbatches: 2, size: 2}}
optimizer: {{kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2, decay: 0}}
iterations: 3
schedule: 1f1b
adapt: false
checkpoint: {{every: 1, keep: 9}}
"""


def shapes():
    found = {"wte.weight": [256, WIDTH], "wpe.weight": [CONTEXT, WIDTH], "ln_f.weight": [WIDTH], "ln_f.bias": [WIDTH]}
    for layer in range(LAYERS):
        for name, shape in {"ln_1.weight": [1], "ln_1.bias": [1], "attn.c_attn.weight": [1, 3], "attn.c_attn.bias": [3],
                            "attn.c_proj.weight": [1, 1], "attn.c_proj.bias": [1], "ln_2.weight": [1], "ln_2.bias": [1],
                            "mlp.c_fc.weight": [1, 4], "mlp.c_fc.bias": [4], "mlp.c_proj.weight": [4, 1],
                            "mlp.c_proj.bias": [1]}.items():
            found[f"h.{layer}.{name}"] = [WIDTH * size for size in shape]
    return found


def train(folder, out, *settings, code=0, resume=False):
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as stream:
        stream.write(RUN)
    words = [command, "train", file, "--out", os.path.join(folder, out)] + ["--resume"] * resume
    for setting in settings:
        words += ["--set", setting]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{out}: exit {done.returncode}: {done.stderr}"
    return done.stderr


def checkpoint(folder, out, step):
    """All tensors, through the index; the files that it does not name are the optimizer's."""
    path = os.path.join(folder, out, "checkpoints", f"step-{step:06d}")
    index = json.load(open(os.path.join(path, "model.safetensors.index.json")))
    weights, moments = {}, {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(path, name), framework="pt") as file:
                for tensor in file.keys():
                    where = weights if index["weight_map"].get(tensor) == name else moments
                    assert tensor not in where, f"{tensor} is there twice"
                    where[tensor] = file.get_tensor(tensor)
                stated = file.metadata()
                assert stated.pop("format") == "pt"
                assert stated == {f"xxh64.{name}": stated.get(f"xxh64.{name}") for name in file.keys()}, stated
    assert set(weights) == set(index["weight_map"]), "the index and the files differ"
    assert index["metadata"]["total_size"] == sum(4 * tensor.numel() for tensor in weights.values())
    return weights, moments, json.load(open(os.path.join(path, "config.json")))


def losses(folder, out):
    return [json.loads(line, parse_float=str)["loss"] for line in open(os.path.join(folder, out, "metrics.jsonl"))]


def test_names_and_shapes_are_hugging_faces():
    train(folder, "names")
    weights, moments, config = checkpoint(folder, "names", 3)
    assert {name: list(tensor.shape) for name, tensor in weights.items()} == shapes()
    assert set(moments) == {f"{name}.moment{k}" for name in shapes() for k in (1, 2)}
    assert all(tensor.dtype == torch.float32 for tensor in list(weights.values()) + list(moments.values()))
    assert config["model_type"] == "gpt2" and config["n_layer"] == LAYERS and config["n_embd"] == WIDTH
    assert (config["n_head"], config["n_positions"], config["vocab_size"]) == (HEADS, CONTEXT, 256)
    print("names, shapes, index and config: Hugging Face's")


def test_an_update_is_pytorchs_arithmetic():
    """AdamW without decay: from the moments of steps 1 and 2 follow the gradient of step 2 and, with the weights of step 1,
    the weights of step 2: w - rate * (m / (1 - b1^2)) / (sqrt(v / (1 - b2^2)) + eps)."""
    import math
    train(folder, "steps", "iterations=1")
    train(folder, "steps", "iterations=2", resume=True)
    (before, old, _), (after, new, _) = checkpoint(folder, "steps", 1), checkpoint(folder, "steps", 2)
    rate = 1e-3  # the second of two iterations of warm-up
    worst = 0
    for name in before:
        m1, m2 = (x[name + ".moment1"].double() for x in (old, new))
        v1, v2 = (x[name + ".moment2"].double() for x in (old, new))
        gradient = (m2 - 0.9 * m1) / 0.1
        assert torch.allclose(v2, 0.95 * v1 + 0.05 * gradient ** 2, rtol=1e-3, atol=1e-12), name
        step = rate * (m2 / (1 - 0.9 ** 2)) / ((v2 / (1 - 0.95 ** 2)).sqrt() + 1e-8)
        worst = max(worst, (before[name].double() - step - after[name].double()).abs().max().item())
    assert worst < 1e-6 and not math.isnan(worst), worst
    print(f"weights and moments of two checkpoints agree with AdamW within {worst:.1e}")


def test_written_weights_are_trained_from():
    torch.manual_seed(4)
    mine = {name: torch.randn(shape) * 0.05 for name, shape in shapes().items()}
    mask = {f"h.{layer}.attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT, dtype=torch.bool) for layer in range(LAYERS)}
    kinds = {
        "f32": (mine, torch.float32, ""), "prefix": (mine | mask, torch.float32, "transformer."),
        "bf16": (mine, torch.bfloat16, ""), "f16": (mine, torch.float16, "transformer."),
    }
    seen = {}
    for kind, (tensors, dtype, prefix) in kinds.items():
        path = os.path.join(folder, "hf-" + kind)
        os.mkdir(path)
        tensors = {prefix + name: tensor if tensor.dtype == torch.bool else tensor.to(dtype)
                   for name, tensor in tensors.items()}
        save_file(tensors, os.path.join(path, "model.safetensors"))
        train(folder, kind, "model.weights=" + path, "optimizer.lr=1e-300")
        weights, _, _ = checkpoint(folder, kind, 3)
        for name, tensor in weights.items(): # nothing moves at such a rate
            assert torch.equal(tensor, tensors[prefix + name].float()), f"{kind}: {name}"
        seen[kind] = losses(folder, kind)
        print(f"{kind}: every weight as the package wrote it, loss {seen[kind][0]}")
    assert seen["f32"] == seen["prefix"] and seen["bf16"] != seen["f32"] != seen["f16"]
    shards = os.path.join(folder, "hf-shards")
    os.mkdir(shards)
    names = sorted(mine)
    where = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(names)}
    for file in set(where.values()):
        save_file({name: mine[name] for name in names if where[name] == file}, os.path.join(shards, file))
    with open(os.path.join(shards, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": where}, file)
    train(folder, "shards", "model.weights=" + shards, "optimizer.lr=1e-300", "parallel.pipeline=3")
    assert losses(folder, "shards") == seen["f32"]
    train(folder, "again", "model.weights=" + os.path.join(folder, "shards", "checkpoints", "step-000003"),
          "optimizer.lr=1e-300")
    assert losses(folder, "again") == seen["f32"]
    print("shards, and a checkpoint of our own: the same losses")


def llama_names(hidden, keys):
    """Those of Hugging Face's LlamaForCausalLM: Linear weights are [outputs, inputs]."""
    found = {"model.embed_tokens.weight": [256, WIDTH], "model.norm.weight": [WIDTH], "lm_head.weight": [256, WIDTH]}
    for layer in range(LAYERS):
        for name, shape in {"input_layernorm": [WIDTH], "post_attention_layernorm": [WIDTH],
                            "self_attn.q_proj": [WIDTH, WIDTH], "self_attn.k_proj": [keys, WIDTH],
                            "self_attn.v_proj": [keys, WIDTH], "self_attn.o_proj": [WIDTH, WIDTH],
                            "mlp.gate_proj": [hidden, WIDTH], "mlp.up_proj": [hidden, WIDTH],
                            "mlp.down_proj": [WIDTH, hidden]}.items():
            found[f"model.layers.{layer}.{name}.weight"] = shape
    return found


def test_a_llama_is_hugging_faces():
    torch.manual_seed(5)
    kind = f"model={{kind: llama, layers: {LAYERS}, width: {WIDTH}, heads: 4, kv_heads: 2, hidden: 48, context: {CONTEXT}"
    names = llama_names(48, WIDTH // 2)
    mine = {name: torch.randn(shape) * 0.05 for name, shape in names.items()}
    for tied in (False, True):
        if tied:
            mine["lm_head.weight"] = mine["model.embed_tokens.weight"].clone()
        path = os.path.join(folder, f"hf-llama-{tied}")
        os.mkdir(path)
        buffers = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(4) for layer in range(LAYERS)}
        save_file(mine | buffers, os.path.join(path, "model.safetensors"))
        train(folder, f"llama-{tied}", kind + f", tied: {str(tied).lower()}, weights: {path}}}", "optimizer.lr=1e-300",
              "parallel={pipeline: 2, tensor: 2}")
        weights, _, config = checkpoint(folder, f"llama-{tied}", 3)
        assert set(weights) == set(names) - ({"lm_head.weight"} if tied else set()), sorted(weights)
        assert all(torch.equal(tensor, mine[name]) for name, tensor in weights.items())
        assert config["tie_word_embeddings"] == tied and config["num_key_value_heads"] == 2
        assert config["intermediate_size"] == 48 and config["model_type"] == "llama"
    print("llama, its head apart or tied, over two tensor ranks: every weight as the package wrote it")


def test_what_does_not_fit_is_named():
    good = load_file(os.path.join(folder, "hf-f32", "model.safetensors"))
    cases = {
        "missing": (lambda t: t.pop("h.1.ln_2.bias"), "'model.weights': .*lacks tensor 'h.1.ln_2.bias'"),
        "extra": (lambda t: t.update({"h.7.ln_2.bias": torch.zeros(3)}), "h.7.ln_2.bias', which the model does not know"),
        "shape": (lambda t: t.update({"wpe.weight": torch.zeros(CONTEXT + 1, WIDTH)}),
                  r"'wpe.weight' has shape \[17, 32\], the model needs \[16, 32\]"),
        "type": (lambda t: t.update({"ln_f.bias": torch.zeros(WIDTH, dtype=torch.int32)}), "'ln_f.bias' has dtype I32"),
        "head": (lambda t: t.update({"lm_head.weight": torch.zeros(256, WIDTH)}),
                 "'lm_head.weight' differs from 'wte.weight'"),
    }
    import re
    for name, (change, says) in cases.items():
        path = os.path.join(folder, "bad-" + name)
        os.mkdir(path)
        tensors = dict(good)
        change(tensors)
        save_file(tensors, os.path.join(path, "model.safetensors"))
        error = train(folder, "bad", "model.weights=" + path, code=2)
        assert error.count("\n") == 1 and re.search(says, error), f"{name}: {error}"
        print(f"{name}: {error.strip()[:150]}")
    tensors = dict(good, **{"lm_head.weight": good["wte.weight"].clone()})
    save_file(tensors, os.path.join(folder, "bad-head", "model.safetensors"))
    train(folder, "tied", "model.weights=" + os.path.join(folder, "bad-head"), "optimizer.lr=1e-300")
    assert losses(folder, "tied") == losses(folder, "f32")
    print("a head equal to the embedding is the embedding")
