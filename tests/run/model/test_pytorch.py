# labels: torch
"""Loss, logits and every gradient of our stages against PyTorch, for the same weights and text; of both kinds, whole and
divided over tensor ranks.

PyTorch's side (tests/torch/transformers_torch.py) is written from the formulas of GPT-2 and Llama, in f64, so that it is
the exact value to which our f32 is compared."""
import os
import subprocess
import sys
import tempfile

from runner import build, expect, skip, source

python = os.path.join(source, ".venv", "bin", "python")
if os.environ.get("SL_IN_VENV") != "1":
    if subprocess.call([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL) if os.path.exists(python) else 1:
        skip("no .venv with torch (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt)")
    os.environ["SL_IN_VENV"] = "1"
    os.execv(python, [python, *sys.orig_argv[1:]])

import numpy as np
import torch
import torch.nn.functional as F
from transformers_torch import Transformer

program = os.path.join(build, "tests", "test_run_model_gradients")
# Largest relative error of logits and of any gradient: f32, and with operands of products rounded to 8 bits. A product's
# error is then some 2^-9 of its norm; a gradient collects those of every product before it, here some 30, and those of q
# and k are small differences of large numbers.
ALLOWED = {False: 1e-4, True: 5e-2}
CASES = ["gpt2", "gpt2-tensor", "gpt2-50257", "llama", "llama-tensor", "llama-tied", "gpt2-bf16", "llama-bf16"]


class Case:
    """What our stages have left in a folder: shape, weights and text to compute from, results to compare with."""

    def __init__(self, name):
        with tempfile.TemporaryDirectory() as folder:
            self.status = subprocess.call([program, "--write", folder, name])
            if self.status == 77:
                return
            assert self.status == 0
            read = lambda file, kind: np.fromfile(os.path.join(folder, file), kind)
            about = open(os.path.join(folder, "about.txt")).read().split()
            self.names = [line.split() for line in open(os.path.join(folder, "parameters.txt"))]
            text, weights = read("text.u16", np.uint16), read("weights.f32", np.float32)
            gradients, logits = read("gradients.f32", np.float32), read("logits.f32", np.float32)
        *shape, sequences, tied = map(int, about[1:10])
        base, epsilon, self.loss = map(float, about[10:])
        self.model = Transformer(about[0], *shape, tied, base, epsilon)
        self.text = torch.from_numpy(text.astype(np.int64)).reshape(2, sequences, self.model.context)
        self.logits = torch.from_numpy(logits).double().reshape(sequences, self.model.context, self.model.vocabulary)
        self.w, self.gradients, at = {}, {}, 0
        for parameter, rows, columns in self.names:
            shape = (int(rows), int(columns)) if int(rows) else (int(columns),)
            count = int(np.prod(shape))
            self.w[parameter] = torch.from_numpy(weights[at:at + count].reshape(shape)).double().requires_grad_()
            self.gradients[parameter] = torch.from_numpy(gradients[at:at + count].reshape(shape)).double()
            at += count
        assert at == len(weights) == len(gradients)


def compare(name):
    case, allowed = Case(name), ALLOWED[name.endswith("bf16")]
    if case.status == 77:
        return print(f"{name}: left out, this processor has no bf16")
    assert {n: tuple(p.shape) for n, p in case.w.items()} == case.model.shapes(), "shapes differ from Hugging Face's"
    assert list(case.w) == list(case.model.shapes()), "names or order differ from Hugging Face's"
    logits = case.model.logits(case.w, case.text[0])
    loss = F.cross_entropy(logits.flatten(0, 1), case.text[1].flatten())
    loss.backward()
    expect(abs(case.loss - loss.item()) <= 0.02 * allowed * abs(loss.item()), f"{name}: loss {case.loss:.9g}, PyTorch {loss.item():.9g}")
    apart = ((case.logits - logits).norm() / logits.norm()).item()
    expect(apart <= allowed, f"{name}: logits are {apart:.2e} apart")
    worst = 0.0
    for parameter, p in case.w.items():
        error = ((case.gradients[parameter] - p.grad).norm() / p.grad.norm()).item()
        worst = max(worst, error)
        expect(error <= allowed, f"{name}: {parameter}: relative error {error:.2e}")
    print(f"{name}: loss {case.loss:.9g} (PyTorch {loss.item():.9g}), logits {apart:.2e}, {len(case.w)} gradients {worst:.2e}")


def test_loss_logits_and_gradients_are_pytorchs():
    for name in CASES:
        compare(name)


def test_the_optimizers_formula_is_pytorchs():
    # held by test_optimizer.c with these numbers: PyTorch's AdamW, three steps
    p = torch.nn.Parameter(torch.tensor([[0.5, -1.25, 2.0]]))
    adam = torch.optim.AdamW([p], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(3):
        p.grad = torch.tensor([[0.1, -2.0, 1e-3]]) * (step + 1)
        adam.step()
    numbers = [0.469506115, -1.21725833, 1.965011]
    expect(torch.allclose(p.detach(), torch.tensor([numbers]), atol=1e-7, rtol=0),
           f"AdamW: PyTorch gives {[f'{v:.9g}' for v in p.detach().flatten().tolist()]}")
