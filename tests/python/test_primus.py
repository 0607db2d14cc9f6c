"""Plans as tables of AMD's Primus. Primus has no package, so its two classes are declared here as its sources have them (github.com/AMD-AGI/Primus,
primus/core/pipeline_parallel/scheduler/scheduler_node.py), and a runner follows the rules of its handlers (primus/backends/megatron/core/
pipeline_parallel/primuspipe/handlers): what a node looks for in its row, which batch it reads, which messages are posted together, and which calls hold
the rank: its own sends, or in later versions those before. tests/torch/test_primus.py runs the tables by Primus' own handlers."""
import enum
import json
import os
import subprocess
import sys
import types
from collections import deque
from dataclasses import dataclass
from typing import Any

from package import EXAMPLE, SLOW, python, raises  # noqa: F401
from runner import build, expect
import slackline
from slackline import NoAnswer

NODES = "primus.core.pipeline_parallel.scheduler.scheduler_node"


class FuncType(enum.Enum):
    F = "FORWARD"
    B = "BACKWARD"
    W = "W_GRAD"
    BW = "BACKWARD_W_GRAD"
    FB = "FORWARD_BACKWARD"
    SF = "SEND_FORWARD"
    SB = "SEND_BACKWARD"
    RF = "RECV_FORWARD"
    RB = "RECV_BACKWARD"


@dataclass
class SchedulerNode:
    func_type: FuncType
    mini_batch: int
    chunk: int
    args: dict[str, Any] = None
    meta: dict[str, Any] = None

    def __str__(self):
        return f"({self.func_type.name}|{self.mini_batch}|{self.chunk})"


def table(plan):
    sys.modules[NODES] = types.SimpleNamespace(FuncType=FuncType, SchedulerNode=SchedulerNode)
    for at in range(1, NODES.count(".") + 1):
        sys.modules.setdefault(".".join(NODES.split(".")[:at]), types.ModuleType("primus"))
    try:
        return plan.primus_table()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "primus"]:
            del sys.modules[name]


COMMUNICATION = {FuncType.SF, FuncType.SB, FuncType.RF, FuncType.RB}


def previous(row, at, kinds, chunk=None):
    """As find_prev_node_with_type: the node before `at` of the same microbatch and chunk."""
    chunk = row[at].chunk if chunk is None else chunk
    return next((one for one in reversed(row[:at]) if one.func_type in kinds and one.mini_batch == row[at].mini_batch and one.chunk == chunk), None)


def groups(rank, row):
    """(computation, [messages that are posted together, in their order]), as batch_p2p_communication_handler makes them."""
    found, together = [], []
    for at, node in enumerate(row):
        if node.func_type not in COMMUNICATION:
            found.append((node, []))
            continue
        if node.args["from_pp_rank"] != node.args["to_pp_rank"]:
            together.append(node)
        following = row[at + 1] if at + 1 < len(row) else None
        if following is not None and following.func_type in COMMUNICATION and following.args.get("time_step", "") in ("", node.args.get("time_step")):
            continue
        up = [one for one in together if one.args["from_pp_rank"] < one.args["to_pp_rank"]]
        down = [one for one in together if one not in up]
        sent = [[one for one in part if one.func_type in (FuncType.SF, FuncType.SB)] for part in (up, down)]
        taken = [[one for one in part if one.func_type in (FuncType.RF, FuncType.RB)] for part in (up, down)]
        found.append((None, sent[0] + taken[0] + sent[1] + taken[1] if rank % 2 == 0 else taken[0] + sent[0] + taken[1] + sent[1]))
        together = []
    return found


