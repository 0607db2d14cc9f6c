"""What the first lines of an example say, and whether a command keeps it. A head is the comment that a file begins with
(below its SPDX line): what it shows, then

    $ slackline plan examples/four-ranks.yaml          a command, as typed in the project's folder (or in the example's own)
    > makespan 390 ms, ... proven optimal              what its output holds, line by line, in this order

In an expectation words are words, "..." is anything, spaces are any spaces, a number is itself, `392+-5%`, `10+-3` and `86%+-1` are
numbers near one. It may begin and end anywhere in a line."""
import os
import re
import subprocess

KINDS = {".yaml": "#", ".c": "*", ".cc": "*", ".py": ""}


class Try:
    def __init__(self, command):
        self.command = command
        self.expected = []


def head(path):
    """The lines of the comment that a file begins with, without the comment's marks."""
    with open(path) as file:
        text = file.read()
    end = os.path.splitext(path)[1]
    if end == ".yaml":
        lines = re.match(r"(?:#.*\n)*", text).group().splitlines()
        return [re.sub(r"^# ?", "", line) for line in lines if "SPDX-" not in line]
    if end in (".c", ".cc"):
        found = re.match(r"(?:/\* SPDX-[^\n]*\*/\n)?/\*(.*?)\*/", text, re.S)
        return [re.sub(r"^ \* ?", "", line).strip() for line in (found.group(1) if found else "").splitlines()]
    found = re.match(r'(?:#[^\n]*\n)*"""(.*?)"""', text, re.S)
    return [line.strip() for line in (found.group(1) if found else "").splitlines()]


def tries(path):
    found = []
    for line in head(path):
        if line.startswith("$ "):
            found.append(Try(line[2:].strip()))
        elif line.startswith("> ") and found:
            found[-1].expected.append(line[2:].strip())
    return found


def complaints(path):
    """What a head lacks."""
    lines = head(path)
    found = []
    if not lines or not re.match(r" ?[A-Z].{20}", lines[0]):
        found.append("its first line does not say what it shows")
    if not any(line.startswith("$ ") for line in lines):
        found.append("its first lines have no command ($ ...)")
    found += [f"'{one.command}' has nothing to expect (> ...)" for one in tries(path) if not one.expected]
    if not any(re.search(r"\d", words) for one in tries(path) for words in one.expected):
        found.append("no number is expected")
    return found


NUMBER = r"-?\d+(?:\.\d+)?"


def matches(expected, line):
    """Whether `line` holds `expected`."""
    parts, near = [], []
    for word in expected.split():
        if word == "...":
            parts.append(None)
            continue
        about = re.fullmatch(rf"({NUMBER})(%?)\+-(\d+(?:\.\d+)?)(%?)", word)
        if about:
            value = float(about.group(1))
            near.append((value, abs(value) * float(about.group(3)) / 100 if about.group(4) else float(about.group(3))))
            parts.append(rf"({NUMBER})(?![\d.]){about.group(2)}")
        else:
            exact = re.escape(word)
            parts.append(rf"(?<![\d.]){exact}" + (r"(?![\d.]*\d)" if word[-1].isdigit() else "") if word[0].isdigit() else exact)
    pattern = ""
    for part in parts:
        if part is None:
            pattern += r"\s.*?" if pattern else ".*?"
        else:
            pattern += (r"\s*" if pattern.endswith(".*?") else r"\s+") + part if pattern else part
    for match in re.finditer(rf"(?={pattern})", line):
        if all(abs(float(got) - value) <= most for got, (value, most) in zip(match.groups(), near)):
            return True
    return False


def broken(one, output):
    """The first expectation that the output does not keep, or None."""
    lines = output.splitlines()
    at = 0
    for expected in one.expected:
        while at < len(lines) and not matches(expected, lines[at]):
            at += 1
        if at == len(lines):
            return expected
        at += 1
    return None


def run(command, folder, build, seconds=280, **more):
    """(exit status, output) of a command as a shell runs it, with what has been built found first."""
    environment = {**os.environ, "PATH": os.path.abspath(build) + os.pathsep + os.environ["PATH"], **more}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds)
    return done.returncode, done.stdout


def kind(examples, name):
    """Which test runs an example: plan | train | library | python | on_event; board: tests/dashboard/test_dashboard.py. None: no test."""
    end = os.path.splitext(name)[1]
    if name == "grafana-dashboard.json": # which can hold no comment: its first key says it (test_plan.py)
        return "board"
    if end == ".yaml" and os.sep not in name:
        with open(os.path.join(examples, name)) as file:
            return "train" if re.search(r"^iterations:", file.read(), re.M) else "plan"
    if name.startswith("library" + os.sep) and end in (".c", ".cc"):
        return "library"
    if name.startswith("python" + os.sep) and end == ".py":
        return "python"
    if name.startswith("on-event" + os.sep):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_on_event.py")) as file:
            return "on_event" if f'"{os.path.basename(name)}"' in file.read() else None
    return None


def every(source):
    """{name below examples/: kind}"""
    examples = os.path.join(source, "examples")
    names = [os.path.relpath(os.path.join(top, name), examples) for top, _, found in os.walk(examples) if "__pycache__" not in top for name in found]
    return {name: kind(examples, name) for name in sorted(names)}


def of_kind(source, wanted):
    return [name for name, found in every(source).items() if found == wanted]
