#!/usr/bin/env python3
"""What a user waits for and what lies on the disk afterwards: pictures, pages, reports, traces, beside PyTorch's schedule
visualiser where an interpreter with torch and matplotlib is named. Prints the page;
--write FILE puts it into docs/results/evidence/usability.md. The section "What each offers" comes from bench/usability/offers.md.

Usage: bench/usability/run.py [BUILD_DIR] [--write FILE] [--python PYTHON] [--clone]

  --python PYTHON  has torch and matplotlib: includes the visualizer
  --clone          builds a clone of this repository without a cache, up to its first picture (minutes)"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--python")
parser.add_argument("--clone", action="store_true")
arguments = parser.parse_args()
slackline = os.path.join(os.path.abspath(arguments.build), "slackline")
work = tempfile.mkdtemp(prefix="slackline-usability.")

RUN = """model: {kind: gpt2, layers: 4, width: 16, heads: 4, context: 16}
data: {files: ["/usr/share/common-licenses/*"], seed: 1}
parallel: {pipeline: 4}
batch: {microbatches: 8, size: 1}
optimizer: {kind: adamw, lr: 2e-3, clip: 1.0}
iterations: 40
schedule: adaptra
adapt: true
device: {kind: cpu, pace_ms: {F: 1, I: 1, W: 1}}
faults:
  - {iterations: [12, 26], link: [0, 1], latency_ms: 15}
"""
SHORT_OPS = ["--set", "iterations=10000", "--set", "parallel.pipeline=2", "--set", "batch.microbatches=2", "--set", "model.layers=2", "--set", "model.width=8",
             "--set", "model.context=8", "--set", "device={kind: cpu}", "--set", "faults=[]"]


def size(path):
    bytes_ = os.path.getsize(path) if os.path.isfile(path) else sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
    return f"{bytes_ / 1e6:.1f} MB" if bytes_ >= 1e6 else f"{bytes_ / 1e3:.0f} kB"


def timed(*words, limit=900, **more):
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit, cwd=work, **more)
    return done, time.monotonic() - begin


def fastest(*words, repeats=3):
    """Seconds, the best of several: the first may read files from the disk."""
    best = None
    for _ in range(repeats):
        done, seconds = timed(*words)
        if done.returncode != 0:
            sys.exit(f"{words}: {done.stderr}")
        best = seconds if best is None else min(best, seconds)
    return best


def problem(name, ranks, microbatches, placement):
    text = f"pipeline: {{ranks: {ranks}, microbatches: {microbatches}, placement: {placement}, times_ms: {{F: 10, I: 10, W: 10}}}}\n"
    open(os.path.join(work, name), "w").write(text)
    return name


def seconds_text(value):
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


rows = []


def row(what, command, seconds, written=""):
    rows.append([what, f"`{command}`", seconds if isinstance(seconds, str) else seconds_text(seconds), written])


def pictures():
    four = os.path.join(source, "examples", "four-ranks.yaml")
    for form in ("svg", "html"):
        out = f"four.{form}"
        row(f"a plan of 4 ranks as {form.upper()}", f"slackline plan examples/four-ranks.yaml --format {form}", fastest(slackline, "plan", four, "--format", form, "-o", out), size(os.path.join(work, out)))
    file = problem("wide.yaml", 32, 64, "loop")
    for form in ("svg", "html"):
        row(f"32 ranks, 64 stages, 64 microbatches as {form.upper()}", f"slackline plan wide.yaml --schedule interleaved-1f1b --format {form}",
            fastest(slackline, "plan", file, "--schedule", "interleaved-1f1b", "--format", form, "-o", f"wide.{form}"), size(os.path.join(work, f"wide.{form}")))
    file = problem("thousand.yaml", 1000, 64, "linear")
    row("1,000 ranks, 64 microbatches as HTML", "slackline plan thousand.yaml --schedule 1f1b --format html",
        fastest(slackline, "plan", file, "--schedule", "1f1b", "--format", "html", "-o", "thousand.html", repeats=1), size(os.path.join(work, "thousand.html")))
    fastest(slackline, "plan", "wide.yaml", "--schedule", "interleaved-1f1b", "--format", "trace", "-o", "wide.json", repeats=1)
    row(f"a trace of the 32 ranks ({size(os.path.join(work, 'wide.json'))}) into a problem file", "slackline import wide.json --time-limit 0",
        fastest(slackline, "import", "wide.json", "--time-limit", "0", "-o", "again.yaml"), size(os.path.join(work, "again.yaml")))


def reports():
    run = os.path.join(work, "run.yaml")
    open(run, "w").write(RUN)
    if not os.path.exists(os.path.join(os.path.dirname(slackline), "slackline-worker")):
        print("note: no trainer in this build; reports of runs were left out", file=sys.stderr)
        return
    for name, more, what in (("short", [], "40 iterations on 4 ranks, each recorded op by op"), ("long", SHORT_OPS, "10,000 iterations on 2 ranks")):
        done, _ = timed(slackline, "train", run, "--out", name, *more)
        if done.returncode != 0:
            sys.exit(done.stderr)
        row(f"a run's report: {what}", f"slackline report runs/{name}", fastest(slackline, "report", name), size(os.path.join(work, name, "report.html")))


def install():
    prefix = os.path.join(work, "prefix")
    done, _ = timed("cmake", "--install", os.path.abspath(arguments.build), "--prefix", prefix, "--strip")
    if done.returncode == 0:
        row("installed, stripped, without its libraries", "cmake --install build --strip", "", size(prefix))
    else:
        print("note: not everything is built; the install was left out", file=sys.stderr)


VISUALISER = """import sys, time
begin = time.monotonic()
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops, visualize_schedule
loaded = time.monotonic()
try:
    visualize_schedule(get_schedule_ops(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), add_spacing=sys.argv[4] == "1"), sys.argv[5])
    print("took", loaded - begin, time.monotonic() - loaded)
