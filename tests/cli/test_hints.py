"""Near misses that users make are told what they meant, an output's name chooses its form, and the list of commands is one page."""
import os
import shutil
import signal
import socket
import subprocess
import sys

from calling import command, folder, problem, run, write
from runner import expect, missing, require, skip, source

RUN = os.path.join(os.path.abspath(source), "examples", "slow-link.yaml")


def told(words, *facts, code=2, **more):
    done = run(*words, **more)
    expect(done.returncode == code, f"{words}: exit {done.returncode}")
    expect(done.stderr.startswith("slackline: ") and done.stderr.count("\n") == 1, f"{words}: {done.stderr!r}")
    lacks = [fact for fact in facts if fact not in done.stderr]
    expect(not lacks, f"{words}: {done.stderr!r} does not say {lacks}")


def test_an_option_that_is_a_key_of_the_file():
    told(["train", RUN, "--iterations", "3"], "'--iterations'", "'--set iterations=VALUE'")
    told(["train", RUN, "--tensor", "2"], "'--set parallel.tensor=VALUE'")
    told(["train", RUN, "--memory-mb", "2"], "'--set device.memory_mb=VALUE'")
    told(["train", RUN, "--device", "cuda"], "'--set device.kind=VALUE'")
    told(["plan", problem, "--microbatches", "3"], "'--set pipeline.microbatches=VALUE'")
    told(["plan", problem, "--shedule", "1f1b"], "'--schedule'")  # an option that is near comes first
    told(["plan", problem, "--nothing-like-it"], "see slackline plan --help")


def test_a_setting_or_a_file_without_its_option():
    told(["train", RUN, "device=cuda"], "'device=cuda'", "'--set device.kind=cuda'")
    told(["train", RUN, "--set", "device=cuda"], "'device'", "'{kind: cuda}'")
    told(["train", RUN, "--set", "device=never-heard-of"], "'device' must be a map of keys\n")
    told(["train", RUN, "iterations=3"], "'--set iterations=3'")
    told(["train", RUN, "nothing=3"], "got 'nothing=3' too")
    told(["simulate", problem, "order.csv"], "'--order order.csv'")
    told(["plan", problem, "other.yaml"], "got 'other.yaml' too")


def test_times_without_values():
    for text, facts in (("{F, B}", ("'F'", "'F: 2'")), ("{F: 1, B: 2}", ("'I'", "B is made of I and W")), ("{F: 1, I: 1, W: }", ("'W'", "'W: 2'"))):
        told(["plan", write("times.yaml", f"pipeline: {{ranks: 2, microbatches: 4, times_ms: {text}}}\n")], "times.yaml:1", *facts)


def test_former_names_do_the_same_and_say_so():
    trace = write("traced.json", run("plan", problem, "--schedule", "1f1b", "--format", "trace").stdout)
    for former, name, words in (("profile", "import", [trace, "--time-limit", "0"]), ("profile", "import", ["--help"]), ("profile", "import", []),
                                ("validate", "healthcheck", ["--help"]), ("validate", "healthcheck", ["--ranks", "0"])):
        old, new = run(former, *words), run(name, *words)
        note, _, rest = old.stderr.partition("\n")
        expect(note == f"slackline: '{former}' is now named '{name}'", f"{former} {words}: {old.stderr!r}")
        expect((old.returncode, old.stdout, rest) == (new.returncode, new.stdout, new.stderr), f"{former} {words}: otherwise as {name}")
    for former, name in (("profile", "import"), ("validate", "healthcheck")):
        for words in (["help"], ["man"], ["completion", "bash", "--"]):
            expect(run(*words, former, *["-"] * (words[0] == "completion")).stdout == run(*words, name, *["-"] * (words[0] == "completion")).stdout, f"{words} {former}")
        expect(former not in run("completion", "bash", "--", "").stdout.split(), f"{former} is not offered")
        expect(f"  {former} " not in run("help").stdout, f"{former} is not listed")


def test_a_width_is_given_or_that_of_the_terminal():
    for words, columns, wide in ((("--width", "85"), "120", 85), ((), "120", 120)):
        done = subprocess.run([command, "plan", problem, *words], capture_output=True, text=True, env={**os.environ, "COLUMNS": columns})
        expect(max(map(len, done.stdout.splitlines()[2:6])) == wide, f"{words}: as wide as it says")
    told(["plan", problem, "--width", "39"], "--width", "40", "500")


def written(name, *words):
    path = os.path.join(folder, name)
    done = run(*words, "-o", path)
    expect(done.returncode == 0 and done.stdout == "", f"{words}: {done.stderr}")
    with open(path, "rb") as file:
        return file.read()


def test_the_name_of_the_output_chooses_its_form():
    for name, begins in (("x.html", b"<!doctype html>"), ("x.svg", b"<svg "), ("x.json", b'{\n "format"'), ("x.csv", b"0F0,"), ("x.txt", b"zb-h1: makespan"), ("x", b"zb-h1: makespan")):
        text = written(name, "plan", problem)
        expect(text.lower().lstrip().startswith(begins.lower()), f"{name}: {text[:40]}")
    expect(written("y.html", "plan", problem, "--format", "csv").startswith(b"0F0,"), "--format comes first")
    told(["compare", problem, "-o", os.path.join(folder, "z.html")], "z.html", "text, json, csv or svg", "not html")
    expect(not os.path.exists(os.path.join(folder, "z.html")), "no table of text in a file named .html")
    for name in ("r.png", "r.svg"):
        told(["report", folder, "-o", os.path.join(folder, name)], name, "report.html", "--svg")
    expect(written("z.csv", "compare", problem, "--schedules", "1f1b").count(b"\n") >= 2, "compare")


def test_a_picture_that_another_program_makes():
    without = {"PATH": folder}
    done = subprocess.run([command, "plan", problem, "-o", os.path.join(folder, "none.png")], capture_output=True, text=True, env={**os.environ, **without})
    expect(done.returncode == 1 and not missing(done.stderr, "none.png | rsvg-convert | .svg") and done.stderr.count("\n") == 1, f"without a program: {done.stderr!r}")
    expect(not os.path.exists(os.path.join(folder, "none.png")), "nothing is written")
    if not shutil.which("rsvg-convert"):
        skip("rsvg-convert is not installed")
    for words in (("plan", problem), ("draw", problem), ("compare", problem, "--schedules", "1f1b,zb-h1")):
        expect(written("a.png", *words).startswith(b"\x89PNG\r\n"), f"{words}: png")
        expect(written("a.pdf", *words).startswith(b"%PDF-"), f"{words}: pdf")


def test_commands_are_listed_in_parts_of_80_columns():
    text = run("--help").stdout
    lines = text.splitlines()
    expect(max(map(len, lines)) <= 80, f"{max(lines, key=len)!r}")
    parts = [line for line in lines if line and not line.startswith(" ") and len(line.split()) == 1]
    expect(parts == ["Plan", "Run", "Diagnose", "Cluster", "Set-up"], f"{parts}")


def test_a_dashboard_of_a_folder_that_is_not_there_says_so():
    path = os.path.join(folder, "not-yet")
    process = subprocess.Popen([command, "dashboard", path, "--listen", "0.0.0.0:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    expect(f"{path} is not there yet" in said, f"{said!r}")
    host = address.partition("://")[2].rpartition(":")[0]
    expect(host != "0.0.0.0" and socket.gethostbyname(host), f"an address that can be opened: {address!r}")
