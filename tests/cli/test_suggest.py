"""Whoever mistypes a name is told what it may have been: commands, schedules, keys at any depth and in any kind of file; whoever gives
a file of another kind is told which it is, and a name that is like nothing is not guessed."""
import os

from calling import problem, refused, run, write
from runner import expect, source


def example(name):
    return os.path.join(source, "examples", name)


train, cluster, campaign = example("slow-link.yaml"), example("cluster.yaml"), example("campaign.yaml")


def test_mistyped_commands_are_guessed():
    # commands and what is typed in their place
    for word, near in (("plna", "plan"), ("hepl", "help"), ("version", "--version"), ("--verion", "--version"), ("-version", "--version"), ("Train", "train"), ("comp", "compare")):
        refused(2, f"did you mean '{near}'?", word)
    expect("did you mean" not in run("xyzzy").stderr, "nothing is guessed")


def test_mistyped_schedules_are_guessed():
    # schedules
    refused(2, "did you mean 'zb-h1'?", "plan", problem, "--schedule", "zbh1")
    refused(2, "did you mean '1f1b'?", "plan", problem, "--schedule", "1F1B")
    refused(2, "did you mean 'adaptra'?", "train", train, "--set", "schedule=adpatra")
    expect("did you mean" not in run("plan", problem, "--schedule", "ptolemy").stderr, "no schedule is like it")


def test_mistyped_keys_are_guessed():
    # keys: mistyped, with other capitals, at another depth
    for arguments, near in (
        (("plan", problem, "--set", "pipelin.ranks=4"), "pipeline"),
        (("plan", problem, "--set", "pipeline.Ranks=4"), "ranks"),
        (("plan", problem, "--set", "ranks=4"), "pipeline.ranks"),
        (("plan", problem, "--set", "latency_ms=4"), "pipeline.links.default.latency_ms"),
        (("plan", problem, "--set", "pipeline.memory.delta.f=3"), "F"),
        (("train", train, "--set", "microbatches=3"), "batch.microbatches"),
        (("train", train, "--set", "pipeline=3"), "parallel.pipeline"),
        (("train", train, "--set", "faults.0.latncy_ms=3"), "latency_ms"),
        (("train", train, "--set", "optimizer.lrr=3"), "lr"),
        (("topology", cluster, "--set", "links.defualt.latency_ms=1"), "default"),
        (("topology", cluster, "--set", "groups=1"), "links.groups"),
        (("campaign", campaign, "--problem", problem, "--set", "job.iteratons=3"), "iterations"),
    ):
        refused(2, f"is not a known key{' of ' + repr('delta') if 'delta' in arguments[-1] else ''}; did you mean '{near}'?", *arguments)


def test_nothing_is_guessed_where_nothing_is_near():
    # the nearest, not the first: `delay` is nothing like F, and `rank` is nearer to ranks than to anything before it
    for arguments in (("plan", problem, "--set", "pipeline.memory.delta.xy=3"), ("plan", problem, "--set", "pipeline.delay=3")):
        done = run(*arguments)
        expect(done.returncode == 2 and "did you mean" not in done.stderr, f"nothing is guessed: {done.stderr}")


def test_files_of_another_kind_are_named():
    # files of another kind; the place is that of the key that tells
    with open(train) as file:
        told_at = 1 + next(i for i, line in enumerate(file) if line.startswith("iterations:"))
    for arguments, says in (
        (("plan", train), f"slow-link.yaml:{told_at}: 'iterations' makes this a run file, for slackline train; a problem file is needed here"),
        (("simulate", cluster, "--order", problem), "makes this a cluster file, for slackline topology"),
        (("compare", campaign), "makes this a campaign, for slackline campaign"),
        (("train", problem), "makes this a problem file, for slackline plan, simulate and compare; a run file is needed here"),
        (("train", cluster), "makes this a cluster file"),
        (("topology", train), "makes this a run file"),
        (("campaign", train, "--problem", problem), "makes this a run file"),
        (("campaign", campaign, "--problem", train), "makes this a run file"),
    ):
        refused(2, says, *arguments)


def test_mistyped_keys_of_a_run_file_are_guessed():
    refused(2, "'modle' is not a known key; did you mean 'model'?", "train", write("typo.yaml", "modle: {kind: gpt2}\n"))
