"""Calls of `slackline` and output for the benches of published figures. All results come from the command, so every figure
can be reproduced with the command line next to it."""
import json
import os
import platform
import shlex
import subprocess

folder = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(folder))


class NoPlan(Exception):
    """The command has no answer: the memory limit or the placement excludes the schedule."""


def number(value):
    return f"{value:.9g}"


def flow(value):
    """A value as YAML flow text, for --set."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, float) else str(value)


class Command:
    def __init__(self, build):
        self.path = os.path.join(build, "slackline")
        text = subprocess.run([self.path, "plan", "--help"], capture_output=True, text=True, check=True).stdout
        self.names = {words[0] for words in (line.split() for line in text.splitlines() if line.startswith("      "))
                      if words}

    def has(self, schedule):
        return schedule in self.names

    def arguments(self, problem, schedule, keys, seconds=None, verb="plan"):
        """`problem` names a file in problems/; `keys` are changed with --set, below `pipeline.`."""
        words = [verb, os.path.join("bench/planner/problems", problem)]
        words += ["--schedule", schedule] if verb == "plan" else ["--order", schedule]
        for key, value in keys.items():
            words += ["--set", f"pipeline.{key}={flow(value)}"]
        if seconds is not None:
            words += ["--time-limit", number(seconds)]
        return words

    def line(self, *arguments, **more):
        return "slackline " + " ".join(shlex.quote(word) for word in self.arguments(*arguments, **more))

    def call(self, words, text=None):
        done = subprocess.run([self.path, *words], input=text, capture_output=True, text=True, cwd=source)
        if done.returncode == 1:
            raise NoPlan(done.stderr.strip())
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def plan(self, problem, schedule, keys, seconds=None):
        return json.loads(self.call(self.arguments(problem, schedule, keys, seconds) + ["--format", "json"]))

    def simulate(self, problem, order, keys):
        """Times an order, CSV text, on a problem."""
        words = self.arguments(problem, "-", keys, verb="simulate")
        return json.loads(self.call(words + ["--format", "json"], text=order))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def folded(title, lines):
    """A folded list of commands, for below a table."""
    return f"\n<details><summary>{title}</summary>\n\n```\n" + "\n".join(lines) + "\n```\n</details>\n\n"


def machine():
    name = platform.machine()
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def main(report):
    """Runs one bench by itself: prints its section of the page on standard output."""
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    print(report(Command(parser.parse_args().build)), end="")
