"""Random mixed faults from a seed: component, severity, first and last iteration. A pure function, so that a live run, a simulation
and a test with the same seed have the same faults.

Time is cut into phases of 25 to 60 iterations. The first and the last phase are healthy. Each fault begins with a phase and lasts
one to three phases, so faults overlap. In all other phases one to three components are slow. Each is a device (its ops take 1.3 to
2.5 times as long), a link between neighbors of a pipeline, or a link between two replicas of a stage. A slow link has extra latency,
less bandwidth, or both; one in four of them is slow in one direction only."""
import random

MIN, LONGEST, AT_ONCE = 25, 60, 3


class Layout:
    """The rank map: world rank = (pipeline * data + replica) * tensor + tensor rank."""

    def __init__(self, pipeline, data, tensor=1, microbatches=12, pace=4.0, layers=None, zero=0):
        self.pipeline, self.data, self.tensor, self.microbatches = pipeline, data, tensor, microbatches
        self.pace, self.layers, self.zero = pace, layers or pipeline, zero
        self.world = pipeline * data * tensor

    def __str__(self):
        return f"{self.pipeline} x {self.data}" + (f" x {self.tensor}" if self.tensor > 1 else "")

    def seat(self, rank):
        return rank // self.tensor // self.data, rank // self.tensor % self.data, rank % self.tensor

    def rank(self, pipeline, replica, tensor=0):
        return (pipeline * self.data + replica) * self.tensor + tensor

    def even(self):
        return [self.microbatches * (r + 1) // self.data - self.microbatches * r // self.data for r in range(self.data)]


class Fault:
    """`kind`: device, link or sum; `ends`: the process or the two processes, as world ranks at the start of the run."""

    def __init__(self, kind, ends, slowdown=1.0, latency=0.0, gbps=0.0, one_way=False):
        self.kind, self.ends, self.slowdown, self.latency, self.gbps, self.one_way = kind, ends, slowdown, latency, gbps, one_way
        self.first = self.end = 0

    def __str__(self):
        if self.kind == "device":
            return f"device {self.ends[0]} {self.slowdown:.2f} x"
        how = [f"{self.latency:.0f} ms"] * (self.latency > 0) + [f"{self.gbps * 1e3:.3g} Mbit/s"] * (self.gbps > 0)
        return f"{self.kind} {self.ends[0]}-{self.ends[1]} {', '.join(how)}{' one way' if self.one_way else ''}"

    def item(self, layout, first=None, end=None):
        """The fault as an entry of the run file's `faults`."""
        place, replica, tensor = layout.seat(self.ends[0])
        item = {"iterations": [self.first if first is None else first, self.end if end is None else end]}
        if layout.tensor > 1:
            item["tensor"] = tensor
        if self.kind == "device":
            return {**item, "rank": place, "replica": replica, "slowdown": self.slowdown}
        other, other_replica, _ = layout.seat(self.ends[1])
        item.update({"link": [place, other], "replica": replica} if self.kind == "link" else
                    {"rank": place, "replicas": [replica, other_replica]})
        item.update({"latency_ms": self.latency} if self.latency else {})
        item.update({"bandwidth_gbps": self.gbps} if self.gbps else {})
        return {**item, **({"one_way": True} if self.one_way else {})}


def message_bytes():
    return 32 * 64 * 4  # bytes of an activation of the bench's model: context, width, f32


def slow_link(rng, layout, kind, ends):
    """Of the op's time: a link takes 1 to 8 of it one way."""
    fault = Fault(kind, ends, one_way=kind == "link" and rng.random() < 0.25)
    how = rng.choice(("latency", "bandwidth", "both"))
    if how != "bandwidth":
        fault.latency = round(layout.pace * rng.uniform(1, 8), 1)
    if how != "latency":
        volume = message_bytes() if kind == "link" else 50e3 * 4 / layout.data  # about a stage's share of the sum, in bytes
        fault.gbps = round(volume * 8 / (layout.pace * rng.uniform(1, 5) * 1e6), 6)
    return fault


def make(rng, layout):
    kinds = ["device", "device"] + ["link"] * (layout.pipeline > 1) + ["sum"] * (layout.data > 1)
    kind = rng.choice(kinds)
    if kind == "device":
        return Fault(kind, (rng.randrange(layout.world),), slowdown=round(rng.uniform(1.3, 2.5), 2))
    replica, tensor, place = rng.randrange(layout.data), rng.randrange(layout.tensor), rng.randrange(layout.pipeline)
    if kind == "link":
        place = rng.randrange(layout.pipeline - 1)
        return slow_link(rng, layout, kind, (layout.rank(place, replica, tensor), layout.rank(place + 1, replica, tensor)))
    other = rng.choice([r for r in range(layout.data) if r != replica])
    return slow_link(rng, layout, kind, (layout.rank(place, replica, tensor), layout.rank(place, other, tensor)))


def draw(seed, layout, iterations, least=MIN, longest=LONGEST):
    """The faults, and the resulting phases [(first, end, faults)]."""
    rng = random.Random(f"mixed {seed} {layout}")
    edges = [0]
    while iterations - edges[-1] >= 2 * least:
        edges.append(edges[-1] + rng.randint(least, min(longest, iterations - edges[-1] - least)))
    edges.append(iterations)
    phases, faults = len(edges) - 1, []
    for phase in range(1, phases - 1):
        lasting = [f for f in faults if f.end > edges[phase]]
        wanted = rng.randint(1, AT_ONCE) - len(lasting)
        changes = any(f.end == edges[phase] for f in faults)
        while wanted > 0 or not (lasting and changes or any(f.first == edges[phase] for f in faults)):
            fault = make(rng, layout)
            if any(f.ends == fault.ends for f in lasting):
                continue
            fault.first, fault.end = edges[phase], edges[min(phases - 1, phase + rng.choice((1, 1, 2, 3)))]
            faults.append(fault)
            lasting.append(fault)
            wanted -= 1
    return faults, [(a, b, [f for f in faults if f.first <= a < f.end]) for a, b in zip(edges, edges[1:])]
