# labels: long
"""Bad input. Every problem of tests/corpus/problem says in its first line what is to become of it:

    # says: FACT | FACT ...       refused: exit 2, one line with these facts: file, line, key, value
    # no answer: FACT | FACT ...  a valid request that nothing satisfies: exit 1, one line
    # makespan: SCHEDULE MS       odd, but right: planned, and as long as calculated by hand

Orders of tests/corpus/order stand in the table below; good files are damaged at random (SL_SEED repeats, SL_ROUNDS makes it
longer). Whatever comes in: nothing is printed, no file is written, nothing crashes, hangs or takes more than 1 GB."""
import os
import random
import re
import resource
import subprocess
import threading

from calling import command, folder
from runner import build, expect, missing, source

corpus = os.path.join(source, "tests", "corpus")
output = os.path.join(folder, "output")
seed = int(os.environ.get("SL_SEED", random.randrange(1 << 30)))
rounds = int(os.environ.get("SL_ROUNDS", 150))
print("seed", seed)
random.seed(seed)
with open(command, "rb") as program:  # address sanitizers reserve more than any limit
    sanitized = b"__asan_init" in program.read() or "fsanitize" in open(os.path.join(build, "CMakeCache.txt")).read()


def bound_memory():
    if not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def run(*arguments, **more):
    """A hang is a failure too: it raises."""
    done = subprocess.run([command, *arguments], capture_output=True, timeout=240, preexec_fn=bound_memory, **more)
    return done.returncode, done.stdout, done.stderr.decode(errors="backslashreplace")


def refused(code, says, what, *arguments, **more):
    got, printed, said = run(*arguments, "-o", output, **more)
    expect(got == code, f"{what}: exit {got}, not {code}: {said[:200]!r}")
    expect(printed == b"", f"{what}: printed {printed[:80]!r}")
    expect(said.startswith("slackline: ") and said.count("\n") == 1 and said.endswith("\n"), f"{what}: not one line: {said[:200]!r}")
    expect(not missing(said, says), f"{what}: {said[:200]!r} lacks {missing(said, says)}")
    expect(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said) is None, f"{what}: control characters in {said!r}")
    expect(not os.path.exists(output), f"{what}: -o wrote a file")
    if os.path.exists(output):
        os.remove(output)


