"""GPT-2 124M trained by PyTorch on the CPU, tuned like an expert user would: the other side of bench/train_speed. run.py starts
it with an interpreter that has torch, and with glibc's malloc set to keep its memory.

    torch_step.py SEQUENCES CONTEXT THREADS f32|bf16 eager|compiled

Reads one number of steps per line from standard input and prints that many times in seconds on one line. The answer to "gemm"
is the GFLOP/s of a product 2048 cubed of that type (best of 5). The first line, after one step, is "ready" or names what is
missing. A step: forward, backward, clipping of the gradient's norm at 1, fused AdamW."""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, VOCABULARY = 12, 768, 12, 50257
sequences, context, threads = map(int, sys.argv[1:4])
precision, mode = sys.argv[4:6]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.attn_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, HEADS, w // HEADS).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(w, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(context, WIDTH)
        self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def gemm():
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.rand(2048, 2048).to(kind) for _ in "ab")
    best, out = float("inf"), torch.empty(2048, 2048, dtype=kind)
    for _ in range(6):
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - begin)
    return 2 * 2048**3 / best / 1e9


torch.set_num_threads(threads)
torch.manual_seed(1)
model = Model()
run = torch.compile(model) if mode == "compiled" else model
matrices = [p for p in model.parameters() if p.dim() > 1]
vectors = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=1e-4,
                              betas=(0.9, 0.95), fused=True)
parameters = list(model.parameters())


def step():
    tokens = torch.randint(VOCABULARY, (sequences, context + 1))
    begin = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = run(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - begin


try:
    step()
except Exception as error:  # torch.compile's compiler may be missing
    print("not run:", str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__, flush=True)
    sys.exit()
print("ready", torch.__version__, torch.backends.cpu.get_cpu_capability(), flush=True)
for line in sys.stdin:
    if line.strip() == "gemm":
        print(f"{gemm():.1f}", flush=True)
    else:
        print(" ".join(f"{step():.6f}" for _ in range(int(line))), flush=True)
