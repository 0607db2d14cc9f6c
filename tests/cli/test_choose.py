"""`slackline choose`: its arrangements agree with themselves and with the planner, --fix holds, errors name what is wrong, Ctrl-C
gives the best so far, and a profile gives what other arrangements would bring."""
import json
import os
import re
import signal
import subprocess
import time

from calling import command, run
from runner import expect, folder, source

model, cluster = (os.path.join(source, "examples", name) for name in ("model-70b.yaml", "cluster-1024.yaml"))
SMALL = {"layers": [{"name": "block", "repeat": 8, "times_ms": {"F": 2, "I": 2, "W": 2}, "activations_mb": 10, "output_mb": 1,
                     "input_mb": 1, "parameters_m": 10}],
         "measured": {"tensor": 1, "size": 1}, "scaling": "ideal", "batch": {"sequences": 16}}
DEVICES = {"hosts": [{"name": "node[0-1]", "devices": 4}],
           "links": {"default": {"latency_ms": 0.1, "bandwidth_gbps": 100}, "inside": {"bandwidth_gbps": 1000}},
           "device": {"tflops": 100, "memory_gb": 1, "memory_gb_per_s": 1000}}


def written(name, what):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        json.dump(what, file)
    return path


small, devices = written("model.yaml", SMALL), written("devices.yaml", DEVICES)