def put(name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def test_bad_problems_are_refused_as_their_first_line_says():
    problems = sorted(os.listdir(os.path.join(corpus, "problem")))
    for name in problems:
        path = os.path.join(corpus, "problem", name)
        with open(path, "rb") as file:
            first = file.readline().decode("utf-8-sig").split("\r")[0].strip()
        kind, _, says = first.lstrip("# ").partition(": ")
        if kind == "says":
            refused(2, says, name, "plan", path, "--schedule", "1f1b")
            empty = os.path.join(corpus, "order", "good.csv")
            refused(2, says, name, "simulate", path, "--order", empty)
        elif kind == "no answer":
            refused(1, says, name, "plan", path, "--schedule", "1f1b")
        else:
            expect(kind == "makespan", f"{name}: its first line says what is to become of it")
            schedule, ms = says.split()
            code, printed, said = run("plan", path, "--schedule", schedule)
            expect(code == 0 and said == "", f"{name}: exit {code} {said}")
            got = re.search(r"makespan (\S+) ms", printed.decode())
            expect(got and abs(float(got[1]) - float(ms)) <= 1e-11 * float(ms) + 6e-4, f"{name}: makespan {got and got[1]}, by hand {ms}")  # printed to the us
    expect(len(problems) >= 150, f"{len(problems)} problems")


two = os.path.join(corpus, "order", "two.yaml")


def test_bad_orders_are_refused_and_good_ones_timed():
    orders = {
        "backward-first.csv": "backward-first.csv:1 | column | 1",
        "before-made.csv": "before-made.csv:1 | column | 1",
        "binary.csv": "binary.csv",
        "blank-line.csv": "blank-line.csv",
        "both-backwards.csv": "both-backwards.csv:1 | column",
        "deadlock.csv": "deadlock.csv:1 | column | 2 | deadlock",
        "empty.csv": "empty.csv",
        "extra-rank.csv": "extra-rank.csv:3",
        "hex.csv": "hex.csv:1 | column | 1 | '0x0F0'",
        "huge-microbatch.csv": "huge-microbatch.csv:1 | column | 2 | '0F99999999999999999999'",
        "huge-stage.csv": "huge-stage.csv:1 | column | 1 | '4294967296F0'",
        "in-one-cell.csv": "in-one-cell.csv:1 | column | 1 | '0F0 0F1 0B0 0B1'",
        "invalid-utf8.csv": "invalid-utf8.csv:1 | column | 2",
        "json.csv": "json.csv:2 | end of file expected",
        "lower-case.csv": "lower-case.csv:1 | column | 1 | '0f0'",
        "minus.csv": "minus.csv:1 | column | 1 | '0F-1'",
        "missing-backward.csv": "missing-backward.csv",
        "missing-rank.csv": "missing-rank.csv",
        "no-number.csv": "no-number.csv:1 | column | 1 | 'F0'",
        "nul-byte.csv": "nul-byte.csv",
        "nul-in-cell.csv": "nul-in-cell.csv",
        "other-rank.csv": "other-rank.csv:1 | column | 2 | '1F1'",
        "pair-half.csv": "pair-half.csv:2 | column | 3",
        "pair-of-three.csv": "pair-of-three.csv:2 | column | 2",
        "pair-open.csv": "pair-open.csv:2 | column",
        "problem.csv": "problem.csv:1 | column | 1",
        "receive-missing.csv": "receive-missing.csv",
        "receive-too-late.csv": "receive-too-late.csv:2 | column",
        "ring-of-sends.csv": "ring-of-sends.csv:1 | column | 4 | deadlock",
        "semicolons.csv": "semicolons.csv:1 | column | 1",
        "send-to-nobody.csv": "send-to-nobody.csv:2 | column",
        "send-twice.csv": "send-twice.csv:1 | column",
        "stage-2.csv": "stage-2.csv:1 | column | 1 | '2F0'",
        "swapped-receives.csv": "swapped-receives.csv",
        "tail.csv": "tail.csv:2 | column | 4",
        "three-microbatches.csv": "three-microbatches.csv:1 | column | 3 | '0F2'",
        "twice.csv": "twice.csv:2 | column",
        "unclosed-quote.csv": "unclosed-quote.csv:1 | column",
        "unit.csv": "unit.csv:1 | column | 2",
        "utf16.csv": "utf16.csv",
        "weights-first.csv": "weights-first.csv:1 | column",
        "weights-missing.csv": "weights-missing.csv",
    }
    accepted = {"crlf.csv": 9, "good.csv": 9, "idle-cells.csv": 9, "no-last-newline.csv": 9, "quoted.csv": 9, "spaces.csv": 9, "communication.csv": 9, "split.csv": 8}
    for name, says in orders.items():
        refused(2, says, name, "simulate", two, "--order", os.path.join(corpus, "order", name))
    for name, ms in accepted.items():
        code, printed, said = run("simulate", two, "--order", os.path.join(corpus, "order", name))
        expect(code == 0 and said == "" and f"makespan {ms} ms" in printed.decode(), f"{name}: exit {code} {said} {printed[:60]}")
    expect({*orders, *accepted, "two.yaml"} == set(os.listdir(os.path.join(corpus, "order"))), "every order is expected somehow")


def test_what_is_no_file_is_refused():
    refused(2, "read", "a directory", "plan", folder)
    refused(2, "read", "an absent file", "plan", os.path.join(folder, "absent.yaml"))
    refused(2, "empty", "/dev/null", "plan", "/dev/null")
    refused(2, "", "/dev/null as an order", "simulate", two, "--order", "/dev/null")
    refused(2, "", "a directory as an order", "simulate", two, "--order", folder)
    refused(2, "larger", "/dev/zero", "plan", "/dev/zero")
    os.symlink("loop", os.path.join(folder, "loop"))
    refused(2, "read", "a loop of links", "plan", os.path.join(folder, "loop"))
    os.mkfifo(os.path.join(folder, "fifo"))
    writer = threading.Thread(target=lambda: open(os.path.join(folder, "fifo"), "wb").close())
    writer.start()
    refused(2, "empty", "a FIFO with nothing", "plan", os.path.join(folder, "fifo"))
    writer.join()
    secret = put("secret.yaml", b"pipeline: {}\n")
    os.chmod(secret, 0)
    if os.geteuid() != 0:
        refused(2, "read", "an unreadable file", "plan", secret)
    refused(2, "empty", "standard input that is closed", "plan", "-", stdin=subprocess.DEVNULL)
    refused(2, "empty", "an empty file", "plan", put("empty.yaml", b""))
    refused(2, "empty", "only a comment", "plan", put("comment.yaml", b"# nothing\n"))
    refused(2, "empty", "only a byte order mark", "plan", put("mark.yaml", b"\xef\xbb\xbf"))
    refused(2, "line.yaml:1", "a name that is a line", "plan", put("two\nline.yaml", b"pipeline: 3\n"))


def test_large_problems_stay_bounded():
    head = b"pipeline:\n  ranks: 2\n  microbatches: 2\n"
    times = b"  times_ms: {F: 1, I: 1, W: 1}\n"
    large = {
        "a list of 10,000": (b"  times_ms: {F: [" + b"1, " * 10000 + b"1], I: 1, W: 1}\n", "large.yaml:4 | 'F' | list | 2 | 10001"),
        "10,000 links": (times + b"  links:\n    list:\n" + b"      - {between: [0, 1]}\n" * 10000 + b"      - {between: [0, 2]}\n", "large.yaml:10007 | 'between' | 0 | 1"),
        "10,000 wires": (times + b"  links: {shared: [" + b"{name: a, links: []}, " * 10000 + b"]}\n", "large.yaml:5 | 'shared' | 10000 | 4096"),
        "100,000 keys": (times + b"".join(b"  k%d: 1\n" % i for i in range(100000)), "map | 4096"),
        "a key of 1 MB": (times + b"  ? " + b"k" * 1000000 + b"\n  : 1\n", "large.yaml:5"),
        "a value of 1 MB": (times + b"  placement: " + b"v" * 1000000 + b"\n", "large.yaml:5 | 'placement' | linear | loop | wave | bidirectional"),
        "a number of 1 MB": (b"  times_ms: {F: " + b"9" * 1000000 + b", I: 1, W: 1}\n", "large.yaml:4 | 'F'"),
        "a million brackets": (b"  times_ms: " + b"[" * 1000000 + b"\n", "large.yaml:4 | 64"),
        "a million braces": (b"  times_ms: " + b"{" * 1000000 + b"\n", "large.yaml:4"),
        "a million dashes": (b"  times_ms:\n    " + b"- " * 1000000 + b"\n", "large.yaml:5 | 64"),
        "a million question marks": (b"  times_ms:\n    " + b"? " * 1000000 + b"\n", "large.yaml:5"),
        "a million anchors": (b"  queue: " + b"&a " * 100000 + b"1\n", "large.yaml:4"),
        "10 MB of blanks": (b" " * 10000000 + b"x\n", "large.yaml"),
        "10 MB of newlines": (b"\n" * 10000000 + b"  x: 1\n", "large.yaml:10000004 | 'x'"),
        "half a million items": (times + b"  recompute: [" + b"false, " * 500000 + b"false]\n", "large.yaml:5 | 'recompute' | list | 2 | 500001"),
        "many values": (times + b"  recompute: [" + b"a," * 11000000 + b"a]\n", ""),
    }
    for what, (tail, says) in large.items():
        if says:
            refused(2, says, what, "plan", put("large.yaml", head + tail))
        else:  # the last may meet the limit of memory first
            got, printed, said = run("plan", put("large.yaml", head + tail), "-o", output)
            expect(got in (1, 2) and printed == b"" and said.count("\n") == 1, f"{what}: exit {got} {said[:200]}")


def test_large_orders_stay_bounded():
    refused(2, "large.csv:1 | column | 1", "a cell of 1 MB", "simulate", two, "--order", put("large.csv", b"0F" + b"0" * 1000000 + b"1x,0F1\n1F0\n"))
    refused(2, "", "a million empty cells, no ops", "simulate", two, "--order", put("large.csv", b"," * 1000000 + b"\n,\n"))
    refused(2, "", "100,000 ops on a rank", "simulate", two, "--order", put("large.csv", b"0F0," * 100000 + b"\n1F0\n"))
    refused(2, "", "100,000 lines", "simulate", two, "--order", put("large.csv", b"\n" * 100000))
    deep = ".".join(["a"] * 30000)
    refused(2, "64", "a --set with 30,000 parts", "plan", two, "--set", f"pipeline.{deep}=1")


numbers = ["-1", "0", "1e400", "-1e400", ".nan", "nan", ".inf", "0x10", "010", "1e308", "99999999999999999999", "-9223372036854775808", "1e-400", "true", "null", "~", "", "[]", "{}", "[1]",
           "[[1]]", "'1'", "2", "65536", "4096", "1e6", "1e15", "!!int 3", "&a 3", "*a", "0.1", "3.5", "\u0663", "1 2", "1_0", "-", "?", "<<"]


def damaged(text, csv):
    at, other = random.randrange(len(text) + 1), random.randrange(len(text))
    kind = random.randrange(9)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:other] + bytes([text[other] ^ 1 << random.randrange(8)]) + text[other + 1:]
    if kind == 2:
        return text[:at] + bytes(random.choices(range(256), k=random.randint(1, 8))) + text[at:]
    lines = text.split(b"\n")
    line = random.randrange(len(lines))
    if kind == 3:
        return b"\n".join(lines[:line + 1] + lines[line:])  # a key twice
    if kind == 4:
        return b"\n".join(lines[:line] + lines[line + 1:])
    if kind == 5:
        return b"\n".join(lines[:line] + [random.choice([b"---", b"...", b"- ", b"\t", b"%YAML 1.1", b"? ", b": 1", b"  <<: *a", b"\xef\xbb\xbf", b"  x: !!binary aGk="])] + lines[line:])
    values, keys = list(re.finditer(rb"(?<=[ \[])[0-9][0-9.e]*", text)), list(re.finditer(rb"\b[A-Za-z_]+(?=:)", text))
    if kind == 6 and values and not csv:
        spot = random.choice(values)
        return text[:spot.start()] + random.choice(numbers).encode() + text[spot.end():]
    if kind == 7 and keys and not csv:
        spot, other = random.choice(keys), random.choice(keys)
        return text[:spot.start()] + other[0] + text[spot.end():]
    return text[:at] + text[other:other + 40] + text[at:]


