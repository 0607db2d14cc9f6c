"""tests/costs.py: seconds and processor seconds of tests that have run."""
import os
import subprocess
import sys

from runner import expect, source

APART = os.path.join(source, "tests", "apart")
BURNS = "while __import__('time').process_time() < 0.3: pass"


def test_what_waits_and_what_computes_are_told_apart(folder):
    if subprocess.run([APART, "--possible"]).returncode:
        return print("not tried: there are no namespaces")
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as file:
        for name, words in (("burns", ["python3", "-c", BURNS]), ("waits", ["sleep", "0.6"])):
            file.write(f"add_test({name} {APART} {folder} {source} " + " ".join(f"[==[{word}]==]" for word in words) + ")\n")
        file.write("set_tests_properties(waits PROPERTIES LABELS alone)\n")
    done = subprocess.run(["ctest", "--test-dir", folder], capture_output=True, text=True)
    expect(done.returncode == 0, done.stdout)
    said = subprocess.run([sys.executable, os.path.join(source, "tests", "costs.py"), folder], capture_output=True, text=True)
    rows = {words[0]: words[1:] for words in map(str.split, said.stdout.splitlines()) if words and words[0] in ("burns", "waits")}
    expect(set(rows) == {"waits", "burns"}, f"{said.stdout}{said.stderr}")
    expect(float(rows["waits"][1]) >= 0.6 and float(rows["waits"][2]) < 0.3 <= float(rows["burns"][2]) < 10, f"{rows}")
