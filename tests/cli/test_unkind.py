# labels: long
"""Whatever is typed wrong, of any subcommand: the exit code is not 0, standard error is one clear line, nothing is printed, nothing
is left behind, and nothing crashes or hangs. Every option that --help names is tried with each wrong value; the files are those
that editors, shells and accidents make."""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

from calling import command, folder, problem, run, write
from runner import expect, missing, source

sys.path.append(os.path.join(os.path.abspath(source), "tests", "explain"))
from hybrid_job import Job, chrome, save  # noqa: E402

command = os.path.abspath(command)
examples = os.path.join(os.path.abspath(source), "examples")
problem = os.path.join(examples, "four-ranks.yaml")
place = os.path.join(folder, "place")  # where commands run: it must stay empty
os.mkdir(place)


def call(words, text=None, **more):
    try:
        return subprocess.run([command, *words], input=text, capture_output=True, timeout=60, cwd=place, **more)
    except subprocess.TimeoutExpired:
        expect(False, f"{words}: no end within a minute")
        return subprocess.CompletedProcess(words, 99, b"", b"")


def is_one_line(error):
    return error.startswith(b"slackline: ") and error.count(b"\n") == 1 and len(error) > 20 and not re.search(rb"[\x00-\x09\x0b-\x1f]", error)


