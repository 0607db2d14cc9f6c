"""--jitter and --explain through the command: by hand on a chain, and against the plan's own fields."""
import os

from calling import delay, folder, plan, problem, refused, run, write
from runner import expect, has_facts

# one microbatch, two ranks: F0, F1, I1, I0, W0 in a row, two messages of 4 ms
chain = write("chain.yaml", """pipeline:
  ranks: 2
  microbatches: 1
  times_ms: {F: 10, I: 10, W: [10, 6]}
  links: {percentile: 50, default: {latency_ms: 4}}
""")


def test_explain_gives_the_costs_by_hand():
    told = plan("plan", chain, "--schedule", "zb-h1", "--explain")
    expect(told["explain"]["parts"] == {"work_ms": 28, "imbalance_ms": 2, "fill_ms": 20, "collectives_ms": 0, "dependency_ms": 8,
                                        "blocking_ms": 0}, f"parts: {told['explain']['parts']}")
    expect(told["explain"]["links"] == [{"from": 0, "to": 1, "cost": 1}, {"from": 1, "to": 0, "cost": 1}], "both links cost 1")
    costs = {(op["stage"], op["op"]): op["cost"] for op in told["explain"]["ops"]}
    expect(costs == {(0, "F"): 1, (0, "I"): 1, (0, "W"): 1, (1, "F"): 1, (1, "I"): 1, (1, "W"): 0}, f"costs: {costs}")
    expect("jitter" not in told, "jitter only when asked for")
    expect("explain" not in plan("plan", chain), "explain only when asked for")


def test_jitter_draws_are_those_of_the_chain():
    # without jitter every draw is the makespan; with it the median is above what the least latency gives
    still = plan("plan", chain, "--schedule", "zb-h1", "--jitter", "20", "--seed", "9")["jitter"]
    expect(still == {"draws": 20, "seed": 9, "percentile": 50, **{f"{name}_ms": 58 for name in
                     ("mean", "min", "max", "p10", "p50", "p90", "p99")}}, f"no jitter: {still}")
    shaking = ["--set", "pipeline.links.default.jitter_ms=3"]
    order = os.path.join(folder, "order.csv")
    run("plan", chain, "--schedule", "zb-h1", "--format", "csv", "-o", order)
    seen = plan("simulate", chain, "--order", order, *shaking, "--jitter", "4000")["jitter"]
    expect(seen["min_ms"] >= 58 - 1e-5 and abs(seen["mean_ms"] - 64) < 4 * 3 * 1.42 / 4000 ** 0.5, f"a chain with jitter: {seen}")
    expect(seen["min_ms"] <= seen["p10_ms"] <= seen["p50_ms"] <= seen["p90_ms"] <= seen["p99_ms"] <= seen["max_ms"], "sorted")
    again = plan("plan", chain, "--schedule", "zb-h1", *shaking, "--jitter", "4000")["jitter"]
    expect(again == seen, "the same seed, order and problem: the same draws")


def test_explained_parts_add_up_to_the_makespan():
    # the parts agree with the rest of the plan
    for schedule in ("1f1b", "adaptra"):
        for more in ([], ["--set", "pipeline.communication=inorder"]):
            told = plan("plan", problem, "--schedule", schedule, *delay(30), *more, "--explain")
            parts = told["explain"]["parts"]
            expect(abs(sum(parts.values()) - told["makespan_ms"]) < 1e-6, f"{schedule}: {parts}")
            expect({key: parts[key] for key in told["lost"]} == told["lost"], f"{schedule}: {parts} {told['lost']}")


def test_text_has_both_and_other_forms_refuse_them():
    text = run("plan", problem, "--schedule", "1f1b", *delay(30), "--explain", "--jitter", "10").stdout
    expect("where the time goes" in text and "link 0-1" in text and has_facts(text, "makespan under jitter, 10 draws"), text)
    refused(2, "--jitter | 1", "plan", problem, "--jitter", "0")
    refused(2, "--jitter | 1", "plan", problem, "--jitter", "ten")
    refused(2, "--jitter | --explain | --format | text | json | csv", "plan", problem, "--explain", "--format", "csv")
