#!/usr/bin/env python3
"""Training speed on the CPU: GPT-2 124M (vocabulary 50257, AdamW, norm clipped), 4 sequences of 64 or 256 tokens, 1 or 2
threads, f32 or bf16, `slackline train` of one rank next to PyTorch 2.13 eager and compiled, in turns; and both as a fraction of
the machine's own rate of matrix products (2048 cubed, same type and threads, same run, the better of oneDNN and PyTorch).

Usage: bench/train_speed/run.py [BUILD_DIR] [--cell CONTEXT,THREADS,TYPE]... [--rounds N] [--steps N] [--write docs/results/evidence/training.md]
PyTorch's side needs .venv (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt), compiled a working C++
compiler; what is missing is left out, and said to be. The profile needs perf. Goal: 1.2 times PyTorch's best, and 75% of the
rate of products. About 15 minutes."""
import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table

LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCES = 12, 768, 12, 50257, 4
CELLS = [(context, threads, kind) for kind in ("f32", "bf16") for threads in (1, 2) for context in (64, 256)]
python = os.path.join(source, ".venv", "bin", "python")

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--cell", action="append", metavar="CONTEXT,THREADS,TYPE", help="only these, e.g. 64,1,bf16")
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--steps", type=int, default=3, help="steps of 64 tokens; one less of 256")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
build = os.path.abspath(arguments.build)


def flop_per_token(context):
    """6 FLOP per parameter (forward and backward products), plus those of attention."""
    parameters = VOCABULARY * WIDTH + context * WIDTH + LAYERS * (12 * WIDTH * WIDTH + 13 * WIDTH) + 2 * WIDTH
    return 6 * parameters + 12 * LAYERS * context * WIDTH


