#!/usr/bin/env python3
"""Runs the README's two commands and every command and promise of the README on a fresh Debian, and installs the Debian package on
another fresh system. Reports results and times.

    python3 bench/fresh/run.py --write docs/results/evidence/fresh-install.md

Needs root, and a network or a mirror: packages come from this system's apt sources (--mirror URL for another), Python packages
from pip's settings (PIP_INDEX_URL, PIP_FIND_LINKS, /etc/pip.conf). Tests the committed tree. --without-tests leaves out
tools/test."""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.dirname(here)]
import readme  # noqa: E402
import sentences as readme_text  # noqa: E402
from page import finish, machine, source, table  # noqa: E402
from sentences import holds  # noqa: E402
from system import System, missing  # noqa: E402

WHERE = "/root/slackline"


def clone(system):
    subprocess.run(["git", "clone", "-q", source, system.folder + WHERE], check=True)


def transcript(lines, most=60):
    shown = [f"{seconds:6.0f} s  {line}" for seconds, line in lines]
    return shown if len(shown) <= most else shown[:most // 2] + ["          ..."] + shown[-(most - most // 2):]


def silence(lines, seconds):
    """The longest time without a line of output."""
    times = [0, *[at for at, _ in lines], seconds]
    return max(b - a for a, b in zip(times, times[1:]))


def two_commands(system, arguments):
    rows, body, results, transcripts = [], [], {}, {}
    for command in ["tools/try"] + ([] if arguments.without_tests else ["tools/test"]):
        code, lines, seconds = system.run(command, WHERE)
        results[command], transcripts[command] = code, ([line for _, line in lines], seconds)
        last = next((line for _, line in reversed(lines) if line.strip()), "")
        rows.append((f"`{command}`", f"{seconds:.0f} s", f"{silence(lines, seconds):.0f} s", "done" if code == 0 else f"**exit {code}**", last))
        body += [f"`{command}`:", "", "```", *transcript(lines), "```", ""]
    return results, transcripts, "\n".join([table(["command", "time", "longest silence", "result", "last line"], rows), *body])


def cell(text, most=150):
    text = readme_text.flat(text).replace("|", "\\|")
    return text if len(text) <= most else text[:most - 2].rstrip("\\") + " …"


def tried(system, command, pattern=None):
    """Runs a command. Returns whether it succeeded, its seconds, and its output: the match of the pattern, or the last line."""
    code, lines, seconds = system.run(command, WHERE, show=False)
    output = "\n".join(line for _, line in lines)
    match = re.search(pattern, output, re.M) if pattern else None
    good = code == 0 and (pattern is None or match is not None)
    last = next((line.strip() for _, line in reversed(lines) if line.strip()), "")
    print(f"{'ok    ' if good else 'FAILED'} {seconds:6.1f} s  {command}" + ("" if good else f"\n{output[-6000:]}\n-- exit {code}, wanted {pattern}"), file=sys.stderr, flush=True)
    return good, seconds, cell(match.group() if match and match.group().strip() else last, 100)


def say(good):
    return "yes" if good else "**no**"


def outcomes(output):
    """{test: (passed, seconds)} from ctest's output."""
    found = re.findall(r"Test +#\d+: (\S+) \.*(?: +(Passed)|\*+\w[^\n]*?) +([\d.]+) sec", output)
    return {name: (passed == "Passed", float(seconds)) for name, passed, seconds in found}


def run_tests(system, names):
    """Runs the tests that tools/test leaves out, several simultaneously, and installs their dependencies first."""
    good, seconds, last = tried(system, readme.ENVIRONMENT)
    results, again = {}, set()
    for at_once in ("$(($(nproc) + 2))", "1"): # a test that fails next to the others runs once more, alone, and the page says so
        choice = "^(" + "|".join(sorted(again or names)) + ")$"
        code, lines, seconds = system.run(f"ctest --test-dir build --output-on-failure --timeout 300 -j {at_once} -R '{choice}'", WHERE)
        results.update(outcomes("\n".join(line for _, line in lines)))
        again = again or {name for name in names if not results.get(name, (False,))[0]}
        if not again:
            break
    return results, again


def one_try(system, kind, said, transcripts, results, taken):
    """(method, details, output, whether the statement is true; None: not tested here)"""
    if kind == "run":
        good, seconds, printed = taken[said]
        return f"`{cell(said[0])}`", f"run here, {seconds:.1f} s", printed, good
    if kind == "said":
        match = re.search(said[1], "\n".join(transcripts.get(said[0], ([], 0))[0]), re.M)
        return f"`{said[0]}`", "its output above", cell(match.group(), 100) if match else "", match is not None
    if kind == "time":
        seconds = sum(seconds for _, seconds in transcripts.values())
        return "both commands", "above", f"{seconds:.0f} s", seconds < said[0]
    if kind == "page":
        lacks = holds(source, *said)
        return f"`{said[0]}`", "pointer: it is there and holds what is said", cell("; ".join(lacks)), not lacks
    if kind == "later":
        return f"`{said[0]}`", f"not here: {said[1]}", "", None
    return "", f"nothing to try: {said[0]}", "", None


def what_it_says(system, arguments, transcripts):
    with open(os.path.join(source, "README.md")) as file:
        text = file.read()
    numbers = readme.promised(text)
    rows, failed = [], 0
    for command in readme.commands(text):
        if re.match(r"tools/(try|test)\b", command):
            continue
        good, seconds, last = tried(system, readme.AS_ROOT + command, numbers.get(readme_text.flat(command)))
        failed += not good
        rows.append((f"`{command.replace('|', chr(92) + '|')}`", say(good), f"{seconds:.1f} s", last))
    body = ["The commands of its blocks, as they stand there; where a number stands beside one, the output had it.", "",
            table(["command", "as promised", "time", "printed"], rows)]

    good, seconds, last = tried(system, f"apt-get install -y --no-install-recommends {readme.PACKAGES} >/dev/null")
    taken = {tuple(said): tried(system, *said) for _, tries in readme.SENTENCES for kind, *said in tries if kind == "run"}
    before = outcomes("\n".join(transcripts.get("tools/test", ([], 0))[0]))
    names = {name for _, tries in readme.SENTENCES for kind, *said in tries if kind in ("quick", "here") for name in said[0] if not before.get(name, (False,))[0]}
    results, again = run_tests(system, names)
    rows, counts, sentences = [], {}, readme_text.sentences(text)
    for sentence in sentences:
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence).replace("|", "\\|") # links are relative to the README, not to the page
        for kind, *said in readme_text.tries_of(sentence, readme.SENTENCES):
            todo = [(f"test `{name}`", *(("`tools/test` above, ", *before[name]) if name in before and name not in names else ("run here, alone, after it had failed beside others, " if name in again else "run here, ", *results.get(name, (False, 0)))))
                    for name in said[0]] if kind in ("quick", "here") else []
            done = [(by, f"{how}{seconds:.1f} s", "passed" if good else "", good) for by, how, good, seconds in todo]
            for by, how, printed, good in done or [one_try(system, kind, said if kind != "run" else tuple(said), transcripts, results, taken)]:
                failed += good is False
                what = {"run": "commands run here", "said": "outputs of the two commands", "time": "outputs of the two commands", "page": "pages looked into",
                        "later": "tests named that were not run here", "words": "with nothing to try"}.get(kind, "tests that `tools/test` ran" if how.startswith("`tools") else "more tests run here")
                counts[what] = counts.get(what, 0) + 1
                if good is False:
                    print(f"FALSE: {sentence}\n    {by}: {how} {printed}", file=sys.stderr, flush=True)
                rows.append((shown, by, how, printed, "" if good is None else say(good)))
                shown = ""
        if shown:
            failed += 1
            rows.append((shown, "", "", "no entry in bench/fresh/readme.py", say(False)))
    body += [f"Its {len(sentences)} sentences, each with what tries it (all of it in `bench/fresh/readme.py`): "
             + ", ".join(f"{number} {what}" for what, number in counts.items()) + ". What was printed is what the expression there found. For programs that are watched, and for "
             f"tests that `tools/test` leaves out, `{readme.PACKAGES}` were installed, and `.venv` with PyTorch.", "",
             table(["README.md says", "tried by", "how", "printed", "so"], rows)]
    return failed, "\n".join(body)


