"""A link with latency between the two hosts of a Lab (tests/net/lab.py), for kernels without netem: a pair of TAP interfaces, and a process outside
of what is measured that passes each frame on after a delay.

    with FarLink(lab) as link:      # both hosts have an interface `far0` with the addresses link.address(host)
        link.delay(0.06)            # seconds, each way, from now on

Frames are as large as they may be (65,000 bytes), so that a message is few of them."""
import collections
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

NAME, MTU = "far0", 65000
CLONE_NEWNET, TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0002, 0x1000


class FarLink:
    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        holders = [str(holder.pid) for holder in self.lab.holder]
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), *holders], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise OSError(f"no TAP interfaces: exit code {self.process.wait()}")
        for host in (0, 1):
            self.lab.ip(host, "address", "add", self.address(host) + "/24", "dev", NAME)
            self.lab.ip(host, "link", "set", NAME, "mtu", str(MTU), "up")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def address(self, host):
        return f"10.79.0.{host + 1}"

    def delay(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()


# ---- the process ----------------------------------------------------------------------------------------------------------


def opened(holder):
    """A TAP interface in the network of a process."""
    with open(f"/proc/{holder}/ns/net") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", NAME.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def passed_on(taps):
    """Until stdin ends. A frame never overtakes another one, also when the delay becomes shorter."""
    other, delay, waiting = {taps[0]: taps[1], taps[1]: taps[0]}, 0.0, {tap: collections.deque() for tap in taps}
    poll = select.poll()
    for one in (*taps, 0):
        poll.register(one, select.POLLIN | select.POLLHUP)
    while True:
        now = time.monotonic()
        for tap, frames in waiting.items():
            while frames and frames[0][0] <= now:
                try:
                    os.write(tap, frames[0][1])
                except BlockingIOError:
                    break
                except OSError:  # the interface is down: the frame is lost, as on a cable
                    pass
                frames.popleft()
        due = [frames[0][0] for frames in waiting.values() if frames]
        for ready, _ in poll.poll(max(0.0, min(due) - now) * 1e3 if due else None):
            if ready == 0:
                words = os.read(0, 4096).decode().split()
                if not words:
                    return
                delay = float(words[-1])
                continue
            for _ in range(64):
                try:
                    frame = os.read(ready, MTU + 100)
                except (BlockingIOError, OSError):
                    break
                waiting[other[ready]].append((time.monotonic() + delay, frame))


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the bench ends it
    taps = [opened(holder) for holder in sys.argv[1:]]
    print("ready", flush=True)
    passed_on(taps)


if __name__ == "__main__":
    main()