class Torch:
    """One PyTorch process; `missing` is the reason if there is none."""

    def __init__(self, context, threads, kind, mode):
        self.missing = None
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MALLOC_MMAP_MAX_": "0",
                       "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(256 << 20)}
        words = [python, os.path.join(folder, "torch_step.py"), SEQUENCES, context, threads, kind, mode]
        self.process = subprocess.Popen(list(map(str, words)), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        first = self.process.stdout.readline().strip()
        if not first.startswith("ready"):
            self.missing = first or "it ended without a word"
            self.close()
        else:
            self.version = first.split()[1]

    def ask(self, what):
        print(what, file=self.process.stdin, flush=True)
        return list(map(float, self.process.stdout.readline().split()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def write_run(where, context, threads, kind, iterations):
    tokens = os.path.join(where, "tokens.bin")
    if not os.path.exists(tokens):
        chosen = random.Random(1)
        with open(tokens, "wb") as file:
            file.write(b"".join(struct.pack("<H", chosen.randrange(VOCABULARY)) for _ in range(200000)))
    run = {"model": {"kind": "gpt2", "layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": context,
                     "vocabulary": VOCABULARY},
           "data": {"files": [tokens], "tokens": "uint16", "seed": 1, "held_out": 0.01},
           "batch": {"microbatches": 1, "size": SEQUENCES}, "optimizer": {"lr": 1e-4, "clip": 1.0},
           "iterations": iterations, "schedule": "gpipe", "adapt": False,
           "device": {"threads": threads, "precision": kind}}
    path = os.path.join(where, "run.yaml")
    with open(path, "w") as file:
        json.dump(run, file)
    return path


def ours(where, context, threads, kind, steps, prefix=()):
    """The seconds of `steps` iterations after the first one."""
    out = os.path.join(where, "out")
    shutil.rmtree(out, ignore_errors=True)
    path = write_run(where, context, threads, kind, steps + 1)
    done = subprocess.run([*prefix, os.path.join(build, "slackline"), "train", path, "--out", out], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"slackline train failed:\n{done.stderr[-2000:]}")
    with open(os.path.join(out, "metrics.jsonl")) as file:
        return [json.loads(line)["time_ms"] / 1e3 for line in file][1:]


def gemm(threads, kind):
    done = subprocess.run([os.path.join(build, "bench", "bench_gemm"), str(threads), kind], capture_output=True, text=True, check=True)
    return float(done.stdout)


# ---- breakdown of the time: samples of `perf record`, by the purpose of the function; the rest of a run (initial weights, hash) is not a step

PARTS = [("matrix products (oneDNN)", ("[JIT]", "dnnl")), ("attention", ("sl_cpu_attention", "forward_group", "backward_group")), ("AdamW", ("step_range",)),
         ("gradient norm", ("sl_norm",)), ("packing of weights", ("sl_cpu_pack",)), ("bf16 copies", ("sl_cpu_to_bf16",)),
         ("loss", ("entropy",)), ("GELU", ("gelu",)), ("layer norms", ("layernorm", "rmsnorm")),
         ("sums of biases", ("bias_grad",)), ("embeddings", ("embed", "positions", "add_head")),
         ("clearing and copying", ("memset", "memmove", "memcpy"))]


def profile(where, context, threads, kind):
    data = os.path.join(where, "perf.data")
    ours(where, context, threads, kind, 3, prefix=("perf", "record", "-q", "-F", "499", "-o", data))
    done = subprocess.run(["perf", "report", "-q", "-i", data, "--no-children", "--sort", "dso,symbol", "--percent-limit", "0"],
                          capture_output=True, text=True)
    shares = dict.fromkeys([name for name, _ in PARTS], 0.0)
    for line in done.stdout.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and words[0].endswith("%"):
            for name, marks in PARTS:
                if any(mark in words[1] for mark in marks):
                    shares[name] += float(words[0][:-1])
                    break
    total = sum(shares.values())
    return {name: 100 * share / total for name, share in shares.items()} if total else {}


def measure(where, cell):
    context, threads, kind = cell
    tokens, steps = SEQUENCES * context, arguments.steps if context <= 64 else max(1, arguments.steps - 1)
    sides = {mode: Torch(context, threads, kind, mode) for mode in ("eager", "compiled")} if os.path.exists(python) else {}
    rows = []
    for turn in range(arguments.rounds):
        print(f"{cell} round {turn}", file=sys.stderr, flush=True)
        row = {"gemm": gemm(threads, kind)}
        for mode, side in sides.items():
            if not side.missing:
                row["gemm"] = max(row["gemm"], side.ask("gemm")[0])
                row[mode] = tokens / statistics.median(side.ask(steps))
        row["ours"] = tokens / statistics.median(ours(where, context, threads, kind, steps))
        rows.append(row)
    notes = {f"PyTorch {mode}, {kind}: {side.missing}" for mode, side in sides.items() if side.missing}
    version = [side.version for side in sides.values() if not side.missing]
    for side in sides.values():
        if not side.missing:
            side.close()
    middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    best = [row["ours"] / max(row[m] for m in ("eager", "compiled") if m in row) for row in rows if "eager" in row or "compiled" in row]
    share = statistics.median(row["ours"] * flop_per_token(context) / 1e9 / row["gemm"] for row in rows)
    rate = middle["ours"] * flop_per_token(context) / 1e9
    text = [f"4 x {context}", threads, kind, f"{middle['gemm']:.0f}"]
    text += [f"{middle[m]:.0f}" if m in middle else "-" for m in ("eager", "compiled")]
    text += [f"{middle['ours']:.0f}", f"{statistics.median(best):.2f}" if best else "-", f"{rate:.0f}", f"{100 * share:.0f}%"]
    return text, notes, version, statistics.median(best) if best else None, share


cells = [tuple(int(w) if w.isdigit() else w for w in text.split(",")) for text in arguments.cell or []] or CELLS
rows, notes, versions, profiles, reached = [], set(), [], {}, []
where = tempfile.mkdtemp(prefix="slackline-bench-")
try:
    for cell in cells:
        text, said, version, ratio, share = measure(where, cell)
        rows.append(text)
        notes |= said
        versions += version
        reached.append((ratio is None or ratio >= 1.2, share >= 0.75))
        print("  ".join(map(str, text)), file=sys.stderr, flush=True)
        if shutil.which("perf"):
            profiles[cell] = profile(where, *cell)
finally:
    shutil.rmtree(where)

if not versions:
    notes.add("no .venv with torch 2.13: PyTorch's side is left out")
command = f"bench/train_speed/run.py --rounds {arguments.rounds} --steps {arguments.steps}" + "".join(f" --cell {c}" for c in arguments.cell or [])
finish(arguments.write, "Speed on the CPU", f"""\
`{command}`, {machine()}. GPT-2 124M, vocabulary {VOCABULARY}, AdamW, norm clipped at 1, one microbatch of 4 sequences per iteration.
slackline: `slackline train` on one rank, whole iterations (`time_ms`). PyTorch {versions[0] if versions else '(absent)'}: fused AdamW, scaled_dot_product_attention,
bf16 by autocast, glibc trimming off, `torch.set_num_threads`. Both run in turns for {arguments.rounds} rounds. A round is the median of {arguments.steps} steps (one less with 256 tokens) after
one warm-up step. A ratio is the median of the ratios of the rounds. Work per token: 6 operations per parameter, and 12 x layers x context x width. GEMM: the rate of
products of 2048 x 2048 matrices with the same type and threads in each round, the better of oneDNN and PyTorch. slackline reaches 1.2 times PyTorch's best
in {sum(a for a, _ in reached)} of {len(reached)} cells, and 75% of the GEMM rate in {sum(b for _, b in reached)}.

""" + table(("tokens", "threads", "type", "GEMM GFLOP/s", "PyTorch eager tokens/s", "compiled", "slackline", "over PyTorch's best",
             "slackline GFLOP/s", "of the GEMM rate"), rows) + "".join(f"- {note}\n" for note in sorted(notes)))
if profiles:
    heads = [f"4 x {c}, {t}, {k}" for c, t, k in profiles]
    finish(arguments.write, "Where the time of a step goes", f"""\
`{command}`: samples of `perf record` over four iterations, in percent of the samples of a step, for all threads together. Columns: tokens, threads, type.

""" + table(("", *heads), [(name, *(f"{p.get(name, 0):.1f}" for p in profiles.values())) for name, _ in PARTS]))
