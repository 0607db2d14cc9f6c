#!/usr/bin/env python3
"""How many small faults the tests notice: mutants of the core, one at a time, in a copy of the source.

A mutant changes one token of a statement, or leaves the statement out. The tests of its part run first; if none of them fails,
all quick ones run (with --quick), and then all of --full (with --full). What still survives is printed as a difference: it needs a test, or
is equivalent, which means that no test can notice it; then it belongs into equivalent.txt, with the reason. --planted takes the faults of
planted.txt instead, each with the one test that is to notice it. --short leaves out the part's longer tests: what is noticed is then a lower bound.

Usage: bench/mutants/run.py [BUILD_DIR] [--mutants N] [--seed S] [--first N] [--part NAME]... [--planted] [--short] [--quick] [--full] [--write docs/results/evidence/mutants.md]
Mutant N of a seed is always the same while the source is: --first N --mutants 1 repeats it. The copy and its build are in
BUILD_DIR/mutants, and stay there for the next run."""
import argparse
import filecmp
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, source, table  # noqa: E402

# name: folders or files of src, and the tests that are of it
PARTS = {
    "planner": (("plan/pipeline", "plan/lower", "plan/timing", "plan/family", "plan/bound", "plan/search"), "plan_"),
    "orchestrator": (("adapt/orchestrator", "adapt/ladder", "adapt/balance", "adapt/topology", "adapt/model"), "adapt_"),
    "conduit": (("run/conduit", "run/rail"), "run_conduit|run_rail"),
    "cut": (("notice/control/hold_cut.c", "notice/control/carried.c", "notice/control/phases.c"), "notice_control"),
    "checkpoint": (("run/checkpoint",), "run_checkpoint"),
    "detection": (("notice/detect",), "notice_detect"),
    "launch": (("launch",), "launch"),
    "engine": (("run/engine",), "run_engine"),
    "arrange": (("run/arrange",), "run_arrange|run_train"),
}
QUICK, FULL = "long|slow|gpu|calm|alone", "slow|gpu"
CPU_S, TEST_S, BUILD_S = 120, 600, 900  # a mutant may loop, or wait forever; the time on a processor does not depend on others' load
SHORT_S, SHORT_TEST_S = 2, 90  # tests that take less run first, and not as long
OTHERS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"],
          "+=": ["-="], "-=": ["+="], "++": ["--"], "--": ["++"], "!": [""]}
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|->|<<=?|>>=?|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|\b\d+\b|\b[A-Za-z_]\w*\b|[-+<>!]|\S')
STATEMENT = re.compile(r"^\s+[a-z_][\w.>\[\]()*-]*(?: ?[-+|&*/]?= .*|\(.*\)|\+\+|--);$")
BLANK = re.compile(r"^\s*(?:#|static |const |typedef |enum |struct |return;|break;|//)")


@dataclass
class Mutant:
    part: str
    file: str
    line: int  # from 0
    before: str
    after: str
    test: str = ""  # planted: the one that must notice it; else any of the part's

    @property
    def key(self):
        """As in equivalent.txt: it does not depend on the line's number."""
        return f"{self.file}: {self.before.strip()} => {self.after.strip() or ';'}"

    def difference(self):
        return f"{self.file}:{self.line + 1}\n- {self.before.strip()}\n+ {self.after.strip()}"


def without_comments(text):
    """The text with blanks in place of comments, so that columns stay."""
    def blank(found):
        return found.group(0) if found.group(0)[0] != "/" else re.sub(r"[^\n]", " ", found.group(0))
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def changes_of(line):
    """Other versions of a line of code."""
    found = []
    for token in TOKEN.finditer(line):
        text = token.group(0)
        if text.isdigit():
            others = [str(int(text) + 1), *([str(int(text) - 1)] if int(text) else [])]
        elif text in "+-" and not line[:token.start()].rstrip().endswith(tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_)]")):
            others = []  # a sign
        else:
            others = OTHERS.get(text, [])
        found += [line[:token.start()] + other + line[token.end():] for other in others]
    if STATEMENT.match(line) and not line.lstrip().startswith("return"):
        found.append(re.match(r"\s*", line).group(0) + ";")
    return found


def files_of(paths):
    for path in paths:
        whole = os.path.join(source, "src", path)
        if path.endswith(".c"):
            yield f"src/{path}"
        else:
            yield from sorted(f"src/{path}/{name}" for name in os.listdir(whole) if name.endswith(".c"))