def debian_package(system, folder, arguments):
    """Makes the package on the first system and installs it on another system without a compiler."""
    rows, failed = [], 0

    def step(on, what, command, cwd="/", pattern=None):
        nonlocal failed
        code, lines, seconds = on.run(command, cwd, show=False)
        output = "\n".join(line for _, line in lines)
        good = code == 0 and (pattern is None or re.search(pattern, output, re.M) is not None)
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {seconds:6.1f} s  {command}" + ("" if good else f"\n{output}"), file=sys.stderr, flush=True)
        last = next((line.strip() for _, line in reversed(lines) if line.strip()), "")
        rows.append((what, f"`{command}`", f"{seconds:.1f} s", "done" if good else "**failed**", last.replace("|", "\\|")[:90]))

    step(system, "made", "apt-get install -y --no-install-recommends dpkg-dev file >/dev/null && tools/build build && cd build && cpack -G DEB", WHERE, r"slackline_.*\.deb")
    other = System(os.path.join(folder, "package"), arguments.suite, arguments.mirror)
    made = [name for name in os.listdir(f"{system.folder}{WHERE}/build") if name.endswith(".deb")]
    if made:
        os.link(f"{system.folder}{WHERE}/build/{made[0]}", f"{other.folder}/{made[0]}")
    step(other, "lists fetched", "apt-get update")
    before = other.files()
    name = made[0] if made else "slackline.deb"
    step(other, "installed", f"apt-get install -y --no-install-recommends ./{name}")
    examples = "/usr/share/doc/slackline/examples"
    step(other, "what is there", "slackline doctor")
    step(other, "plans", f"slackline plan {examples}/four-ranks.yaml | head -1", pattern=r"390 ms")
    step(other, "trains", f"slackline train {examples}/slow-link.yaml --set iterations=5 --out /tmp/run", pattern=r"weights_hash")
    step(other, "draws", "slackline report /tmp/run && test -s /tmp/run/report.html")
    step(other, "removed", "dpkg --purge slackline")
    step(other, "with what it brought", "apt-get autoremove -y --purge")
    left = sorted(other.files() - before)
    failed += bool([file for file in left if "slackline" in file])
    rows.append(("left behind", "files not there before", "", ", ".join(f"`{file}`" for file in left if "slackline" in file) or "none of slackline's",
                 f"{len(left)} of other packages"))
    other.remove()
    return failed, table(["", "command", "time", "", "last line of output"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--mirror", metavar="URL", help="of Debian packages, for debootstrap and apt")
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--folder", help="folder for the systems (5 GB; default: a temporary folder)")
    parser.add_argument("--keep", action="store_true", help="keep the first system for inspection")
    parser.add_argument("--without-tests", action="store_true")
    arguments = parser.parse_args()
    why = missing()
    if why:
        print(f"bench/fresh/run.py: {why}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # so that the systems are removed
    if arguments.folder:
        os.makedirs(arguments.folder, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="fresh-", dir=arguments.folder)
    commit = subprocess.run(["git", "-C", source, "log", "-1", "--format=%h of %cs", "--abbrev=12"], capture_output=True, text=True).stdout.strip()
    command = "python3 bench/fresh/run.py" + (" --without-tests" if arguments.without_tests else "")
    head = (f"`{command}` on {machine()}, commit {commit}: Debian {arguments.suite} as debootstrap makes it (minbase), its package lists "
            "empty, root, no compiler, no git. Times hold for this machine and its network.")
    try:
        system = System(os.path.join(folder, "system"), arguments.suite, arguments.mirror)
        clone(system)
        results, transcripts, body = two_commands(system, arguments)
        finish(arguments.write, "The two commands", f"{head}\n\n{body}")
        failed, body = what_it_says(system, arguments, transcripts)
        finish(arguments.write, "What the README says", f"`{command}`, on the same system, after the two commands.\n\n{body}")
        lost, body = debian_package(system, folder, arguments)
        finish(arguments.write, "The Debian package", f"`{command}`: made on that system by CPack, installed on another that never saw a compiler, and removed.\n\n{body}")
    finally:
        if arguments.keep:
            print(f"left in {folder}", file=sys.stderr)
        else:
            subprocess.run(["rm", "-rf", "--one-file-system", folder])
    failed += lost + sum(code != 0 for code in results.values())
    print(f"{failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
