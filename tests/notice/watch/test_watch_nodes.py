# labels: net long
"""slackline watch below mpirun on two nodes: one of them reports for both, and finds the other through the folder of results."""
import glob
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import MPI, found, installed
from runner import build, expect, folder, require, skip
from star import Star, permitted

command = os.path.join(build, "slackline")
require("slackline", "redis-server")
if "openmpi" not in installed():
    skip("Open MPI is missing")
if permitted():
    skip(permitted())


def check(star, program, name, options, shared=True):
    out = os.path.join(folder, name)
    words = [command, "watch", "--out", out, "--http", "off", *options, "--", program, "600", "3000"]
    process = subprocess.Popen(star.mpirun(folder, 2, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    url, mode = os.path.join(out, "redis.url"), None
    while process.poll() is None and mode is None:
        try:
            mode = os.stat(url).st_mode & 0o777
        except FileNotFoundError:
            time.sleep(0.02)
    text, said = process.communicate(timeout=120)
    expect(process.returncode == 0, f"{name}: exit {process.returncode}: {said}")
    expect(text.startswith("ranks 4"), f"{name}: printed {text!r}")
    expect(mode == (0o600 if shared else None), f"{name}: redis.url has mode {mode}")
    expect(not os.path.exists(url), f"{name}: redis.url stays")
    with open(os.path.join(out, "report.json")) as file:
        report = json.load(file)
    expect(report["nodes"] == 2 and report["ranks"] == 4, f"{name}: {report['ranks']} ranks on {report['nodes']} nodes: {said}")
    expect(report["status"]["period_calls"] == 2, f"{name}: {report['status']}")


def given():
    with Star(hosts=2) as star:
        program = os.path.join(folder, "loop")
        subprocess.run([found(MPI["openmpi"]["cc"]), "-w", "-O1", "-o", program, os.path.join(here, "loop.c")], check=True)
        yield star, program


def test_the_nodes_find_each_other_through_the_folder(star, program):
    check(star, program, "private", [])


def test_a_server_that_is_given_is_used_and_left_empty(star, program):
    server = star.start(0, ["redis-server", "--port", "6400", "--bind", star.address(0), "--requirepass", "pass@word", "--save", ""],
                        stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    given = f"redis://default:pass%40word@{star.address(0)}:6400/2"
    check(star, program, "given", ["--redis", given])
    secret = {}
    for key, text in (("url", given), ("key", "0123456789abcdef")):
        secret[key] = os.path.join(folder, key)
        with open(secret[key], "w") as file:
            file.write(text)
    check(star, program, "keyed", ["--redis", "@" + secret["url"], "--key", "@" + secret["key"]], shared=False)
    ask = ["redis-cli", "-h", star.address(0), "-p", "6400", "-a", "pass@word", "--no-auth-warning", "-n", "2"]
    done = star.run(0, [*ask, "keys", "*"], capture_output=True, text=True)
    keys = [key for key in done.stdout.split() if not key.endswith(":reported")]
    expect(not keys, f"left in the server that was given: {keys}")
    server.kill()
    server.wait()


def test_nothing_is_left_behind():
    expect(not glob.glob(f"/dev/shm/slackline-{os.getuid()}-watch-*"), "left in /dev/shm")
