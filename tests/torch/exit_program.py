"""A rank of test_adapt_exit.py: exit_program.py named|SEED STEPS STORE runs a job of bench/pytorch, adapted, and ends while it still holds the schedule.
Its first rank prints how many steps it ran, and why it does not adapt."""
import dataclasses
import json
import os
import sys

import slackline
from cases import NAMED, mixture
from ranks import live_main

job, steps, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
case = dataclasses.replace(NAMED[0], steps=steps) if job == "named" else mixture(int(job), steps=steps)
held, found, adapt = [], {}, slackline.adapt


def adapt_and_hold(*arguments, **options):
    held.append(adapt(*arguments, **options))
    return held[-1]


class Results:
    """In place of the queue of bench/pytorch."""

    @staticmethod
    def put(pair):
        found.update([pair])


slackline.adapt = adapt_and_hold
live_main(int(os.environ["RANK"]), case, None, True, store, Results)
if os.environ["RANK"] == "0":
    print(json.dumps({"steps": len(found["times"]), "why": found["why"]}))