def chosen(*words):
    done = run("choose", small, devices, "--time-limit", "1", "--format", "json", *words)
    expect(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def test_arrangements_agree_with_themselves():
    found = chosen()
    expect(found["format"] == "slackline-choices-1" and found["devices"] == 8 and found["sequences"] == 16, f"{found}")
    best = found["arrangements"][0]
    expect(found["lower_bound_ms"] <= best["iteration_ms"], "no time is below the bound")
    expect(abs(found["gap"] - (best["iteration_ms"] / found["lower_bound_ms"] - 1)) < 1e-6, "the gap")
    for before, one in zip([None, *found["arrangements"]], found["arrangements"]):
        expect(one["tensor"] * one["context"] * one["data"] * one["pipeline"] == 8, f"all devices: {one}")
        expect(one["data"] * one["microbatches"] * one["microbatch_size"] == 16, f"all sequences: {one}")
        expect(one["cut"][0] == 0 and one["cut"][-1] == 8 and len(one["cut"]) == one["pipeline"] * one["chunks"] + 1, f"the cut: {one}")
        expect(one["memory_gb"] <= 1 and one["memory_gb"] == max(one["memory_gb_by_rank"]), f"memory: {one}")
        expect(abs(sum(one["time_ms"].values()) - one["iteration_ms"]) < 1e-3 * one["iteration_ms"], f"what it loses where: {one}")
        expect(min(one["time_ms"].values()) >= 0, f"{one['time_ms']}")
        expect(before is None or (one["iteration_ms"] >= before["iteration_ms"] and one["memory_gb"] < before["memory_gb"]), "time against memory")


def test_fixed_values_hold():
    for name, value, key in (("tensor", 2, "tensor"), ("data", 4, "data"), ("pipeline", 4, "pipeline"), ("size", 2, "microbatch_size"),
                             ("chunks", 2, "chunks"), ("placement", "wave", "placement"), ("zero", 1, "zero")):
        for one in chosen("--fix", f"{name}={value}")["arrangements"]:
            expect(one[key] == value, f"{name}={value}: {one}")


def test_host_memory_is_used_where_memory_binds():
    hosted = json.loads(json.dumps(DEVICES))
    hosted["device"].update({"memory_gb": 0.42, "host_memory_gb": 1, "host_gb_per_s": 25, "host_memory_gb_per_s": 20})
    cluster = written("hosted.yaml", hosted)

    def choose(*words):
        done = run("choose", small, cluster, "--time-limit", "1", "--fix", "data=4", "--fix", "pipeline=2", "--fix", "size=1", *words)
        expect(done.returncode == 0, f"{words}: {done.stderr}")
        return done.stdout

    for use in ("none", "optimizer", "activations", "both"):
        for one in json.loads(choose("--fix", f"offload={use}", "--format", "json"))["arrangements"]:
            expect(one["offload"] == use and one["memory_gb"] <= 0.42 and one["host_memory_gb"] <= 1, f"{use}: {one}")
            expect((one["host_memory_gb"] > 0) >= (use in ("optimizer", "both")), f"{use}: {one}")
            expect(abs(sum(one["time_ms"].values()) - one["iteration_ms"]) < 1e-3 * one["iteration_ms"], f"{use}: {one}")
    one = ("--fix", "offload=optimizer", "--fix", "zero=1", "--fix", "tensor=1", "--fix", "recompute=none")
    best = json.loads(choose(*one, "--format", "json"))["arrangements"][0]
    # of 10 million parameters a layer, 8 layers, a quarter of a rank's 4: gradients there 4 bytes, back 2, 2 * 12 + 4 + 2 bytes there
    slowest, ends = 10e6 / 4 * 30 / 20e9, 10e6 / 4 * (4 + 2) / 25e9
    expect(abs(best["time_ms"]["update"] - 1e3 * (4 * slowest + ends)) < 1e-6, f"{best['time_ms']}")
    expect(abs(best["host_memory_gb"] - 4 * 10e6 / 4 * 12 / 1e9) < 1e-9, f"{best}")
    flags = choose(*one, "--format", "megatron")
    expect("--optimizer-cpu-offload" in flags and "--use-distributed-optimizer" in flags, flags)
    config = json.loads(choose(*one, "--format", "deepspeed"))["config"]["zero_optimization"]
    expect(config["stage"] == 1 and config["offload_optimizer"]["device"] == "cpu", f"{config}")
    expect("offload" not in choose("--format", "torchtitan"), "torchtitan has no such setting")
    for form, use in (("torchtitan", "optimizer"), ("megatron", "activations"), ("pytorch", "both")):
        done = run("choose", small, cluster, "--fix", f"offload={use}", "--format", form)
        expect(done.returncode == 2 and f"--format {form} can only have none" in done.stderr, f"{form}: {done.stderr}")


def test_slower_replicas_get_fewer_microbatches():
    mixed = json.loads(json.dumps(DEVICES))
    mixed["hosts"] = [{"name": "fast", "devices": 4}, {"name": "slow", "devices": 4, "speed": 0.5}]
    cluster = written("mixed.yaml", mixed)

    def choose(*words):
        return run("choose", small, cluster, "--time-limit", "1", "--fix", "data=2", "--fix", "size=1", "--fix", "neighbors=stages", "--fix", "pipeline=4", *words)

    best = json.loads(choose("--format", "json").stdout)["arrangements"][0]
    expect(sum(best["split"]) == 16 and best["split"][0] > best["split"][1], f"{best}")
    expect(best["microbatches"] in best["split"], f"{best}")
    even = json.loads(choose("--fix", "split=even", "--format", "json").stdout)["arrangements"][0]
    expect(even["split"] == [8, 8] and even["iteration_ms"] > 1.2 * best["iteration_ms"], f"{even['iteration_ms']} {best['iteration_ms']}")
    expect("microbatches of its replicas: " in choose().stdout, "the split")
    form = choose("--format", "megatron")
    expect(form.returncode == 0 and "--global-batch-size 16" in form.stdout, form.stderr)
    form = choose("--fix", "split=uneven", "--format", "torchtitan")
    expect(form.returncode == 2 and "as many microbatches on each replica" in form.stderr, form.stderr)


def test_messages_have_the_regime_of_the_cluster_or_the_framework():
    slow = json.loads(json.dumps(DEVICES))
    slow["links"] = {"default": {"latency_ms": 5, "bandwidth_gbps": 100}, "inside": {"latency_ms": 5, "bandwidth_gbps": 100}}

    def choose(name, communication, *words):
        content = dict(slow, **({"communication": communication} if communication else {}))
        return run("choose", small, written(name, content), "--time-limit", "2", "--fix", "tensor=1", "--fix", "data=1", *words)

    def best(name, communication):
        done = choose(name, communication, "--format", "json")
        expect(done.returncode == 0, done.stderr)
        found = json.loads(done.stdout)
        return found, found["arrangements"][0]

    found, free = best("free.yaml", None)
    expect(free["communication"] == {"regime": "decoupled"} and found["communicators_ms"] == {}, f"{free}")
    found, one = best("one.yaml", {"regime": "fifo", "communicators": "pipeline"})
    expect(one["communication"] == {"regime": "fifo", "communicators": "pipeline"} and found["communicators_ms"] == {}, f"{one}")
    found, any_ = best("any.yaml", "fifo")
    times = found["communicators_ms"]
    expect(set(times) == {"pipeline", "pair", "direction", "kind"}, f"{times}")
    expect(any_["iteration_ms"] <= min(times.values()) * 1.000001 and any_["iteration_ms"] <= one["iteration_ms"] * 1.02, f"{any_} {one}")
    expect(any_["iteration_ms"] >= 0.98 * free["iteration_ms"], "no communicators let messages wait less than none")
    _, batched = best("batched.yaml", "batched")
    expect(batched["communication"] == {"regime": "batched"} and batched["iteration_ms"] >= free["iteration_ms"], f"{batched}")
    text = choose("any.yaml", "fifo").stdout
    expect("messages between its stages: fifo, communicators: " in text and "; with pipeline " in text, text)
    done = choose("torch.yaml", None, "--format", "pytorch")
    expect(done.returncode == 0 and "SEND" not in done.stdout and done.stdout.startswith("0F0,"), done.stderr)
    fixed = json.loads(choose("free.yaml", None, "--fix", "communication=fifo", "--fix", "communicators=pair", "--format", "json").stdout)
    expect(fixed["arrangements"][0]["communication"] == {"regime": "fifo", "communicators": "pair"}, f"{fixed}")
    done = choose("free.yaml", None, "--fix", "communicators=pair")
    expect(done.returncode == 2 and "only for regime fifo" in done.stderr, done.stderr)
    done = choose("wrong.yaml", {"regime": "fifo", "receive_buffers": 2, "receive_memory": 5})
    expect(done.returncode == 2 and "wrong.yaml" in done.stderr and "does not count receive buffers" in done.stderr, done.stderr)


def test_ranks_are_on_the_devices_that_suit_them():
    site = {"n0": 0, "n1": 1, "n2": 0, "n3": 1}
    sites = {"hosts": list(site), "device": DEVICES["device"],
             "links": {"default": {"latency_ms": 5, "bandwidth_gbps": 100},
                       "groups": [{"hosts": [name for name in site if site[name] == k], "latency_ms": 0.01, "bandwidth_gbps": 100} for k in (0, 1)]}}
    words = ("choose", small, written("sites.yaml", sites), "--time-limit", "2", "--fix", "tensor=1", "--fix", "data=1", "--fix", "chunks=1")
    done = run(*words, "--format", "json")
    expect(done.returncode == 0, done.stderr)
    best = json.loads(done.stdout)["arrangements"][0]
    at = best["positions"]
    expect(sorted(at) == list(site), f"{at}")
    # the file's order crosses three times, any order at least once
    expect(sum(site[a] != site[b] for a, b in zip(at, at[1:])) == 1, f"{at}")
    text = run(*words).stdout
    expect("devices of pipeline rank 0: n" in text, text)
    best = chosen("--fix", "tensor=2", "--fix", "data=2", "--fix", "pipeline=2", "--fix", "neighbors=stages")["arrangements"][0]
    # ranks of one tensor group first, then replicas, then pipeline ranks; the file's order has the pipeline ranks of a replica first
    expect(best["positions"] == [f"node{n}/{k}" for n, k in ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3))], f"{best['positions']}")
    expect("devices of pipeline rank" not in run("choose", small, devices, "--time-limit", "1").stdout, "all alike")


