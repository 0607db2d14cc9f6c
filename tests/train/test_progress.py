# labels: long calm
"""What a run shows while it goes on: under a pseudo terminal one line in its place, never wider than the terminal as it is
then, with events above it; through a pipe plain lines. What a terminal would show is drawn here from the bytes."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
from runner import build, folder, has_facts, source
from training import arguments


RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 32}
data: {files: ["%s/docs/*.md"], seed: 5}
parallel: {pipeline: 3}
batch: {microbatches: 6, size: 1}
iterations: 14
schedule: adaptra
adaptation: {hold: 2, dwell: 3}
device: {pace_ms: {F: 6, I: 6, W: 6}}
faults: [{iterations: [4, 11], link: [1, 2], latency_ms: 40}]
""" % source

file = os.path.join(folder, "run.yaml")
with open(file, "w") as text:
    text.write(RUN)


def size(file, columns):
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def under_terminal(words, columns, environment=None, narrower=None):
    """Exit code and all bytes; `narrower`: the width from the third line of progress on."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm"} | (environment or {}))
        time.sleep(0.2)  # until the width is set
        os.execv(words[0], words)
    size(master, columns)
    seen, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
        if narrower and seen.count(b"loss") >= 3:
            size(master, narrower)
            narrower = None
    else:
        os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"still there: {seen[-500:]}")
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def frames(text):
    """The lines of progress as they were drawn, without escapes."""
    bare = re.sub(r"\x1b\[[0-9;]*[mK]", "", text)
    return [frame for frame in re.split(r"[\r\n]+", bare) if re.match(r"\d+/\d+ ", frame)]


def screen(text, columns):
    """What stands on an endless screen at the end."""
    rows, column, at = [""], 0, 0
    while at < len(text):
        escape = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])").match(text, at)
        if escape:
            assert escape.group(2) in "mK", escape.group(0)
            if escape.group(2) == "K":
                rows[-1] = rows[-1][:column]
            at = escape.end()
            continue
        character = text[at]
        at += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            rows.append("")
            column = 0
        else:
            if column == columns:
                rows.append("")
                column = 0
            rows[-1] = rows[-1][:column].ljust(column) + character + rows[-1][column + 1:]
            column += 1
    return rows


def words(name, *settings):
    return arguments(build, file, os.path.join(folder, name), settings)


def test_a_wide_terminal_shows_everything_in_one_line():
    # a wide terminal: everything, once an iteration, in place; events stay above
    code, text = under_terminal(words("wide"), 160)
    assert code == 0, text
    drawn = frames(text)
    assert [f.split("/")[0] for f in dict.fromkeys(drawn)] == [str(i + 1) for i in range(14)], drawn
    assert all(len(frame) < 160 for frame in drawn)
    for part in (r"14/14 ", r"loss \d\.\d{4}", r"\d tok/s", r"[\d.]+ ms", r"\(plan [\d.]+\)", r"adaptra|\w+ \(adapted\)", "ranks ok", r"\d:\d\d left"):
        assert re.search(part, drawn[-1]), (part, drawn[-1])
    # from the second slow iteration at the latest to the second one that is not
    slow = {int(frame.split("/")[0]) - 1 for frame in drawn if "links 1-2 +" in frame}
    assert set(range(5, 11)) <= slow <= set(range(4, 12)), slow
    # a busy machine may slow others, too; most frames show this one alone
    named = [has_facts(frame, "links 1-2 +40 ms; ranks ok") for frame in drawn if 5 < int(frame.split("/")[0]) - 1 < 11]
    assert 2 * sum(named) > len(named), drawn
    assert "\x1b[1m" in text and "\x1b[33m" in text and "\x1b[32m" in text
    rows = screen(text, 160)
    assert sum(row.startswith(("1/14", "2/14", "13/14", "14/14")) for row in rows) == 1, "\n".join(rows)
    onset = next(i for i, row in enumerate(rows) if re.match("iteration    [45]  onset: link 1-2", row))  # others are the machine's
    assert onset < next(i for i, row in enumerate(rows) if row.startswith("14/14")), "\n".join(rows)
    assert any(row.startswith("weights_hash ") for row in rows) and rows[0].startswith("slackline: 3 pipeline ranks")
    print("\n".join(row for row in rows[:8]))


def test_a_narrow_terminal_is_never_exceeded():
    # a narrow one keeps to its width, and to a narrower one from the moment that it is
    code, text = under_terminal(words("narrow"), 80)
    drawn = frames(text)
    assert code == 0 and all(len(frame) < 80 for frame in drawn) and has_facts(text, "links 1-2 +40 ms; ranks ok"), drawn
    assert sum(row.startswith("14/14") for row in screen(text, 80)) == 1
    code, text = under_terminal(words("narrower"), 120, narrower=44)
    drawn = frames(text)
    assert code == 0 and max(map(len, drawn)) >= 44 and all(len(frame) < 44 for frame in drawn[6:]), drawn


def test_no_color_dumb_terminals_and_pipes_are_obeyed():
    # NO_COLOR; a dumb terminal and a pipe get plain lines
    code, text = under_terminal(words("grey"), 120, {"NO_COLOR": "1"})
    assert code == 0 and len(frames(text)) >= 14 and set(re.findall(r"\x1b\[[0-9;]*[A-Za-z]", text)) == {"\x1b[K"}
    plain = subprocess.run(words("piped"), capture_output=True, text=True, timeout=120)
    dumb = under_terminal(words("dumb"), 120, {"TERM": "dumb"})[1].replace("\r\n", "\n")
    for text in (plain.stdout, dumb):
        assert "\x1b" not in text and "\r" not in text and not frames(text), text
        told = [int(m) for m in re.findall(r"^iteration +(\d+)  loss", text, re.M)]
        assert {0, 10, 13} <= set(told) and len(told) < 10, told  # each tenth, the last, and where the phase changed
        assert re.search(r"^iteration    [456]  loss .*  links 1-2 \+40 ms; ranks ok$", text, re.M), text


def test_a_dead_rank_and_a_restart_leave_whole_lines():
    # a rank that dies leaves no half of a line before what is said about it
    code, text = under_terminal(words("killed", "faults=[{iteration: 3, kill: 1}]", "iterations=40"), 100)
    rows = screen(text, 100)
    assert code == 1 and any(row.startswith("slackline: rank 1") for row in rows), rows
    # a restart is told above the line that goes on
    code, text = under_terminal(words("again", "faults=[{iteration: 5, kill: 1}]", "checkpoint={every: 2, keep: 2}", "restarts=1"), 120)
    rows = screen(text, 120)
    told = [row for row in rows if "restart 1 of 1" in row]
    assert code == 0 and len(told) == 1 and told[0].startswith("slackline: rank 1"), rows
    assert rows.index(told[0]) < next(i for i, row in enumerate(rows) if row.startswith("14/14")), rows
