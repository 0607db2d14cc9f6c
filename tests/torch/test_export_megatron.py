# labels: long torch
"""plan --format megatron in megatron-core 0.16.1's own hands: its TransformerConfig takes the flags, its layout has the plan's cut, and its table and its
warm-up make the plan's order. Layouts that it reads, and refuses, are read and refused as cuts of problems."""
import json
import os
import random
import subprocess

from environments import environment, run
from exported import COMMAND, order_of, output, problem, write
from runner import expect, folder, source

python = environment("megatron")
SEED = int(os.environ.get("SL_SEED", "1"))
LAYERS = "count: 9, times_ms: {F: [9, 1, 1, 1, 1, 1, 1, 1, 5], I: 1, W: 1}"
CASES = {"linear": (problem(4, 8), "1f1b", "tensor=2,context=2,expert=4,data=4,sequence=4096"),
         "few": (problem(4, 2), "1f1b", "recompute=1"),
         "interleaved": (problem(4, 8, "loop"), "interleaved-1f1b", "microbatch_size=2,zero=1"),
         "three chunks": (problem(2, 8, "loop", 6), "interleaved-1f1b", ""),
         "uneven": (problem(3, 6, layers=LAYERS), "1f1b", ""),
         "layout": (problem(2, 4, layers="layout: 'Et*5|ttmmL', times_ms: {F: 1, I: 1, W: 1}"), "1f1b", "")}


def flags_of(text):
    """As a shell reads them."""
    path = write("flags.sh", text)
    done = subprocess.run(["bash", "-c", '. "$0" && printf "%s\\n" "${slackline[@]}"', path], capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    named = [at for at, word in enumerate(words) if word.startswith("--")]
    return {words[at]: words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("--") else "" for at in named}


def asked(question):
    write("question.json", json.dumps(question))
    code, printed = run(python, "-W", "ignore", os.path.join(source, "tests", "torch", "export_megatron_program.py"), os.path.join(folder, "question.json"))
    expect(code == 0, f"the program failed: {printed[-3000:]}")
    return json.loads(printed.splitlines()[-1]) if code == 0 else None


def test_megatron_core_takes_the_flags_and_makes_the_order():
    question, wanted = {}, {}
    for name, (text, family, shape) in CASES.items():
        words = ["plan", write(name + ".yaml", text), "--schedule", family, "--time-limit", "0"]
        question[name] = {"flags": flags_of(output(*words, "--format", "megatron", *(["--shape", shape] if shape else []))), "microbatches": int(text.split("microbatches: ")[1].split()[0])}
        wanted[name] = {"order": order_of(*words), "layers": json.loads(output(*words, "--format", "json")).get("cut")}
    found = asked({"plans": question})
    for name, one in (found or {"plans": {}})["plans"].items():
        expect(one["order"] == wanted[name]["order"], f"{name}: megatron-core runs {one['order']}, not {wanted[name]['order']}")
    cut = wanted["uneven"]["layers"]
    expect(found["plans"]["uneven"]["decoders"] == [b - a for a, b in zip(cut, cut[1:])], f"uneven: {found['plans']['uneven']['decoders']} of {cut}")
    expect(found["plans"]["layout"]["decoders"] == [5, 2] and found["plans"]["layout"]["letters"] == "EtttttttmmL", f"layout: {found['plans']['layout']}")
    expect(question["linear"]["flags"]["--global-batch-size"] == "32" and question["linear"]["flags"]["--tensor-model-parallel-size"] == "2", "sizes")
    expect(question["few"]["flags"]["--recompute-granularity"] == "full" and "--use-distributed-optimizer" in question["interleaved"]["flags"], "recompute and ZeRO 1")


def test_the_group_of_every_interleaved_order_is_found():
    """Also groups that do not divide the microbatches, and ones so large that some ranks have only warm-up."""
    shapes = [(2, 2, 4, 2), (2, 2, 4, 4), (2, 3, 7, 5), (4, 2, 9, 5), (4, 3, 8, 4), (3, 2, 9, 3), (4, 2, 8, 8), (2, 4, 10, 3), (3, 2, 4, 4)]
    shapes = [shape for shape in shapes if shape[2] % shape[3] == 0 or shape[2] % shape[3] >= shape[0]]
    for (ranks, chunks, microbatches, group), rows in zip(shapes, asked({"orders": shapes})["orders"]):
        path = write("shape.yaml", problem(ranks, microbatches, "loop", ranks * chunks))
        order = write("order.csv", "".join(",".join(row) + "\n" for row in rows))
        flags = flags_of(output("simulate", path, "--order", order, "--format", "megatron"))
        expect(flags["--microbatch-group-size-per-virtual-pipeline-stage"] == str(group), f"{ranks} ranks, {chunks} chunks, {microbatches} microbatches: {flags}, not {group}")
        swapped = [row[:] for row in rows]
        swapped[0][-2:] = swapped[0][:-3:-1]
        order = write("order.csv", "".join(",".join(row) + "\n" for row in swapped))
        done = subprocess.run([COMMAND, "simulate", path, "--order", order, "--format", "megatron"], capture_output=True, text=True, timeout=60)
        expect(done.returncode == 1 and f"op {len(rows[0]) - 2} of rank 0" in done.stderr, f"another order: exit {done.returncode} {done.stderr}")


def layouts(draw, count):
    """Many that are right, and many that are not."""
    for _ in range(count):
        stages = draw.randint(1, 4)
        parts = ["".join(draw.choice(["t", "tt", "t*2", "t*3", "(tt)*2", ",t"]) for _ in range(draw.randint(0 if draw.random() < 0.1 else 1, 2))) for _ in range(stages)]
        text = "E" + "|".join(parts) + draw.choice(["L", "mL", "m|L", "|L", "tL"])
        if draw.random() < 0.3:
            text = text.replace("|", "(t|)*2,", 1) if draw.random() < 0.5 else text.replace("t", draw.choice(["m", "x", "(", "E", "t*0"]), 1)
        yield text


def test_layouts_are_read_as_megatron_core_reads_them():
    print(f"SL_SEED={SEED}")
    texts = ["Et*3|(tt|)*29,m|L", "EtL", "E|t|L", *layouts(random.Random(SEED), 60)]
    found = asked({"layouts": texts})["layouts"]
    accepted = 0
    for text, theirs in zip(texts, found):
        stages = theirs["stages"] or 1
        done = subprocess.run([COMMAND, "plan", write("layout.yaml", problem(stages, 2, layers=f"layout: '{text}', times_ms: {{F: 1, I: 1, W: 1}}")),
                               "--schedule", "gpipe", "--time-limit", "0", "--format", "json"], capture_output=True, text=True, timeout=60)
        right = theirs["letters"] is not None and all(theirs["letters"])
        expect(done.returncode == (0 if right else 2), f"'{text}': exit {done.returncode} {done.stderr}, megatron-core: {theirs}")
        if right and done.returncode == 0:
            accepted += 1
            cut = [sum(map(len, theirs["letters"][:stage])) for stage in range(stages + 1)]
            expect(json.loads(done.stdout)["cut"] == cut, f"'{text}': cut {json.loads(done.stdout)['cut']}, megatron-core {cut}")
    expect(10 < accepted < len(texts) - 5, f"{accepted} of {len(texts)} layouts are right")
