# labels: long
"""A program that stands is reported, with the rank that made the mistake and what that rank does; one that only takes long is taken back;
--hang kill ends it. test_hang_many.py tries every way of standing."""
import json
import os
import stat

from hanging import FAMILIES, MPI, Standing, mpi_words, stands, text_of, usable
from runner import build, expect, has_facts, require

require("redis-server")
AT_ONCE = 3
FAMILY = [family for family in FAMILIES if usable(family)] or require(FAMILIES["openmpi"][1])


def is_named(family, kind, folder, wrong=2):
    result, event = stands(build, folder, family, kind, wrong, 4, 3)
    expect(result == "named", f"{family} {kind}: {result}: {text_of(event)}")
    return event


def test_a_rank_that_enters_another_collective_hangs_the_job(folder):
    for family in FAMILY:
        event = is_named(family, "other-collective", folder)
        assert event["kind"] == "hang" and event["rank"] == 2, event
        assert event["cause"] == "another collective", event


def test_a_receive_without_a_send_hangs_the_job(folder):
    for family in FAMILY:
        assert is_named(family, "receive-without-send", folder)["kind"] == "hang"


def test_large_sends_to_each_other_hang_the_job(folder):
    assert is_named(FAMILY[0], "sends", folder)["kind"] == "hang"


def test_a_rank_that_polls_waits_for_what_it_has_posted(folder):
    """Rank 0 polls for a message of rank 3, which computes; both are missing in the barrier."""
    for family in FAMILY:
        assert is_named(family, "poll-receive", folder)["kind"] == "stall"
        event = is_named(family, "poll-away", folder, wrong=3)
        assert event["kind"] == "stall" and event["rank"] == 3, event


def test_one_sided_calls_are_matched_by_group_and_by_lock(folder):
    """A rank that leaves out MPI_Win_post or _complete, comes late with one, fences less than the others, or keeps a lock; by turns of one and
    the other family, for what is matched is of neither."""
    for at, kind in enumerate(("window-post", "window-complete", "window-fence", "window-unlock")):
        assert is_named(FAMILY[at // 2 % len(FAMILY)], kind, folder)["kind"] == "hang", kind
    for at, kind in enumerate(("window-late-post", "window-late-unlock")):
        assert is_named(FAMILY[at % len(FAMILY)], kind, folder, wrong=1)["kind"] == "stall", kind


def test_a_stopped_rank_only_stands(folder):
    assert is_named(FAMILY[-1], "stopped", folder)["kind"] == "stall"


def test_a_long_computation_is_no_hang_and_is_taken_back(folder):
    with Standing(build, folder, mpi_words(folder, FAMILY[0], 4, ["long", "1", "40", "10", "7"]), ["--hang-after", "2", "--hang", "kill"]) as run:
        stall, at = run.wait_for(("stall", "hang"), 60)
        assert stall and stall["kind"] == "stall" and stall["rank"] == 1, run.events()
        assert has_facts(stall["why"], "rank 1"), stall
        assert run.process.wait(60) == 0
        moves, _ = run.wait_for(("moves", "hang"), 1, at)
        assert moves and moves["kind"] == "moves" and moves["rank"] == 1, run.events()
        assert [event["kind"] for event in run.hangs()] == ["stall", "moves"], run.hangs()


def test_a_loop_without_pauses_is_never_reported(folder):
    with Standing(build, folder, mpi_words(folder, FAMILY[0], 4, ["nothing", "1", "600", "10"]), ["--hang-after", "2"]) as run:
        assert run.process.wait(90) == 0
        assert run.hangs() == [], run.hangs()


def test_kill_ends_a_hanging_job_with_124_and_the_hook_hears_it(folder):
    hook, heard = os.path.join(folder, "hook"), os.path.join(folder, "heard.jsonl")
    with open(hook, "w") as file:
        file.write(f"#!/bin/sh\n[ \"$SLACKLINE_EVENT\" = hang ] && [ \"$SLACKLINE_RANK\" = 3 ] && cat >> {heard}\nexit 0\n")
    os.chmod(hook, stat.S_IRWXU)
    with Standing(build, folder, mpi_words(folder, FAMILY[0], 4, ["skip-barrier", "3"]),
                  ["--hang-after", "2", "--hang", "kill", "--on-event", hook]) as run:
        assert run.process.wait(60) == 124
        with open(heard) as file:
            told = json.loads(file.readline())
        assert told["kind"] == "hang" and told["rank"] == 3, told
        with open(os.path.join(run.out, "hang.json")) as file:
            state = json.load(file)
        assert state["verdict"]["rank"] == 3 and len(state["ranks"]) == 4, state["verdict"]
        with open(os.path.join(run.out, "report.json")) as file:
            assert json.load(file)["exit_code"] == 124
        with open(os.path.join(run.out, "report.txt")) as file:
            lines = file.read().splitlines()
        assert lines[0] == "answer" and has_facts(lines[1], "'a collective left out' 3"), lines


def test_a_job_that_stands_is_ended_after_the_limit(folder):
    with Standing(build, folder, mpi_words(folder, FAMILY[0], 2, ["loop", "0"]), ["--hang-after", "2", "--hang", "kill", "--hang-limit", "3"]) as run:
        assert run.process.wait(60) == 124
        assert [event["kind"] for event in run.hangs()] == ["stall"], run.hangs()


def test_ranks_that_were_killed_while_their_launcher_lives_on_do_not_move_again(folder):
    words = mpi_words(folder, FAMILY[0], 2, ["loop", "0"])
    lives_on = ["sh", "-c", 'trap "" TERM; "$@"; sleep 6; exit 3', "launcher", *words]
    with Standing(build, folder, lives_on, ["--hang-after", "2"]) as run:
        stall, _ = run.wait_for(("stall",), 60)
        assert stall, run.events()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    command = file.read().split(b"\0")
                with open(f"/proc/{name}/stat") as file:
                    session = int(file.read().rpartition(")")[2].split()[3])
                if session == run.process.pid and b"stands-" in command[0]:
                    os.kill(int(name), 9)
            except OSError:
                pass
        assert run.process.wait(60) == 3
        assert [event["kind"] for event in run.hangs()] == ["stall"], run.hangs()


def test_all_kinds_have_a_pattern():
    """A kind that the program does not know would pass as a program that does not stand."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stands.c")) as file:
        text = file.read()
    for kind in MPI:
        assert f'is("{kind}")' in text, kind
