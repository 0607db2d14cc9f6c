"""Whoever mistypes a name is told what it may have been: commands, schedules, keys at any depth and in any kind of file; whoever gives
a file of another kind is told which it is, and a name that is like nothing is not guessed."""
import os
import re

from calling import problem, refused, run, write
from runner import expect, source


def example(name):
    return os.path.join(source, "examples", name)


def quoted(text):
    """What a message quotes: the mistyped word, and the one that it guesses."""
    return set(re.findall(r"'([^']*)'", text))


train, cluster, campaign = example("slow-link.yaml"), example("cluster.yaml"), example("campaign.yaml")


def test_mistyped_commands_are_guessed():
    # commands and what is typed in their place
    for word, near in (("plna", "plan"), ("hepl", "help"), ("version", "--version"), ("--verion", "--version"), ("-version", "--version"), ("Train", "train"), ("comp", "compare")):
        refused(2, f"'{word}' | '{near}'", word)
    expect(quoted(run("xyzzy").stderr) == {"xyzzy"}, "nothing is guessed")


def test_mistyped_schedules_are_guessed():
    # schedules
    refused(2, "'zb-h1'", "plan", problem, "--schedule", "zbh1")
    refused(2, "'1f1b'", "plan", problem, "--schedule", "1F1B")
    refused(2, "'adaptra'", "train", train, "--set", "schedule=adpatra")
    expect(quoted(run("plan", problem, "--schedule", "ptolemy").stderr) == {"ptolemy"}, "no schedule is like it")


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
        refused(2, f"'{near}'{' | ' + repr('delta') if 'delta' in arguments[-1] else ''}", *arguments)


def test_nothing_is_guessed_where_nothing_is_near():
    # the nearest, not the first: `delay` is nothing like F, and `rank` is nearer to ranks than to anything before it
    for arguments in (("plan", problem, "--set", "pipeline.memory.delta.xy=3"), ("plan", problem, "--set", "pipeline.delay=3")):
        done = run(*arguments)
        key = arguments[-1].partition("=")[0].split(".")
        expect(done.returncode == 2 and key[-1] in quoted(done.stderr) <= {*key, ".".join(key)}, f"nothing is guessed: {done.stderr}")


def test_files_of_another_kind_are_named():
    # files of another kind; the place is that of the key that tells
    with open(train) as file:
        told_at = 1 + next(i for i, line in enumerate(file) if line.startswith("iterations:"))
    for arguments, says in (
        (("plan", train), f"slow-link.yaml:{told_at} | 'iterations' | slackline train"),
        (("simulate", cluster, "--order", problem), "slackline topology"),
        (("compare", campaign), "slackline campaign"),
        (("train", problem), "slackline plan | simulate | compare"),
        (("train", cluster), "slackline topology"),
        (("topology", train), "slackline train"),
        (("campaign", train, "--problem", problem), "slackline train"),
        (("campaign", campaign, "--problem", train), "slackline train"),
    ):
        refused(2, says, *arguments)


def test_mistyped_keys_of_a_run_file_are_guessed():
    refused(2, "'modle' | 'model'", "train", write("typo.yaml", "modle: {kind: gpt2}\n"))