def test_damaged_files_never_crash_or_hang():
    seeds = {name: open(os.path.join(source, "examples", name), "rb").read() for name in os.listdir(os.path.join(source, "examples")) if name.endswith(".yaml")}
    seeds = [text for text in seeds.values() if re.search(rb"^pipeline:", text, re.M)]
    order = open(os.path.join(corpus, "order", "communication.csv"), "rb").read()

    for _ in range(rounds):
        text = random.choice(seeds)
        for _ in range(random.randint(1, 3)):
            text = damaged(text, False) or b"\n"
        path = put("damaged.yaml", text)
        # whatever it became, it has a small shape or is refused for it
        code, printed, said = run("plan", path, "--schedule", "gpipe", "--time-limit", "0.1", "-o", output)
        expect(code in (0, 1, 2), f"exit {code} {said} of {text!r}")
        if code == 0:
            expect(said == "" and os.path.exists(output), f"planned without a word {said!r}")
            os.remove(output)
        else:
            expect(said.startswith("slackline: ") and said.count("\n") == 1 and printed == b"" and not os.path.exists(output), f"{said!r} of {text!r}")
        text = order
        for _ in range(random.randint(1, 3)):
            text = damaged(text, True) or b"\n"
        code, printed, said = run("simulate", two, "--order", put("damaged.csv", text))
        expect(code == 0 and said == "" or code == 2 and said.startswith("slackline: ") and said.count("\n") == 1 and printed == b"", f"exit {code} {said} of {text!r}")
