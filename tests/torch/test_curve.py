# labels: long torch
"""`slackline train` learns what PyTorch learns: the losses of 50 iterations, from the same initial weights and the same
data, differ by less than 1e-3.

Everything on PyTorch's side is made here from the documented rules: initial weights (splitmix64, Box and Muller, keyed by
name), windows of the text (an epoch's permutation by four Feistel rounds), AdamW with clipping and the cosine rate."""
import json
import math
import os
import random
import subprocess

from runner import expect, folder, require
from venv_torch import command
import numpy as np
import torch
import torch.nn.functional as F
from transformers_torch import Transformer

require("slackline-worker")

MASK, STEP, SEED, ITERATIONS, WARMUP = 2 ** 64 - 1, 0x9e3779b97f4a7c15, 3, 50, 5


def mix(z):
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb & MASK
    return z ^ (z >> 31)


def initial(name, shape, layers):
    if len(shape) == 1:
        return np.full(shape, 0.0 if name.endswith("bias") else 1.0)
    residual = name.endswith(("c_proj.weight", "o_proj.weight", "down_proj.weight"))
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & MASK
    key = mix(mix(SEED + STEP & MASK) ^ h)
    count = math.prod(shape)
    out = np.empty(count + 1)
    for i in range(0, count, 2):
        u = ((mix(key + i * STEP & MASK) >> 11) + 0.5) * 2.0 ** -53
        v = (mix(key + (i + 1) * STEP & MASK) >> 11) * 2.0 ** -53
        length = math.sqrt(-2 * math.log(u))
        out[i], out[i + 1] = length * math.cos(2 * math.pi * v), length * math.sin(2 * math.pi * v)
    deviation = 0.02 / math.sqrt(2 * layers) if residual else 0.02
    return (deviation * out[:count]).astype(np.float32).reshape(shape)


class Text:
    def __init__(self, tokens, context, batch):
        tail = max(int(len(tokens) * 0.05), batch * context + 1)
        self.tokens, self.context = torch.tensor(tokens), context
        self.windows = (len(tokens) - tail - 1) // context

    def window(self, n):
        epoch, index = divmod(n, self.windows)
        key, half = mix(mix(SEED + STEP & MASK) + epoch & MASK), 1
        while 2 ** (2 * half) < self.windows:
            half += 1
        while True:
            for r in range(4):
                left, right = index >> half, index & 2 ** half - 1
                index = right << half | left ^ mix(key + r * STEP + right & MASK) & 2 ** half - 1
            if index < self.windows:
                return index * self.context

    def sequences(self, first, count):
        at = [self.window(n) for n in range(first, first + count)]
        cut = lambda shift: torch.stack([self.tokens[a + shift:a + shift + self.context] for a in at])
        return cut(0), cut(1)


def rate(i, top):
    if i < WARMUP:
        return top * (i + 1) / WARMUP
    return top * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (i - WARMUP) / (ITERATIONS - WARMUP))))


def pytorch(model, text, sequences, lr, clip):
    weights = {name: torch.from_numpy(np.array(initial(name, shape, model.layers), dtype=np.float64)).requires_grad_()
               for name, shape in model.shapes().items()}
    adam = torch.optim.AdamW([{"params": [w for w in weights.values() if w.dim() > 1], "weight_decay": 0.1},
                              {"params": [w for w in weights.values() if w.dim() == 1], "weight_decay": 0.0}],
                             betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for i in range(ITERATIONS):
        tokens, targets = text.sequences(i * sequences, sequences)
        loss = F.cross_entropy(model.logits(weights, tokens).flatten(0, 1), targets.flatten())
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), clip)
        for group in adam.param_groups:
            group["lr"] = rate(i, lr)
        adam.step()
        losses.append(loss.item())
    return losses


def ours(name, settings):
    out = os.path.join(folder, name)
    done = subprocess.run([command, "train", os.path.join(folder, "run.yaml"), "--out", out,
                           *(word for s in settings for word in ("--set", s))], capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr}"
    return [json.loads(line)["loss"] for line in open(os.path.join(out, "metrics.jsonl"))]


draw = random.Random(1)
words = ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(2, 7))) for _ in range(60)]
characters = " ".join(draw.choice(words) for _ in range(3000)).encode()
ids, state = [], 7
for _ in range(9000):
    state = (state * 37 + 11) % 1000 if draw.random() < 0.7 else draw.randrange(1000)
    ids.append(state)
with open(os.path.join(folder, "text"), "wb") as file:
    file.write(characters)
np.array(ids, dtype="<u2").tofile(os.path.join(folder, "ids"))
with open(os.path.join(folder, "run.yaml"), "w") as file:
    file.write(f"""model: {{layers: 2, width: 48, heads: 4, context: 32}}
data: {{files: ["{folder}/text"], seed: {SEED}}}
batch: {{microbatches: 4, size: 2}}
optimizer: {{kind: adamw, lr: 3e-3, warmup: {WARMUP}, clip: 0.5}}
iterations: {ITERATIONS}
schedule: 1f1b
adapt: false
""")


def test_losses_are_those_of_pytorch():
    grouped = ["model.kind=llama", "model.kv_heads=2", "data.tokens=uint16", f"data.files={folder}/ids", "model.vocabulary=1000"]
    layouts = [["parallel.pipeline=2"], ["parallel.tensor=2", "parallel.data=2"]]
    for name, model, tokens, settings in [
            ("gpt2", Transformer("gpt2", 2, 48, 4, 4, 192, 32, 256, 1), list(characters), []),
            ("llama", Transformer("llama", 2, 48, 4, 2, 128, 32, 1000, 0), ids, grouped)]:
        exact = pytorch(model, Text(tokens, 32, 2), 8, 3e-3, 0.5)
        assert exact[-1] < 0.9 * exact[0], f"{name}: PyTorch learns nothing: {exact[0]} to {exact[-1]}"
        for layout in layouts:
            losses = ours(f"{name}-{len(layout)}", settings + layout)
            apart = max(abs(a - b) for a, b in zip(losses, exact))
            print(f"{name} {' '.join(layout)}: loss {losses[0]:.6f} to {losses[-1]:.6f}, at most {apart:.1e} from PyTorch's")
            expect(len(losses) == ITERATIONS and apart < 1e-3, f"{name} {layout}: {len(losses)} iterations, {apart:.1e} apart")
