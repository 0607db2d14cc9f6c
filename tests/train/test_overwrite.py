"""A finished run stays as it is: a second one is refused, numbered, or replaces or continues it when asked to."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from checkpoints import write_run
from runner import build, folder, has_facts, source
from training import Result



def contents(folder):
    """Every file below it, byte by byte."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


def test_a_finished_run_is_replaced_continued_or_numbered_as_asked():
    file = os.path.basename(write_run(folder, source))

    def train(*words, iterations=2, code=0, **environment):
        command = [os.path.join(build, "slackline"), "train", file, "--set", f"iterations={iterations}",
                   "--set", "checkpoint.every=2", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200,
                              env=os.environ | environment)
        assert done.returncode == code, f"{words}: exit {done.returncode}: {done.stderr}"
        return done.stderr

    def iterations(name):
        return [line["iteration"] for line in Result(os.path.join(folder, name)).metrics]

    train("--out", "given")
    before = contents(os.path.join(folder, "given"))
    assert "summary.json" in before and "weights_hash" in str(before["summary.json"])

    said = train("--out", "given", code=2)
    assert has_facts(said, "'slackline: train: given' --overwrite --resume") and said.count("\n") == 1, said
    assert contents(os.path.join(folder, "given")) == before, "the refused run has changed the finished one"

    train("--out", "given", "--resume", iterations=4)
    assert iterations("given") == [0, 1, 2, 3], "--resume continues"
    train("--out", "given", "--overwrite", iterations=1)
    assert iterations("given") == [0], "--overwrite replaces"

    # a run that did not finish is no finished run
    os.remove(os.path.join(folder, "given", "summary.json"))
    os.remove(os.path.join(folder, "given", "report.html"))
    train("--out", "given", iterations=1)

    # without --out: the next number, and it says so
    assert train(iterations=1) == "", "the first has nothing to say"
    first = contents(os.path.join(folder, "runs/run"))
    for number in (2, 3):
        said = train(iterations=number)
        assert has_facts(said, f"runs/run runs/run-{number}") and said.count("\n") == 1, said
        assert len(iterations(f"runs/run-{number}")) == number
    assert contents(os.path.join(folder, "runs/run")) == first
    train("--resume", iterations=4)
    assert [len(iterations(f"runs/run{number}")) for number in ("", "-2", "-3")] == [1, 2, 4], "--resume takes the newest"

    # ranks of a launcher must all find the same folder: none is chosen for them
    said = train(code=2, OMPI_COMM_WORLD_RANK="0")
    assert has_facts(said, "runs/run holds a finished run; --overwrite") and said.count("\n") == 1, said
    assert not os.path.exists(os.path.join(folder, "runs/run-4"))
