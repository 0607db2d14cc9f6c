"""What the time of the tests goes into: python3 tests/costs.py BUILD [COUNT], after tools/test or ctest in that build. Prints how long the tests of each
kind took, and the COUNT (30) dearest, by what they kept from others: seconds times the share of the machine, all of it for those labelled alone.
A test that waits takes seconds, one that computes processor seconds; CI has as many of these in a second as it has cores."""
import collections
import json
import os
import re
import subprocess
import sys


def processor_seconds(build):
    """By the words of a test's command: user and system time of its last run."""
    found, path = {}, os.path.join(build, "Testing", "Temporary", "cpu.txt")
    if not os.path.exists(path):  # without namespaces tests/apart writes none
        return found
    with open(path) as file:
        for line in file:
            match = re.match(r"(\d+)m([\d.]+)s (\d+)m([\d.]+)s (.*)", line)
            if match:
                found[match[5]] = 60 * (int(match[1]) + int(match[3])) + float(match[2]) + float(match[4])
    return found


def seconds(build):
    """By name: what ctest expects the next run to take."""
    with open(os.path.join(build, "Testing", "Temporary", "CTestCostData.txt")) as file:
        return {words[0]: float(words[2]) for words in map(str.split, file) if len(words) == 3}


def tests(build):
    """(name, kind, seconds, processor seconds or None) of each that has run."""
    listed = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)["tests"]
    took, computed = seconds(build), processor_seconds(build)
    for test in listed:
        labels = next((one["value"] for one in test["properties"] if one["name"] == "LABELS"), [])
        kind = next((label for label in ("slow", "gpu", "alone", "calm", "torch", "net", "long") if label in labels), "quick")
        if took.get(test["name"]):
            yield test["name"], kind, took[test["name"]], computed.get(" ".join(test["command"][3:]))


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    found, cores = list(tests(build)), os.cpu_count() or 1
    kinds = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for _, kind, took, computed in found:
        for at, value in enumerate((1, took, computed or 0.0)):
            kinds[kind][at] += value
    print(f"{'kind':<8}{'tests':>7}{'seconds':>10}{'processor':>11}")
    for kind, (number, took, computed) in sorted(kinds.items(), key=lambda one: -one[1][1]):
        print(f"{kind:<8}{number:>7}{took:>10.0f}{computed:>11.0f}")
    slots = {"alone": cores + 2, "calm": (cores + 2) / 2, "torch": 2}
    print(f"\n{'test':<46}{'kind':<8}{'seconds':>9}{'processor':>11}")
    for name, kind, took, computed in sorted(found, key=lambda one: -one[2] * slots.get(one[1], 1))[:count]:
        print(f"{name:<46}{kind:<8}{took:>9.1f}{'-' if computed is None else f'{computed:.1f}':>11}")


if __name__ == "__main__":
    main()