def wrong(rows, plan, later=False):
    """What Primus would assert, compute wrongly, or wait for forever; "": nothing. Each pair of ranks carries its messages in the order in which both post
    them, and a send or a receive that is taken holds its rank until the other rank has posted its end. later: a send only holds the next messages."""
    for rank, row in enumerate(rows):
        for chunk in {node.chunk for node in row}:
            read = [node.mini_batch for node in row if node.func_type is FuncType.F and node.chunk == chunk]
            if read != sorted(read):
                return f"rank {rank}: the forwards of chunk {chunk} take each other's batches"
            deferred = [node.mini_batch for node in row if node.func_type is FuncType.B and node.chunk == chunk]
            added = [node.mini_batch for node in row if node.func_type is FuncType.W and node.chunk == chunk]
            if sorted(deferred) != sorted(added) or deferred and any(node.func_type is FuncType.BW for one in rows for node in one):
                return f"rank {rank}: weight gradients of chunk {chunk} are left"
        for at, node in enumerate(row):
            kind, stage = node.func_type, None
            if kind in (FuncType.F, FuncType.B, FuncType.BW):
                stage = next(op.stage for op in plan.ops if op.rank == rank and op.op in "FIB" and op.stage // plan.ranks == node.chunk)
                needs = FuncType.RF if kind is FuncType.F else FuncType.RB
                edge = 0 if kind is FuncType.F else plan.stages - 1
                if (previous(row, at, [needs]) is None) != (stage == edge):
                    return f"rank {rank}: {node} without its message, or with one too many"
                if kind is not FuncType.F and previous(row, at, [FuncType.F]) is None:
                    return f"rank {rank}: {node} before its forward"
            if kind is FuncType.W and previous(row, at, [FuncType.B]) is None:
                return f"rank {rank}: {node} before its backward"
            if kind in (FuncType.SF, FuncType.SB) and previous(row, at, [FuncType.F] if kind is FuncType.SF else [FuncType.B, FuncType.BW]) is None:
                return f"rank {rank}: {node} before its op"
            if kind in (FuncType.RF, FuncType.RB) and node.args["from_pp_rank"] == rank == node.args["to_pp_rank"] and \
                    previous(row, at, [FuncType.SF if kind is FuncType.RF else FuncType.SB], node.args["recv_from_chunk"]) is None:
                return f"rank {rank}: {node} before its message was sent"
    todo, posted, done, over = [deque(groups(rank, row)) for rank, row in enumerate(rows)], {}, {}, set()
    blocked = [[] for _ in rows]  # messages that hold the rank
    sends = [[] for _ in rows]  # those of the latest messages of a rank
    while True:
        moved = False
        for rank in range(len(rows)):
            if any(id(one) not in over for one in blocked[rank]) or not todo[rank]:
                continue
            node, together = todo[rank].popleft()
            if later and node is None and any(id(one) not in over for one in sends[rank]):
                todo[rank].appendleft((node, together))
                continue
            moved = True
            if node is not None and node.func_type is not FuncType.W:
                need = previous(rows[rank], rows[rank].index(node), [FuncType.RF if node.func_type is FuncType.F else FuncType.RB])
                if need is not None and need.args["from_pp_rank"] != rank and id(need) not in over:
                    todo[rank].appendleft((node, together))
                    blocked[rank] = [need]
                    continue
            sends[rank] = [one for one in together if one.func_type in (FuncType.SF, FuncType.SB)] if node is None else sends[rank]
            blocked[rank] = [] if later else sends[rank] if node is None else []
            for one in together:
                pair = tuple(sorted((one.args["from_pp_rank"], one.args["to_pp_rank"])))
                posted.setdefault((pair, rank), deque()).append(one)
        for pair in {pair for pair, _ in posted}:
            a, b = (posted.setdefault((pair, rank), deque()) for rank in pair)
            while a and b:
                one, two = a.popleft(), b.popleft()
                ends = {one.func_type, two.func_type}
                same = (one.mini_batch, one.args["from_pp_rank"]) == (two.mini_batch, two.args["from_pp_rank"])
                sender, receiver = (one, two) if one.func_type in (FuncType.SF, FuncType.SB) else (two, one)
                if ends not in ({FuncType.SF, FuncType.RF}, {FuncType.SB, FuncType.RB}) or not same or \
                        (sender.args["send_to_chunk"], receiver.args["recv_from_chunk"]) != (receiver.chunk, sender.chunk):
                    return f"ranks {pair} post {one} of {one.args} and {two} of {two.args} at the same place"
                over |= {id(one), id(two)}
                moved = True
        if not moved:
            left = [len(one) for one in todo]
            return f"deadlock: {left} steps left" if any(left) or any(posted.values()) else ""


def test_two_ranks_of_1f1b_by_hand():
    """Rank 0 sends both activations before it takes a gradient, so rank 1 takes both before it sends one."""
    rows = table(slackline.plan({"pipeline": {"ranks": 2, "microbatches": 2, "times_ms": {"F": 1, "I": 1, "W": 1}}}, "1f1b"))
    said = [["{0.func_type.name}{0.mini_batch}".format(node) for node in row if (node.func_type in COMMUNICATION) == messages] for row in rows for messages in (True, False)]
    expect(said == [["SF0", "SF1", "RB0", "RB1"], ["F0", "F1", "BW0", "BW1"], ["RF0", "RF1", "SB0", "SB1"], ["F0", "BW0", "F1", "BW1"]], f"{said}")
    node = rows[0][1]
    expect({key: node.args[key] for key in ("from_pp_rank", "to_pp_rank", "send_to_chunk")} == {"from_pp_rank": 0, "to_pp_rank": 1, "send_to_chunk": 0}, f"{node.args}")


def shape(ranks, microbatches, placement="linear"):
    return {"pipeline": {"ranks": ranks, "microbatches": microbatches, "placement": placement, "times_ms": {"F": 3, "I": 4, "W": 2}}}


def test_primus_runs_plans_of_every_placement():
    cases = [(shape(2, 5), "1f1b", None), (shape(3, 7), "gpipe", None), (shape(4, 9), "zb-h1", None), (shape(5, 6), "zb-h2", None), (EXAMPLE, "adaptra", SLOW),
             (shape(4, 8, "loop"), "interleaved-1f1b", None), (shape(2, 6, "loop"), "interleaved-1f1b", None), (shape(4, 8, "wave"), "zb-v", None), (shape(2, 5, "wave"), "zb-v", None)]
    for problem, family, changes in cases:
        plan = slackline.plan(problem, family, changes=changes)
        rows = table(plan)
        ran = sorted((node.func_type.name, node.mini_batch, node.chunk, rank) for rank, row in enumerate(rows) for node in row if node.func_type not in COMMUNICATION)
        names = {"I": ["B"], "B": ["B", "W"] if any(op.op == "I" for op in plan.ops) else ["BW"]}
        wanted = sorted((name, op.microbatch, op.stage // plan.ranks, op.rank) for op in plan.ops for name in names.get(op.op, [op.op]))
        expect(ran == wanted, f"{family}: other ops")
        for later in (False, True):
            expect(wrong(rows, plan, later) == "", f"{family} of {plan.ranks} ranks, {plan.placement}: {wrong(rows, plan, later)}")


def test_the_commands_table_is_the_packages():
    """plan --format primus, another implementation of the same."""
    cases = [(shape(2, 5), "1f1b"), (shape(4, 9), "zb-h1"), (shape(3, 7), "gpipe"), (shape(4, 8, "loop"), "interleaved-1f1b"), (shape(4, 8, "wave"), "zb-v"), (shape(2, 5, "wave"), "dualpipe-v")]
    for problem, family in cases:
        plan = slackline.plan(problem, family)
        done = subprocess.run([os.path.join(build, "slackline"), "plan", "-", "--schedule", family, "--time-limit", "0", "--format", "primus"], input=json.dumps(problem),
                              capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0, f"{family}: exit {done.returncode} {done.stderr}")
        document = json.loads(done.stdout)
        rows = [[SchedulerNode(FuncType[node.pop("func_type")], **node) for node in row] for row in document["table"]]
        expect(rows == table(plan), f"{family} of {plan.ranks} ranks, {plan.placement}: other nodes")
        expect(wrong(rows, plan) == "" and (document["pp_size"], document["vpp_size"]) == (plan.ranks, plan.stages // plan.ranks), f"{family}: {wrong(rows, plan)}")


def test_the_runner_notices_what_would_stop_primus():
    plan = slackline.plan(EXAMPLE, "zb-h1")
    for spoil, says in ((lambda rows: rows[1].pop(0), "without its message"), (lambda rows: rows[2].insert(0, rows[2].pop()), "before its"),
                        (lambda rows: rows[0].remove(next(node for node in rows[0] if node.func_type is FuncType.SF)), "deadlock|at the same place")):
        rows = table(plan)
        spoil(rows)
        found = wrong(rows, plan)
        expect(any(one in found for one in says.split("|")), f"'{found}', not '{says}'")


def test_what_it_cannot_express_is_said():
    swapped = "\n".join(["0F1,0F0,0B1,0B0", "1F1,1F0,1B1,1B0"])
    raises(NoAnswer, lambda: table(slackline.simulate(shape(2, 2), swapped)), "forwards of stage 0")
    raises(ImportError, slackline.plan(EXAMPLE, "1f1b").primus_table, NODES)


def test_messages_that_are_posted_together_would_be_out_of_order():
    """Primus sorts messages that it posts together. Without a time_step of their own, those of two ranks of a plan would no longer match."""
    plan = slackline.plan(EXAMPLE, "zb-h1", changes=SLOW)
    rows = table(plan)
    for row in rows:
        for node in row:
            if node.args:
                del node.args["time_step"]
    expect(wrong(rows, plan) != "" and wrong(table(plan), plan) == "", f"together: '{wrong(rows, plan)}', one by one: '{wrong(table(plan), plan)}'")
