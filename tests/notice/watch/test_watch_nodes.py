# labels: net long
"""slackline watch below mpirun on two nodes: one of them reports for both, and finds the other through the folder of results.

Usage: test_watch_nodes.py BUILD_DIR SOURCE_DIR"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "..", "net"), os.path.join(here, "..", "probe")]
from lab import skip  # noqa: E402
from probing import MPI, found, installed  # noqa: E402
from star import Star, permitted  # noqa: E402

command = os.path.join(os.path.abspath(sys.argv[1]), "slackline")
if not os.path.exists(command) or not shutil.which("redis-server") or "openmpi" not in installed():
    skip("slackline, redis-server or Open MPI is missing")
if permitted():
    skip(permitted())
failures = 0


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print("FAILED:", what)


def check(name, options, shared=True):
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


with tempfile.TemporaryDirectory() as folder, Star(hosts=2) as star:
    program = os.path.join(folder, "loop")
    subprocess.run([found(MPI["openmpi"]["cc"]), "-w", "-O1", "-o", program, os.path.join(here, "loop.c")], check=True)
    check("private", [])
    server = star.start(0, ["redis-server", "--port", "6400", "--bind", star.address(0), "--requirepass", "pass@word", "--save", ""],
                        stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    given = f"redis://default:pass%40word@{star.address(0)}:6400/2"
    check("given", ["--redis", given])
    secret = {}
    for key, text in (("url", given), ("key", "0123456789abcdef")):
        secret[key] = os.path.join(folder, key)
        with open(secret[key], "w") as file:
            file.write(text)
    check("keyed", ["--redis", "@" + secret["url"], "--key", "@" + secret["key"]], shared=False)
    ask = ["redis-cli", "-h", star.address(0), "-p", "6400", "-a", "pass@word", "--no-auth-warning", "-n", "2"]
    done = star.run(0, [*ask, "keys", "*"], capture_output=True, text=True)
    keys = [key for key in done.stdout.split() if not key.endswith(":reported")]
    expect(not keys, f"left in the server that was given: {keys}")
    server.kill()
    server.wait()
expect(not glob.glob(f"/dev/shm/slackline-{os.getuid()}-watch-*"), "left in /dev/shm")
print(f"{failures} failed")
sys.exit(1 if failures else 0)
