# labels: torch
"""What slackline.adapt measures on a device and over other backends than Gloo, with stand-ins (device_torch.py): no device and no NCCL
is involved here."""
import time

import adapt_torch  # noqa: F401
import device_torch
from runner import expect

import torch
from slackline.adapting import groups, timings
from slackline.adapting.agreement import Cannot
from slackline.adapting.given import Given
from slackline.adapting.memory import free_bytes
from slackline.adapting.timings import OP, RECEIVED, SENT, Clock, Step, Waiters


class OnADevice:
    """Clocks use the stand-in's events, as for a device."""

    def __enter__(self):
        self.event, torch.Event = torch.Event, device_torch.Event
        for what, value in {"behind": 0.0, "busy_until": {}, "stuck": False, "error": None}.items():
            setattr(device_torch.Event, what, value)
        return Clock(torch.device("cuda", 0))

    def __exit__(self, *error):
        torch.Event = self.event


def ran(clock, ops_ms, device="cuda:0"):
    """A step whose ops take this long on the device; the program does not wait for them."""
    step = Step(3, clock, Waiters(False))
    for microbatch, ms in enumerate(ops_ms):
        step.enter("F", 0, microbatch)
        device_torch.Event.work(ms / 1e3, device)
    step.finish()
    return step


def test_times_are_the_devices_on_the_clock_of_the_rank():
    with OnADevice() as clock:
        device_torch.Event.behind = 0.02
        begin = time.monotonic_ns()
        step = ran(clock, [30, 10, 20])
        expect(time.monotonic_ns() - begin < 20e6, "the program waited for the device")
        expect(step.is_complete(), "not complete")
        time.sleep(0.03)  # when they are read does not matter
        rows = step.resolved()
    found = [round((end - start) / 1e6) for what, _, _, _, start, end in rows if what == OP]
    expect(found == [30, 10, 20], f"ops took {found}")
    expect(all(isinstance(one, int) for row in rows for one in row), f"{rows}")
    expect(15e6 < rows[0][4] - begin < 40e6, f"the first began {(rows[0][4] - begin) / 1e6} ms after the program's call, 20 behind")
    expect(abs(step.end - step.begin - 60e6) < 8e6, f"the step took {(step.end - step.begin) / 1e6} ms")


def test_a_step_that_a_device_does_not_complete_is_not_measured():
    with OnADevice() as clock:
        clock.PATIENCE_S = 0.05
        device_torch.Event.stuck = True
        step = ran(clock, [1])
        began = time.monotonic()
        expect(not step.is_complete() and 0.04 < time.monotonic() - began < 2, "an event that never completes")
        device_torch.Event.stuck = False
        expect(ran(clock, [1]).is_complete(), "a later step")


def test_an_event_that_completes_after_the_end_of_its_step_gives_no_time():
    """As on another stream: the step's end is reached, and an event before it is not."""
    with OnADevice() as clock:
        step = ran(clock, [1, 1])
        what, op, stage, microbatch, begin, end = step.rows[0]
        late = torch.Event(device="cuda:0", enable_timing=True)
        late.when = time.monotonic() + 0.5
        step.rows[0] = what, op, stage, microbatch, begin, late
        expect(step.is_complete(), "its end is reached")
        try:
            expect(False, f"times of an event that has not completed: {step.resolved()}")
        except RuntimeError as error:
            expect("completed" in str(error), f"{error}")


def test_ranks_of_one_process_measure_their_own_devices():
    with OnADevice():
        clocks = [Clock(torch.device("cuda", index)) for index in range(2)]
        steps = [ran(clock, ops_ms, f"cuda:{index}") for index, (clock, ops_ms) in enumerate(zip(clocks, ([30, 10], [5, 20])))]
        expect(all(step.is_complete() for step in steps), "not complete")
        found = [[round((end - begin) / 1e6) for what, _, _, _, begin, end in step.resolved() if what == OP] for step in steps]
    expect(found == [[30, 10], [5, 20]], f"ops took {found}")


def test_an_error_of_the_device_is_raised_where_it_is_read():
    with OnADevice() as clock:
        step = ran(clock, [1])
        device_torch.Event.error = "CUDA error: an illegal memory access was encountered"
        for call in (step.is_complete, clock.compare, step.resolved):
            try:
                call()
                expect(False, f"{call} went on")
            except RuntimeError as error:
                expect("illegal memory access" in str(error), f"{error}")


