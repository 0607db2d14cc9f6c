# SPDX-License-Identifier: Apache-2.0
"""The common beginning of scripts that come to stand: no rank waits for another before each has made a call. The first call imports modules, which
may take longer than the watch of a test waits; its verdict would be true, and about the import."""
import time

import torch
import torch.distributed as dist


def all_have_begun():
    """By PyTorch's store, in which no rank of the job is seen waiting."""
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    dist.all_reduce(torch.ones(1), group=alone)
    store = dist.distributed_c10d._get_default_store()
    store.add("begun", 1)
    while store.add("begun", 0) < dist.get_world_size():
        time.sleep(0.05)