def mutants_of(part):
    """All of them."""
    made = []
    for file in files_of(PARTS[part][0]):
        with open(os.path.join(source, file), encoding="utf-8") as text:
            whole = text.read()
        inside = 0  # braces: only functions have statements
        for number, (line, code) in enumerate(zip(whole.splitlines(), without_comments(whole).splitlines())):
            if inside and code.strip() and not BLANK.match(code):
                made += [Mutant(part, file, number, line, other) for other in changes_of(code.rstrip())]
            inside += code.count("{") - code.count("}")
    return made


def equivalent():
    """The keys of equivalent.txt: a line each, indented reasons below."""
    with open(os.path.join(here, "equivalent.txt"), encoding="utf-8") as text:
        return {line.rstrip("\n") for line in text if line.strip() and not line.startswith(("#", " "))}


def planted():
    made = []
    with open(os.path.join(here, "planted.txt"), encoding="utf-8") as text:
        for line in filter(lambda one: one.strip() and not one.startswith("#"), text):
            if line.startswith(" "):
                made[-1].test = line.strip()
                continue
            file, (before, after) = line.split(": ", 1)[0], line.rstrip("\n").split(": ", 1)[1].split(" => ")
            part = next(name for name, (paths, _) in PARTS.items() if any(f"{file}/".startswith((f"src/{path}/", f"src/{path}")) for path in paths))
            with open(os.path.join(source, file), encoding="utf-8") as code:
                at = [number for number, one in enumerate(code.read().splitlines()) if one.strip() == before]
            if not at:
                sys.exit(f"planted.txt: {file} has no line '{before}'")
            made.append(Mutant(part, file, at[0], before, after))
    return made


