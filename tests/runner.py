"""Runs a Python test: its functions test_*, in order. Each is reported by its name, which says what is promised; one that fails keeps no
other from running.

    python3 tests/runner.py TEST BUILD SOURCE [NAME]...    all of TEST, or those that are named

A test fails by an exception or by expect(), which reports and continues; skip() ends it, or, at the level of the module, the whole file. A
parameter `folder` is an empty folder of the test's own. A generator given(), if the file has one, yields the other arguments as a tuple and
cleans up after the tests. In a file with AT_ONCE = N, for tests that mostly wait, up to N run at once, each in a process of its own, which
begins as a copy of this one. Exit code: 0, 1 if a test has failed, 77 if all were skipped."""
import contextlib
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

_words = sys.argv[2:] if sys.argv[1:] and sys.argv[1].endswith(".py") else sys.argv[1:]
build, source = map(os.path.abspath, _words[:2])
_folder = tempfile.TemporaryDirectory(prefix="slackline-test-")
folder = _folder.name  # removed at the end
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def missing(text, facts):
    """Which facts, divided by |, a text lacks: names of files with lines, keys, options, values, numbers, whatever the words around them. A
    fact begins and ends where a word does, but for a plural."""
    def absent(fact):
        begin = r"(?<![\w.-])" if fact[0].isdigit() else r"(?<!\w)" if fact[0].isalnum() else ""
        end = r"(?![\w]|\.\d)" if fact[-1].isdigit() else r"(?=s?(?!\w))" if fact[-1].isalnum() else ""
        return not re.search(begin + re.escape(fact) + end, text)
    return [fact for fact in facts.split(" | ") if fact and absent(fact)]


def has_facts(text, phrase):
    """Whether a text has the facts of a phrase: numbers, names in quotes, and words with a capital or a sign in them (files, keys, options,
    addresses). All other words are free, as in assert_says of check.h."""
    words = re.findall(r"'[^' ][^']*'|\S+", phrase)
    facts = [word.strip("'") if word[0] == "'" else word.strip(",;:.()\"'") for word in words
             if word[0] == "'" or re.search(r"[\dA-Z_/=@]|\w\.\w|^--\w", word)]
    return bool(text.strip()) and not missing(text, " | ".join(facts))


def skip(reason):
    print("skipped:", reason, flush=True)
    sys.exit(77)


def require(*programs):
    """Skips unless each is there: slackline's own in the build, others in PATH."""
    for program in programs:
        if "slackline" in program:
            os.path.exists(os.path.join(build, program)) or skip(f"{program} is not built")
        else:
            shutil.which(program) or skip(f"{program} is not installed")


def _run(name, test, given):
    """Whether it was skipped."""
    before, began, skipped = len(failures), time.monotonic(), False
    try:
        with tempfile.TemporaryDirectory(prefix="slackline-test-") as own:
            values = iter(given)
            test(*(own if argument == "folder" else next(values) for argument in test.__code__.co_varnames[:test.__code__.co_argcount]))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        skipped = isinstance(error, SystemExit) and error.code == 77
        if not skipped:
            traceback.print_exc()
            failures.append(name)
    state = "FAILED" if len(failures) > before else "skipped" if skipped else "passed"
    print(f"{state}: {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return skipped


def _run_apart(name, test, given, output):
    """In a process of its own, whose output is kept in a file."""
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    failures.clear()  # those of others, before this process began
    skipped = _run(name, test, given)
    sys.exit(1 if failures else 77 if skipped else 0)


def _run_at_once(tests, given, many):
    """Whether each was skipped. Prints what a test has printed when it is over."""
    context, waiting, running, skipped = multiprocessing.get_context("fork"), list(tests.items()), {}, []
    while waiting or running:
        while waiting and len(running) < many:
            name, test = waiting.pop(0)
            output = tempfile.TemporaryFile("w+", errors="replace")
            sys.stdout.flush()
            process = context.Process(target=_run_apart, args=(name, test, given, output))
            process.start()
            running[process.sentinel] = name, process, output
        for sentinel in multiprocessing.connection.wait(list(running)):
            name, process, output = running.pop(sentinel)
            process.join()
            with output:
                output.seek(0)
                print(output.read(), end="", flush=True)
            if process.exitcode < 0:
                print(f"FAILED: {name} (ended by signal {-process.exitcode})", flush=True)
            if process.exitcode not in (0, 77):
                failures.append(name)
            skipped.append(process.exitcode == 77)
    return skipped


def main():
    sys.dont_write_bytecode = True
    sys.argv = sys.argv[1:]
    test, here = os.path.abspath(sys.argv[0]), os.path.dirname(os.path.abspath(__file__))
    shared = sorted(folder for folder, _, files in os.walk(here) if any(name.endswith(".py") for name in files))
    sys.path[:0] = [os.path.dirname(test), *shared]
    module = importlib.import_module(os.path.basename(test).removesuffix(".py"))
    tests = {name.removeprefix("test_"): value for name, value in vars(module).items() if name.startswith("test_") and callable(value)}
    asked = [word.removeprefix("test_") for word in itertools.takewhile(lambda word: not word.startswith("-"), _words[2:])] or list(tests)
    if not tests or not set(asked) <= set(tests):
        sys.exit(f"no such test: {' '.join(set(asked) - set(tests)) or 'none at all'}; there are: {' '.join(tests)}")
    with contextlib.contextmanager(getattr(module, "given", lambda: (yield ())))() as given:
        many = getattr(module, "AT_ONCE", 1)
        skipped = _run_at_once({name: tests[name] for name in asked}, given, many) if many > 1 else [_run(name, tests[name], given) for name in asked]
    print(f"{len(skipped)} tests, {sum(skipped)} skipped, {len(failures)} failures")
    sys.exit(1 if failures else 77 if all(skipped) else 0)


if __name__ == "__main__":
    import runner  # the one that tests import
    runner.main()