except Exception as error:
    print("failed", type(error).__name__, str(error).replace(chr(10), " ")[:80])
"""


def visualiser():
    """PyTorch's schedule visualizer: ops of one length, a PNG by matplotlib."""
    for schedule, ranks, microbatches, spaced in (("InterleavedZeroBubble", 4, 8, 1), ("1F1B", 4, 8, 1), ("1F1B", 4, 8, 0), ("GPipe", 4, 8, 0), ("Interleaved1F1B", 32, 64, 0)):
        out = f"torch-{schedule}.png"
        done, _ = timed(arguments.python, "-W", "ignore", "-c", VISUALISER, schedule, str(ranks), str(microbatches), str(spaced), out)
        said = [line for line in done.stdout.splitlines() if line.startswith(("took ", "failed "))]
        if not said:
            sys.exit(f"the visualiser: {done.stderr[-400:]}")
        words = said[0].split()
        seconds = f"{float(words[2]):.1f} s, and {float(words[1]):.1f} s to import" if words[0] == "took" else "fails: " + " ".join(words[1:])
        row(f"PyTorch's visualizer: {schedule}, {ranks} ranks, {microbatches} microbatches", f"visualize_schedule(get_schedule_ops(\"{schedule}\", {ranks}, {microbatches}, add_spacing={bool(spaced)}))",
            seconds, size(os.path.join(work, out)) if words[0] == "took" else "")


def versions():
    said = subprocess.run([slackline, "--version"], capture_output=True, text=True).stdout.splitlines()
    text = f"{said[0]}, {' '.join(said[1].split())}"
    if arguments.python:
        code = "import torch, matplotlib; print(f'torch {torch.__version__}, matplotlib {matplotlib.__version__}')"
        text += "; " + subprocess.run([arguments.python, "-W", "ignore", "-c", code], capture_output=True, text=True).stdout.strip()
    return text


def clone():
    place = os.path.join(work, "clone")
    begin = time.monotonic()
    for words in (("git", "clone", "-q", source, place), ("cmake", "-S", place, "-B", os.path.join(place, "build"), "-G", "Ninja"), ("ninja", "-C", os.path.join(place, "build"), "slackline"),
                  (os.path.join(place, "build", "slackline"), "plan", os.path.join(place, "examples", "four-ranks.yaml"), "--format", "svg", "-o", "first.svg")):
        done, _ = timed(*words, limit=3600, env={**os.environ, "CCACHE_DISABLE": "1"})
        if done.returncode != 0:
            sys.exit(f"{words}: {done.stderr[-400:]}")
    row("a clone to the first picture, packages being there", "git clone, cmake, ninja -C build slackline, slackline plan ... --format svg", time.monotonic() - begin, size(os.path.join(work, "first.svg")))


try:
    pictures()
    reports()
    install()
    if arguments.clone:
        clone()
    if arguments.python:
        visualiser()
    asked = " ".join(["bench/usability/run.py"] + ["--python PYTHON"] * bool(arguments.python) + ["--clone"] * arguments.clone + ["--write docs/results/evidence/usability.md"])
    body = (f"`{asked}`; {machine()}; {versions()}.\n"
            f"Wall times. Those of pictures, pages, and reports are the best of three.\n\n" + table(["what", "command", "time", "size"], rows))
    with open(os.path.join(here, "offers.md")) as file:
        offers = file.read()
    finish(None, "What each offers", offers)
    if arguments.write:
        from page import write
        write(arguments.write, "What each offers", offers)
    finish(arguments.write, "Measured", body)
finally:
    shutil.rmtree(work, ignore_errors=True)
