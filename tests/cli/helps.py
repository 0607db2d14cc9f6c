"""What the subcommands say of themselves."""
import re

from slackline import expect, run

names = re.findall(r"^  (\w+) +\S", run("--help").stdout, re.M)
expect({"plan", "train", "watch", "doctor", "completion", "man"} <= set(names), f"the commands that are listed: {names}")
helps = {name: run(name, "--help").stdout for name in names}


def options_of(text):
    """As a reader sees them: lines that begin with two blanks and a dash; what is in front of the next two blanks."""
    found = {}
    for line in text.splitlines():
        if re.match(r"  -", line):
            head = re.split(r"  +", line.strip())[0]
            words = re.findall(r"(?:^|[ ,])--?([a-z][a-z-]*)", head)
            argument = re.sub(r"--?[a-z-]+,?", "", head).strip()
            for word in words:
                found[word] = argument
    return found
