# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, one class for each status of the library; the text is the library's own."""


class SlacklineError(Exception):
    """Any failure of this package."""


class InvalidRequest(SlacklineError, ValueError):
    """A wrong request: a file, a key, an argument, an order that is no schedule."""


class NoAnswer(SlacklineError):
    """A valid request without an answer: no schedule fits into the memory limit, or a plan has no such form."""


class OutOfMemory(SlacklineError, MemoryError):
    """An allocation failed."""


class SystemFailure(SlacklineError, OSError):
    """A system call or another program failed."""


class LibraryNotFound(SlacklineError, ImportError):
    """libslackline or the command `slackline` is not there, or of another version."""