def test_errors_name_what_is_wrong():
    for words, code, said in (([small], 2, "needs a CLUSTER"), ([], 2, "give a MODEL and a CLUSTER"), ([small, devices, "--fix", "tensor"], 2, "--fix takes NAME=VALUE"), ([small, devices, "--fix", "color=red"], 2, "--fix takes tensor"),
                              ([small, devices, "--fix", "placement=ring"], 2, "linear, loop, wave"), ([small, devices, "--fix", "tensor=0"], 2, "whole number from 1"),
                              ([small, devices, "--fix", "offload=weights"], 2, "none, optimizer, activations, both"),
                              ([small, devices, "--fix", "offload=optimizer"], 1, "no device.host_memory_gb"),
                              ([small, devices, "--fix", "data=3"], 1, "no shape divides 16 sequences of 8 layers over 8 devices"),
                              ([small, devices, "--set", "batch.sequences=0"], 2, "sequences"), ([devices, small], 2, "devices.yaml")):
        done = run("choose", *words)
        expect(done.returncode == code and said in done.stderr and not done.stdout, f"{words}: {done.returncode} {done.stderr}")


def test_the_first_is_a_problem_and_a_plan():
    words = ["choose", small, devices, "--time-limit", "1", "--fix", "pipeline=4", "--fix", "zero=0", "--format"]
    path = os.path.join(folder, "problem.yaml")
    with open(path, "w") as file:
        file.write(run(*words, "problem").stdout)
    plan = json.loads(run(*words, "plan").stdout)
    again = json.loads(run("plan", path, "--format", "json").stdout)
    expect(plan["ranks"] == again["ranks"] == 4 and plan["microbatches"] == again["microbatches"], "the shape")
    expect(again["makespan_ms"] <= 1.01 * plan["makespan_ms"], f"{again['makespan_ms']} and {plan['makespan_ms']}")


