#!/usr/bin/env python3
"""slackline healthcheck as people call it: what is wrong is refused in one line before a process starts; processes are
started here and leave nothing; the report as text and as JSON; an earlier report as the reference."""
import copy
import functools
import glob
import json
import os
import subprocess
import tempfile

from calling import command, folder, refused, run, write
from runner import expect, has_facts, missing, require


def test_wrong_requests_are_refused_before_a_process_starts():
    refused(2, "--ranks", "healthcheck", "--ranks", "0")
    refused(2, "--ranks", "healthcheck", "--ranks", "four")
    refused(2, "--topology | ring | tree | all | 'star'", "healthcheck", "--topology", "star")
    refused(2, "'--unknown'", "healthcheck", "--unknown")
    refused(2, "'--repeat'", "healthcheck", "--repeat")
    refused(2, "'here'", "healthcheck", "here")
    refused(2, "--join", "healthcheck", "--member", "1")
    refused(2, "--join", "healthcheck", "--join", "unix:/tmp/x", "--job", "j")
    refused(2, "4", "healthcheck", "--join", "unix:/tmp/x", "--job", "j", "--round", "1", "--member", "4",
            "--members", "4", "--rank", "0")
    refused(2, "both", "healthcheck", "--links", "0-1", "--topology", "ring")
    refused(2, "read", "healthcheck", "--expect", os.path.join(folder, "absent.json"))
    refused(2, "--repeat | 1", "healthcheck", "--repeat", "0")
    refused(2, "--deadline", "healthcheck", "--deadline", "soon")
    helped = run("healthcheck", "--help")
    expect(helped.returncode == 0 and "Usage: slackline healthcheck" in helped.stdout and helped.stderr == "", "help")


_temporary = tempfile.TemporaryDirectory(prefix="slackline-test-healthcheck-")
temporary = _temporary.name
environment = {**os.environ, "TMPDIR": temporary}


def start(*arguments, code=(0, 1)):
    require("slackline-worker", "mpirun")
    done = subprocess.run([command, "healthcheck", *arguments], capture_output=True, text=True, timeout=120, env=environment)
    expect(done.returncode in code, f"healthcheck {arguments}: exit {done.returncode}: {done.stderr}")
    return done


@functools.cache
def of_four():
    """What a validation of 4 ranks did, and its report."""
    done = start("--ranks", "4", "--format", "json", "--repeat", "2", "--window", "40")
    return done, json.loads(done.stdout)


def test_a_report_has_every_device_and_link():
    done, report = of_four()
    expect(done.stderr == "", f"said {done.stderr!r}")
    expect(report["format"] == "slackline-validation-1", "format")
    expect((done.returncode == 0) == report["healthy"] == (report["verdicts"] == []), f"exit {done.returncode}: {report['verdicts']}")
    expect([device["rank"] for device in report["devices"]] == [0, 1, 2, 3], f"devices {report['devices']}")
    expect(all(device["gflops"] > 0 and device["cv"] >= 0 for device in report["devices"]), f"devices {report['devices']}")
    expect([(link["from"], link["to"]) for link in report["links"]] ==
           [(0, 1), (1, 0), (0, 3), (3, 0), (1, 2), (2, 1), (2, 3), (3, 2)], f"links {report['links']}")
    expect(all(link["gb_per_s"] > 0 and link["latency_ms"] > 0 for link in report["links"]), f"links {report['links']}")
    expect(report["passes"] == 2 and report["repeats"] == 2, f"passes {report['passes']}, repeats {report['repeats']}")
    expect(report["kinds"]["device"]["members"] == 4 and report["kinds"]["within a host"]["members"] == 4, f"{report['kinds']}")


def test_passes_follow_from_the_links():
    done = start("--ranks", "5", "--repeat", "1", "--window", "20")
    expect(has_facts(done.stdout, "5 processes on 1 host, 5 links in 3 passes, 1 repeat"), done.stdout)
    done = start("--ranks", "6", "--repeat", "1", "--window", "20", "--topology", "tree")
    expect(has_facts(done.stdout, "5 links in 4 passes"), done.stdout)
    done = start("--ranks", "3", "--repeat", "1", "--only", "links", "--links", write("links.txt", "# two\n0 1\n2-1\n"))
    expect(has_facts(done.stdout, "3 processes on 1 host, 2 links in 2 passes") and "GFLOP" not in done.stdout, done.stdout)


def test_a_faster_reference_makes_all_slow():
    # one that is a hundred times as fast is what was expected: all are slow
    report = copy.deepcopy(of_four()[1])
    report["kinds"]["device"]["gflops"] *= 100
    fast = write("fast.json", json.dumps(report))
    done = start("--ranks", "3", "--repeat", "1", "--window", "20", "--only", "devices", "--expect", fast, "--format", "json", code=[1])
    slow = json.loads(done.stdout)
    expect(all(device["slow"] for device in slow["devices"]) and slow["verdicts"] and slow["verdicts"][0]["component"] in ("device", "host"),
           f"{slow['verdicts']}")


def test_wrong_references_and_links_are_refused():
    done = start("--ranks", "2", "--expect", write("wrong.json", "{}"), code=[2])
    expect(not missing(done.stderr, "report | slackline healthcheck") and done.stdout == "", done.stderr)
    done = start("--ranks", "2", "--links", "0-x", code=[2])
    expect("0-x" in done.stderr and done.stdout == "", done.stderr)
    done = start("--ranks", "2", "--links", "0-1,0-9", code=[2])
    expect("--links" in done.stderr and "0-9" in done.stderr and done.stdout == "", done.stderr)


def test_an_allocation_is_used_from_inside():
    require("slackline-worker", "mpirun")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    inside = subprocess.run(["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", "3", command, "healthcheck", "--repeat", "1",
                             "--window", "20"], capture_output=True, text=True, timeout=120, env=environment)
    expect(inside.returncode in (0, 1) and inside.stdout.count("3 processes on 1 host, 3 links in 3 passes") == 1,
           f"inside mpirun: {inside.returncode} {inside.stdout} {inside.stderr}")


def test_nothing_is_left_behind():
    left = glob.glob(os.path.join(temporary, "slackline*"))
    expect(left == [], f"left behind: {left}")
