#!/usr/bin/env python3
"""Fuzzes the readers of outside bytes (tests/fuzz), each for some seconds, and reports executions, coverage and finds.

Each reader starts with its examples and with what earlier runs have found to be new (BUILD_DIR/corpus/NAME). A find is an input that ends the
reader by a signal, a sanitizer or an assertion, or that takes too long; it stays in BUILD_DIR/finds, and build-fuzz/tests/fuzz NAME FILE reads
it again. Afterwards the corpus is read once more, to see whether every function that the reader's table names is reached: a table may not claim
what its examples do not show. Exit code 1: there was a find, or a function was not reached.

Usage: bench/fuzz/run.py [BUILD_DIR] [--seconds N] [--jobs N] [--only NAME]... [--write docs/results/evidence/fuzzing.md]
BUILD_DIR (build-fuzz) is built if tests/fuzz is not there or --build is given: clang with libFuzzer is needed (tools/install check)."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, source, table  # noqa: E402

ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
LIMITS = ("-timeout=60", "-report_slow_units=1000000", "-rss_limit_mb=2048", "-max_len=20000")


def readers(program):
    """{name: functions} in the order of the tables."""
    lines = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: functions.split() for name, functions in (line.split(": ") for line in lines)}


def fuzz(program, folder, name, functions, seconds):
    """One reader for some seconds: a dictionary of what it did."""
    corpus, finds = os.path.join(folder, "corpus", name), os.path.join(folder, "finds", name)
    for path in (corpus, finds):
        os.makedirs(path, exist_ok=True)
    examples = os.path.join(folder, "examples", name)
    shutil.rmtree(examples, ignore_errors=True)
    os.makedirs(os.path.dirname(examples), exist_ok=True)
    subprocess.run([program, name, "--examples", examples], check=True, env=ENVIRONMENT)
    words = [f"-dict={examples}.words"] if os.path.getsize(f"{examples}.words") else []
    before = set(os.listdir(finds))
    log = os.path.join(folder, f"{name}.log")
    with open(log, "w") as out:
        code = subprocess.run([program, name, *LIMITS, *words, f"-max_total_time={seconds}", f"-artifact_prefix={finds}/", "-print_final_stats=1",
                               corpus, examples], env=ENVIRONMENT, stdout=out, stderr=subprocess.STDOUT).returncode
    with open(log, errors="replace") as text:
        said = text.read()
    # what the corpus reaches, in a run of its own: with it, the fuzzer prints every function
    seen = subprocess.run([program, name, *LIMITS, "-runs=0", "-print_coverage=1", f"-artifact_prefix={finds}/", corpus, examples], env=ENVIRONMENT, capture_output=True, text=True,
                          errors="replace").stderr
    covered = {found.group(2): int(found.group(1)) for found in re.finditer(r"^COVERED_FUNC: hits: \d+ edges: (\d+)/\d+ (\S+) .*/src/", seen, re.M)}
    features = re.findall(r"cov: \d+ ft: (\d+)", said)
    executions = re.search(r"stat::number_of_executed_units: *(\d+)", said)
    with open(os.path.join(folder, "history.jsonl"), "a") as history:
        history.write(json.dumps({"reader": name, "seconds": seconds, "executions": int(executions.group(1)) if executions else 0}) + "\n")
    return {"name": name, "features": int(features[-1]) if features else 0, "functions": len(covered), "code": code, "log": log, "reached": sum(covered.values()),
            "finds": sorted(set(os.listdir(finds)) - before), "missed": [f for f in functions if f not in covered]}


def totals(folder):
    """{reader: [seconds, executions]} of all runs with this corpus."""
    found = {}
    with open(os.path.join(folder, "history.jsonl")) as history:
        for line in history:
            run = json.loads(line)
            total = found.setdefault(run["reader"], [0, 0])
            total[0] += run["seconds"]
            total[1] += run["executions"]
    return found


def main():
    asked = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    asked.add_argument("build", nargs="?", default=os.path.join(source, "build-fuzz"))
    asked.add_argument("--seconds", type=int, default=60)
    asked.add_argument("--jobs", type=int, default=os.cpu_count())
    asked.add_argument("--only", action="append")
    asked.add_argument("--build", dest="again", action="store_true")
    asked.add_argument("--write")
    a = asked.parse_args()
    program = os.path.join(os.path.abspath(a.build), "tests", "fuzz")
    if a.again or not os.path.exists(program):
        subprocess.run([os.path.join(source, "tools", "build"), a.build, "-DCMAKE_C_COMPILER=clang", "-DSL_FUZZ=ON", "--", "fuzz"], check=True)
    chosen = {name: functions for name, functions in readers(program).items() if not a.only or name in a.only}
    if a.only and set(a.only) - set(chosen):
        sys.exit(f"no reader {', '.join(sorted(set(a.only) - set(chosen)))}: {program} --list names them")
    with ThreadPoolExecutor(a.jobs) as pool:
        rows = list(pool.map(lambda one: fuzz(program, os.path.abspath(a.build), *one, a.seconds), chosen.items()))
    bad = [row for row in rows if row["code"] or row["finds"] or row["missed"]]
    for row in bad:
        print(f"{row['name']}: exit code {row['code']}, finds {row['finds']}, not reached {row['missed']}: {row['log']}", file=sys.stderr)
    total = totals(os.path.abspath(a.build))
    body = [f"`bench/fuzz/run.py --seconds {a.seconds} --jobs {a.jobs}` on {machine()}: each reader is fuzzed for {a.seconds} s more, under the address "
            "and undefined-behavior sanitizers. Seconds and executions are those of all runs with this corpus; other programs used the processors "
            "meanwhile. Functions are those of `src/` that the corpus reaches, with the edges covered in them; features are libFuzzer's. Finds are "
            "those of this run: what earlier runs had found is mended, and has a test where its part is tested.", "",
            table(["reader", "seconds", "executions", "functions", "edges", "features", "finds"],
                  [[row["name"], f"{total[row['name']][0]:,}", f"{total[row['name']][1]:,}", row["functions"], f"{row['reached']:,}", f"{row['features']:,}",
                    len(row["finds"])] for row in rows]),
            f"Together: {len(rows)} readers, {sum(total[row['name']][1] for row in rows):,} executions, "
            f"{sum(len(row['finds']) for row in rows)} finds in this run."]
    finish(a.write, "Fuzzing", "\n".join(body))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
