# SPDX-License-Identifier: Apache-2.0
"""Searches that Ctrl-C ends."""
from __future__ import annotations

import threading
from typing import Callable, Generic, List, Optional, TypeVar

Found = TypeVar("Found")
PATIENCE_S = 2.0  # then a search that cannot be stopped (the families of a huge problem) is abandoned, and ends by itself


def interruptible(work: Callable[[], Found], stop: Callable[[], None]) -> Found:
    """The result of a search of the library; in the main thread, a signal's handler may end it through `stop`."""
    if threading.current_thread() is threading.main_thread():
        return _Search(work, stop).found()
    return work()


class _Search(threading.Thread, Generic[Found]):
    """Searches in a separate thread, so that the main thread can handle signals. Python delivers signals only to the main
    thread, and inside a call of the library Ctrl-C would take effect only after the search."""

    def __init__(self, work: Callable[[], Found], stop: Callable[[], None]) -> None:
        super().__init__(name="slackline search", daemon=True)
        self._work, self._stop_search = work, stop
        self._over = threading.Event()
        self._result: List[Found] = []
        self._failed: Optional[BaseException] = None

    def run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # raised in the caller
            self._failed = error
        finally:
            self._over.set()

    def found(self) -> Found:
        self.start()
        try:
            self._over.wait()
        except BaseException:  # from a signal handler
            self._stop_search()
            self._over.wait(PATIENCE_S)
            raise
        if self._failed is not None:
            raise self._failed
        return self._result[0]
