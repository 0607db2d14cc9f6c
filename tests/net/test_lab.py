# labels: long net
"""The laboratory of tests/net does what it says: a rail that is down carries nothing and comes back, a blackhole is one
direction and tells nobody, a rate is a rate, the two hosts have their own names, MPI crosses by the management pair, and
nothing stays, however the laboratory ends."""
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

import lab as laboratory
from lab import Lab
from runner import build, skip, source
from waiting import until

if why := laboratory.permitted():
    skip(why)

# a program for one host each: prints what comes / sends n datagrams and then waits a little for nothing
LISTEN = """
import select, socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 9)); print("ready", flush=True); n = 0
while n < int(sys.argv[2]):
    readable = select.select([s, sys.stdin], [], [])[0]
    if s not in readable: break
    s.recv(64); n += 1
print(n)
"""
SEND = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    try: s.sendto(b"x", (sys.argv[1], 9))
    except OSError as error: print(error.errno)
"""
TAKE = """
import socket, sys, time
l = socket.create_server((sys.argv[1], 9)); print("ready", flush=True); c, _ = l.accept(); n = 0; t = time.monotonic()
while (d := c.recv(1 << 16)): n += len(d)
print(n, time.monotonic() - t)
"""
GIVE = """
import socket, sys
c = socket.create_connection((sys.argv[1], 9))
c.sendall(bytes(int(sys.argv[2])))
"""


def arrives(lab, sender, rail, version=4, count=3):
    """How many of `count` datagrams from `sender` reach the other host on this rail."""
    address = lab.address(1 - sender, rail, version)
    listener = lab.start(1 - sender, [sys.executable, "-c", LISTEN, address, str(count)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    assert listener.stdout.readline() == "ready\n"
    lab.run(sender, [sys.executable, "-c", SEND, address, str(count)], stdout=subprocess.DEVNULL)
    try:
        listener.wait(0.4)  # from when all is sent; then it counts what has come and ends
    except subprocess.TimeoutExpired:
        pass
    return int(listener.communicate()[0])


def carries(lab, rail, wanted=(3, 3, 3, 3)):
    """1: of three datagrams so many arrive from host 0 and from host 1, by version 4, then 6."""
    got = tuple(arrives(lab, host, rail, version) for version in (4, 6) for host in (0, 1))
    if got != wanted:
        print(f"  rail {rail} carries {got}, not {wanted}")
    return got == wanted


def test_both_versions_work_on_every_rail():
    with Lab(rails=2) as lab:
        for rail in (0, 1):
            assert carries(lab, rail), rail


def test_a_rail_that_is_down_carries_nothing_and_comes_back():
    with Lab(rails=2) as lab:
        for host in (0, 1):
            lab.down(0, host)
            assert carries_nothing(lab, 0), host
            assert arrives(lab, 0, 1) == 3, "the other rail is not touched"
            lab.up(0, host)
            assert carries(lab, 0), host
        lab.flap(0, 3, 0.02, 0.02)
        assert carries(lab, 0)
        lab.outage(0.1)
        assert carries(lab, 0) and carries(lab, 1)


def carries_nothing(lab, rail):
    """An address stays on its interface when that is down, so listening works."""
    return all(arrives(lab, host, rail, 4) == 0 for host in (0, 1))


def test_a_blackhole_is_one_way_and_tells_nobody():
    with Lab(rails=2) as lab:
        lab.blackhole(0, 0)
        assert carries(lab, 0, (0, 3, 0, 3))
        assert arrives(lab, 0, 1) == 3, "the other rail is not touched"
        said = lab.run(0, [sys.executable, "-c", SEND, lab.address(1, 0), "5"], capture_output=True, text=True).stdout
        assert said == "", f"sending into a blackhole gave errno {said}"
        lab.down(0, 1), lab.up(0, 1)
        lab.down(0, 0), lab.up(0, 0)
        assert carries(lab, 0, (0, 3, 0, 3)), "it lasts when the link goes down and up"
        lab.heal(0, 0)
        assert carries(lab, 0)
        lab.blackhole(0, 1)
        assert carries(lab, 0, (3, 0, 3, 0))
        lab.restore()
        assert carries(lab, 0)


def test_an_established_connection_stalls_in_a_blackhole_without_an_error():
    """What makes a sender's own watch necessary: the kernel keeps the connection, its data do not arrive."""
    with Lab(rails=1) as lab:
        taker = lab.start(1, [sys.executable, "-c", "import socket,sys\nl=socket.create_server((sys.argv[1],9))\n"
                              "print('ready',flush=True)\nc,_=l.accept()\nprint(len(c.recv(9)),flush=True)\n"
                              "print(len(c.recv(9)),flush=True)", lab.address(1, 0)], stdout=subprocess.PIPE, text=True)
        assert taker.stdout.readline() == "ready\n"
        giver = lab.start(0, [sys.executable, "-c", "import socket,sys\nc=socket.create_connection((sys.argv[1],9))\n"
                              "c.sendall(b'a')\nsys.stdin.readline()\nc.sendall(b'bc')\nprint('sent',flush=True)\n"
                              "sys.stdin.readline()", lab.address(1, 0)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
        assert taker.stdout.readline() == "1\n"
        lab.blackhole(0, 0)
        giver.stdin.write("\n"), giver.stdin.flush()
        assert giver.stdout.readline() == "sent\n"
        os.set_blocking(taker.stdout.fileno(), False)
        time.sleep(0.5)
        assert is_empty(taker.stdout), "data came through a blackhole"
        assert taker.poll() is None and giver.poll() is None
        lab.heal(0, 0)  # the kernel sends it again
        until(lambda: not is_empty(taker.stdout) or taker.poll() is not None, 20)
        assert os.read(taker.stdout.fileno(), 9) == b"2\n"


def is_empty(stream):
    return not select.select([stream], [], [], 0)[0]


def test_an_unreachable_route_fails_at_once():
    with Lab(rails=1) as lab:
        lab.unreachable(0, 0)
        said = lab.run(0, [sys.executable, "-c", SEND, lab.address(1, 0), "1"], capture_output=True, text=True).stdout
        assert said.strip() == "22", f"errno {said!r}, not EINVAL"
        assert arrives(lab, 1, 0) == 3
        lab.heal(0, 0)
        assert carries(lab, 0)


def test_a_rate_is_never_exceeded():
    """2 MB at 80 Mbit/s take 0.2 s; the bucket holds 2 ms of it (20 kB) and the kernel's own room is below 100 kB."""
    with Lab(rails=1, mbit=80) as lab:
        taker = lab.start(1, [sys.executable, "-c", TAKE, lab.address(1, 0)], stdout=subprocess.PIPE, text=True)
        assert taker.stdout.readline() == "ready\n"
        lab.run(0, [sys.executable, "-c", GIVE, lab.address(1, 0), "2000000"])
        count, seconds = taker.communicate()[0].split()
        assert int(count) == 2000000
        assert float(seconds) >= (2000000 - 120000) * 8 / 80e6, f"{seconds} s: faster than its rate"


def test_hosts_have_their_own_names_and_interfaces():
    real = socket.gethostname(), os.listdir("/sys/class/net")
    with Lab(rails=2) as lab:
        names = [lab.run(host, ["hostname"], capture_output=True, text=True).stdout.strip() for host in (0, 1)]
        assert names == lab.host_name and len({*names, socket.gethostname()}) == 3
        seen = lab.ip(0, "-brief", "link")
        assert sorted(line.split()[0].split("@")[0] for line in seen.splitlines()) == ["lo", "mgmt", "rail0", "rail1"]
    assert (socket.gethostname(), os.listdir("/sys/class/net")) == real


def test_mpi_crosses_by_the_management_pair():
    """Ranks on both hosts sum in a fixed order while every rail is down."""
    program = os.path.join(build, "tests", "sum_ranks")
    if not os.path.exists(program):
        print("  (not tried: sum_ranks is not built)")
        return
    with Lab(rails=2) as lab, tempfile.TemporaryDirectory() as folder:
        for rail in (0, 1):
            lab.down(rail)
        done = subprocess.run(lab.mpirun(folder, (2, 2), [program, "bits"]), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def test_training_crosses_and_the_weights_stay():
    """The same run on one host and on two: the same bits."""
    command = os.path.join(build, "slackline")
    if not os.path.exists(os.path.join(build, "slackline-worker")):
        print("  (not tried: the trainer is not built)")
        return
    hashes = []
    with Lab(rails=2) as lab, tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run.yaml")
        with open(run, "w") as file:
            file.write("model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}\n"
                       f'data: {{files: ["{source}/docs/*.md"], seed: 3}}\nparallel: {{pipeline: 4}}\n'
                       "batch: {microbatches: 6, size: 2}\niterations: 3\nschedule: adaptra\n")
        for name in ("alone", "apart"):
            words = [command, "train", run, "--out", os.path.join(folder, name)]
            words = words if name == "alone" else lab.mpirun(folder, (2, 2), words)
            done = subprocess.run(words, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            hashes += [line for line in done.stdout.splitlines() if line.startswith("weights_hash")]
    assert len(hashes) == 2 and hashes[0] == hashes[1], hashes


def test_nothing_stays_however_it_ends():
    """A laboratory with something running in it, ended by its own failure, SIGTERM and SIGKILL."""
    program = ("import os, sys, time; sys.path.insert(0, sys.argv[1]); from lab import Lab\n"
               "with Lab(rails=2) as lab:\n"
               "    a = lab.start(0, ['sh', '-c', 'sleep 1000 & wait']); b = lab.start(1, ['sleep', '1000'])\n"
               "    print(lab.space, [h.pid for h in lab.holder], flush=True)\n"
               "    if sys.argv[2] == 'fail': raise SystemExit(3)\n"
               "    while True: time.sleep(0.1)\n")  # a signal that comes just before a long sleep begins is seen behind it
    for how, wanted in (("fail", 3), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        child = subprocess.Popen([sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__)), str(how)],
                                 stdout=subprocess.PIPE, text=True)
        spaces, holders = (eval(part + "]") for part in child.stdout.readline().strip()[:-1].split("] "))
        if how != "fail":
            child.send_signal(how)
        assert child.wait(20) == wanted, (how, child.returncode)
        end = time.monotonic() + 10
        while (left := alive(spaces)) and time.monotonic() < end:
            if how == signal.SIGKILL:  # a grandchild may outlive it: only what was started directly dies with it
                left = [process for process in left if "sleep 1000" not in command_of(process)]
                if not left:
                    break
            time.sleep(0.02)
        for process in alive(spaces):
            os.kill(process, signal.SIGKILL)
        assert not left, f"{how}: processes {left} stay in the namespaces"


def alive(spaces):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino in spaces:
                found.append(int(name))
        except OSError:
            pass
    return found


def command_of(process):
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""
