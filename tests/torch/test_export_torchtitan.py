# labels: long torch
"""plan --format torchtitan in torchtitan 0.3.0's own hands: its configuration classes take the keys, its module split keeps the named modules of each
stage, and its schedule loads the order from the file and simulates it."""
import json
import os

from environments import environment, run
from exported import order_of, output, problem, write
from runner import expect, folder, source

python = environment("torchtitan")
LAYERS = "count: 9, times_ms: {F: [9, 1, 1, 1, 1, 1, 1, 1, 5], I: 1, W: 1}"
CASES = {"linear": (problem(4, 8), "1f1b", ""),
         "split": (problem(4, 9), "zb-h1", "data=2,zero=2"),
         "interleaved": (problem(2, 6, "loop", 6), "gpipe", "tensor=2,microbatch_size=3,sequence=512"),
         "wave": (problem(3, 7, "wave"), "zb-v", "expert=2,data=4,zero=3"),
         "overlapped": (problem(2, 6, "wave"), "dualpipe-v", ""),
         "uneven": (problem(3, 6, layers=LAYERS), "1f1b", ""),
         "layout": (problem(2, 4, "loop", layers="layout: 'E|tt|t*3|tL', times_ms: {F: 1, I: 1, W: 1}"), "interleaved-1f1b", "")}


def test_torchtitan_takes_the_keys_splits_the_model_and_simulates_the_order():
    wanted = {}
    for name, (text, family, shape) in CASES.items():
        path = write(name + ".yaml", text)
        words = ["plan", path, "--schedule", family, "--time-limit", "0"]
        output(*words, "--format", "torchtitan", "-o", os.path.join(folder, name + ".toml"), *(["--shape", shape] if shape else []))
        planned = json.loads(output(*words, "--format", "json"))
        wanted[name] = {"order": order_of(*words), "layers": planned.get("cut"), "placement": planned["placement"]}
    code, printed = run(python, "-W", "ignore", os.path.join(source, "tests", "torch", "export_torchtitan_program.py"), folder, *CASES)
    found = json.loads(printed.splitlines()[-1]) if code == 0 else {}
    expect(code == 0 and set(found) == set(CASES), f"the program failed: {printed[-3000:]}")
    for name, one in found.items():
        expect(one["order"] == wanted[name]["order"], f"{name}: torchtitan loads {one['order']}")
        expect(one["simulated"] > 0, f"{name}: its simulator stops")
    modules = {name: one["modules"] for name, one in found.items()}
    expect(modules["linear"] == {"0": ["layers.0", "tok_embeddings"], "1": ["layers.1"], "2": ["layers.2"], "3": ["layers.3", "lm_head", "norm"]}, f"modules: {modules['linear']}")
    expect(modules["layout"] == {"0": ["tok_embeddings"], "1": ["layers.0", "layers.1"], "2": ["layers.2", "layers.3", "layers.4"], "3": ["layers.5", "lm_head", "norm"]},
           f"modules of a layout: {modules['layout']}")
    cut = wanted["uneven"]["layers"]
    for stage in range(3):
        ends = ["tok_embeddings"] if stage == 0 else ["lm_head", "norm"] if stage == 2 else []
        expect(modules["uneven"][str(stage)] == sorted(ends + [f"layers.{layer}" for layer in range(cut[stage], cut[stage + 1])]),
               f"uneven: stage {stage} of {cut} has {modules['uneven'][str(stage)]}")
    expect(len({len(one) for one in modules["uneven"].values()}) > 1, "the cut is even")
    expect(found["interleaved"]["training"] == {"local": 18, "global": 18, "sequence": 512} and found["interleaved"]["tensor"] == 2, f"sizes: {found['interleaved']}")
    expect(found["wave"]["training"]["global"] == 28 and found["wave"]["shard"] == [4, "always"], f"sizes: {found['wave']}")
