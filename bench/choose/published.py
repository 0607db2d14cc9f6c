#!/usr/bin/env python3
"""Published comparisons that choose sizes, cut, placement and schedule together, repeated with `slackline.choose` from the models' sizes:
CrossPipe's pipeline or data parallelism between two sites (figure 9) and pipeline size against replicas (figure 12); AdaPtis' joint
search against Megatron-LM's schedules on models with uneven layers. All times are simulated.

Usage: bench/choose/published.py [BUILD_DIR] [--time-limit S] [--only crosspipe|adaptis] [--write docs/results/evidence/choose.md]
About ten minutes on two processors. bench/planner/crosspipe.py repeats CrossPipe's other figures and tables from given op times."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--time-limit", type=float, default=5, metavar="S", help="seconds of each search")
parser.add_argument("--only", choices=("crosspipe", "adaptis"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
os.environ.setdefault("SLACKLINE_LIBRARY", os.path.abspath(os.path.join(arguments.build, "libslackline.so")))
sys.path.insert(0, os.path.join(source, "python"))
import slackline  # noqa: E402

FREE = {"latency_ms": 0, "bandwidth_gbps": 1e6}


def choose(model, cluster, fix, **more):
    return slackline.choose(model, cluster, arguments.time_limit, fix=fix, **more)


def best(model, cluster, fix):
    """The best of a linear and a wave placement, the two that the paper compares over sites."""
    found = [choose(model, cluster, fix | {"placement": placement}).arrangements[0] for placement in ("linear", "wave")]
    return min(found, key=lambda one: one.iteration_ms)


def forward_ms(arrangement):
    """T_F: the longest F of any pipeline rank, all of its stages."""
    spent = {}
    for op in arrangement.plan().ops:
        if op.op == "F" and op.microbatch == 0:
            spent[op.rank] = spent.get(op.rank, 0) + op.end_ms - op.start_ms
    return max(spent.values())


def shape(a):
    cut = [b - a for a, b in zip(a.cut, a.cut[1:])]
    text = " ".join(map(str, cut)) if len(cut) <= 8 else f"{min(cut)} to {max(cut)}"
    return f"{a.pipeline} x {a.chunks} {a.placement}, {a.schedule_name}, layers {text}"


# ---- CrossPipe ----

LLAMA_405B = {"name": "llama-3-405b", "model": {"layers": 126, "width": 16384, "heads": 128, "kv_heads": 8, "hidden": 53248, "gated": True,
                                               "vocabulary": 128256, "context": 8192},
              "precision": {"gradients": 2}, "batch": {"sequences": 2048}}
SIZES_405B = {"tensor": 8, "context": 1, "pipeline": 16, "data": 64, "size": 1, "zero": 0, "recompute": "none"}


def sites(hosts, devices, link, device):
    """Two sites with half of the hosts each; `link` between them is a device's share."""
    half = hosts // 2
    names = [f"east[0-{half - 1}]", f"west[0-{half - 1}]"]
    return {"hosts": [{"name": name, "devices": devices} for name in names],
            "links": {"default": link, "inside": FREE, "groups": [{"hosts": name, **FREE} for name in names]}, "device": device}


