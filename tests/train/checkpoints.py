"""What tests of checkpoints share: a small run, a way to break it off, and what its folder holds."""
import fcntl
import os
import subprocess

from training import Result, Training, arguments, kill, until

RUN = """
model: {{kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}}
data: {{files: ["{source}/docs/design.md", "{source}/src/base/*.c"], seed: 3}}
parallel: {{pipeline: 2}}
batch: {{microbatches: 4, size: 2}}
optimizer: {{kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}}
iterations: 20
schedule: 1f1b
adapt: false
checkpoint: {{every: 4, keep: 2}}
device: {{pace_ms: {{F: 1, I: 1, W: 1}}}}
"""


def write_run(folder, source):
    path = os.path.join(folder, "run.yaml")
    with open(path, "w") as file:
        file.write(RUN.format(source=source))
    return path


def steps(out, ending=""):
    """Numbers of the checkpoints that bear the name of a whole one (or of one that is being made)."""
    folder = os.path.join(out, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name[5:].removesuffix(ending)) for name in names
                  if name.startswith("step-") and name.endswith(".part") == bool(ending))


def step(out, number):
    return os.path.join(out, "checkpoints", f"step-{number:06d}")


def run(build, file, out, *settings, resume=True, overwrite=False, code=0, before=None):
    """To its end. What it said on standard error, or its results where it went well."""
    words = arguments(build, file, out, settings) + ["--resume"] * resume + ["--overwrite"] * overwrite
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, preexec_fn=before)
    assert done.returncode == code, f"{os.path.basename(out)}: exit {done.returncode}: {done.stderr}"
    if code:
        return done.stderr
    result = Result(out)
    result.error, result.output = done.stderr, done.stdout
    assert [line["iteration"] for line in result.metrics] == list(range(len(result.metrics))), "lines of metrics.jsonl"
    return result


def is_free(out):
    """Nobody holds the folder's lock: the run's last process is gone."""
    folder = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(folder)


def break_off(build, file, out, *settings, at, enough=1):
    """Kills the run, all of it, once an iteration was reached and there is a checkpoint."""
    with Training(build, file, out, *settings) as training:
        training.await_iteration(at)
        until(lambda: len(steps(out)) >= enough or training.process.poll() is not None, 60)
        assert training.process.poll() is None, f"over before it was broken off: {training.end()}"
        training.look()
        kill(training.process.pid)
        until(lambda: not any(training.is_own(pid) for pid in training.seen), 20)
    until(lambda: is_free(out), 20)
    assert len(steps(out)) >= enough, "no checkpoint to go on from"


def kinds(result, kind):
    return [event for event in result.events if event["kind"] == kind]
