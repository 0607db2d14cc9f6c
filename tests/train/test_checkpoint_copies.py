"""Every rank checks what it loads of a checkpoint, not rank 0 alone: a rank that sees another copy of the files, as on a host
whose folder is its own, ends the run with the names of file, tensor and rank. Each rank has its own view by a mount namespace."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from checkpoints import run, steps, write_run
from runner import build, folder, skip, source
from training import lines

if subprocess.run(["unshare", "--mount", "mount", "--bind", "/tmp", "/tmp"], capture_output=True).returncode != 0:
    skip("no folder can be mounted here")

# As rank 1 it sees COPY in the place of CHECKPOINTS.
VIEW = """
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec "${@:3}"
exec unshare --mount sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' sh "$@"
"""


def resume(file, out, copy):
    """Both ranks go on from the newest checkpoint, rank 1 from its copy. Exit code and standard error."""
    command = ["mpirun", "-np", "2", "--oversubscribe"] + ["--allow-run-as-root"] * (os.geteuid() == 0)
    command += ["bash", "-c", VIEW, "view", copy, os.path.join(out, "checkpoints"), os.path.join(build, "slackline"), "train",
                file, "--out", out, "--resume", "--set", "iterations=6", "--set", "checkpoint.every=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stderr


def flip(path, tensor):
    """One bit in the middle of a tensor."""
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        first, end = eval(file.read(length))[tensor]["data_offsets"]
        at = 8 + length + (first + end) // 2
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_rank_refuses_a_copy_that_differs():
    path = write_run(folder, source)
    out, other, copy = (os.path.join(folder, name) for name in ("out", "other", "copy"))
    run(build, path, out, "iterations=4", resume=False)
    newest = f"step-{steps(out)[-1]:06d}"
    checkpoints = os.path.join(out, "checkpoints")

    shutil.copytree(checkpoints, copy)
    code, error = resume(path, out, copy)
    assert code == 0 and len(lines(os.path.join(out, "metrics.jsonl"))) == 6, f"an equal copy is as good: {code} {error}"

    for name, tensor in (("model-00002-of-00002.safetensors", "h.3.mlp.c_fc.weight"),
                         ("optimizer-00002-of-00002.safetensors", "h.2.ln_1.bias.moment2")):
        shutil.rmtree(copy)
        shutil.copytree(checkpoints, copy)
        flip(os.path.join(copy, newest, name), tensor)
        code, error = resume(path, out, copy)
        assert code != 0, f"{name}: a changed copy was loaded without a word"
        assert re.search(f"rank 1: .*{newest}/{name}: tensor '{re.escape(tensor)}' was changed", error), f"{name}: {error}"
        print(error.splitlines()[0])

    # a checkpoint that is whole, of the same iteration, and of another run
    run(build, path, other, "iterations=4", "data.seed=4", resume=False)
    shutil.rmtree(copy)
    shutil.copytree(os.path.join(other, "checkpoints"), copy)
    code, error = resume(path, out, copy)
    assert code != 0 and re.search(f"rank 1: .*{newest}/state.json: .*rank 0", error), error
    print(error.splitlines()[0])
