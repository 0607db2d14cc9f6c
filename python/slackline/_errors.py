# SPDX-License-Identifier: Apache-2.0
"""The exceptions, one class per status of the library; the text comes from the library."""


class SlacklineError(Exception):
    """Any failure of this package."""


class InvalidRequest(SlacklineError, ValueError):
    """An invalid request: a file, a key, an argument, an order that is not a schedule."""


class NoAnswer(SlacklineError):
    """A valid request without an answer: no schedule fits into the memory limit, or a plan does not have the requested form."""


class OutOfMemory(SlacklineError, MemoryError):
    """An allocation failed."""


class SystemFailure(SlacklineError, OSError):
    """A system call or another program failed."""


class LibraryNotFound(SlacklineError, ImportError):
    """libslackline or the command `slackline` is missing or has another version."""
