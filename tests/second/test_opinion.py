"""The timing model, checks of orders, objectives and bounds against a second implementation of docs/formats.md (reference.py): random cases
of all regimes and placements. SL_SEED and SL_CASES (of each kind) choose others; test_opinion_many.py tries 100,000."""
import asked
import hindsight
import tries
from reference import Problem, Replay, ns
from runner import expect

# ---- random cases ----


def test_times_memory_and_values_of_valid_orders_are_the_same():
    tries.agree(tries.order, 300)


def test_an_order_with_mistakes_is_refused_exactly_if_it_is_invalid():
    tries.agree(tries.spoiled, 300)


def test_moves_to_host_memory_are_possible_and_keep_the_limits():
    tried = tries.agree(tries.moved, 60)
    expect(any("moves" in name for name in tried), "nothing was moved")


def test_plans_are_valid_within_memory_and_timed_right():
    tries.agree(tries.plan, 100)


def test_no_bound_is_above_the_best_of_all_orders_and_no_plan_below():
    tried = tries.agree(tries.best, 8)
    expect(any(", reached" in name for name in tried), "no plan was the best")


def test_ranks_stop_exactly_if_they_do_so_in_every_way_of_getting_ahead():
    tries.agree(tries.interleaved, 60)


def test_check_finds_the_deadlocks_of_every_kind_of_communicators():
    tries.agree(tries.checked, 8)


def test_small_jobs_with_a_fault_lose_at_most_what_is_promised_over_hindsight():
    tries.agree(hindsight.fault, 20)


# ---- cases on which the two opinions once differed ----


def simulated(said, csv):
    handle = asked.problem(said)
    plan = asked.simulated(handle, csv)
    asked.free(handle)
    assert not isinstance(plan, str), plan
    return plan


def test_each_send_of_a_pair_waits_for_a_slot_of_its_own_also_on_a_shared_wire():
    """Rank 1 ends the pair at 14 ms. The link to rank 2 is free since 5 ms, so F2 arrives there at 15. B0 is under way to rank 0 until 20, so
    B1 leaves then, and rank 1 goes on."""
    said = {"ranks": 3, "microbatches": 3, "times_ms": {"F": 1, "I": 1, "W": 1}, "communication": "inorder", "queue": 1,
            "links": {"default": {"latency_ms": 1}, "list": [{"between": [1, 0], "one_way": True, "latency_ms": 10}],
                      "shared": [{"name": "both", "links": [[0, 1], [1, 2]]}]}}
    plan = simulated(said, "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1B0,(1F2;1B1)OVERLAP_F_B,1B2\n2F0,2B0,2F1,2B1,2F2,2B2\n")
    sent = {(m["stage"], m["op"], m["microbatch"]): (m["start_ms"], m["arrive_ms"]) for m in plan["transfers"]}
    expect(sent[1, "F", 2] == (14, 15), sent[1, "F", 2])
    expect(sent[1, "B", 1] == (20, 30), sent[1, "B", 1])
    starts = {(op["stage"], op["op"], op["microbatch"]): op["start_ms"] for op in plan["ops"]}
    expect((starts[2, "F", 2], starts[1, "B", 2], starts[0, "B", 2]) == (15, 20, 40), starts)


def test_in_fifo_all_that_comes_to_a_wire_at_an_instant_does_so_before_it_takes_one():
    """At 5 ms, rank 2 ends F1 and sends it, and rank 1 ends F2, after which it reaches its receive of F0. Both messages need one wire, and F0 has
    the lower microbatch."""
    said = {"ranks": 4, "microbatches": 3, "times_ms": {"F": [1, 1, 2, 1], "I": 1, "W": 1}, "communication": {"regime": "fifo", "communicators": "direction"},
            "links": {"list": [{"between": [0, 1], "one_way": True, "transfer_ms": 1}, {"between": [2, 3], "one_way": True, "transfer_ms": 1}],
                      "shared": [{"name": "both", "links": [[0, 1], [2, 3]]}]}}
    plan = simulated(said, "".join(f"{rank}F1,{rank}F2,{rank}F0,{rank}B1,{rank}B2,{rank}B0\n" for rank in range(4)))
    sent = {(m["stage"], m["op"], m["microbatch"]): (m["start_ms"], m["arrive_ms"]) for m in plan["transfers"]}
    expect((sent[0, "F", 0], sent[2, "F", 1]) == ((5, 6), (6, 7)), (sent[0, "F", 0], sent[2, "F", 1]))


def test_a_stage_without_microbatches_has_no_collectives_in_the_bound_either():
    """One microbatch runs down, none up. Stage 0 takes 3 ms, and its reduction 5 before the next iteration."""
    said = {"ranks": 1, "microbatches": 1, "placement": "bidirectional", "times_ms": {"F": 1, "I": 1, "W": 1}, "data_parallel": {"reduce_ms": 5},
            "objective": "period"}
    plan = simulated(said, "0F0,0I0,0W0\n")
    expect((plan["value_ms"], plan["lower_bound_ms"]) == (8, 8), (plan["value_ms"], plan["lower_bound_ms"]))


def test_weights_of_layers_are_part_of_the_peak():
    """Two layers of 3 each, and an activation of 2: with a limit and without."""
    said = {"ranks": 1, "microbatches": 1, "layers": {"count": 2, "times_ms": {"F": 1, "I": 1, "W": 1}, "weights": 3}}
    for memory in ({}, {"memory": {"limit": 9}}):
        plan = simulated({**said, **memory}, "0F0,0I0,0W0\n")
        expect(plan["peak_memory"] == [8] and plan["memory_ok"], f"{memory} {plan['peak_memory']}")
    expect(not simulated({**said, "memory": {"limit": 7}}, "0F0,0I0,0W0\n")["memory_ok"], "8 fit into 7")


# ---- the reference itself, by hand ----


def times(said, rows):
    problem = Problem(said)
    order = [[tries.block(text) for text in row.split()] for row in rows]
    return problem, order, Replay(problem, order)


def test_the_reference_agrees_with_a_hand_calculation():
    """2 ms on the wire and 3 ms of latency. Decoupled: F0 runs from 0 to 1, is on the wire from 1 to 3 and there at 6; F1 is on the wire from 3
    to 5 and there at 8. Inorder with one slot: F1 leaves when F0 is there, at 6, and is there at 11; rank 0 goes on at 6. Batched: F1 starts when F0
    is there."""
    said = {"ranks": 2, "microbatches": 2, "times_ms": {"F": 1, "I": 1, "W": 1}, "links": {"default": {"latency_ms": 3, "transfer_ms": 2}}}
    for regime, starts in (("decoupled", (0, 1, 6, 8)), ("inorder", (0, 1, 6, 11)), ("batched", (0, 6, 6, 12))):
        _, order, replay = times({**said, "communication": regime}, ("0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"))
        found = tuple(replay.start[block[0]] for row in order for block in row[:2])
        expect(found == tuple(map(ns, starts)), f"{regime}: {found}")
