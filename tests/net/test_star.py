# labels: net
"""Hosts on a switch: one slow direction is slow, the other directions are not, and MPI runs over all hosts."""
import subprocess
import sys
import tempfile

from runner import skip
from star import Star, permitted

SENDER = """import socket,sys,time
c = socket.create_connection((sys.argv[1], 5001)); block = bytes(1 << 16); sent = 0
while sent < int(sys.argv[2]): sent += c.send(block)
c.shutdown(socket.SHUT_WR); c.recv(1)"""
TAKER = """import socket,time
l = socket.create_server(("", 5001)); print("ready", flush=True); c, _ = l.accept(); begin = time.monotonic(); got = 0
while (part := c.recv(1 << 16)): got += len(part)
print(got * 8e-6 / (time.monotonic() - begin), flush=True)"""


def rate(star, sender, taker, size):
    """Megabit/s from one host to another."""
    process = star.start(taker, [sys.executable, "-c", TAKER], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    star.run(sender, [sys.executable, "-c", SENDER, star.address(taker), str(size)], check=True)
    return float(process.stdout.readline())


def test_one_direction_of_one_link_is_slow(star):
    star.slow(1, 2, 40)
    slow = rate(star, 1, 2, 2_000_000)
    assert 20 < slow < 44, f"{slow:.0f} Mbit/s where 40 were set"
    for sender, taker in ((2, 1), (1, 0), (0, 2)):
        other = rate(star, sender, taker, 8_000_000)
        assert other > 3 * slow, f"{sender} to {taker}: {other:.0f} Mbit/s beside {slow:.0f}"
    star.restore()
    assert rate(star, 1, 2, 8_000_000) > 3 * slow


def test_mpi_runs_on_every_host(star):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(star.mpirun(folder, 1, ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)"]),
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(sum(([str(h), star.host_name[h]] for h in range(4)), [])), done.stdout


def given():
    if why := permitted():
        skip(why)
    with Star(hosts=4) as star:
        yield star,
