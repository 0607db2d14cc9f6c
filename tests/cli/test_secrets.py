"""A URL with a password is taken from a file wherever one is taken: no list of processes shows it, and no message repeats it."""
import os
import signal
import subprocess

from calling import command, folder, run, write
from runner import build, expect

good = write("good", "redis://:geheim@127.0.0.1:1/2 and what follows is not looked at\n")
bad = write("bad", "http://:geheim@127.0.0.1:1\n")
empty = write("empty", "\n")
absent = os.path.join(folder, "absent")

member = ["--job", "j", "--round", "1", "--member", "0", "--members", "1", "--rank", "0", "--deadline", "300"]
asked = {"watch": lambda url: ["watch", "--http", "off", "--out", os.path.join(folder, "out"), "--redis", url, "--", "true"],
         "dashboard": lambda url: ["dashboard", "--listen", "127.0.0.1:0", "--redis", url]}
if os.path.exists(os.path.join(build, "slackline-worker")):
    asked["healthcheck"] = lambda url: ["healthcheck", "--join", url, *member]
if not os.path.exists(os.path.join(build, "libslackline_probe.so")):
    del asked["watch"]


def test_a_file_that_holds_no_url_is_named():
    for name, words in asked.items():
        for path, said in ((bad, "redis://"), (absent, absent), (empty, "511")):
            if name == "healthcheck" and path == bad:
                continue  # refused by the worker
            done = run(*words("@" + path))
            expect(done.returncode == 2 and said in done.stderr and "geheim" not in done.stderr, f"{name} {path}: {done.returncode} {done.stderr!r}")


def test_no_message_repeats_a_password():
    if "watch" in asked:
        done = run(*asked["watch"]("@" + good))
        expect(done.returncode == 0 and "geheim" not in done.stderr, f"watch: {done.returncode} {done.stderr!r}")
    if "healthcheck" in asked:
        done = run(*asked["healthcheck"]("@" + good))
        expect(done.returncode == 1 and "127.0.0.1:1" in done.stderr and "geheim" not in done.stderr, f"healthcheck: {done.returncode} {done.stderr!r}")
    shown = subprocess.Popen([command, *asked["dashboard"]("@" + good)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(shown.stdout.readline().startswith("http://127.0.0.1:"), "the dashboard begins")
    shown.send_signal(signal.SIGTERM)
    _, told = shown.communicate(timeout=60)
    expect(shown.returncode == 0 and "geheim" not in told, f"dashboard: {shown.returncode} {told!r}")
