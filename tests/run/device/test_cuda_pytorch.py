# labels: gpu torch
"""The ops of the CUDA device against PyTorch on the same card: forward, and gradients of inputs (I) and of weights (W).

A result may differ by a share of its largest number: 3e-6 where a few roundings differ, 1e-5 for sums over rows. Products
are compared with f64, of operands rounded to bf16 if that is their type; a sum of n may be off by 4 sqrt(n) roundings."""
import ctypes
import os
import subprocess
import sys

from runner import build, expect, skip, source

python = os.path.join(source, ".venv", "bin", "python")
if os.environ.get("SL_IN_VENV") != "1":
    if subprocess.call([python, "-c", "import torch"], stderr=subprocess.DEVNULL) if os.path.exists(python) else 1:
        skip("no .venv with torch (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt)")
    os.environ["SL_IN_VENV"] = "1"
    os.execv(python, [python, *sys.orig_argv[1:]])

import torch
import torch.nn.functional as F

library = os.path.join(build, "tests", "libcuda_ops.so")
if not os.path.exists(library):
    skip("built without CUDA (-DSLACKLINE_CUDA=ON)")
if not torch.cuda.is_available():
    skip("no CUDA card, or a PyTorch without CUDA")
torch.backends.cuda.matmul.allow_tf32 = False
ops = ctypes.CDLL(library)
ops.ops_open.restype, ops.ops_error.restype = ctypes.c_void_p, ctypes.c_char_p
device = ctypes.c_void_p(ops.ops_open())
if not device:
    raise SystemExit(ops.ops_error().decode())
SHAPES = [(37, 75), (1000, 768), (300, 1600), (64, 5000)]
ROUNDINGS, SUMS = 3e-6, 1e-5


def argument(value):
    if isinstance(value, torch.Tensor):
        assert value.is_contiguous()
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_float(value) if isinstance(value, float) else value


def call(name, *arguments):
    """One op, after what PyTorch has queued and before anything else."""
    torch.cuda.synchronize()
    status = getattr(ops, "ops_" + name)(device, *map(argument, arguments))
    if (name == "product" and status) or ops.ops_finish(device):
        raise RuntimeError(f"{name}: {ops.ops_error().decode()}")


def random(*shape):
    return torch.randn(*shape, device="cuda")


def leaf(*shape):
    return random(*shape).requires_grad_()


def poisoned(*shape):
    return torch.full(shape, float("nan"), device="cuda")


def near(ours, exact, allowed, what):
    off = ((ours.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1e-30)).item()
    print(f"{what}: {off:.1e}, allowed {allowed:.0e}")
    expect(off <= allowed, f"{what} is off by {off:.1e}")


def of_sum(terms):
    return 4 * terms ** 0.5 * 2 ** -24


def count(tensor):
    return ctypes.c_size_t(tensor.numel())


def test_normalizations():
    for rows, width in SHAPES:
        for kind in ("layernorm", "rmsnorm"):
            centred = kind == "layernorm"
            x, gain, bias, dy, residual = leaf(rows, width), leaf(width), leaf(width), random(rows, width), random(rows, width)
            normal, y, dx, scale = poisoned(rows, width), poisoned(rows, width), poisoned(rows, width), poisoned(rows)
            if centred:
                call(kind, rows, width, x, gain, bias, normal, scale, y)
                exact = F.layer_norm(x.double(), (width,), gain.double(), bias.double(), 1e-5)
            else:
                call(kind, rows, width, 1e-5, x, gain, normal, scale, y)
                exact = F.rms_norm(x.double(), (width,), gain.double(), 1e-5)
            call(kind + "_input_grad", rows, width, dy, gain, normal, scale, residual, dx)
            sums = [torch.ones(width, device="cuda") for _ in range(1 + centred)]
            call(kind + "_weight_grad", rows, width, dy, normal, poisoned(2, width), *sums)
            exact.backward(dy.double())
            what = f"{kind}, {rows} x {width}"
            near(y, exact, ROUNDINGS, what)
            near(dx, x.grad + residual, ROUNDINGS, what + ", I")
            near(sums[0], gain.grad + 1, SUMS, what + ", W, gain")
            if centred:
                near(sums[1], bias.grad + 1, SUMS, what + ", W, bias")


def test_pointwise():
    for rows, width in SHAPES:
        x, dy, y = leaf(rows, width), random(rows, width), poisoned(rows, width)
        call("gelu", count(x), x, y)
        exact = F.gelu(x.double(), approximate="tanh")
        exact.backward(dy.double())
        near(y, exact, ROUNDINGS, f"gelu, {rows} x {width}")
        again, dx = x.detach().clone(), dy.clone()
        call("gelu_input_grad", count(x), again, dx)
        near(dx, x.grad, ROUNDINGS, f"gelu, {rows} x {width}, I")
        expect(torch.equal(again, y), "gelu_input_grad repeats gelu")

        gate, up = leaf(rows, width), leaf(rows, width)
        call("swiglu", count(gate), gate, up, y)
        exact = F.silu(gate.double()) * up.double()
        exact.backward(dy.double())
        near(y, exact, ROUNDINGS, f"swiglu, {rows} x {width}")
        grads = [gate.detach().clone(), up.detach().clone(), dy.clone()]
        call("swiglu_input_grad", count(gate), *grads)
        near(grads[0], gate.grad, ROUNDINGS, f"swiglu, {rows} x {width}, I, gate")
        near(grads[1], up.grad, ROUNDINGS, f"swiglu, {rows} x {width}, I, up")
        expect(torch.equal(grads[2], y), "swiglu_input_grad repeats swiglu")


