"""slackline.choose: what follows by hand for a small model, fixed values, arrangements as problems and plans, and mistakes that
name their reason. Eight equal layers on four devices of which none can hold them all: tests/library/test_choose.c has the same."""
import json
import os
import pathlib
import pickle

from package import raises
from runner import expect, folder
import slackline

MODEL = {"layers": [{"name": "block", "repeat": 8, "times_ms": {"F": 1, "I": 1, "W": 1}, "activations_mb": 0.001, "output_mb": 1e-6,
                     "input_mb": 1e-6, "parameters_m": 10}],
         "measured": {"tensor": 1, "size": 1}, "batch": {"sequences": 8}}
CLUSTER = {"hosts": ["node[0-3]"], "links": {"default": {"latency_ms": 0, "bandwidth_gbps": 1000000}},
           "device": {"tflops": 1, "memory_gb_per_s": 10000000, "memory_gb": 1}}
FIXED = {"zero": 0, "placement": "linear"}
found = slackline.choose(MODEL, CLUSTER, 2, fix=FIXED)
first = found.arrangements[0]


def test_a_model_is_divided_as_by_hand():
    # four microbatches of 12 ms on each of two ranks, and one F of 4 ms before the second one begins; messages take less than 0.2 ms
    expect(52 <= first.iteration_ms < 52.2 and 0 < found.lower_bound_ms <= first.lower_bound_ms <= first.iteration_ms, f"52 ms: {first}")
    expect((first.data, first.pipeline, first.tensor, first.chunks, first.microbatches, first.microbatch_size) == (2, 2, 1, 1, 4, 1), f"{first}")
    expect(first.cut == (0, 4, 8) and first.placement == "linear" and first.recompute == "none" and first.recomputed_stages == (), f"{first}")
    expect(0.72 <= first.memory_gb < 0.721 and first.memory_gb == max(first.memory_gb_by_rank), "four layers of 10 million parameters, 18 bytes each")
    expect(abs(sum(vars(first.spent).values()) - first.iteration_ms) < 1e-6 and first.spent.computed_ms == 48, f"{first.spent}")
    expect((first.offload, first.host_memory_gb, first.split, first.regime, first.communicators) == ("none", 0, (4, 4), "decoupled", None), f"{first}")
    expect(sorted(first.positions) == ["node0", "node1", "node2", "node3"] and found.communicators_ms == {}, f"{first.positions}")
    expect("layers of its stages: 4, 4" in found.text and found.planned >= 1, found.text)
    expect(all(a.memory_gb > b.memory_gb and a.iteration_ms <= b.iteration_ms for a, b in zip(found.arrangements, found.arrangements[1:])), "the front")


def test_every_form_of_model_and_cluster_gives_the_same():
    names = []
    for name, held in (("model.yaml", MODEL), ("cluster.yaml", CLUSTER)):
        names.append(os.path.join(folder, name))
        with open(names[-1], "w") as file:
            json.dump(held, file)
    for model, cluster in (names, map(pathlib.Path, names), map(json.dumps, (MODEL, CLUSTER))):
        again = slackline.choose(model, cluster, 2, fix=FIXED).arrangements[0]
        expect((again.cut, again.data) == (first.cut, first.data) and 52 <= again.iteration_ms < 52.2, f"{again}")


def test_an_arrangement_is_a_problem_and_a_plan():
    plan, problem = first.plan(), first.problem()
    expect(plan.cut == first.cut and plan.schedule_name == first.schedule_name, f"{plan}")
    expect(slackline.simulate(problem, plan).makespan_ms == plan.makespan_ms <= first.iteration_ms, "the problem has the cut")
    copy = pickle.loads(pickle.dumps(first))
    expect(copy == first, "arrangements are values")
    raises(slackline.InvalidRequest, copy.plan, "another process")


def test_fixed_values_schedules_and_changes_hold():
    one = slackline.choose(MODEL, CLUSTER, 2, fix={**FIXED, "pipeline": 4, "size": 1}, schedules=["1f1b"], most=1, changes={"batch.sequences": 4})
    expect(len(one.arrangements) == 1 and one.arrangements[0].schedule_name == "1f1b", f"{one}")
    expect(42 <= one.arrangements[0].iteration_ms < 42.2, "1F1B: (M + R - 1) (F + B) = 7 x 6 ms")


def test_mistakes_name_their_reason():
    wrong = slackline.InvalidRequest
    raises(wrong, lambda: slackline.choose("absent.yaml", CLUSTER), "absent.yaml")
    raises(wrong, lambda: slackline.choose(MODEL, "absent.yaml"), "absent.yaml")
    raises(wrong, lambda: slackline.choose({"layers": float("nan")}, CLUSTER), "model: 'layers' must be a number")
    raises(wrong, lambda: slackline.choose(MODEL, {"hosts": []}), "cluster:")
    raises(wrong, lambda: slackline.choose(MODEL, CLUSTER, fix={"color": "red"}), "'color'")
    raises(wrong, lambda: slackline.choose(MODEL, CLUSTER, fix={"tensor": 0}), "whole number from 1")
    raises(wrong, lambda: slackline.choose(MODEL, CLUSTER, schedules=["paln"]), "'paln'")
    raises(wrong, lambda: slackline.choose(MODEL, CLUSTER, most=0), "arrangements")
    raises(wrong, lambda: slackline.choose(MODEL, CLUSTER, -1), "time limit")
    raises(TypeError, lambda: slackline.choose(3, CLUSTER), "a model is a dict")
    raises(slackline.NoAnswer, lambda: slackline.choose(MODEL, CLUSTER, fix={"data": 3}), "no shape divides")
