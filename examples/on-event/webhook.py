#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Posts hangs and verdicts to a webhook, as {"text": "..."} (Slack, Mattermost, Google Chat) with the whole event as "event".

    export WEBHOOK_URL=https://hooks.example.com/services/...
    slackline watch --on-event examples/on-event/webhook.py -- mpirun -np 4 ./program

WEBHOOK_EVENTS: the kinds to post (default: hang,stall,moves,verdict). An answer other than 2xx is a failure, which hook.log has."""
import json
import os
import sys
import urllib.request

KINDS = os.environ.get("WEBHOOK_EVENTS", "hang,stall,moves,verdict").split(",")


def text_of(event):
    words = [f"{event.get('job', 'a job')}: {event['kind']}: {event['seen']}"]
    words += [event[key] for key in ("decided", "why") if event.get(key)]
    return "\n".join(words)


def main():
    event = json.load(sys.stdin)
    if event["kind"] not in KINDS:
        return 0
    body = json.dumps({"text": text_of(event), "event": event}).encode()
    request = urllib.request.Request(os.environ["WEBHOOK_URL"], body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        print(f"posted: {answer.status}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