def figure_9():
    device = {"tflops": 500, "efficiency": 1, "memory_gb_per_s": 3350}
    one = choose(LLAMA_405B, sites(1024, 8, FREE, device), SIZES_405B | {"neighbors": "replicas", "chunks": 1}, schedules=["1f1b"])
    device["memory_gb"] = one.arrangements[0].memory_gb * 1.0001
    forward = forward_ms(one.arrangements[0])
    one = best(LLAMA_405B, sites(1024, 8, FREE, device), SIZES_405B | {"neighbors": "replicas"})
    rows, speedups = [], {}
    for bandwidth in (4, 16, 64, 256, 1024):
        found = {}
        for crossing, flows in (("replicas", 512), ("stages", 128)):  # the pipeline crosses if replicas are neighbors
            link = {"latency_ms": 4, "bandwidth_gbps": 8 * bandwidth / flows}
            found[crossing] = best(LLAMA_405B, sites(1024, 8, link, device), SIZES_405B | {"neighbors": crossing})
        pipeline, data = found["replicas"], found["stages"]
        speedups[bandwidth] = data.iteration_ms / pipeline.iteration_ms
        rows.append((bandwidth, f"{pipeline.iteration_ms / 1e3:.2f}", f"{pipeline.lower_bound_ms / 1e3:.2f}", shape(pipeline),
                     f"{pipeline.iteration_ms / one.iteration_ms:.2f}x", f"{data.iteration_ms / 1e3:.2f}", f"{speedups[bandwidth]:.2f}x"))
    return ("### Figure 9: what crosses between two sites, Llama 3 405B on 8,192 devices\n\nPublished inputs (appendix E): 8 tensor ranks, 16 "
            "pipeline ranks, 64 replicas, sequences of 8,192 tokens, 2,048 of them, 500 TFLOP/s, 2 bytes per gradient. Ours: the memory, which is "
            f"what 1F1B takes ({device['memory_gb']:.0f} GB), a latency of 4 ms, and a device's share of the link: 512 devices send activations, and 128 "
            f"rings of replicas send gradients. One site: {one.iteration_ms / 1e3:.2f} s ({shape(one)}). T_F of 16 stages: {forward:.1f} ms; "
            "published: about 109 ms.\n\n"
            + table(("GB/s", "pipeline crosses, s", "bound, s", "how", "against one site", "replicas cross, s", "speedup"), rows)
            + f"\nPublished: the pipeline is faster by up to 3.05x, at 4 GB/s (ours {speedups[4]:.2f}x), equal beyond 1,024 GB/s (ours "
              f"{speedups[1024]:.2f}x), and 1.3x slower than one site at 64 GB/s (ours {rows[2][4]}). Different here: the ring of all 64 replicas, with "
              "twice the bytes of the paper's printed formula (2 N per direction) and 126 steps of the link's latency for the gradients of each layer, which is most "
              "of the difference at 1,024 GB/s; sums overlap the end of the schedule; the head is a layer of its own, not one of "
              "128 equal ones; any order of the two placements.\n")


M70 = {"layers": 62, "width": 8192, "heads": 64, "kv_heads": 8, "hidden": 28672, "gated": True, "vocabulary": 128256, "context": 4096}
MESSAGE = 2 * 4096 * 8192 / 4  # bytes of one of four tensor ranks
T_F = 76.0  # ms of 16 layers: half of it, 38 ms, is published for 8 pipeline ranks


def block_tflop():
    weights = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    return (2 * 4096 * weights + 2 * 4096 * 4096 * 8192) / 1e12


def figure_12():
    device = {"tflops": 16 * block_tflop() / 4 / (T_F / 1e3), "efficiency": 1, "memory_gb_per_s": 4000, "memory_gb": 96}
    fixed = {"tensor": 4, "context": 1, "size": 1, "zero": 0, "recompute": "none", "neighbors": "replicas"}
    parameters = (62 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) + 2 * 8192 * 128256) / 16
    rows, spreads = [], []
    for share in (0.25, 0.5):
        model = {"name": "m70", "model": M70, "batch": {"sequences": 64},
                 "precision": {"weights": 2, "gradients": 2, "optimizer": share * 96e9 / parameters - 4}}
        for latency, bandwidth in ((1, .25), (.125, 2)):
            found = []
            for pipeline in (4, 8, 16):
                transfer = bandwidth * T_F * 4 / pipeline  # ms: T_F shrinks, and a device's share of the link grows
                link = {"latency_ms": latency * T_F, "bandwidth_gbps": 8 * MESSAGE / transfer / 1e6}
                found.append(best(model, sites(16, 4, link, device), fixed | {"pipeline": pipeline}))
            times = [a.iteration_ms for a in found]
            spreads.append(max(times) / min(times) - 1)
            rows.append((f"{share:.0%}", latency, bandwidth, *(f"{a.iteration_ms / 1e3:.2f} ({a.placement})" for a in found),
                         f"{spreads[-1]:.1%}"))
    return ("### Figure 12: pipeline ranks or replicas, M70 on 64 devices of two sites\n\nPublished inputs: table 4's sizes, 4 tensor ranks, 16 nodes, 4 "
            "microbatches per pipeline rank and replica, delays as ratios of T_F, static memory as a share of the device's at 4 pipeline ranks; T_F is 38 ms "
            "for 8 ranks. Ours: Llama 3's vocabulary, 96 GB, bytes of the optimizer's state that give the share, the same rate for F, I, and W. Each "
            "cell: seconds, placement.\n\n"
            + table(("static memory", "latency / T_F", "transfer / T_F", "4 ranks", "8 ranks", "16 ranks", "spread"), rows)
            + f"\nPublished: \"largely invariant\", without numbers. Largest spread here: {max(spreads):.1%}.\n")