def test_frameworks_get_what_they_can_run():
    for form, said in (("megatron", "--pipeline-model-parallel-layout 'E"), ("torchtitan", "module_fqns_per_model_part"), ("deepspeed", '"partition"'),
                       ("primus", '"vpp_size"'), ("pytorch", "0F0,")):
        done = run("choose", model, cluster, "--time-limit", "3", "--fix", "data=64", "--format", form)
        expect(done.returncode == 0 and said in done.stdout, f"{form}: {done.stderr} {done.stdout[:300]}")
    flags = run("choose", model, cluster, "--time-limit", "3", "--fix", "tensor=4", "--fix", "pipeline=4", "--format", "megatron").stdout
    layout = flags.split("--pipeline-model-parallel-layout '")[1].split("'")[0]
    whole = re.sub(r"\(([^()]*)\)\*(\d+)", lambda m: m[1] * int(m[2]), layout)
    whole = re.sub(r"t\*(\d+)", lambda m: "t" * int(m[1]), whole)
    expect(whole.count("t") == 80 and whole.startswith("E") and whole.endswith("L"), layout)
    expect("--tensor-model-parallel-size 4" in flags and "--global-batch-size 2048" in flags and "--sequence-parallel" in flags, flags)
    only = chosen("--schedules", "1f1b", "--fix", "pipeline=4")
    expect({one["schedule"] for one in only["arrangements"]} == {"1f1b"}, f"{only}")
    done = run("choose", small, devices, "--schedules", "1f1b,mine")
    expect(done.returncode == 2 and "'mine' is not a family" in done.stderr, done.stderr)


def test_ctrl_c_gives_the_best_so_far():
    process = subprocess.Popen([command, "choose", model, cluster, "--time-limit", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    expect(process.returncode == 0 and "tokens/s" in out and "interrupted, the best so far" in said, f"{process.returncode} {said} {out}")


def test_a_profile_gives_what_others_would_bring():
    stages = {"pipeline": {"ranks": 4, "microbatches": 12, "times_ms": {"F": [10, 10, 10, 20], "I": [10, 10, 10, 20], "W": [10, 10, 10, 20]}}}
    path, order = written("profile.yaml", stages), os.path.join(folder, "order.csv")
    with open(order, "w") as file:
        file.write(run("plan", path, "--schedule", "1f1b", "--format", "csv").stdout)
    running = json.loads(run("plan", path, "--schedule", "1f1b", "--format", "json").stdout)["makespan_ms"]
    done = run("choose", path, "--layers", "8", "--order", order, "--time-limit", "4", "--format", "json")
    expect(done.returncode == 0, done.stderr)
    found = json.loads(done.stdout)
    others = {one["effort"]: one for one in found["others"]}
    expect(found["now_ms"] == running, f"{found['now_ms']} and {running}")
    expect(others["schedule"]["iteration_ms"] <= running and others["cut"]["iteration_ms"] < others["schedule"]["iteration_ms"], f"{others}")
    expect(others["cut"]["cut"][-1] == 9, "the head is a layer of its own")
    expect("one replica" in found["without"]["sizes"], f"{found['without']}")
    text = run("choose", path, "--time-limit", "1").stdout
    expect("number of layers is not given" in text and "a swap while the job runs" in text, text)
