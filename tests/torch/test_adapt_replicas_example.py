# labels: slow calm torch
"""examples/python/replicas.py with other numbers and other sums of gradients: the slow replica takes fewer microbatches of a DataLoader until it
recovers, no sample is taken twice, and the mean losses are those of PyTorch's even split."""
import os
import re
import sys

from environments import variables
from forked_ranks import ForkedRanks
from runner import expect, source
import venv_torch  # noqa: F401  skips without PyTorch

ranks = ForkedRanks(sys.executable, "torch.distributed.fsdp", env=variables())
LINE = r"^adapted, {} +[\d.]+ ms, microbatches (.*)$"


def shown(*words):
    """The numbers of microbatches of the replicas while one is slow, and after it has recovered."""
    code, output = ranks.run(0, os.path.join(source, "tests", "torch", "forked_spawn.py"), os.path.join(source, "examples", "python", "replicas.py"), *words)
    expect(code == 0 and "each sample once per epoch" in output, f"{words}: exit {code}\n{output}")
    apart = re.search(r"mean losses at most (\S+) apart", output)
    expect(apart and float(apart[1]) <= 1e-9, f"{words}: {output}")
    return [[int(number) for number in re.findall(r"\d+", re.search(LINE.format(when), output, re.M)[1])] for when in ("slow", "recovered")]


def moves(microbatches, replicas, *words):
    slow, recovered = shown("--microbatches", str(microbatches), "--replicas", str(replicas), *words)
    expect(len(slow) == replicas and sum(slow) == microbatches * replicas and slow[-1] < microbatches <= min(slow[:-1]), f"{words}: {slow} while the last one is slow")
    expect(sum(recovered) == microbatches * replicas and recovered[-1] > slow[-1], f"{words}: {slow} while the last one is slow, {recovered} after it has recovered")


def test_three_replicas_that_sum_by_hand():
    moves(7, 3, "--sums", "hand", "--rest", "5")


def test_replicas_under_fully_shard():
    moves(6, 2, "--sums", "fully_shard")
