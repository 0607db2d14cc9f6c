#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends a torchft replica whose job hangs: torchft's lighthouse asks it to exit, the other replicas go on without it, and its launcher starts
it again. Each replica is watched by itself:

    export TORCHFT_LIGHTHOUSE=http://lighthouse:29510 REPLICA_ID=train_ddp_0
    slackline watch --on-event examples/on-event/torchft-kill.py -- torchrun --nproc-per-node 8 train_ddp.py

REPLICA_ID: the replica's name in its Manager (replica_id=...), which torchft continues with ":" and a number of its own.
KILL_EVENTS: the kinds of events that end it (default: hang). Any other event is only reported, with the lighthouse's view of the replica."""
import html
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

KINDS = os.environ.get("KILL_EVENTS", "hang").split(",")


def replicas(lighthouse):
    """The replicas of the last quorum, by the page that the lighthouse shows to people."""
    with urllib.request.urlopen(lighthouse + "/status", timeout=10) as answer:
        page = answer.read().decode()
    return [html.unescape(name) for name in re.findall(r'hx-post="/replica/([^"]+)/kill"', page)]


def main():
    event = json.load(sys.stdin)
    lighthouse, wanted = os.environ["TORCHFT_LIGHTHOUSE"].rstrip("/"), os.environ["REPLICA_ID"]
    known = replicas(lighthouse)
    own = [name for name in known if name == wanted or name.startswith(wanted + ":")]
    print(f"{event['kind']}: {event['seen']}; the lighthouse knows {', '.join(known) or 'no replica'}")
    if event["kind"] not in KINDS:
        return 0
    if not own:
        print(f"no replica is called {wanted}: nothing is ended")
        return 1
    for name in own:
        request = urllib.request.Request(f"{lighthouse}/replica/{urllib.parse.quote(name, safe='')}/kill", method="POST")
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            if error.code != 500:  # the replica exits before it answers, which the lighthouse reports as 500
                raise
        print(f"asked {name} to exit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
