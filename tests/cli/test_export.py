"""plan --format of frameworks, what simulate reads of theirs, and layouts of Megatron-LM as cuts."""
import json
import os
import subprocess
import tomllib

from calling import folder, plan, problem, refused, run, write
from runner import expect

LAYERS = write("layers.yaml", "pipeline:\n  ranks: 2\n  microbatches: 4\n  layers:\n    count: 5\n    times_ms: {F: [4, 1, 1, 1, 1], I: 1, W: 1}\n")
LAYOUT = write("layout.yaml", "pipeline:\n  ranks: 2\n  microbatches: 4\n  layers:\n    layout: 'Et*3|ttL'\n    times_ms: {F: 2, I: 1, W: 1}\n")
WAVE = ["--set", "pipeline.placement=wave", "--set", "pipeline.stages=8"]


def test_torchtitans_order_goes_into_a_file_of_its_own():
    path = os.path.join(folder, "titan.toml")
    done = run("plan", problem, "--schedule", "zb-h1", "--format", "torchtitan", "--shape", "data=2,sequence=512", "-o", path)
    expect((done.returncode, done.stdout, done.stderr) == (0, "", ""), f"{done}")
    with open(path, "rb") as file:
        keys = tomllib.load(file)
    order = os.path.join(folder, "titan.csv")
    expect(keys["parallelism"]["pipeline_parallel_schedule_csv"] == order, f"{keys}")
    expect(keys["training"] == {"local_batch_size": 12, "global_batch_size": 24, "seq_len": 512}, f"{keys['training']}")
    expect(open(order).read() == run("plan", problem, "--schedule", "zb-h1", "--format", "csv").stdout, "the order is the plan's")
    printed = run("plan", problem, "--schedule", "zb-h1", "--format", "torchtitan").stdout
    rows = [line[2:] for line in printed.splitlines() if line.startswith("# 0F0,") or line[:4] in ("# 1F", "# 2F", "# 3F")]
    expect("\n".join(rows) + "\n" == open(order).read(), f"on standard output, the order is comments: {rows}")
    expect(tomllib.loads(printed)["parallelism"]["pipeline_parallel_schedule_csv"] == "schedule.csv", "and has a name")


def test_nothing_is_written_of_a_plan_that_a_framework_cannot_run():
    path = os.path.join(folder, "none.toml")
    refused(1, "Megatron-LM | rank 0 | 0I0", "plan", problem, "--schedule", "zb-h1", "--format", "megatron", "-o", path)
    refused(1, "DeepSpeed | wave", "plan", problem, "--schedule", "zb-v", "--format", "deepspeed", *WAVE)
    refused(1, "torchtitan | 2", "plan", problem, "--schedule", "1f1b", "--format", "torchtitan", "--set", "pipeline.parts=2", "-o", path)
    expect(not os.path.exists(path) and not os.path.exists(path.replace("toml", "csv")), "a file is there")


def test_a_shape_goes_with_the_forms_that_have_one():
    refused(2, "--shape | json", "plan", problem, "--format", "json", "--shape", "data=2")
    refused(2, "--shape | tenser=2 | tensor", "plan", problem, "--format", "megatron", "--shape", "tenser=2")
    refused(2, "--shape | zero | 3", "plan", problem, "--format", "megatron", "--shape", "zero=4")
    refused(2, "7 | 12", "plan", problem, "--schedule", "1f1b", "--format", "megatron", "--shape", "global_batch=7")
    refused(2, "megatron | primus", "plan", problem, "--format", "nemo")


def test_simulate_reads_what_plan_writes_and_plans_themselves():
    for form, family in (("deepspeed", "1f1b"), ("primus", "zb-h2"), ("json", "zb-h2"), ("csv", "zb-h2"), ("pytorch", "1f1b")):
        words = [problem, "--schedule", family]
        path = write(f"order.{form}", run("plan", *words, "--format", form).stdout)
        expect(run("simulate", problem, "--order", path, "--format", "csv").stdout == run("plan", *words, "--format", "csv").stdout, f"{form}: another order")
        expect(plan("simulate", problem, "--order", path)["makespan_ms"] == plan("plan", *words)["makespan_ms"], f"{form}: another time")
    expect(run("simulate", problem, "--order", "-", "--format", "csv", text=open(path).read()).returncode == 0, "from standard input")
    refused(2, "deepspeed | 4 | 3", "simulate", problem, "--order", os.path.join(folder, "order.deepspeed"), "--set", "pipeline.ranks=3")
    refused(2, "bad.json | 1", "simulate", problem, "--order", write("bad.json", "{"))


def flags(text):
    path = write("flags.sh", text)
    return subprocess.run(["bash", "-c", '. "$0" && printf "%s\\n" "${slackline[@]}"', path], capture_output=True, text=True, check=True).stdout.splitlines()


def test_megatrons_flags_are_a_shell_array_with_the_cut():
    words = flags(run("plan", LAYERS, "--schedule", "1f1b", "--format", "megatron").stdout)
    expect(words[words.index("--pipeline-model-parallel-layout") + 1] == "Ett|tttL" and words[words.index("--num-layers") + 1] == "5", f"{words}")
    words = flags(run("plan", LAYOUT, "--schedule", "1f1b", "--format", "megatron").stdout)
    expect(words[words.index("--pipeline-model-parallel-layout") + 1] == "Ettt|ttL" and words[words.index("--num-layers") + 1] == "5", f"{words}")


def test_a_layout_is_the_only_cut():
    found = plan("plan", LAYOUT)
    expect(found["cut"] == [0, 4, 7] and found["stages"] == 2, f"cut: {found['cut']}")
    expect([op["end_ms"] - op["start_ms"] for op in found["ops"] if op["op"] == "F"][0] == 8, "four layers of 2 ms")
    # 4 microbatches on the rank of 4 layers: each 4 (2 + 1 + 1) ms
    expect(found["lower_bound_ms"] >= 64, f"bound of that cut: {found['lower_bound_ms']}")
    again = plan("plan", LAYERS, "--set", "pipeline.layers={layout: 'E|tttL', times_ms: {F: 1, I: 1, W: 1}}")
    expect(again["cut"] == [0, 1, 5], f"--set: {again['cut']}")
    refused(2, "layout | 3 | 2", "plan", LAYOUT, "--set", "pipeline.layers.layout=E|t|L")
    refused(2, "layout | x", "plan", LAYOUT, "--set", "pipeline.layers.layout=Ex|L")
    rows = json.loads(run("compare", LAYOUT, "--schedules", "1f1b,zb-v@wave", "--time-limit", "0.1", "--format", "json").stdout)["rows"]
    expect(len(rows) == 2 and all("error" not in row or not row["error"] for row in rows), f"another placement has a cut of its own: {rows}")
