#!/usr/bin/env python3
"""How long `slackline import` takes for large traces, and what memory: traces of 1F1B on 4 ranks in the profiler's format, a
file a rank, of 10^3 to 10^6 events in all. Prints the section "Large traces"; --write FILE puts it into
docs/results/evidence/usability.md.

There are two kinds. "of PyTorch": 16 microbatches per iteration with ProfilerStep marks. Each op contains operators as the
profiler records them (shapes, ids), and Gloo's messages follow it, so most events are not ops. "labels alone": one iteration;
every event is an op, a send or a receive, which is the worst case for reading, matching and planning.

Usage: bench/trace/run.py [BUILD_DIR] [--write FILE] [--most EVENTS]"""
import argparse
import gzip
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

RANKS = 4
F, B, DELAY = 1000, 2000, 100  # us
INNER = 6                      # operators inside an op, as in a small stage


def one_f_one_b(rank, microbatches):
    warm = min(RANKS - rank, microbatches)
    order = [("F", m) for m in range(warm)]
    for m in range(microbatches):
        order.append(("B", m))
        if warm + m < microbatches:
            order.append(("F", warm + m))
    return order


def replay(microbatches):
    """(kind, microbatch, start, end) for each rank, in us since the begin of the iteration."""
    orders = [one_f_one_b(rank, microbatches) for rank in range(RANKS)]
    at, free, ended = [0] * RANKS, [0] * RANKS, {}
    spans = [[] for _ in range(RANKS)]
    moved = True
    while moved:
        moved = False
        for rank in range(RANKS):
            while at[rank] < len(orders[rank]):
                kind, m = orders[rank][at[rank]]
                needs = None if (kind == "F" and rank == 0) or (kind == "B" and rank == RANKS - 1) else (kind, rank - 1 if kind == "F" else rank + 1, m)
                if needs and needs not in ended:
                    break
                start = max(free[rank], ended[needs] + DELAY if needs else 0)
                end = start + (F if kind == "F" else B)
                spans[rank].append((kind, m, start, end))
                ended[kind, rank, m] = free[rank] = end
                at[rank] += 1
                moved = True
    return spans


def event(rank, name, category, start, length, args=""):
    return (f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {1000 + rank}, "tid": {1000 + rank}, '
            f'"ts": {start}, "dur": {length}, "args": {{{args}}}}}')


def messages_of(rank, kind, start, end, microbatch, labels):
    """The send after the end of an op, and the receive that ended with the arrival of its input."""
    sends = rank < RANKS - 1 if kind == "F" else rank > 0
    receives = rank > 0 if kind == "F" else rank < RANKS - 1
    if labels:
        return ([event(rank, f"PP:{rank}RECV_{kind}{microbatch}", "user_annotation", start, 0)] * receives
                + [event(rank, f"PP:{rank}SEND_{kind}{microbatch}", "user_annotation", end, 1)] * sends)
    shape = '"Input Dims": [[4, 128, 768]], "Input type": ["float"]'
    return ([event(rank, "gloo:recv", "user_annotation", start, 0, shape)] * receives
            + [event(rank, "gloo:send", "user_annotation", end - 1, DELAY, shape)] * sends)


def iteration_events(rank, spans, base, labels):
    for kind, microbatch, start, end in spans:
        yield event(rank, f"PP:{rank}{kind}{microbatch}", "user_annotation", base + start, end - start)
        if not labels:
            piece = (end - start) // INNER
            for i in range(INNER):
                yield event(rank, "aten::addmm", "cpu_op", base + start + i * piece, piece - 1,
                            f'"External id": {i}, "Input Dims": [[768], [512, 768], [768, 768], [], []], "Input type": '
                            '["float", "float", "float", "Scalar", "Scalar"], "Record function id": 0, "Ev Idx": 7')
        yield from messages_of(rank, kind, base + start, base + end, microbatch, labels)


def write_traces(folder, wanted, labels):
    """The files and their number of events, about `wanted`."""
    per_microbatch = sum(len(list(iteration_events(rank, replay(1)[rank], 0, labels))) for rank in range(RANKS))
    microbatches = max(1, wanted // per_microbatch) if labels else 16
    microbatches = min(microbatches, 65536)
    iterations = 1 if labels else max(1, wanted // (per_microbatch * microbatches))
    spans = replay(microbatches)
    length = max(span[-1][3] for span in spans) + 500
    files, events = [], 0
    for rank in range(RANKS):
        files.append(os.path.join(folder, f"rank{rank}.json"))
        with open(files[-1], "w") as out:
            out.write(f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "gloo", "rank": {rank}, "world_size": {RANKS}}}, "traceEvents": [\n')
            out.write('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}')
            for iteration in range(iterations):
                base = iteration * length
                if not labels:
                    out.write(",\n" + event(rank, f"ProfilerStep#{iteration}", "user_annotation", base, length - 1))
                    events += 1
                for line in iteration_events(rank, spans[rank], base, labels):
                    out.write(",\n" + line)
                    events += 1
            out.write("\n]}\n")
    return files, events


def measured(*words):
    """The seconds of processor time, and the peak memory of the process (at least that of this interpreter, which starts it)."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read()
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = usage.ru_utime + usage.ru_stime  # also on a machine with other load
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{words}: {error.decode()}")
    return seconds, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--write")
    parser.add_argument("--most", type=int, default=1000000)
    arguments = parser.parse_args()
    slackline = os.path.join(os.path.abspath(arguments.build), "slackline")
    rows = []
    for labels in (False, True):
        wanted = 1000
        while wanted <= arguments.most:
            with tempfile.TemporaryDirectory(prefix="slackline-trace.") as folder:
                files, events = write_traces(folder, wanted, labels)
                size = sum(os.path.getsize(file) for file in files)
                seconds, memory = measured(slackline, "import", *files, "--time-limit", "0")
                packed = "-"
                if wanted == arguments.most:
                    for file in files:
                        with open(file, "rb") as plain, gzip.open(file + ".gz", "wb", 1) as out:
                            while piece := plain.read(1 << 20):
                                out.write(piece)
                    packed = f"{measured(slackline, 'import', *[file + '.gz' for file in files], '--time-limit', '0')[0]:.2f} s"
            rows.append(["labels alone" if labels else "of PyTorch", f"{events:,}", f"{size / 1e6:.1f} MB", f"{seconds:.2f} s", packed,
                         f"{seconds / events * 1e6:.1f} us", f"{memory:.0f} MB"])
            print(rows[-1], file=sys.stderr)
            wanted *= 10
    finish(arguments.write, "Large traces",
           f"`bench/trace/run.py --write docs/results/evidence/usability.md`; {machine()}. `slackline import` reads four files, one per rank,\n"
           "with `--time-limit 0`. Times are processor times and include the plans that it compares with.\n\n"
           + table(["trace", "events", "files", "time", "packed by gzip", "per event", "peak memory"], rows))


if __name__ == "__main__":
    main()
