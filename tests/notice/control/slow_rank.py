"""A small iterative program of MPI that knows nothing of being watched; one of its ranks works longer from an iteration on.
Usage: slow_rank.py ITERATIONS FROM UNTIL RANK EXTRA_MS"""
import sys
import time

import numpy
from mpi4py import MPI

iterations, begin, end, slow, extra = map(int, sys.argv[1:])
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
mine, total = numpy.full(256, float(rank)), numpy.empty(256)
received = numpy.empty(64)
check = 0.0
for i in range(iterations):
    time.sleep(0.012 + (extra / 1000 if rank == slow and begin <= i < end else 0))
    world.Allreduce(mine, total)
    check += total[0]
    time.sleep(0.01)
    world.Sendrecv(mine[:64], (rank + 1) % size, 0, received, (rank - 1) % size, 0)
    world.Barrier()
expected = iterations * size * (size - 1) / 2
if check != expected:
    sys.exit(f"rank {rank}: {check} instead of {expected}")