def nothing_left(words):
    left = os.listdir(place)
    expect(not left, f"{words}: left behind {left}")
    for name in left:
        path = os.path.join(place, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def refuse(words, says=None, code=None, text=None, **more):
    """Wrong for certain."""
    done = call(words, text, **more)
    expect(done.returncode in ((1, 2) if code is None else (code,)), f"{words}: exit {done.returncode} {done.stderr[:200]!r}")
    expect(is_one_line(done.stderr), f"{words}: not one clear line: {done.stderr[:300]!r}")
    expect(done.stdout == b"", f"{words}: printed {done.stdout[:80]!r}")
    expect(says is None or not missing(done.stderr.decode(errors="replace"), says), f"{words}: {done.stderr!r} does not say {says!r}")
    nothing_left(words)
    return done.stderr.decode(errors="replace")


def survive(words, text=None):
    """May be right or wrong, but is told which."""
    done = call(words, text)
    if done.returncode == 0:
        return
    expect(done.returncode in (1, 2) and is_one_line(done.stderr) and done.stdout == b"", f"{words}: exit {done.returncode}, {done.stderr[:300]!r}, printed {done.stdout[:80]!r}")
    nothing_left(words)


order = write("order.csv", run("plan", problem, "--schedule", "1f1b", "--format", "csv").stdout)
trace = write("trace.json", run("plan", problem, "--schedule", "1f1b", "--format", "trace").stdout)
planned = write("plan.json", run("plan", problem, "--schedule", "1f1b", "--format", "json").stdout)
job_trace = save(os.path.join(folder, "job.json"), chrome(Job()))
series = write("series.csv", "time_ms\n" + "10\n" * 40 + "20\n" * 40)
RUN = """model: {kind: gpt2, layers: 4, width: 8, heads: 2, context: 8}
data: {files: ["/usr/share/common-licenses/*"], seed: 1}
parallel: {pipeline: 2}
batch: {microbatches: 2, size: 1}
optimizer: {kind: adamw, lr: 2e-3, clip: 1.0}
iterations: 1
"""
runfile = write("run.yaml", RUN)
short = ["--time-limit", "0"]
works = {
    "plan": ["plan", problem, *short],
    "simulate": ["simulate", problem, "--order", order],
    "check": ["check", order, problem],
    "compare": ["compare", problem, "--schedules", "1f1b,gpipe", *short],
    "import": ["import", trace, *short],
    "balance": ["balance", "--microbatches", "20", "--times", "30,45"],
    "detect": ["detect", series],
    "choose": ["choose", os.path.join(examples, "model-70b.yaml"), os.path.join(examples, "cluster-1024.yaml"), "--fix", "tensor=8", "--fix", "data=128", *short],
    "topology": ["topology", os.path.join(examples, "cluster.yaml"), "--effort", "0.01"],
    "campaign": ["campaign", os.path.join(examples, "campaign.yaml"), "--problem", problem, "--set", "job.duration_s=3000"],
    "explain": ["explain", job_trace],
    "draw": ["draw", problem, "--schedule", "1f1b"],
    "completion": ["completion", "bash"],
    "man": ["man", "plan"],
}
# These start programs, serve until they are ended, or write: only what they must refuse is tried.
refusing = {"demo": ["demo"], "train": ["train", runfile], "watch": ["watch"], "healthcheck": ["healthcheck"], "report": ["report", place], "dashboard": ["dashboard"], "doctor": ["doctor"]}
told = set(re.findall(r"^  (\w+) +\S", run("--help").stdout, re.M))


def test_what_is_tried_works():
    expect(told == set(works) | set(refusing), f"every subcommand is tried: {told ^ (set(works) | set(refusing))}")
    for name, words in works.items():
        done = call(words)
        expect(done.returncode == 0 and done.stderr == b"", f"{words}: {done.returncode} {done.stderr!r}")
        nothing_left(words)


def test_every_option_refuses_wrong_values():
    options = {}
    for name in told:
        text = run(name, "--help").stdout
        options[name] = {option: bool(value) for option, value in re.findall(r"^  (?:-\w, |     ?)?(--[a-z][\w-]*)(?: (\S+))?", text, re.M)}
        expect(text.startswith("Usage: slackline " + name) and "Example: " in text, f"{name}: help")
    expect(sum(map(len, options.values())) > 90, f"options are found in the help: {sum(map(len, options.values()))}")
    wrong = ["", " ", "x", "-1", "-0.5", "0", "1.5", "1e999", "nan", "-nan", "inf", "-inf", "99999999999999999999", "0x10", "1,", ",", ",,", "1;2", "\u00e9", "a" * 5000, "=", "a=", "=1", "%s%n",
             "/nonexistent/x", folder, "/dev/null", "-", "--", "\n", "1\n2", "\x1b[31m"]
    writes = {"--out", "--output", "--svg"}  # a place; tried below
    for name, words in {**works, **refusing}.items():
        for option, takes in options[name].items():
            if option == "--help":
                continue
            if (name, option) == ("import", "--order"):
                continue  # an output, too
            if takes:
                refuse([*words, option], "missing", 2)
                if name in works and option not in writes:
                    for value in wrong:
                        survive([*words, option, value], text="")
                        if option == "--microbatches":
                            continue
                    survive([*words, f"{option}="], text="")
                    if option not in ("--order", "--profile", "--problem", "--map", "--title", "--sweep"):
                        survive([*words, option, "x", option, "x"], text="")
            else:
                refuse([*words, option + "=5"], None, 2)
            misspelt = option + "q"
            refuse([*words, misspelt], None, 2)
        refuse([*words, "--nonsense"], "--nonsense", 2)
        refuse([*words, "-Z"], "-Z", 2)
        refuse([*words, "--nonsense", "--help"], "--nonsense", 2)
        refuse([name, "--" + "a" * 3000], None, 2)


def test_wrong_commands_are_refused():
    for words in ([], ["pln"], ["Plan"], ["plan "], [""], ["-"], ["--"], ["--verson"], ["-x"], ["help", "pln"], ["\n"], ["\x1b[2J"], ["a" * 5000]):
        if words:
            refuse(words, None, 2)
    done = call([])
    expect(done.returncode == 2 and done.stdout == b"" and b"Usage: slackline COMMAND" in done.stderr, "without a command: how it is called")
    refuse(["simulat", problem], "'simulate'", 2)
    for name in works:
        if name not in ("balance", "man"):
            refuse([name], None, 2)
        if name not in ("balance", "draw", "import"):
            refuse([*works[name], "one", "two"], None, 2)


def raw(name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def reads(path):
    """The subcommands with `path` where their file is."""
    return [["plan", path], ["simulate", path, "--order", order], ["simulate", problem, "--order", path], ["check", path], ["check", path, problem], ["check", order, path], ["compare", path], ["import", path], ["balance", "--microbatches", "4", "--problem", path],
            ["balance", "--microbatches", "4", "--times", "@" + path], ["detect", path], ["topology", path], ["topology", os.path.join(examples, "cluster.yaml"), "--profile", path],
            ["campaign", path, "--problem", problem], ["campaign", os.path.join(examples, "campaign.yaml"), "--problem", path], ["draw", path], ["draw", problem, "--order", path], ["train", path], ["report", path],
            ["healthcheck", "--links", path], ["healthcheck", "--expect", path], ["dashboard", "--listen", "127.0.0.1:0", "--token", "@" + path]]


secret = write("secret.yaml", open(problem).read())


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def reached_by_nobody():
    """Not if the tree is in a home that is closed to others, as root's is."""
    try:
        return call(["--version"], preexec_fn=as_nobody).returncode == 0
    except OSError:
        return False


def test_every_state_of_a_file_is_refused_or_read():
    os.chmod(secret, 0o000)
    looped = os.path.join(folder, "looped")
    os.symlink("looped", looped)
    dangling = os.path.join(folder, "dangling")
    os.symlink("nowhere", dangling)
    bad = {"absent": os.path.join(folder, "absent"), "a folder": place, "empty": raw("empty", b""), "blank": raw("blank", b"\n \n\n"), "zeros": raw("zeros", bytes(300)), "random bytes": raw("bytes", bytes(range(256)) * 4),
           "a loop": looped, "a dangling link": dangling, "a long name": "n" * 4000, "tabs": raw("tabs", b"pipeline:\n\tranks: 4\n\tmicrobatches: 4\n"), "not UTF-8": raw("latin", b"pipeline: {ranks: 4, \xe9: 2}\n"),
           "a half": raw("half", open(problem, "rb").read()[:60]), "a list": raw("list", b"- 1\n- 2\n"), "a scalar": raw("scalar", b"42\n"), "JSON": raw("some.json", b'{"a": [1, 2, {"b": null}]}'),
           "a name that is no key": raw("other.yaml", b"pipelin: {ranks: 4}\n")}
    for what, path in bad.items():
        for words in reads(path):
            if (words[0], what) == ("report", "a folder"):
                refuse(words, "metrics.jsonl", None)
            elif what == "a scalar" and ("--times" in words or words[0] == "detect"):
                survive(words)
            else:
                refuse(words)


def test_what_may_not_be_read_is_refused():
    if os.geteuid() == 0 and os.access(place, os.X_OK) and reached_by_nobody():
        os.chmod(folder, 0o755)
        os.chmod(place, 0o755)
        for words in reads(secret):
            refuse(words, None, None, preexec_fn=as_nobody)
        for words in (["plan", problem, "-o", "/proc/x"], ["plan", problem, "-o", os.path.join(place, "no.json")], ["compare", problem, "--schedules", "1f1b", "-o", os.path.join(place, "no.csv")],
                      ["import", trace, *short, "-o", os.path.join(place, "no.yaml")], ["draw", problem, "--schedule", "1f1b", "-o", os.path.join(place, "no.svg")], ["man", "--out", os.path.join(place, "no")],
                      ["train", runfile, "-o", os.path.join(place, "no")], ["campaign", works["campaign"][1], "--problem", problem, "-o", os.path.join(place, "no.txt")]):
            refuse(words, None, None, preexec_fn=as_nobody)
    else:
        print("not root, or the build cannot be reached by others: files that may not be read or written not tried")


# A device that never ends is not read into all memory. Of the limit, half is what the largest file may need.
def with_little():
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def test_endless_input_is_not_read_into_memory():
    if os.path.exists("/dev/zero"):
        for words in reads("/dev/zero"):
            refuse(words, None, 2, preexec_fn=with_little)
    refuse(["detect", "-"], "16 | MiB", 2, text=b"1" * (17 << 20))


# What editors make of a good file changes nothing.
def text_of(words):
    done = call(words)
    expect(done.returncode == 0, f"{words}: {done.returncode} {done.stderr!r}")
    return re.sub(rb'"solve_ms": ?[0-9.e-]*', b"", done.stdout)


def test_what_editors_change_changes_nothing():
    kinds = {"problem": (problem, lambda path: ["plan", path, "--schedule", "1f1b", "--format", "json"]), "order": (order, lambda path: ["simulate", problem, "--order", path, "--format", "json"]),
             "trace": (trace, lambda path: ["import", path, *short, "--format", "json"]), "series": (series, lambda path: ["detect", path, "--format", "json"]),
             "cluster": (os.path.join(examples, "cluster.yaml"), lambda path: ["topology", path, "--effort", "0.01"]),
             "campaign": (os.path.join(examples, "campaign.yaml"), lambda path: ["campaign", path, "--problem", problem, "--set", "job.duration_s=3000"])}
    for what, (path, words) in kinds.items():
        good, expected = open(path, "rb").read(), text_of(words(path))
        expect(text_of(words(raw("crlf", good.replace(b"\n", b"\r\n")))) == expected, f"{what}: lines that end with CR LF")
        expect(text_of(words(raw("mark", b"\xef\xbb\xbf" + good))) == expected, f"{what}: a byte order mark")
        expect(text_of(words(raw("unended", good.rstrip(b"\n")))) == expected, f"{what}: no end of the last line")


def test_numbers_that_are_none_are_refused():
    for number in (".nan", ".inf", "-.inf", "nan", "inf", "NaN", "1e999", "-1", "''", "[]", "{}", "null", "~", "yes", "0x1F", "1_000", "1e-999x", "9" * 400):
        for key in ("pipeline.times_ms.F", "pipeline.ranks", "pipeline.microbatches", "pipeline.links.default.latency_ms", "pipeline.memory.limit"):
            if number in ("1_000", "0x1F", ".inf", "9" * 400) and key == "pipeline.memory.limit":
                continue
            if key == "pipeline.memory.limit" and number in ("-1", "null", "~", "inf", "1e999"):
                survive(["plan", problem, *short, "--set", f"{key}={number}"])
            else:
                refuse(["plan", problem, *short, "--set", f"{key}={number}"], None)
        for words in (["topology", works["topology"][1], "--set", f"links.list.0.bandwidth_gbps={number}"], ["campaign", works["campaign"][1], "--problem", problem, "--set", f"job.iterations={number}"],
                      ["train", runfile, "--set", f"iterations={number}"], ["train", runfile, "--set", f"optimizer.lr={number}"]):
            if not (number in ("1_000", "0x1F")):
                refuse(words)
        refuse(["balance", "--microbatches", "4", "--times", f"1,{number}"] if number not in ("''",) else ["balance", "--microbatches", "4", "--times", "1,"])
        refuse(["detect", write("numbers.csv", f"time_ms\n1\n{number}\n")]) if number not in ("-1",) else None
    for key in ("pipeline.rank", "ranks", "pipelin.ranks", "pipeline..ranks", ".", "pipeline.", "pipeline.times_ms.F.0.0", "pipeline.links.list.99.latency_ms"):
        refuse(["plan", problem, *short, "--set", f"{key}=1"], None, 2)


def test_a_full_standard_output_is_an_error():
    full = "/dev/full"
    if os.path.exists(full):
        for name, words in works.items():
            with open(full, "wb") as out:
                done = subprocess.run([command, *words], stdout=out, stderr=subprocess.PIPE, cwd=place, timeout=60)
            expect(done.returncode == 1 and is_one_line(done.stderr), f"{words} > /dev/full: exit {done.returncode}, {done.stderr!r}")
            done = subprocess.run([command, name, "--help"], stdout=open(full, "wb"), stderr=subprocess.PIPE, cwd=place, timeout=60)
            expect(done.returncode == 1 and is_one_line(done.stderr), f"{name} --help > /dev/full: exit {done.returncode}, {done.stderr!r}")
        for words in (["--help"], ["--version"]):
            done = subprocess.run([command, *words], stdout=open(full, "wb"), stderr=subprocess.PIPE, cwd=place, timeout=60)
            expect(done.returncode == 1 and is_one_line(done.stderr), f"{words} > /dev/full: exit {done.returncode}, {done.stderr!r}")
        for words in (["plan", problem, "--schedule", "1f1b"], ["compare", problem, "--schedules", "1f1b"], works["campaign"], ["draw", problem, "--schedule", "1f1b"], works["import"]):
            refuse([*words, "-o", full], None, 1)


def test_closed_files_are_an_error():
    for name, words in works.items():
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", command, *words], stderr=subprocess.PIPE, cwd=place, timeout=60)
        expect(done.returncode == 1 and is_one_line(done.stderr), f"{words} >&-: exit {done.returncode}, {done.stderr!r}")
        nothing_left(words)
        done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", command, *words], stdout=subprocess.PIPE, cwd=place, timeout=60)
        expect(done.returncode == 0, f"{words} 2>&-: exit {done.returncode}")
        done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place, timeout=60)
        expect(done.returncode == 0 and done.stderr == b"", f"{words} <&-: exit {done.returncode} {done.stderr!r}")
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", command, *words], cwd=place, timeout=60)
        expect(done.returncode == 1, f"{words} <&- >&- 2>&-: exit {done.returncode}")
        # a reader that has gone: ended by SIGPIPE, or an error of one line; no crash
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([command, *words], stdout=writer, stderr=subprocess.PIPE, cwd=place, timeout=60, restore_signals=True)
        os.close(writer)
        expect(done.returncode == -signal.SIGPIPE and done.stderr == b"" or done.returncode == 1 and is_one_line(done.stderr), f"{words} into nothing: exit {done.returncode}, {done.stderr!r}")
        nothing_left(words)


def test_output_that_cannot_be_written_is_an_error():
    os.mkdir(os.path.join(folder, "there"))
    for out in (os.path.join(folder, "there"), os.path.join(folder, "absent", "x"), os.path.join(problem, "x"), "", "n" * 300, os.path.join(folder, "x" * 5000)):
        for words in (["plan", problem, "--schedule", "1f1b"], ["compare", problem, "--schedules", "1f1b"], works["simulate"], works["campaign"], ["draw", problem, "--schedule", "1f1b"], works["import"], [*works["import"], "--order"]):
            refuse([*words, *([] if words[-1] == "--order" else ["-o"]), out])
        if out and not out.endswith("there"):
            refuse(["man", "--out", out if "absent" not in out else problem + "/x"])
            refuse(["train", runfile, "-o", out if "absent" not in out else problem + "/x"])


def test_contradictions_are_refused():
    # A disk that is full: what was there before is still there, and nothing else.
    kept = write("there/kept.svg", "before")
    for ignored in (signal.SIG_IGN, signal.SIG_DFL):
        done = call(["draw", problem, "--schedule", "1f1b", "-o", kept], preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)), signal.signal(signal.SIGXFSZ, ignored)))
        expect(done.returncode == 1 and is_one_line(done.stderr) and open(kept).read() == "before" and os.listdir(os.path.dirname(kept)) == ["kept.svg"], f"a limit of file size: {done.returncode} {done.stderr!r} {os.listdir(os.path.dirname(kept))}")

    for words in (["balance", "--microbatches", "4", "--times", "1,2", "--schedule", "1f1b"], ["draw", problem, "--what", "gantt,iterations"], ["draw", problem, "--from", "5", "--to", "1"], ["draw", problem, "--sweep", "pipeline.microbatches=4:8:4"],
                  ["draw", planned, "--order", order], ["draw", planned, "--set", "pipeline.ranks=2"], ["import", trace, "-o", "-", "--order", "-"], ["simulate", problem], ["dashboard", place, "--redis", "unix:/x"],
                  ["watch", "--"], ["healthcheck", "--only", "devices", "--links", "0-1"], ["healthcheck", "--only", "devices", "--topology", "all"], ["healthcheck", "--links", "0-1", "--topology", "all"], ["campaign", works["campaign"][1]]):
        refuse(words, None, 2)
