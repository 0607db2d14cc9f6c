"""Watched programs held again and again while they run; see hold_gates.c."""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from probing import MPI, found, skip  # noqa: E402


def holder(build):
    path = os.path.join(os.path.abspath(build), "tests", "hold_gates")
    if not os.path.exists(path):
        skip(f"{path} is not built")
    return path


def seed():
    given = os.environ.get("SL_SEED")
    value = int(given) if given else random.randrange(1 << 30)
    print(f"seed {value}", flush=True)
    return value


def started(family, ranks, command, environment, folder):
    mpi = MPI[family]
    return subprocess.Popen([found(mpi["run"]), *mpi["options"], "-n", str(ranks), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment, cwd=folder)


class Ranks:
    """Processes that no launcher started, as one program that ends when all have."""

    def __init__(self, command, number, environment):
        self.ranks = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**environment, "RANK": str(rank), "WORLD_SIZE": str(number)}) for rank in range(number)]
        self.returncode = None

    def communicate(self, timeout=None):
        ends = [rank.communicate(timeout=timeout) for rank in self.ranks]
        self.returncode = max(rank.returncode for rank in self.ranks)
        return "".join(out for out, _ in ends), "".join(errors for _, errors in ends)

    def terminate(self):
        for rank in self.ranks:
            rank.terminate()


def ended(program, what, limit=240):
    """Exit code, output, errors; a program that hangs is a deadlock."""
    try:
        out, errors = program.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        program.terminate()
        program.communicate()
        raise AssertionError(f"{what}: the program does not end") from None
    return program.returncode, out, errors


def hold_run(build, rings, program, ranks, holds, number, pause, what, device=None):
    """Holds a program that has just been started until it ends: what hold_gates says, and how the program ended."""
    done = subprocess.run([holder(build), rings, str(ranks), str(holds), str(number), str(pause), *([device] if device else [])], capture_output=True, text=True, timeout=400)
    end = ended(program, what)
    sys.stderr.write(done.stderr)
    assert done.returncode == 0, (what, done.stdout, done.stderr, end)
    said = {"reasons": []}
    for line in done.stdout.splitlines():
        word, rest = line.split(" ", 1)
        if word == "reason":
            said["reasons"].append(rest)
        else:
            said[word] = [float(x) for x in rest.split()]
    return {"holds": int(said["holds"][0]), "closed": int(said["closed"][0]), "moved": int(said["moved"][0]), "over": int(said["over"][0]), "busy": int(said["busy"][0]),
            "ms": said["ms"], "reasons": said["reasons"]}, end


def most(closed, made):
    """Whether no more than a tenth of the holds stayed open, or two where they are few."""
    return made - closed <= max(2, made // 10)


def hold_until(probe, build, family, ranks, command, same, holds, number, pause=20000, folder=None, runs=40, **environment):
    """As many runs of a program as `holds` holds take. `same(exit code, output, errors)` is what must not change; returns
    how many holds closed, and why others did not."""
    folder = folder or probe.folder
    what = f"{family}: {os.path.basename(command[0])}, seed {number}"
    alone = ended(started(family, ranks, command, dict(os.environ), folder), what)
    assert alone[0] == 0, (what, alone)
    wanted = same(*alone)
    made = closed = run = 0
    reasons, median = [], []
    while made < holds and run < runs:
        rings, watched = probe.environment(**environment)
        program = started(family, ranks, command, watched, folder)
        said, end = hold_run(build, rings, program, ranks, holds - made, number + run, pause, what)
        run += 1
        got = same(*end)
        assert got == wanted, f"{what}, run {run}: watched and held {got}, alone {wanted}; {end}"
        assert "slackline" not in end[2], end[2]
        assert said["moved"] == 0 and said["over"] == 0, f"{what}, run {run}: calls went on in a closed hold: {said}"
        made += said["holds"]
        closed += said["closed"]
        reasons += said["reasons"]
        median.append(said["ms"][0])
    print(f"{what}: {made} holds in {run} runs, {closed} closed ({100 * closed / max(made, 1):.1f} %), median of runs' medians "
          f"{sorted(median)[len(median) // 2]:.2f} ms", *sorted(set(reasons)), sep="\n  ", flush=True)
    return made, closed