def drawn(seed, first, count, parts):
    """As many of each part, in turn; of each part in a random order."""
    known, order = equivalent(), {}
    for part in parts:
        order[part] = [one for one in mutants_of(part) if one.key not in known]
        random.Random(f"{seed} {part}").shuffle(order[part])
    found = [order[parts[at % len(parts)]][at // len(parts)] for at in range(first, first + count) if at // len(parts) < len(order[parts[at % len(parts)]])]
    return found, {part: len(all_) for part, all_ in order.items()}


class Copy:
    """A copy of the source with a build of its own, in which warnings are no errors."""

    def __init__(self, folder):
        self.folder, self.build, self.unchanged = folder, os.path.join(folder, "build"), {}
        listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            self.update(name)
        self.replace("CMakeLists.txt", "c_options(-Werror)", "c_options(-Wno-error)")
        if os.path.isdir(os.path.join(source, ".venv")) and not os.path.exists(os.path.join(folder, ".venv")):
            os.symlink(os.path.join(source, ".venv"), os.path.join(folder, ".venv"))
        if ran(["cmake", "-S", folder, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], BUILD_S) != 0:
            sys.exit("the copy cannot be configured")
        self.tests = subprocess.run(["ctest", "--test-dir", self.build, "-N", "-LE", QUICK], capture_output=True, text=True).stdout
        self.long = self.long_tests()

    def update(self, name):
        """Copies a file that has changed; the build makes what depends on it again."""
        here, there = os.path.join(source, name), os.path.join(self.folder, name)
        if os.path.isfile(here) and (not os.path.exists(there) or not filecmp.cmp(here, there, shallow=False)):
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy(here, there)

    def replace(self, file, before, after):
        path = os.path.join(self.folder, file)
        with open(path, encoding="utf-8") as text:
            whole = text.read()
        if before not in whole:
            sys.exit(f"{file} has no '{before}'")
        with open(path, "w", encoding="utf-8") as text:
            text.write(whole.replace(before, after, 1))

    def put(self, mutant, back=False):
        path = os.path.join(self.folder, mutant.file)
        if mutant.file not in self.unchanged:  # the source may be edited meanwhile
            with open(path, encoding="utf-8") as text:
                self.unchanged[mutant.file] = text.read()
        lines = self.unchanged[mutant.file].split("\n")
        if not back:
            lines[mutant.line] = mutant.after
        with open(path, "w", encoding="utf-8") as text:
            text.write("\n".join(lines))

    def builds(self, targets=()):
        return ran(["ninja", "-C", self.build, *targets], BUILD_S) == 0

    def tests_of(self, pattern, short=False):
        """The quick C tests of a part: their names are those of their programs without test_."""
        names = re.findall(rf"Test +#\d+: ((?:{pattern})\w*)$", self.tests, re.M)
        return [name for name in names if name not in self.long] if short else names

    def long_tests(self):
        """Those that took SHORT_S or more on average so far."""
        path = os.path.join(self.build, "Testing", "Temporary", "CTestCostData.txt")
        if not os.path.exists(path):
            return set()
        with open(path, encoding="utf-8") as text:
            return {row[0] for row in map(str.split, text) if len(row) == 3 and float(row[2]) >= SHORT_S}

    def noticed(self, names=None, without=QUICK):
        """Whether a test fails twice, of these or of all without a label: others' load makes some fail once."""
        if not names:
            return self.fails([], TEST_S, without)
        short = [name for name in names if name not in self.long]
        waves = ((short, SHORT_TEST_S), ([name for name in names if name not in short], TEST_S))
        return any(self.fails(["-R", f"^({'|'.join(wave)})$"], limit, without) for wave, limit in waves if wave)

    def fails(self, chosen, limit, without):
        command = ["ctest", "--test-dir", self.build, "-j", str(os.cpu_count() or 2), "--stop-on-failure", "--timeout", str(limit), "-LE", without]
        return all(ran([*command, *which], 3600, CPU_S) != 0 for which in (chosen, ["--rerun-failed"]))


def ran(command, seconds, cpu=resource.RLIM_INFINITY):
    """The exit code; another than 0 also after that time, or if one of its processes needs more than `cpu` s of a processor."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu)))
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return 124


def judged(copy, mutant, arguments):
    """By which tests it is noticed: "part", "quick" or "full"; "none"; "not built" does not count."""
    copy.put(mutant)
    try:
        names = [mutant.test] if mutant.test else copy.tests_of(PARTS[mutant.part][1], arguments.short)
        if not copy.builds([f"test_{name}" for name in names if os.path.exists(os.path.join(copy.build, "tests", f"test_{name}"))]):
            return "not built"
        if copy.noticed(names):
            return "part"
        for how, without in (("quick", QUICK), ("full", FULL)):
            if getattr(arguments, how) and copy.builds() and copy.noticed(without=without):
                return how
        return "none"
    finally:
        copy.put(mutant, back=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--short", action="store_true", help="of the part's tests, only those that take less than 2 s")
    parser.add_argument("--quick", action="store_true", help="also all quick tests")
    parser.add_argument("--full", action="store_true", help="then all but the slow ones")
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    parts = arguments.part or list(PARTS)
    chosen, sizes = drawn(arguments.seed, arguments.first, arguments.mutants, parts)
    if arguments.planted:
        chosen = [one for one in planted() if one.part in parts]
    copy = Copy(os.path.join(os.path.abspath(arguments.build), "mutants"))
    own = sorted({one.test for one in chosen if one.test})
    if not (copy.builds([f"test_{name}" for name in own]) if own else copy.builds()):
        sys.exit("the copy cannot be built")
    if copy.noticed(own or copy.tests_of("|".join(PARTS[part][1] for part in parts), arguments.short)):
        sys.exit("tests fail without any mutant")
    found, survived = {part: [] for part in parts}, []
    for number, mutant in enumerate(chosen, arguments.first):
        began = time.monotonic()
        by = judged(copy, mutant, arguments)
        found[mutant.part].append(by)
        survived += [mutant] if by == "none" else []
        print(f"{number}: {by}, {time.monotonic() - began:.0f} s: {mutant.difference()}", file=sys.stderr, flush=True)
    ways = ["part", *(["quick"] if arguments.quick else []), *(["full"] if arguments.full else []), "none"]
    asked = "--planted" if arguments.planted else f"--mutants {arguments.mutants} --seed {arguments.seed}" + (f" --first {arguments.first}" if arguments.first else "")
    asked += "".join(f" --part {part}" for part in arguments.part or ()) + " --short" * arguments.short
    rows = [[part, sizes[part], *(by.count(way) for way in ways), by.count("not built")] for part, by in found.items()]
    counted = [by for each in found.values() for by in each if by != "not built"]
    share = sum(by != "none" for by in counted) / max(1, len(counted))
    about = ("Each fault of bench/mutants/planted.txt was planted alone, and the one test that is named there for it was run." if arguments.planted
             else "Each mutant changes one token of a statement, or leaves a statement out.")
    finish(arguments.write, "Small faults", f"""`bench/mutants/run.py {asked}{' --quick' * arguments.quick}{' --full' * arguments.full}`, {machine()}.
{about} {len(counted)} of {len(chosen)} could be built; the tests noticed {100 * share:.0f}% of these.

{table(["part", "mutants that there are", *(f"noticed by tests of {way}" if way != "none" else "not noticed" for way in ways), "not built"], rows)}
""" + ("Not noticed:\n\n```\n" + "\n".join(one.difference() for one in survived) + "\n```\n" if survived else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
