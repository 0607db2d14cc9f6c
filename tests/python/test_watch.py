"""slackline.watch and `python -m slackline`: a script runs as it would, its exit code and output are its own, and the results
are read back; an MPI program's ranks and iterations are in them."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from package import python, raises
import slackline
from runner import build, expect, folder, missing, require, source
from slackline.__main__ import WITH_VALUE, line

require("slackline")
QUIET = ("--http", "off")


def test_a_script_gets_this_python():
    # the command line of a script gets this Python before it
    words = ["watch", "--out", "d", "train.py", "--lr", "1"]
    expect(line(words) == ["watch", "--out", "d", "--", sys.executable, "train.py", "--lr", "1"], f"{line(words)}")
    expect(line(["watch", "--", "train.py"]) == ["watch", "--", sys.executable, "train.py"], "with -- too")
    expect(line(["watch", "--", "torchrun", "train.py"]) == ["watch", "--", "torchrun", "train.py"], "another program stays as it is")
    expect(line(["watch", "--on-event", "hook.py", "--record", "train.py", "x.py"]) ==
           ["watch", "--on-event", "hook.py", "--record", "--", sys.executable, "train.py", "x.py"], "a value of an option is no script")
    expect(line(["watch", "mpirun", "-np", "2", "train.py"]) == ["watch", "mpirun", "-np", "2", "train.py"], "nor is an argument of a program")
    expect(line(["watch", "train.py", "--", "x"]) == ["watch", "--", sys.executable, "train.py", "--", "x"], "what is behind the script is the script's")
    said = subprocess.run([os.path.join(build, "slackline"), "watch", "--help"], capture_output=True, text=True).stdout
    expect({word for words in re.findall(r"^  ((?:-o, )?--[a-z-]+) \[?[A-Z]", said, re.M) for word in words.split(", ")} == WITH_VALUE, f"options with a value: {said}")
    expect(line(["plan", "a.py"]) == ["plan", "a.py"], "other subcommands stay as they are")


def test_mistakes_name_their_reason():
    done = subprocess.run([sys.executable, "-m", "slackline", "--version"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
    expect(done.returncode == 0 and slackline.__version__ in done.stdout, f"python -m slackline --version: {done}")
    done = python("import slackline; slackline.watch('x.py')", SLACKLINE_COMMAND="/nowhere/slackline")
    expect(not missing(done.stderr, "LibraryNotFound: | SLACKLINE_COMMAND | '/nowhere/slackline'"), done.stderr)
    raises(ValueError, lambda: slackline.watch([]), "program")
    raises(TypeError, lambda: slackline.watch(print), "command")
    raises(TypeError, lambda: slackline.watch("train.py", options="--http off"), "list | '--http' | 'off'")


require("redis-server", "libslackline_probe.so")

script = os.path.join(folder, "script.py")


def test_a_script_keeps_its_input_output_and_exit_code():
    with open(script, "w") as file:
        file.write("import sys\nprint('read', sys.stdin.read(), sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
    seen = slackline.watch([script, "3"], out=os.path.join(folder, "first"), options=QUIET, input="words", text=True, capture_output=True)
    expect(seen.exit_code == 3 and seen.report and seen.report["exit_code"] == 3, f"its exit code: {seen}")
    expect(str(seen.folder) == os.path.join(folder, "first") and (seen.folder / "report.json").exists(), "its folder")
    raises(subprocess.CalledProcessError, lambda: slackline.watch([script, "4"], out=os.path.join(folder, "second"), options=QUIET, check=True,
                                                                  stdin=subprocess.DEVNULL, capture_output=True), "4")
    done = subprocess.run([sys.executable, "-m", "slackline", "watch", "--out", "third", *QUIET, script, "5"], input="words", capture_output=True, text=True,
                          cwd=folder, env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
    expect(done.returncode == 5 and "read words ['5']" in done.stdout, f"python -m slackline watch: {done}")
    expect(os.path.exists(os.path.join(folder, "third", "report.json")), "and its results")
    LOOK = ("grep", "SigIgn", "/proc/self/status")
    done = subprocess.run([sys.executable, "-m", "slackline", "watch", "--out", "signals", *QUIET, "--", *LOOK], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
    expect(done.stdout == subprocess.run(LOOK, capture_output=True, text=True).stdout, f"a program gets no signals ignored that Python ignores: {done}")
    seen = slackline.watch("script.py", options=QUIET, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    expect(seen.folder.name == "watch-script" and seen.report is not None, f"runs/watch-NAME: {seen}")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def number_in(name):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if os.path.exists(name) and open(name).read():
            return int(open(name).read())
        time.sleep(0.02)
    expect(False, f"{name} was not written")
    sys.exit(1)


def report_of(name):
    try:
        with open(os.path.join(folder, name, "report.json")) as file:
            return json.load(file)["exit_code"]
    except FileNotFoundError:
        return None


def test_a_timeout_and_ctrl_c_end_the_program():
    # a timeout or Ctrl-C ends the program, not the watch: there is a report, and nothing goes on
    patient = os.path.join(folder, "patient.py")
    with open(patient, "w") as file:
        file.write("import os, signal, sys, time\n"
                   "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whatever this test was started from
                   "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
                   "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
                   "while True:\n    time.sleep(0.1)\n")

    where = os.path.join(folder, "late.pid")
    late = raises(subprocess.TimeoutExpired, lambda: slackline.watch([patient, where], out=os.path.join(folder, "late"), options=QUIET, timeout=10, stdin=subprocess.DEVNULL, capture_output=True))
    expect(not is_alive(number_in(where)) and report_of("late") == 9, f"a timeout: the program {'runs on' if is_alive(number_in(where)) else 'ended'}, report {report_of('late')}")
    where = os.path.join(folder, "interrupted.pid")
    code = f"import signal, slackline; signal.signal(signal.SIGINT, signal.default_int_handler); slackline.watch({[patient, where]!r}, out='interrupted', options={list(QUIET)!r})"
    watching = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                                start_new_session=True, env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
    number = number_in(where)
    os.killpg(watching.pid, signal.SIGINT)  # as a terminal does
    out, errors = watching.communicate(timeout=100)
    expect(not is_alive(number) and report_of("interrupted") in (130, 1) and "KeyboardInterrupt" in errors, f"Ctrl-C: report {report_of('interrupted')}, {watching.returncode} {errors}")


def test_an_mpi_program_is_watched():
    # an MPI program of two ranks, 400 iterations of 2 ms
    if all(shutil.which(tool) for tool in ("mpicc", "mpirun")):
        loop = os.path.join(folder, "loop")
        subprocess.run(["mpicc", "-O1", os.path.join(source, "tests", "notice", "watch", "loop.c"), "-o", loop], check=True)
        openmpi = "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if openmpi else []
        seen = slackline.watch(["mpirun", *options, "-np", "2", loop, "400", "2000"], out=os.path.join(folder, "mpi"), options=QUIET,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True)
        expect(seen.exit_code == 0 and seen.report and seen.report["ranks"] == 2, f"two ranks: {seen}")
        expect(seen.phases and seen.phases[0]["state"] == "healthy" and seen.phases[0]["level_ms"] > 1, f"iterations of 2 ms: {seen.phases}")


def test_a_folder_of_before_is_not_taken():
    # a folder of an earlier watch is not taken for this one's
    seen = slackline.watch([script, "0"], out=os.path.join(folder, "first"), options=["--no-such-option"], stdin=subprocess.DEVNULL, capture_output=True)
    expect(seen.exit_code == 2 and seen.report is None and seen.events == (), f"a wrong option: {seen}")
