"""tests/runner.py: how a file's tests end, one after the other and AT_ONCE, is how it ends."""
import os
import subprocess
import sys
import time

from runner import build, expect, source

RUNNER = os.path.join(source, "tests", "runner.py")
PASSES, FAILS = "def test_passes(): pass\n", "def test_fails(): expect(False, 'wrong')\n"
RAISES, SKIPS = "def test_raises(): raise ValueError('no')\n", "def test_skips(): skip('no')\n"
DIES = "def test_dies(): os.kill(os.getpid(), 9)\n"


def ended(folder, *tests):
    file = os.path.join(folder, "test_file.py")
    with open(file, "w") as text:
        text.write("import os, time\nfrom runner import expect, skip\n" + "".join(tests))
    done = subprocess.run([sys.executable, RUNNER, file, build, source], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_a_file_ends_as_its_tests(folder):
    for at_once in ("", "AT_ONCE = 2\n"):
        for code, said, tests in ((0, "2 tests, 1 skipped, 0 failures", (PASSES, SKIPS)), (1, "FAILED: wrong", (PASSES, FAILS)), (77, "skipped: no", (SKIPS,)),
                                  (1, "FAILED: raises", (RAISES, PASSES))):
            found = ended(folder, at_once, *tests)
            expect(found[0] == code and said in found[1], f"{at_once}{tests}: {found}, not {code} and {said}")
    found = ended(folder, "AT_ONCE = 2\n", DIES, "def test_waits(): time.sleep(0.3)\n", PASSES)
    expect(found[0] == 1 and "dies (ended by signal 9)" in found[1] and "passed: passes" in found[1], f"a test that is killed: {found}")
    expect("3 tests, 0 skipped, 1 failures" in found[1], f"tests after one that fails: {found}")


def test_no_more_than_asked_for_run_at_once(folder):
    marks = [os.path.join(folder, str(number)) for number in range(2)]
    waits = "def test_waits{0}():\n    open({1!r}, 'w')\n    until = time.monotonic() + 30\n    while not os.path.exists({2!r}) and time.monotonic() < until: time.sleep(0.02)\n" \
            "    assert os.path.exists({2!r})\n"
    found = ended(folder, "AT_ONCE = 2\n", *(waits.format(number, marks[number], marks[1 - number]) for number in range(2)))
    expect(found[0] == 0, f"two that wait for each other: {found}")
    began = time.monotonic()
    found = ended(folder, "AT_ONCE = 2\n", *(f"def test_{number}(): time.sleep(0.4)\n" for number in range(3)))
    expect(found[0] == 0 and time.monotonic() - began >= 0.8, f"three, two at once, took {time.monotonic() - began:.2f} s: {found}")
