# labels: torch
"""Loss and every gradient of our stages against PyTorch, for the same weights and text.

PyTorch's side is written from the formulas of GPT-2 with torch.nn.functional and autograd, in f64, so that it is
the exact value to which our f32 is compared. Called with BUILD_DIR SOURCE_DIR."""
import os
import subprocess
import sys
import tempfile

build, source = sys.argv[1], sys.argv[2]
python = os.path.join(source, ".venv", "bin", "python")
if os.environ.get("SL_IN_VENV") != "1":
    if subprocess.call([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL) if os.path.exists(python) else 1:
        print("skipped: no .venv with torch (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt)")
        sys.exit(77)
    os.environ["SL_IN_VENV"] = "1"
    os.execv(python, [python] + sys.argv)

import numpy as np
import torch
import torch.nn.functional as F

program = os.path.join(build, "tests", "test_run_model_gradients")
with tempfile.TemporaryDirectory() as folder:
    subprocess.check_call([program, "--write", folder])
    read = lambda name, kind: np.fromfile(os.path.join(folder, name), kind)
    about = open(os.path.join(folder, "about.txt")).read().split()
    layers, width, heads, context, sequences = map(int, about[:5])
    loss_ours = float(about[5])
    text = torch.from_numpy(read("text.u16", np.uint16).astype(np.int64)).reshape(2, sequences, context)
    weights, gradients = read("weights.f32", np.float32), read("gradients.f32", np.float32)
    names = [line.split() for line in open(os.path.join(folder, "parameters.txt"))]

w, ours, at = {}, {}, 0
for name, rows, columns in names:
    shape = (int(rows), int(columns)) if int(rows) else (int(columns),)
    count = int(np.prod(shape))
    w[name] = torch.from_numpy(weights[at:at + count].reshape(shape)).double().requires_grad_()
    ours[name] = torch.from_numpy(gradients[at:at + count].reshape(shape)).double()
    at += count
assert at == len(weights) == len(gradients)
expected = ["wte.weight", "wpe.weight"]
for layer in range(layers):
    for part in ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]:
        expected += [f"h.{layer}.{part}.weight", f"h.{layer}.{part}.bias"]
expected += ["ln_f.weight", "ln_f.bias"]
assert list(w) == expected, "names or order differ from Hugging Face's"


def norm(x, name):
    return F.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], 1e-5)


def linear(x, name):
    return x @ w[name + ".weight"] + w[name + ".bias"]


x = w["wte.weight"][text[0]] + w["wpe.weight"]
for layer in range(layers):
    h = f"h.{layer}."
    q, k, v = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(width, dim=2)
    apart = lambda y: y.view(sequences, context, heads, width // heads).transpose(1, 2)
    y = F.scaled_dot_product_attention(apart(q), apart(k), apart(v), is_causal=True)
    x = x + linear(y.transpose(1, 2).reshape(sequences, context, width), h + "attn.c_proj")
    x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
logits = norm(x, "ln_f") @ w["wte.weight"].T
loss = F.cross_entropy(logits.flatten(0, 1), text[1].flatten())
loss.backward()

failed = 0
print(f"loss: ours {loss_ours:.9g}, PyTorch {loss.item():.9g}")
if not abs(loss_ours - loss.item()) <= 2e-6 * abs(loss.item()):
    failed += 1
worst = 0.0
for name, p in w.items():
    error = ((ours[name] - p.grad).norm() / p.grad.norm()).item()
    worst = max(worst, error)
    if not error <= 1e-4:
        print(f"{name}: relative error {error:.2e}")
        failed += 1
print(f"{len(w)} gradients, largest relative error {worst:.2e}")

# The optimizer's formula, held by test_optimizer.c with these numbers: PyTorch's AdamW, three steps.
p = torch.nn.Parameter(torch.tensor([[0.5, -1.25, 2.0]]))
adam = torch.optim.AdamW([p], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
for step in range(3):
    p.grad = torch.tensor([[0.1, -2.0, 1e-3]]) * (step + 1)
    adam.step()
numbers = [0.469506115, -1.21725833, 1.965011]
if not torch.allclose(p.detach(), torch.tensor([numbers]), atol=1e-7, rtol=0):
    print("AdamW: PyTorch gives", [f"{v:.9g}" for v in p.detach().flatten().tolist()])
    failed += 1
sys.exit(1 if failed else 0)