# ---- AdaPtis ----

HOSTS = {"hosts": [{"name": "node[0-3]", "devices": 8}],
         "links": {"default": {"latency_ms": 0.01, "bandwidth_gbps": 400}, "inside": {"latency_ms": 0.003, "bandwidth_gbps": 3200}},
         "device": {"tflops": 989, "efficiency": 0.5, "memory_gb_per_s": 3350, "memory_gb": 80, "overhead_us": 50}}
FLOPS = 989e12 * 0.5
TOKENS = 8192
CONFIGS = os.path.join(source, "tests", "choose", "model", "configs")


def nemotron_layer(kind):
    """FLOPs of F and W for a token, numbers kept, parameters of a layer of Nemotron-H 8B (its config.json)."""
    width, hidden, inner, groups, state, heads, head = 4096, 21504, 8192, 8, 128, 128, 64
    if kind == "-":
        return 4 * width * hidden, 4 * width * hidden, width + hidden, 2 * width * hidden
    if kind == "*":
        weights = 2 * width * width + 2 * width * 1024
        return 2 * weights + 2 * TOKENS * width, 2 * weights, 4 * width + 2048, weights
    into = 2 * inner + 2 * groups * state + heads
    weights, chunk = width * into + inner * width, 256
    scan = groups * chunk * state + inner * chunk + 4 * inner * state  # in chunks (Dao and Gu 2024, section 6)
    return 2 * weights + scan, 2 * weights, width + into + inner + 2 * groups * state + inner, weights


def nemotron_h():
    """Nemotron-H 8B as layers with computed times: 24 Mamba-2, 24 MLP and 4 attention layers, embedding and head."""
    pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
    width, vocabulary = 4096, 131072
    message = 2 * TOKENS * width / 1e6

    def layer(name, forward, weight, kept, parameters):
        ms = [1e3 * TOKENS * flops / FLOPS + 0.05 for flops in (forward, 2 * forward - weight, weight)]
        return {"name": name, "times_ms": dict(zip("FIW", ms)), "activations_mb": 2 * TOKENS * kept / 1e6, "output_mb": message, "input_mb": message,
                "parameters_m": parameters / 1e6}
    layers = [{"name": "embed", "times_ms": {"F": 0.05, "I": 0, "W": 0.1}, "activations_mb": 0, "output_mb": message, "input_mb": 0,
               "parameters_m": vocabulary * width / 1e6}]
    layers += [layer(f"layer{i}", *nemotron_layer(kind)) for i, kind in enumerate(pattern)]
    head = 2 * width * vocabulary
    layers.append(layer("head", head, head, 2 * width + 2 * vocabulary, head / 2))
    return {"name": "nemotron-h-8b", "layers": layers, "measured": {"tensor": 1, "size": 1}, "scaling": "ideal"}


def published(name, context=TOKENS):
    return {"name": name, "model": {"config": os.path.join(CONFIGS, name + ".json"), "context": context}}


# name: model; pipeline, tensor, expert, data ranks
MODELS = [("Llama 2 70B", published("llama-2-70b", 4096), 4, 8, 1, 1), ("Gemma 7B", published("gemma-7b"), 4, 2, 1, 4),
          ("Gemma 7B", published("gemma-7b"), 8, 2, 1, 2), ("Gemma 2 27B", published("gemma-2-27b"), 4, 4, 1, 2),
          ("DeepSeek-V2-Lite", published("deepseek-v2-lite"), 4, 1, 8, 8), ("DeepSeek-V2-Lite", published("deepseek-v2-lite"), 8, 1, 4, 4),
          ("Nemotron-H 8B", nemotron_h(), 4, 1, 1, 8), ("Nemotron-H 8B", nemotron_h(), 8, 1, 1, 4)]
MICROBATCHES = 4  # of a replica, per pipeline rank


