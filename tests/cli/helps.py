"""What the subcommands say of themselves."""
import re

from calling import run
from runner import expect

names = re.findall(r"^  (\w+) +\S", run("--help").stdout, re.M)
expect({"plan", "train", "watch", "doctor", "completion", "man"} <= set(names), f"the commands that are listed: {names}")
helps = {name: run(name, "--help").stdout for name in names}


def documented(text):
    """Names and argument as a reader sees them: lines that begin with two blanks and a dash, in front of the next two blanks."""
    for line in text.splitlines():
        if re.match(r"  -", line):
            head = re.split(r"  +", line.strip())[0]
            argument = re.sub(r"--?[a-z-]+,?", "", head, count=2 if re.match(r"-\w,", head) else 1).strip()
            for word in re.findall(r"(?:^|[ ,])--?([a-z][a-z-]*)", head):
                yield word, argument


def options_of(text):
    return dict(documented(text))
