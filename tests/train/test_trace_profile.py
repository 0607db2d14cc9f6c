"""A run's timeline.json, profiled, is the run's own profile: with two iterations the profile of both is the second one, for
the first is cold, so op times must be the same medians of the same records, and the order the one that ran."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from runner import build, folder, source
from training import train

command = os.path.join(build, "slackline")

RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 2, context: 32}
data: {files: ["%s/docs/*.md"], seed: 5}
parallel: {pipeline: 2}
batch: {microbatches: 6, size: 1}
iterations: 2
schedule: zb-h1
adapt: false
device: {kind: cpu, pace_ms: {F: 10, I: 12, W: 8}}
faults:
  - {iterations: [0, 9], link: [0, 1], latency_ms: 20}
""" % source


def ask(*words):
    done = subprocess.run([command, *words, "--format", "json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout)


def test_a_timeline_gives_the_runs_own_profile():
    file, out = os.path.join(folder, "run.yaml"), os.path.join(folder, "out")
    with open(file, "w") as stream:
        stream.write(RUN)
    train(build, file, out)
    problem, order = os.path.join(folder, "problem.yaml"), os.path.join(folder, "order.csv")
    told = ask("import", os.path.join(out, "timeline.json"), "-o", problem, "--order", order, "--time-limit", "0")
    assert told["iteration"] == 1 and [i["whole"] for i in told["iterations"]] == [True, True], told["iterations"]
    assert open(order).read() == open(os.path.join(out, "order.csv")).read(), "the traced order is not the one that ran"
    own = ask("plan", os.path.join(out, "profile.yaml"), "--schedule", "zb-h1")
    mine = ask("plan", problem, "--schedule", "zb-h1")
    for x, y in zip(own["ops"], mine["ops"], strict=True):
        if x["op"] in "FIW":
            a, b = ([op["end_ms"] - op["start_ms"] for op in ops["ops"] if (op["op"], op["stage"]) == (x["op"], x["stage"])][0]
                    for ops in (own, mine))
            assert abs(a - b) < 1e-5, f"{x['op']} of stage {x['stage']}: {a} in profile.yaml, {b} from the trace"
    took = [e["dur"] / 1000 for e in json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
            if e.get("cat") == "transfer" and e["pid"] == 0 and e["args"]["iteration"] == 1]
    link = next(link for link in told["links"] if link["from"] == 0)
    assert min(took) >= 20 and min(took) <= link["latency_ms"] + link["transfer_ms"] <= max(took), (took, link)
    again = ask("simulate", problem, "--order", order)["makespan_ms"]
    assert abs(again - told["simulated_ms"]) < 1e-5, (again, told["simulated_ms"])
    print(f"traced {told['traced_ms']:.1f} ms, simulated {told['simulated_ms']:.1f} ms")
