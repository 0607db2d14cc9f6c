#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the host name of a rank of the watched job, from the files in its folder. The other programs here call it.

    SLACKLINE_DIRECTORY=runs/watch-program examples/on-event/node-of-rank.py 3"""
import json
import os
import re
import sys


def node_of(folder, rank):
    try:
        with open(os.path.join(folder, "watch.json")) as file:
            watch = json.load(file)
        return watch["hosts"][watch["ranks"][rank][1]] if watch["ranks"][rank][1] >= 0 else None
    except (OSError, ValueError, IndexError, KeyError):
        pass
    with open(os.path.join(folder, "hang.json")) as file:  # a job that hangs before its first state was written
        return next((one["host"] for one in json.load(file)["ranks"] if one["rank"] == rank), None)


if __name__ == "__main__":
    name = node_of(os.environ["SLACKLINE_DIRECTORY"], int(sys.argv[1])) if int(sys.argv[1]) >= 0 else None
    if not name:
        sys.exit(1)
    print(re.sub(r"-\d{6,}$", "", name))  # without the network namespace
