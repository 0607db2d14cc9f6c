# labels: long torch
"""plan --format deepspeed in DeepSpeed 0.19.8's own hands: its classes make the instructions, a runner with the rules of its engine finds no order of
blocking sends and receives that stops, and its engine trains on them, over Gloo, with the weights of its own schedule, bit by bit."""
import json
import os
import random

from environments import environment, run
from exported import output, problem, write
from runner import expect, folder, source

python = environment("deepspeed")
AHEAD = """0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0B3,0B4,0B5
1F0,1F1,1F2,1F3,1B0,1F4,1B1,1F5,1B2,1B3,1B4,1B5
2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2B5
3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5
"""
UNEVEN = "count: 8, times_ms: {F: [20, 1, 1, 1, 1, 1, 1, 1], I: 1, W: 1}"
PLANS = {"four": (problem(4, 6), "1f1b", ""), "two": (problem(2, 3), "1f1b", "data=2,zero=1"), "many": (problem(8, 20), "1f1b", ""), "few": (problem(6, 2), "1f1b", ""),
         "one": (problem(1, 3), "1f1b", "microbatch_size=4"), "uneven": (problem(4, 6, layers=UNEVEN), "1f1b", "recompute=1,tensor=2")}


def test_deepspeed_trains_on_the_instructions_with_the_same_weights():
    for name, (text, family, shape) in PLANS.items():
        output("plan", write(name + ".yaml", text), "--schedule", family, "--time-limit", "0", "--format", "deepspeed", "-o", os.path.join(folder, name + ".json"),
               *(["--shape", shape] if shape else []))
    order = write("ahead.csv", AHEAD)
    output("simulate", os.path.join(folder, "four.yaml"), "--order", order, "--format", "deepspeed", "-o", os.path.join(folder, "ahead.json"))
    code, printed = run(python, os.path.join(source, "tests", "torch", "export_deepspeed_program.py"), folder, *PLANS, "ahead")
    said = [json.JSONDecoder().raw_decode(printed, at)[0] for at in range(len(printed)) if printed.startswith('{"case"', at)]
    expect(code == 0 and {one["case"] for one in said} == {"dumped", *PLANS, "ahead", "four trained", "ahead trained", "uneven trained"}, f"the program failed: exit {code} {printed[-3000:]}")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}, rank {one['rank']}: {one['wrong']}")
    uneven = json.load(open(os.path.join(folder, "uneven.json")))
    sizes = [b - a for a, b in zip(uneven["partition"], uneven["partition"][1:])]
    expect(sum(sizes) == 8 and len(set(sizes)) > 1 and uneven["topology"] == {"pipe": 4, "model": 2, "data": 1} and uneven["activation_checkpoint_interval"] == 1, f"uneven: {sizes}")
    two = json.load(open(os.path.join(folder, "two.json")))["config"]
    expect(two == {"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 3, "zero_optimization": {"stage": 1}}, f"configuration: {two}")


def rows_ahead(draw):
    """Full backwards, and forwards as far ahead as each stage likes, but no farther than the stage before; the last stage runs none ahead."""
    stages, microbatches = draw.randint(2, 6), draw.randint(1, 12)
    ahead = sorted((draw.randint(1, microbatches) for _ in range(stages - 1)), reverse=True) + [1]
    rows = []
    for stage, warmup in enumerate(ahead):
        row = [f"{stage}F{microbatch}" for microbatch in range(warmup)]
        for microbatch in range(microbatches):
            row += [f"{stage}B{microbatch}"] + ([f"{stage}F{microbatch + warmup}"] if microbatch + warmup < microbatches else [])
        rows.append(row)
    return stages, microbatches, rows


def test_no_order_stops_deepspeeds_stages():
    seed = int(os.environ.get("SL_SEED", "1"))
    print(f"SL_SEED={seed}")
    draw, names = random.Random(seed), []
    for number in range(25):
        stages, microbatches, rows = rows_ahead(draw)
        order = write("random.csv", "".join(",".join(row) + "\n" for row in rows))
        path, name = write("random.yaml", problem(stages, microbatches)), f"random{number}"
        output("simulate", path, "--order", order, "--format", "deepspeed", "-o", os.path.join(folder, name + ".json"))
        again = output("simulate", path, "--order", os.path.join(folder, name + ".json"), "--format", "csv")
        expect(again == open(order).read(), f"{name}: read back as {again}")
        names.append(name)
    code, printed = run(python, os.path.join(source, "tests", "torch", "export_deepspeed_program.py"), folder, "check", *names)
    said = [json.JSONDecoder().raw_decode(printed, at)[0] for at in range(len(printed)) if printed.startswith('{"case"', at)]
    expect(code == 0 and [one["case"] for one in said] == names, f"the program failed: exit {code} {printed[-2000:]}")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}: {one['wrong']}")


def test_what_deepspeed_dumps_is_read():
    """The program has written its TrainSchedule for 4 stages and 6 microbatches as lists of names and arguments. It is 1F1B."""
    four = write("four.yaml", PLANS["four"][0])
    dumped = os.path.join(folder, "dumped.json")
    if not os.path.exists(dumped):
        code, printed = run(python, os.path.join(source, "tests", "torch", "export_deepspeed_program.py"), folder, "dump")
        expect(code == 0, f"the program failed: {printed[-2000:]}")
    expect(output("simulate", four, "--order", dumped, "--format", "csv") == output("plan", four, "--schedule", "1f1b", "--format", "csv"), "another order than 1f1b")
