# SPDX-License-Identifier: Apache-2.0
"""All ways in which the ranks of a small order in regime fifo can get ahead of each other, whatever the times are: whether they can stop."""
from reference import communicator, is_eager


def outcomes(problem, order, ends, most):
    """{True} if every way comes to the end, {False} if every way stops; both if it depends. None: more than `most` states."""
    queues = []  # (rank, the ends of one communicator)
    for rank, row in enumerate(ends):
        names = dict.fromkeys(communicator(problem, end.message) for end in row)
        queues += [(rank, [end for end in row if communicator(problem, end.message) == name]) for name in names]
    begin = (0,) * len(order), (0,) * len(queues)  # blocks that have run, ends that are done
    seen, left, found = {begin}, [begin], set()
    while left:
        state = left.pop()
        following = _following(problem, order, queues, *state)
        if not following:
            found.add(all(ran == len(row) for ran, row in zip(state[0], order)))
        for other in following:
            if other not in seen:
                seen.add(other)
                left.append(other)
        if len(seen) > most:
            return None
    return found


def _following(problem, order, queues, ran, done):
    """The states after one block or one message more."""
    over = {(end.way, end.message) for (_, queue), count in zip(queues, done) for end in queue[:count]}
    reached = {}  # (way, message): its queue
    for at, (rank, queue) in enumerate(queues):
        if done[at] < len(queue) and queue[done[at]].after <= ran[rank]:
            reached[queue[done[at]].way, queue[done[at]].message] = at
    found = []
    for rank, row in enumerate(order):
        if ran[rank] < len(row) and all(("R", message) in over for op in row[ran[rank]] for message in problem.received(op)):
            found.append((_more(ran, rank), done))
    for (way, message), at in reached.items():
        if is_eager(problem, message):
            if way == "S" or ("S", message) in over:
                found.append((ran, _more(done, at)))
        elif way == "S" and ("R", message) in reached:
            found.append((ran, _more(_more(done, at), reached["R", message])))
    return found


def _more(counts, at):
    return (*counts[:at], counts[at] + 1, *counts[at + 1:])
