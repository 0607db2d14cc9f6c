"""Stand-ins for what this machine lacks. None of this runs on a device: it only behaves like one towards the code that measures.

    Event   of a device that completes its work some time after the program has asked for it. Replaces torch.Event
    polled  a backend of process groups over Gloo that behaves like NCCL: the messages of two ranks in a group follow each other in one
            queue, in both directions, and a Work completes by itself, which `is_completed` shows
"""
import queue
import threading
import time

import torch
import torch.distributed as dist


class Event:
    """An event in the queue of a simulated device."""
    behind = 0.0  # seconds from the call of `record` to the completion of an event with no work before it
    busy_until = {}  # of each device
    stuck = False  # events recorded from now on never complete
    error = None  # of the device: every later call raises it

    def __init__(self, device=None, *, enable_timing=False):
        assert enable_timing, "events without times cannot be compared"
        self.when, self.device = None, torch.device(device)

    @classmethod
    def work(cls, seconds, device="cuda:0"):
        """The program hands the device work that takes `seconds`."""
        device = torch.device(device)
        cls.busy_until[device] = max(cls.busy_until.get(device, 0.0), time.monotonic() + cls.behind) + seconds

    @classmethod
    def failing(cls):
        if cls.error is not None:
            raise RuntimeError(cls.error)

    def record(self, stream=None):
        self.failing()
        self.when = float("inf") if Event.stuck else max(Event.busy_until.get(self.device, 0.0), time.monotonic() + Event.behind)

    def query(self):
        self.failing()
        return self.when is not None and time.monotonic() >= self.when

    def synchronize(self):
        assert self.when != float("inf"), "would wait forever"
        while not self.query():
            time.sleep(1e-4)

    def elapsed_time(self, end):
        if self.device != end.device:
            raise RuntimeError("Event device types or indices do not match.")
        if not self.query() or not end.query():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return float(torch.tensor((end.when - self.when) * 1e3, dtype=torch.float32))


class Work(dist.Work):
    def __init__(self, start):
        super().__init__()
        self.start, self.over, self.error = start, threading.Event(), None

    def run(self):
        try:
            self.start().wait()
        except RuntimeError as error:
            self.error = error
        self.over.set()

    def is_completed(self):
        return self.over.is_set()

    def wait(self, timeout=None):
        self.over.wait()
        if self.error:
            raise self.error
        return True


class Polled(dist.ProcessGroup):
    supports_coalescing = supports_splitting = False

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.inner = dist.ProcessGroupGloo(store, rank, size, timeout)
        self.queues = {}

    def getBackendName(self):
        return "polled"

    def _get_backend(self, device):
        return self

    def queued(self, peer, start):
        if peer not in self.queues:
            self.queues[peer] = queue.SimpleQueue()
            threading.Thread(target=self.carry, args=(self.queues[peer],), daemon=True).start()
        work = Work(start)
        self.queues[peer].put(work)
        return work

    @staticmethod
    def carry(works):
        while True:
            works.get().run()

    def send(self, tensors, peer, tag=0):
        return self.queued(peer, lambda: self.inner.send(tensors, peer, tag))

    def recv(self, tensors, peer, tag=0):
        return self.queued(peer, lambda: self.inner.recv(tensors, peer, tag))

    def barrier(self, options=None):
        return self.inner.barrier()


def register():
    if "POLLED" not in dist.Backend._plugins:
        dist.Backend.register_backend("polled", Polled, devices=["cpu"])
