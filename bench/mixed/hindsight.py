"""Static choices for known faults: a rank map, a split of microbatches over replicas, and a schedule planned for each replica's
devices and links. `slackline plan` gives the time of a pipeline. All distinct arrangements of the processes at a fault are tried,
each with its best split."""
import itertools
import json
import os
import subprocess

from draw import message_bytes


class Model:
    def __init__(self, command, layout, folder, reduce_ms):
        self.command, self.layout, self.folder, self.reduce_ms = command, layout, folder, reduce_ms
        self.known = {}

    def planned(self, pipeline, microbatches):
        """`pipeline`: (slowdown per stage, ms per link and direction, extra ms per sum)."""
        key = pipeline, microbatches
        if key not in self.known:
            slow, links, sums = pipeline
            times = [self.layout.pace * s for s in slow]
            problem = {"ranks": self.layout.pipeline, "microbatches": microbatches,
                       "times_ms": {kind: times for kind in "FIW"},
                       "data_parallel": {"reduce_ms": [self.reduce_ms + s for s in sums]}}
            if links:
                problem["links"] = {"list": [{"between": [a, b], "latency_ms": latency, "transfer_ms": transfer, "one_way": True}
                                             for a, b, latency, transfer in links]}
            file = os.path.join(self.folder, "problem.yaml")
            with open(file, "w") as out:
                json.dump({"pipeline": problem}, out)
            done = subprocess.run([self.command, "plan", file, "--format", "json"], capture_output=True, text=True, check=True)
            self.known[key] = json.loads(done.stdout)["makespan_ms"]
        return self.known[key]

    def pipelines(self, home, faults):
        """The devices and links of each replica if process home[seat] is at each position."""
        layout = self.layout
        seat_of = {process: seat for seat, process in enumerate(home)}
        slow = [[1.0] * layout.pipeline for _ in range(layout.data)]
        links, sums = [{} for _ in range(layout.data)], [0.0] * layout.pipeline
        for fault in faults:
            at = [layout.seat(seat_of[process]) for process in fault.ends]
            if fault.kind == "device":
                place, replica, _ = at[0]
                slow[replica][place] = max(slow[replica][place], fault.slowdown)
                continue
            (a, ra, ka), (b, rb, kb) = at
            ms_a_byte = 8 / (fault.gbps * 1e6) if fault.gbps else 0
            if ka == kb and ra == rb and abs(a - b) == 1:
                for way in [(a, b)] if fault.one_way else [(a, b), (b, a)]:
                    before = links[ra].get(way, (0, 0))
                    links[ra][way] = max(before[0], fault.latency), max(before[1], ms_a_byte * message_bytes())
            elif ka == kb and a == b and ra != rb:
                share = self.layout_bytes(a) / layout.data
                sums[a] = max(sums[a], 2 * (fault.latency + ms_a_byte * share))
        return [(tuple(slow[r]), tuple((a, b, *v) for (a, b), v in sorted(links[r].items())), tuple(sums))
                for r in range(layout.data)]

    def layout_bytes(self, stage):
        """Bytes of a stage's gradients: 12 width^2 weights per layer, the embedding on the first stage and its copy on the last."""
        layers = self.layout.layers / self.layout.pipeline
        ends = (stage == 0) + (stage == self.layout.pipeline - 1)
        return 4 * (layers * 12 * 64 * 64 / self.layout.tensor + ends * 256 * 64)

    def split(self, pipelines):
        """The best split and its time: starts with an even split, and moves microbatches from the slowest replica while that helps."""
        split = self.layout.even()
        times = [self.planned(p, m) for p, m in zip(pipelines, split)]
        while True:
            worst = max(range(len(split)), key=lambda r: times[r])
            if split[worst] == 1:
                return max(times), split
            more, to = min((self.planned(pipelines[r], split[r] + 1), r) for r in range(len(split)) if r != worst) \
                if len(split) > 1 else (times[worst], worst)
            if more >= times[worst]:
                return max(times), split
            split[worst] -= 1
            split[to] += 1
            times[worst], times[to] = self.planned(pipelines[worst], split[worst]), more

    def time(self, home, split, faults):
        return max(self.planned(p, m) for p, m in zip(self.pipelines(home, faults), split))

    def best(self, faults, most):
        """[(ms, home, split)] with different times or moves, the best first."""
        touched, found, seen = sorted({process for fault in faults for process in fault.ends}), {}, set()
        everybody = range(self.layout.world)
        for seats in itertools.permutations(everybody, len(touched)):
            home = place(self.layout, dict(zip(seats, touched)))
            pipelines = self.pipelines(home, faults)
            key = tuple(sorted(pipelines))
            if key in seen:
                continue
            seen.add(key)
            bound = max(max(p[0]) for p in pipelines), sum(len(p[1]) for p in pipelines), max(pipelines[0][2])
            found[key] = bound, home, pipelines
        ranked = []
        for _, home, pipelines in found.values():
            ms, split = self.split(pipelines)
            ranked.append((round(ms, 3), sum(h != w for w, h in enumerate(home)), home, split))
        ranked.sort()
        return [(ms, home, split) for ms, _, home, split in ranked[:most]]


def place(layout, taken):
    """All processes at their initial positions, except `taken` {position: process} and those that they displace."""
    home = [taken.get(seat) for seat in range(layout.world)]
    left = [p for p in range(layout.world) if p not in taken.values()]
    for seat in range(layout.world):
        if home[seat] is None and seat in left:
            home[seat] = seat
            left.remove(seat)
    for seat in range(layout.world):
        if home[seat] is None:
            home[seat] = left.pop(0)
    return home
