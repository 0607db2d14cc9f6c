"""slackline.watch and `python -m slackline`: a script runs as it would, its exit code and output are its own, and the results
are read back; an MPI program's ranks and iterations are in them. Called with BUILD_DIR SOURCE_DIR."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import build, expect, finish, folder, python, raises, skip, source  # noqa: E402

import slackline  # noqa: E402
from slackline.__main__ import line  # noqa: E402

if not os.path.exists(os.path.join(build, "slackline")):
    skip("slackline is not built")
QUIET = ("--http", "off")

# the command line of a script gets this Python before it
words = ["watch", "--out", "d", "train.py", "--lr", "1"]
expect(line(words) == ["watch", "--out", "d", "--", sys.executable, "train.py", "--lr", "1"], f"{line(words)}")
expect(line(["watch", "--", "train.py"]) == ["watch", "--", sys.executable, "train.py"], "with -- too")
expect(line(["watch", "--", "torchrun", "train.py"]) == ["watch", "--", "torchrun", "train.py"], "another program stays as it is")
expect(line(["plan", "a.py"]) == ["plan", "a.py"], "other subcommands stay as they are")
done = subprocess.run([sys.executable, "-m", "slackline", "--version"], capture_output=True, text=True,
                      env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
expect(done.returncode == 0 and slackline.__version__ in done.stdout, f"python -m slackline --version: {done}")
done = python("import slackline; slackline.watch('x.py')", SLACKLINE_COMMAND="/nowhere/slackline")
expect("LibraryNotFound: SLACKLINE_COMMAND names '/nowhere/slackline', which is no program" in done.stderr, done.stderr)
raises(ValueError, lambda: slackline.watch([]), "program")

if not shutil.which("redis-server") or not os.path.exists(os.path.join(build, "libslackline_probe.so")):
    skip("redis-server or libslackline_probe.so is missing; the command line of scripts passed")

script = os.path.join(folder, "script.py")
with open(script, "w") as file:
    file.write("import sys\nprint('read', sys.stdin.read(), sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
seen = slackline.watch([script, "3"], out=os.path.join(folder, "first"), options=QUIET, input="words", text=True, capture_output=True)
expect(seen.exit_code == 3 and seen.report and seen.report["exit_code"] == 3, f"its exit code: {seen}")
expect(str(seen.folder) == os.path.join(folder, "first") and (seen.folder / "report.json").exists(), "its folder")
raises(subprocess.CalledProcessError, lambda: slackline.watch([script, "4"], out=os.path.join(folder, "second"), options=QUIET, check=True,
                                                              stdin=subprocess.DEVNULL, capture_output=True), "exit status 4")
done = subprocess.run([sys.executable, "-m", "slackline", "watch", "--out", "third", *QUIET, script, "5"], input="words", capture_output=True, text=True,
                      cwd=folder, env={**os.environ, "PYTHONPATH": os.path.join(source, "python")})
expect(done.returncode == 5 and "read words ['5']" in done.stdout, f"python -m slackline watch: {done}")
expect(os.path.exists(os.path.join(folder, "third", "report.json")), "and its results")
seen = slackline.watch("script.py", options=QUIET, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
expect(seen.folder.name == "watch-script" and seen.report is not None, f"runs/watch-NAME: {seen}")

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
# a folder of an earlier watch is not taken for this one's
seen = slackline.watch([script, "0"], out=os.path.join(folder, "first"), options=["--no-such-option"], stdin=subprocess.DEVNULL, capture_output=True)
expect(seen.exit_code == 2 and seen.report is None and seen.events == (), f"a wrong option: {seen}")
finish()
