# labels: torch
"""Loss, logits and every gradient of our stages against PyTorch, for the same weights and text; of both kinds, whole and
divided over tensor ranks.

PyTorch's side is written from the formulas of GPT-2 and Llama with torch.nn.functional and autograd, in f64, so that it is
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
        self.kind = about[0]
        (self.layers, self.width, self.heads, self.kv_heads, self.hidden, self.context, self.vocabulary, self.sequences,
         self.tied) = map(int, about[1:10])
        self.base, self.epsilon, self.loss = map(float, about[10:])
        self.text = torch.from_numpy(text.astype(np.int64)).reshape(2, self.sequences, self.context)
        self.logits = torch.from_numpy(logits).double().reshape(self.sequences, self.context, self.vocabulary)
        self.w, self.gradients, at = {}, {}, 0
        for parameter, rows, columns in self.names:
            shape = (int(rows), int(columns)) if int(rows) else (int(columns),)
            count = int(np.prod(shape))
            self.w[parameter] = torch.from_numpy(weights[at:at + count].reshape(shape)).double().requires_grad_()
            self.gradients[parameter] = torch.from_numpy(gradients[at:at + count].reshape(shape)).double()
            at += count
        assert at == len(weights) == len(gradients)

    def attention(self, q, k, v):
        size = self.width // self.heads
        q, k, v = (y.view(self.sequences, self.context, -1, size).transpose(1, 2) for y in (q, k, v))
        if self.kind == "llama":
            q, k = self.turn(q), self.turn(k)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(self.sequences, self.context, self.width)

    def turn(self, x):
        """Rotary positions as transformers' apply_rotary_pos_emb: x cos + rotate_half(x) sin."""
        size = x.shape[-1]
        frequency = self.base ** -(torch.arange(0, size, 2).double() / size)
        angle = torch.outer(torch.arange(self.context).double(), frequency).repeat(1, 2)
        half = torch.cat((-x[..., size // 2:], x[..., :size // 2]), dim=-1)
        return x * angle.cos() + half * angle.sin()

    def gpt2(self):
        w, names = self.w, ["wte.weight", "wpe.weight"]
        norm = lambda x, name: F.layer_norm(x, (self.width,), w[name + ".weight"], w[name + ".bias"], 1e-5)
        linear = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
        x = w["wte.weight"][self.text[0]] + w["wpe.weight"]
        for layer in range(self.layers):
            h = f"h.{layer}."
            qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(self.width, dim=2)
            x = x + linear(self.attention(*qkv), h + "attn.c_proj")
            x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
            for part in ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]:
                names += [f"{h}{part}.weight", f"{h}{part}.bias"]
        return norm(x, "ln_f") @ w["wte.weight"].T, names + ["ln_f.weight", "ln_f.bias"]

    def llama(self):
        w, names = self.w, ["model.embed_tokens.weight"]
        norm = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * w[name + ".weight"]
        linear = lambda x, name: F.linear(x, w[name + ".weight"])
        x = w["model.embed_tokens.weight"][self.text[0]]
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            y = norm(x, h + "input_layernorm")
            y = self.attention(*(linear(y, f"{h}self_attn.{p}_proj") for p in "qkv"))
            x = x + linear(y, h + "self_attn.o_proj")
            y = norm(x, h + "post_attention_layernorm")
            x = x + linear(F.silu(linear(y, h + "mlp.gate_proj")) * linear(y, h + "mlp.up_proj"), h + "mlp.down_proj")
            names += [f"{h}self_attn.{p}_proj.weight" for p in "qkvo"]
            names += [f"{h}mlp.{p}_proj.weight" for p in ("gate", "up", "down")]
            names += [f"{h}{p}_layernorm.weight" for p in ("input", "post_attention")]
        head = "model.embed_tokens" if self.tied else "lm_head"
        return linear(norm(x, "model.norm"), head), names + ["model.norm.weight"] + ["lm_head.weight"] * (not self.tied)


def compare(name):
    case, failed, allowed = Case(name), 0, ALLOWED[name.endswith("bf16")]
    if case.status == 77:
        print(f"{name}: left out, this processor has no bf16")
        return 0
    logits, names = case.gpt2() if case.kind == "gpt2" else case.llama()
    assert list(case.w) == names, "names or order differ from Hugging Face's"
    loss = F.cross_entropy(logits.flatten(0, 1), case.text[1].flatten())
    loss.backward()
    if not abs(case.loss - loss.item()) <= 0.02 * allowed * abs(loss.item()):
        print(f"{name}: loss {case.loss:.9g}, PyTorch {loss.item():.9g}")
        failed += 1
    apart = ((case.logits - logits).norm() / logits.norm()).item()
    failed += not apart <= allowed
    worst = 0.0
    for parameter, p in case.w.items():
        error = ((case.gradients[parameter] - p.grad).norm() / p.grad.norm()).item()
        worst = max(worst, error)
        if not error <= allowed:
            print(f"{name}: {parameter}: relative error {error:.2e}")
            failed += 1
    print(f"{name}: loss {case.loss:.9g} (PyTorch {loss.item():.9g}), logits {apart:.2e}, {len(case.w)} gradients {worst:.2e}")
    return failed


failed = sum(compare(name) for name in CASES)

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
