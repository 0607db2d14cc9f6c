"""Series of iteration times with known fail-slows, like a training job's: jitter, single spikes, drift, checkpoints, a slow
start, restarts. A trace is a pure function of (seed, number)."""
import math
import random


def _events(draw, length, first, weak):
    """[(begin, end, factor)]: separate; in compound ones a second fail-slow is within the first."""
    found, at = [], first + draw.randint(20, 80)
    for _ in range(draw.choice((0, 1, 1, 2, 2, 3, 4))):
        lasts = draw.randint(20, 120)
        if at + lasts + 20 > length:
            break
        size = draw.uniform(0.08, 0.12) if weak else math.exp(draw.uniform(math.log(0.12), math.log(4.0)))
        found.append((at, at + lasts, 1 + size))
        if not weak and lasts > 60 and draw.random() < 0.3:
            inner = draw.randint(20, lasts - 40)
            found.append((at + inner, at + inner + 20, 1 + math.exp(draw.uniform(math.log(0.12), math.log(2.0)))))
        at += lasts + draw.randint(25, 150)
    return found


def trace(seed, number, weak=False):
    """(samples, [(index, kind)], [(index, kind)] for changes of 8 to 12 %)"""
    draw = random.Random(f"{seed}/{number}/{weak}")
    length, base = draw.randint(300, 900), math.exp(draw.uniform(math.log(50), math.log(20000)))
    jitter = math.exp(draw.uniform(math.log(0.002), math.log(0.03)))
    spikes, drift, wave = draw.choice((0, 0.005, 0.02, 0.04)), draw.uniform(-0.06, 0.06), draw.uniform(0, 0.03)
    every = draw.choice((0, 10, 20, 50, 100))
    saving = 1 + draw.uniform(0.1, 3)
    start, slow = draw.randint(1, 8), draw.uniform(0.2, 60)
    restarts = {draw.randint(50, length - 20) for _ in range(draw.choice((0, 0, 0, 1, 2)))}
    events = _events(draw, length, start, weak)
    partial = {index: draw.random() for begin, end, _ in events for index in (begin, end) if draw.random() < 0.3}

    def level(index):
        value = 1.0
        for begin, end, factor in events:
            value *= factor if begin <= index < end else 1
        return value

    samples = []
    for index in range(length):
        factor = level(index)
        if index in partial:  # a change within an iteration
            factor += (level(index - 1) - factor) * partial[index]
        factor *= 1 + drift * index / length + wave * math.sin(2 * math.pi * index / length)
        factor *= math.exp(draw.gauss(0, jitter))
        if draw.random() < spikes:
            factor *= 1 + draw.expovariate(1 / 0.4)
        if every and index and index % every == 0:
            factor *= saving
        if index < start:
            factor *= 1 + slow * 0.4 ** index
        if index in restarts:
            factor *= 1 + slow
        samples.append(base * factor)
    truth = sorted((index, kind) for begin, end, _ in events for index, kind in ((begin, "onset"), (end, "relief")))
    return samples, truth


def call_log(seed, number):
    """(rows of a call log, period in calls, [true iteration times in ms]): microbatches in a loop, one rank late, jitter."""
    draw = random.Random(f"{seed}/{number}/calls")
    microbatches, layers = draw.randint(2, 24), draw.randint(0, 4)
    body = [("MPI_Recv", 1, 0, 4096), ("MPI_Send", 1, 2, 4096)] + [("MPI_Allreduce", 3, -1, 512)] * layers
    once = [("MPI_Allreduce", 2, -1, 1 << 20), ("MPI_Allreduce", 0, -1, 8)] + [("MPI_Bcast", 2, 0, 64)] * draw.randint(0, 1)
    iteration = body * microbatches + once
    base = draw.uniform(20e6, 2e9)
    rows, times, now = [], [], 1e9
    for call in [("MPI_Barrier", 0, -1, 0), ("MPI_Bcast", 0, 0, 8)] * draw.randint(0, 5):
        now += 1e6
        rows.append((*call, int(now)))
    for number_of in range(draw.randint(20, 60)):
        takes = base * math.exp(draw.gauss(0, 0.01)) * (1.3 if number_of == 15 else 1)
        cuts = sorted(draw.random() for _ in iteration[1:])
        for call, at in zip(iteration, [0] + cuts):
            late = draw.expovariate(1 / 20e3)  # delays the call by 20 us, not the iteration
            rows.append((*call, int(now + takes * at + (late if call != iteration[0] or len(iteration) > 1 else 0))))
        times.append(takes / 1e6)
        now += takes
    return rows, len(iteration), times
