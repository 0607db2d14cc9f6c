"""What a watch has found stays: a second one is refused its folder, numbered, or replaces it when asked to."""
import json
import os

from calling import folder, run
from runner import expect, require

require("libslackline_probe.so", "redis-server")


def watch(*options, program=("true",), **environment):
    return run("watch", "--http", "off", *options, "--", *program, cwd=folder, env=os.environ | environment)


def program(name):
    try:
        with open(os.path.join(folder, name, "report.json")) as file:
            return json.load(file)["program"]
    except FileNotFoundError:
        return None


def test_a_finished_watch_is_replaced_only_when_asked():
    done = watch("--out", "given")
    expect(done.returncode == 0 and program("given") == ["true"], f"the first: {done}")
    done = watch("--out", "given", program=("touch", "ran"))
    expect(done.returncode == 2 and not os.path.exists(os.path.join(folder, "ran")), f"refused before the program runs: {done}")
    expect(done.stderr.startswith("slackline: watch: given ") and "--overwrite" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    expect(program("given") == ["true"], "the finished one stays")
    done = watch("--out", "given", "--overwrite", program=("echo", "again"))
    expect(done.returncode == 0 and program("given") == ["echo", "again"], f"--overwrite: {done}")

    # without --out: the next number
    for number in ("", "-2", "-3"):
        done = watch(program=("echo", "default" + number))
        said = f"slackline: runs/watch-echo holds a finished run; this one is written to runs/watch-echo{number}"
        expect((said in done.stderr) == (number != ""), f"says where: {done.stderr}")


def test_without_out_the_next_number_is_taken():
    for number in ("", "-2", "-3"):
        expect(program("runs/watch-echo" + number) == ["echo", "default" + number], f"runs/watch-echo{number}")


def test_a_folder_belongs_to_one_job():
    # below a launcher: another job is refused, ranks of the same job that come late and an attempt after a failure are not
    job = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "PMIX_NAMESPACE": "one"}
    expect(watch("--out", "job", **job).returncode == 0, "the first of its job")
    expect(watch("--out", "job", **job).returncode == 0, "the same job")
    expect(watch("--out", "job", **job | {"PMIX_NAMESPACE": "two"}).returncode == 2, "another job")
    attempt = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "id"}
    expect(watch("--out", "job", **attempt | {"TORCHELASTIC_RESTART_COUNT": "0"}).returncode == 2, "a job of torchrun")
    expect(watch("--out", "job", **attempt | {"TORCHELASTIC_RESTART_COUNT": "1"}).returncode == 0, "its second attempt")