def test_messages_have_times_of_the_device_and_arrivals_of_their_works():
    class Slow:
        """A Work that completes 30 ms after it was posted, and shows only that."""

        def __init__(self):
            self.until = time.monotonic() + 0.03

        def is_completed(self):
            return time.monotonic() >= self.until

    class Ops(list):
        pass
    with OnADevice() as clock:
        device_torch.Event.behind = 0.005
        step = Step(0, clock, waiters := Waiters(False))
        sends, receives = timings._Sends([]), timings._Receives([type("P2P", (), {"group_peer": 1, "group": None})()])
        sends.key, receives.key = (0, 0, 5), (1, 1, 7)
        waited = []
        posted = time.monotonic_ns()
        step.post(sends, lambda ops: [])
        works = step.post(receives, lambda ops: [Slow()])
        step.wait(works, lambda given: waited.append(len(given)))
        time.sleep(0.06)
        step.finish()
        expect(step.is_complete(), "not complete")
        rows = {row[0]: row for row in step.resolved()}
        waiters.close()
    expect(waited == [1], "the runtime itself waits for a Work that is polled")
    expect(rows[SENT][1:4] == (0, 0, 5) and 4e6 < rows[SENT][4] - posted < 12e6, f"sent {(rows[SENT][4] - posted) / 1e6} ms later, 5 behind")
    expect(rows[RECEIVED][1:4] == (1, 1, 7) and 29e6 < rows[RECEIVED][5] - posted < 45e6, f"arrived {(rows[RECEIVED][5] - posted) / 1e6} ms later")


def test_a_work_that_fails_or_never_completes_is_not_measured():
    class Failing:
        def is_completed(self):
            raise RuntimeError("NCCL communicator was aborted")

    class Never:
        def is_completed(self):
            return False
    clock, waiters = Clock(torch.device("cpu")), Waiters(False)
    step = Step(0, clock, waiters)
    for microbatch, work in enumerate((Failing(), Never())):
        receives = timings._Receives([type("P2P", (), {"group_peer": 1, "group": None})()])
        receives.key = 0, 0, microbatch
        step.post(receives, lambda ops, work=work: [work])
    time.sleep(0.02)
    step.finish()
    began = time.monotonic()
    expect([row for row in step.resolved() if row[0] == RECEIVED] == [] and time.monotonic() - began < 0.5, "rows, or it waited")
    waiters.close()


def test_free_memory_comes_from_the_accelerator():
    accelerator = torch.accelerator
    before = accelerator.get_memory_info, accelerator.memory_reserved, accelerator.memory_allocated
    accelerator.get_memory_info, accelerator.memory_reserved, accelerator.memory_allocated = lambda d: (1000, 8000), lambda d: 500, lambda d: 300
    try:
        expect(free_bytes(torch.device("xpu", 1), 4) == 0.9 * 1200, "free, and reserved but not allocated")
    finally:
        accelerator.get_memory_info, accelerator.memory_reserved, accelerator.memory_allocated = before


def test_a_device_without_an_accelerator_is_refused():
    if torch.accelerator.is_available():
        return
    for device in ("cuda:0", "meta"):
        try:
            Given._check_device(torch.device(device))
            expect(False, f"{device} was accepted")
        except Cannot as error:
            expect(device in str(error), f"{error}")


def test_receives_are_posted_early_only_where_they_hold_up_nothing():
    for backend, placement, ranks, communicators, wanted in (
            ("gloo", "linear", 4, 1, True), ("gloo", "wave", 4, 1, False), ("gloo", "wave", 4, 2, True), ("gloo", "loop", 2, 2, True),
            ("nccl", "linear", 4, 1, False), ("nccl", "linear", 4, 2, True), ("nccl", "loop", 4, 2, True), ("nccl", "loop", 2, 2, False),
            ("nccl", "wave", 4, 2, False), ("nccl", "wave", 4, 4, True), ("xccl", "linear", 2, 2, True)):
        found = groups.posts_early(backend, placement, ranks, communicators)
        expect(found == wanted, f"{backend} {placement} {ranks} {communicators}: {found}")


def test_before_2_13_receives_over_nccl_are_not_posted_early():
    before = torch.__version__
    try:
        for version, wanted in (("2.9.1", False), ("2.11.0+cu130", False), ("2.13.0+cpu", True), ("2.14.0a0+git1234", True), ("3.0.0", True)):
            torch.__version__ = version
            expect(groups.pairs_are_apart() == wanted, version)
    finally:
        torch.__version__ = before


def test_messages_of_other_directions_and_kinds_have_groups_of_their_own():
    every = [("F", True), ("F", False), ("B", True), ("B", False)]
    for count, wanted in ((1, [0, 0, 0, 0]), (2, [0, 0, 1, 1]), (3, [0, 1, 2, 2]), (4, [0, 1, 2, 3])):
        found = [groups.communicator(kind, up, count) for kind, up in every]
        expect(found == wanted, f"{count} groups: {found}")
    for placement, ranks in (("linear", 4), ("loop", 2), ("loop", 3), ("wave", 2), ("wave", 4)):
        of = [*range(ranks), *reversed(range(ranks))] if placement == "wave" else [stage % ranks for stage in range(ranks * (1 if placement == "linear" else 2))]
        pairs = {}
        for a, b in zip(of, of[1:]):
            for kind, sender, receiver in (("F", a, b), ("B", b, a)):
                if a != b:
                    pairs.setdefault(frozenset((a, b)), set()).add((kind, receiver > sender))
        count = groups.fewest_communicators("gloo", placement, ranks)
        for uses in pairs.values():
            expect(len({groups.communicator(kind, up, count) for kind, up in uses}) == len(uses), f"{placement} {ranks}: {uses} in {count} groups")
        expect(count == max(map(len, pairs.values())), f"{placement} {ranks}: {count} groups for {pairs}")
