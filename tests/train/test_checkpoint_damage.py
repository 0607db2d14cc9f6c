# labels: long
"""What is damaged is refused with its reason and the checkpoint before is used; when all are, that is an error. What
cannot be written is an event and a warning, leaves nothing behind and does not stop training."""
import os
import resource
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from checkpoints import break_off, kinds, run, step, steps, write_run
from runner import build, folder, has_facts, source



def flip(path, where):
    with open(path, "r+b") as file:
        file.seek(*where)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))


DAMAGE = {
    "a flipped byte of a weight": (lambda at: flip(f"{at}/model-00002-of-00002.safetensors", (-100, 2)),
                                   "model-00002-of-00002.safetensors "),
    "a flipped byte of a header": (lambda at: flip(f"{at}/optimizer-00001-of-00002.safetensors", (30, 0)),
                                   "optimizer-00001-of-00002.safetensors "),
    "a flipped byte of the state": (lambda at: flip(f"{at}/state.json", (60, 0)), "state.json "),
    "a flipped byte of the index": (lambda at: flip(f"{at}/model.safetensors.index.json", (99, 0)),
                                    "model.safetensors.index.json "),
    "a truncated file": (lambda at: os.truncate(f"{at}/optimizer-00002-of-00002.safetensors", 4000),
                         "optimizer-00002-of-00002.safetensors 4000"),
    "a missing file": (lambda at: os.remove(f"{at}/model-00001-of-00002.safetensors"), "model-00001-of-00002.safetensors"),
    "an unreadable state": (lambda at: open(f"{at}/state.json", "w").write("{"), "state.json "),
    "no state": (lambda at: os.remove(f"{at}/state.json"), "state.json"),
    "an incomplete folder": (lambda at: os.rename(at, at + ".part"), "incomplete"),
}


def test_a_damaged_checkpoint_is_refused_and_the_one_before_taken(folder, file, whole):
    broken = os.path.join(folder, "broken")
    break_off(build, file, broken, at=9, enough=2)
    newest, before = reversed(steps(broken))
    for name, (harm, why) in DAMAGE.items():
        out = os.path.join(folder, "harmed")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(broken, out)
        shutil.rmtree(step(out, newest) + ".part", ignore_errors=True)
        harm(step(out, newest))
        result = run(build, file, out)
        refused, resumed = kinds(result, "checkpoint_refused"), kinds(result, "resumed")
        refused = [event for event in refused if f"step-{newest:06d}" in event["seen"]]
        assert len(refused) == 1 and has_facts(refused[0]["why"], why), f"{name}: {refused}"
        assert has_facts(result.error, why), f"{name}: {result.error}"
        assert resumed[0]["iteration"] == before and result.bits == whole.bits, f"{name}: {resumed}"
        assert not steps(out, ".part")
        print(f"{name}: {refused[0]['why']}; the one before is used")
    shutil.rmtree(out)
    shutil.copytree(broken, out)
    for number in steps(out):
        os.truncate(f"{step(out, number)}/model-00001-of-00002.safetensors", 100)
    metrics = open(os.path.join(out, "metrics.jsonl")).read()
    error = run(build, file, out, code=1)
    assert has_facts(error, "none of 2 checkpoints can be used") and has_facts(error, "100"), error
    assert open(os.path.join(out, "metrics.jsonl")).read() == metrics and steps(out) == [before, newest]
    print("all damaged: an error, and nothing is touched")


def limit():
    """Room for what Open MPI shares between ranks, not for the optimizer's files of a wide model."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (9 << 20, 9 << 20))


def test_a_checkpoint_that_cannot_be_written_costs_no_iteration(folder, file, whole):
    out = os.path.join(folder, "limited")
    wide = run(build, file, os.path.join(folder, "wide"), "model.width=256", "iterations=10", resume=False)
    result = run(build, file, out, "model.width=256", "iterations=10", resume=False, before=limit)
    failed = kinds(result, "checkpoint_failed")
    assert result.bits == wide.bits and failed and not kinds(result, "checkpoint_written")
    assert len(kinds(wide, "checkpoint_written")) > 1
    assert "safetensors" in failed[0]["why"] and "slackline: warning: " in result.error, failed
    assert not steps(out) and not steps(out, ".part")
    print(f"a limit on files: {failed[0]['why']}")
    out = os.path.join(folder, "blocked")
    os.mkdir(out)
    os.symlink(os.path.join(folder, "nowhere"), os.path.join(out, "checkpoints"))
    result = run(build, file, out, resume=False)
    failed = kinds(result, "checkpoint_failed")
    assert result.bits == whole.bits and "checkpoints" in failed[0]["why"], failed
    print(f"no folder can be made: {failed[0]['why']}")


def test_a_full_disk_keeps_the_first_checkpoint(folder, file, whole):
    """Room for one checkpoint and not for two: the first stays and is good."""
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        print("a full disk: not tried, nothing can be mounted here")
        return
    try:
        out = os.path.join(disk, "out")
        result = run(build, file, out, resume=False)
        failed, written = kinds(result, "checkpoint_failed"), kinds(result, "checkpoint_written")
        assert result.bits == whole.bits and len(written) == 1 and failed, result.events
        assert "No space left" in failed[0]["why"] and not steps(out, ".part"), failed
        again = run(build, file, out, "checkpoint.every=0")
        assert kinds(again, "resumed")[0]["seen"] == written[0]["decided"] and again.bits == whole.bits
        print(f"a full disk: {failed[0]['why']}")
    finally:
        subprocess.run(["umount", disk], check=True)

def given():
    path = write_run(folder, source)
    yield path, run(build, path, os.path.join(folder, "whole"), resume=False)
