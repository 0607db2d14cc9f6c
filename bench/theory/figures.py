"""Runs the commands of docs/theory.md: redraws its figures in docs/figures/, and checks the commands' output on the page, or updates
it with --write. Usage: python3 bench/theory/figures.py [--write] [--check FOLDER]

With --check the tree is not changed: the commands run in FOLDER, differences from the tree are printed, and the exit code is 1 if
there are any. slackline is taken from PATH, or from build/."""
import argparse
import filecmp
import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(SOURCE, "docs", "theory.md")
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


def run(text, folder):
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":" + os.path.join(SOURCE, "build"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{text}{done.stdout}{done.stderr}")
    return done.stdout


def prepare(folder):
    for name in ("examples", "bench"):
        if not os.path.exists(os.path.join(folder, name)):
            os.symlink(os.path.join(SOURCE, name), os.path.join(folder, name))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the output into the page")
    parser.add_argument("--check", metavar="FOLDER")
    arguments = parser.parse_args()
    folder = arguments.check or SOURCE
    if arguments.check:
        prepare(folder)
    with open(PAGE) as file:
        page = file.read()
    failed = 0

    def replace(match):
        nonlocal failed
        output = run(match[1], folder)
        if match[2] is None:
            if output.strip():
                failed += 1
                print(f"the page does not show what this prints:\n{match[1]}{output}")
            return match[0]
        if match[2].strip() != output.strip() and not arguments.write:
            failed += 1
            print(f"the page shows\n{match[2]}but\n{match[1]}prints\n{output}")
        return f"```sh\n{match[1]}```\n\n```text\n{output.strip(chr(10))}\n```"

    new = BLOCK.sub(replace, page)
    if arguments.write:
        with open(PAGE, "w") as file:
            file.write(new)
    figures = set(re.findall(r"\]\(figures/([\w-]+\.svg)\)", page))
    made = set(re.findall(r"-o docs/figures/([\w-]+\.svg)", page))
    if figures != made:
        failed += 1
        print(f"shown but not made, or made but not shown: {sorted(figures ^ made)}")
    for name in sorted(made) if arguments.check else ():
        if not filecmp.cmp(os.path.join(folder, "docs", "figures", name), os.path.join(SOURCE, "docs", "figures", name), shallow=False):
            failed += 1
            print(f"docs/figures/{name} is not what its command draws now")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