def even(layers, stages):
    """The blocks divided evenly, the rest one each on the first stages; the embedding is with the first and the head with the last."""
    blocks = layers - 2
    cut = [blocks // stages + (stage < blocks % stages) for stage in range(stages)]
    cut[0] += 1
    cut[-1] += 1
    return cut


def as_megatron(model, fix, schedule, chunks):
    """ms of a schedule with evenly divided layers, and whether it fits."""
    placement = "linear" if chunks == 1 else "loop"
    roomy = HOSTS | {"device": HOSTS["device"] | {"memory_gb": 100000}}
    found = choose(model, roomy, fix | {"chunks": chunks, "placement": placement}, schedules=[schedule], most=1).arrangements[0]
    changes = {"pipeline.layers.cut": even(found.cut[-1], len(found.cut) - 1)}
    plan = slackline.simulate(slackline.Problem(found.problem(), changes), found.plan().csv())
    return plan.makespan_ms + found.spent.update_ms, max(plan.peak_memory) <= 80e9


def adaptis():
    rows, gains, tuned_gains = [], [], []
    for name, model, pipeline, tensor, expert, data in MODELS:
        model = model | {"batch": {"sequences": MICROBATCHES * pipeline * data}}
        sizes = {"tensor": tensor, "expert": expert, "data": data, "pipeline": pipeline, "context": 1, "size": 1, "zero": int(data > 1),
                 "recompute": "none"}
        plain, interleaved = (as_megatron(model, sizes, *how) for how in (("1f1b", 1), ("interleaved-1f1b", 2)))
        tuned = choose(model, HOSTS, sizes, schedules=["1f1b", "interleaved-1f1b"]).arrangements[0]
        joint = choose(model, HOSTS, sizes).arrangements[0]
        gains.append(interleaved[0] / joint.iteration_ms)
        tuned_gains.append(tuned.iteration_ms / joint.iteration_ms)
        cells = [f"{ms:.0f}{'' if fits else ' (does not fit)'}" for ms, fits in (plain, interleaved)]
        rows.append((name, f"{pipeline}, {tensor}, {expert}, {data}", *cells, f"{tuned.iteration_ms:.0f}", f"{joint.iteration_ms:.0f}",
                     f"{joint.lower_bound_ms:.0f}", f"{gains[-1]:.2f}x", f"{tuned_gains[-1]:.2f}x", shape(joint)))
    mean = sum(gains[1:]) / len(gains[1:])
    return (f"`bench/choose/published.py`, {machine()}. {arguments.time_limit:g} s for each search.\n\n"
            "AdaPtis ([arXiv:2509.23722](https://arxiv.org/abs/2509.23722)) chooses partition, placement, and schedule together. Published: 1.42x on average, up to 2.14x, "
            "over Megatron-LM's interleaved 1F1B, for LLaMA-2, Gemma, DeepSeek, and Nemotron-H. Sizes, devices, and times per layer of its runs were not at hand. So all inputs but the "
            "published sizes of the models are ours: 32 devices (4 hosts of 8, 989 TFLOP/s, half of it reached, 80 GB), sequences of 8,192 tokens (Llama 2: "
            f"4,096), {MICROBATCHES} microbatches of one sequence per pipeline rank and replica, ZeRO 1 with replicas, no recomputation; Nemotron-H's layers from their products and "
            "the chunked scan of Mamba-2. Ms of an iteration, all simulated.\n\n"
            + table(("model", "pipeline, tensor, expert, data ranks", "1F1B, even", "interleaved 1F1B, 2 chunks, even", "the better of both with the best cut", "joint", "its bound",
                     "joint over interleaved, even", "joint over the best cut", "joint: stages, order, layers"), rows)
            + f"\nOver interleaved 1F1B with evenly divided layers: {mean:.2f}x on average of the rows with uneven layers, up to {max(gains):.2f}x; over either with its best "
              f"cut: {sum(tuned_gains[1:]) / len(tuned_gains[1:]):.2f}x, up to {max(tuned_gains):.2f}x. \"Even\": blocks divided evenly, the rest on the first stages, the embedding with the "
              "first and the head with the last stage, as Megatron-LM does without a layout.\n")


def crosspipe():
    return (f"`bench/choose/published.py`, {machine()}. {arguments.time_limit:g} s for each search. All times are simulated. Tables 5, 6 and figures 8, 14, 15 are "
            "repeated from given op times in [planner.md](planner.md), and figure 11 is measured in [data-plane.md](data-plane.md).\n\n" + figure_9() + "\n" + figure_12())


if arguments.only != "adaptis":
    finish(arguments.write, "Published: CrossPipe", crosspipe())
if arguments.only != "crosspipe":
    finish(arguments.write, "Published: AdaPtis", adaptis())
