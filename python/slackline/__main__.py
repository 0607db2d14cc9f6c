# SPDX-License-Identifier: Apache-2.0
"""python -m slackline SUBCOMMAND ...: runs the command `slackline` from this Python. pip installs it as the command `slackline`.

    slackline watch [OPTION]... [--] train.py [ARGUMENT]...   this Python runs the script
    slackline plan problem.yaml                               anything else is passed to the command unchanged
"""
import os
import signal
import sys

from ._errors import LibraryNotFound
from ._watching import command, program_of, seeing


WITH_VALUE = {"-o", "--out", "--redis", "--key", "--token", "--tls", "--http", "--on-event", "--on-event-limit", "--hang-after", "--hang", "--hang-limit", "--cost",
              "--microbatches", "--spares"}
"""Options of `watch` whose value is the next word. The value can look like a script's name."""


def line(arguments: "list[str]") -> "list[str]":
    """The command's arguments. For `watch`, `--` and this Python are inserted in front of a script."""
    if arguments[:1] != ["watch"]:
        return arguments
    begin = 1
    while begin < len(arguments) and arguments[begin].startswith("-"):
        if arguments[begin] == "--":
            return arguments[:begin + 1] + program_of(arguments[begin + 1:])
        begin += 2 if arguments[begin] in WITH_VALUE else 1
    if begin >= len(arguments) or not arguments[begin].endswith(".py"):
        return arguments
    return arguments[:begin] + ["--"] + program_of(arguments[begin:])


def main() -> int:
    try:
        program = command()
    except LibraryNotFound as error:
        print(f"slackline: {error}", file=sys.stderr)
        return 1
    environment = seeing(os.environ) if sys.argv[1:2] == ["watch"] else dict(os.environ)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; the command and its program would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    os.execve(program, [program, *line(sys.argv[1:])], environment)


if __name__ == "__main__":
    sys.exit(main())