def test_linear_layers():
    """F, I and W of a layer as GPT-2 stores it, [inputs][outputs], and as Llama does."""
    for rows, inputs, outputs in [(50, 30, 70), (1024, 768, 2304), (512, 1600, 6400), (333, 257, 1001)]:
        for type in (0, 1):
            for outputs_first in (0, 1):
                x, dy, bias = random(rows, inputs), random(rows, outputs), random(outputs)
                w = random(outputs, inputs) if outputs_first else random(inputs, outputs)
                y, dx, dw = poisoned(rows, outputs), poisoned(rows, inputs), torch.ones_like(w)
                call("product", rows, inputs, outputs, 0, outputs_first, 0, type, 1, x, w, bias, y)
                call("product", rows, outputs, inputs, 0, 1 - outputs_first, 0, type, 1, dy, w, None, dx)
                left, right = (dy, x) if outputs_first else (x, dy)
                call("product", w.shape[0], rows, w.shape[1], 1, 0, 1, type, 0, left, right, None, dw)
                ex, edy, ew = ((t.bfloat16() if type else t).double() for t in (x, dy, w))
                ew = ew.T if outputs_first else ew
                exact = ex.T @ edy
                what = f"{'bf16' if type else 'f32'}, {rows} x {inputs} x {outputs}, {'outputs' if outputs_first else 'inputs'} first"
                near(y, ex @ ew + bias.double(), of_sum(inputs), what + ", F")
                near(dx, edy @ ew.T, of_sum(outputs), what + ", I")
                near(dw, (exact.T if outputs_first else exact) + 1, of_sum(rows), what + ", W")
                db = torch.ones(outputs, device="cuda")
                call("bias_grad", rows, outputs, dy, poisoned(outputs), db)
                near(db, dy.double().sum(0) + 1, SUMS, what + ", W, bias")


def test_embedding_and_loss():
    for rows, width, vocabulary in [(37, 75, 101), (2048, 768, 50257), (300, 64, 5)]:
        token = torch.randint(0, vocabulary, (rows,), device="cuda")
        short, table, dx = token.to(torch.uint16), leaf(vocabulary, width), random(rows, width)
        x, grad = poisoned(rows, width), torch.zeros(vocabulary, width, device="cuda")
        call("embed", rows, width, 0, vocabulary, short, table, x)
        expect(torch.equal(x, table[token]), "embed")
        call("embed_weight_grad", rows, width, 0, vocabulary, short, dx, grad)
        F.embedding(token, table.double()).backward(dx.double())
        near(grad, table.grad, SUMS, f"embedding of {vocabulary}, W")

        logits, loss = leaf(rows, vocabulary), torch.zeros(1, device="cuda", dtype=torch.double)
        ours = logits.detach().clone() * 4
        call("cross_entropy", rows, vocabulary, ours, short, 0.25, loss)
        exact = F.cross_entropy(logits.double() * 4, token, reduction="sum")
        exact.backward()
        near(loss, exact.reshape(1), ROUNDINGS, f"loss of {vocabulary}")
        near(ours, logits.grad / 16, ROUNDINGS, f"loss of {vocabulary}, I")


def test_rotary_positions():
    rows, context, heads, size = 200, 50, 3, 16
    angle = torch.arange(context, dtype=torch.double)[:, None] * 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.double) / size)
    table = torch.cat([angle.cos(), angle.sin()], 1).float().cuda().contiguous()
    x = random(rows, heads, size)
    turned = x.clone()
    call("rope", rows, context, heads, size, heads * size, 0, table, turned)
    place = torch.arange(rows, device="cuda") % context
    cos, sin = (t[place][:, None, :].double() for t in table.chunk(2, 1))
    low, high = x.double().chunk(2, 2)
    near(turned, torch.cat([low * cos - high * sin, high * cos + low * sin], 2), ROUNDINGS, "rope")
    call("rope", rows, context, heads, size, heads * size, 1, table, turned)
    near(turned, x, ROUNDINGS, "rope and back")


def test_adamw():
    """Against torch.optim.AdamW, over five steps."""
    class Step(ctypes.Structure):
        _fields_ = [(name, ctypes.c_float) for name in "factor beta1 rest1 beta2 rest2 keep epsilon size root".split()]
    exact = torch.nn.Parameter(random(10001).double())
    optimizer = torch.optim.AdamW([exact], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    weight, m, v = exact.detach().float(), torch.zeros(10001, device="cuda"), torch.zeros(10001, device="cuda")
    for t in range(1, 6):
        gradient = random(10001)
        exact.grad = gradient.double()
        optimizer.step()
        step = Step(1, 0.9, 0.1, 0.95, 0.05, 1 - 1e-2 * 0.1, 1e-8, 1e-2 / (1 - 0.9 ** t), (1 - 0.95 ** t) ** -0.5)
        call("adamw", ctypes.byref(step), count(weight), gradient, weight, m, v)
    near(weight, exact, ROUNDINGS, "adamw")
