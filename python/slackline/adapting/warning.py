# SPDX-License-Identifier: Apache-2.0
"""Warnings of an adapted job, which end no job: where warnings are errors (`python -W error`), they go to the logger."""
from __future__ import annotations

import logging
import warnings


def warn(text: str, stacklevel: int = 1) -> None:
    """stacklevel: as for warnings.warn, from the caller's point of view."""
    try:
        warnings.warn(f"slackline: {text}", RuntimeWarning, stacklevel=stacklevel + 1)
    except RuntimeWarning as error:
        logging.getLogger("slackline").warning("%s", error)
