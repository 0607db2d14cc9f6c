# SPDX-License-Identifier: Apache-2.0
"""The memory that a rank may still use."""
from __future__ import annotations

import os
from typing import Any

import torch


def free_bytes(device: Any, sharing: int) -> float:
    """The bytes that this rank may still allocate: on its device, or its share of its host's memory."""
    if device is not None and device.type != "cpu":
        memory = torch.accelerator
        free, _ = memory.get_memory_info(device)
        return 0.9 * float(free + memory.memory_reserved(device) - memory.memory_allocated(device))
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = float(fields["MemAvailable"].split()[0]) * 1024
    for limit, used in (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
                        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")):
        if os.path.exists(limit) and os.path.exists(used):
            with open(limit, encoding="ascii") as at_most, open(used, encoding="ascii") as now:
                text = at_most.read().strip()
                if text.isdigit():
                    free = min(free, float(text) - float(now.read()))
    return 0.9 * max(free, 0.0) / max(sharing, 1)
