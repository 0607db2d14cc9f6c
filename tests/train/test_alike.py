# labels: long alone
"""A campaign decides as the run that it simulates: the same pipeline, faults, strategies and costs give the same sequence of
incidents, actions and what they were expected to bring. What really measuring adds: an iteration or two until something is
seen, up to 4 points of a percentage, and incidents of what no fault concerns that cost little and that nothing is done about."""
import json
import os
import subprocess

from runner import build
from training import train

AT_ONCE = 3
RANKS, MICROBATCHES, OP, HOLD, COST = 2, 8, 8, 5, 0.03
HEALTHY = (MICROBATCHES + RANKS - 1) * 3 * OP  # ms of 1F1B
RUN = """model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s"], seed: 1}
parallel: {pipeline: 2, data: 2}
batch: {microbatches: 16, size: 1}
iterations: %d
schedule: 1f1b
transport: auto
device: {kind: cpu, pace_ms: {F: 8, I: 8, W: 8}}
adaptation: {strategies: %s, hold: 5, balance_s: 0.03, topology_s: 0.03, profile_every_s: 0}
faults: %s
"""
PROBLEM = """pipeline:
  ranks: 2
  microbatches: 8
  times_ms: {F: 8, I: 8, W: 8}
  links: {default: {latency_ms: 0.02, transfer_ms: 0}}
  data_parallel: {reduce_ms: 0.5, gather_ms: 0.1}
"""
CAMPAIGN = """job: {iterations: %d, replicas: 2, schedule: 1f1b, adapt_with: 1f1b, notice: 5, host_devices: 4}
costs: {adapt_s: 0.005, delegate_s: 0.005, balance_s: 0.03, topology_s: 0.03, restart_s: 1000000}
ladder: {at_once_s: %g, calm_s: %g, profile_every_s: 0, least_gain: 0, news: 0}
events: %s
"""
DEVICE, LINK = "rank 1, replica 1", "link 0-1, replica 0"
# first, until, of a run, of a campaign
SLOW_DEVICE = (12, 24, "rank: 1, replica: 1, slowdown: 2.5", "device: [1, 1], slowdown: 2.5")
SLOW_LINK = (38, 50, "link: [0, 1], replica: 0, latency_ms: 40", "link: [0, 1], replica: 0, latency_ms: 40")


class Decision:
    def __init__(self, iteration, what, *percent):
        self.iteration, self.what, self.percent = iteration, what, [100 * float(share) for share in percent]

    def __repr__(self):
        return f"{self.iteration:4} {self.what} {' '.join(f'{p:.1f}%' for p in self.percent)}"

    def agrees(self, other):
        return self.what == other.what and abs(self.iteration - other.iteration) <= 2 and all(
            abs(a - b) <= 4 for a, b in zip(self.percent, other.percent))


def component(event):
    parts = [f"rank {event['rank']}"] if "rank" in event else [f"link {event['link'][0]}-{event['link'][1]}"] if "link" in event else []
    return ", ".join(parts + ([f"replica {event['replica']}"] if "replica" in event else []))


def decisions(events):
    """What began, was done, came of it and ended; not what was merely considered. Incidents by their components."""
    found, slow = [], {}
    for event in events:
        kind, incident = event["kind"], event.get("incident")
        if kind == "onset" and incident is not None:
            slow[incident] = component(event)
            found.append(Decision(event["iteration"], f"{slow[incident]} is slow", event["loss"]))
        elif kind == "relief" and incident is not None:
            found.append(Decision(event["iteration"], f"{component(event)} is over"))
        elif kind == "decision":
            shares = [event[key] for key in ("loss", "expected_loss") if key in event]
            found.append(Decision(event["iteration"], f"{event['step']} {event['strategy']} {slow.get(incident, '')}", *shares))
        elif kind in ("swap", "return", "delegate", "direct"):
            found.append(Decision(event["iteration"], f"{kind} {event.get('replica', '')}"))
    return found


def without_noise(found, named):
    """Small incidents of other components; what is done must be about those that are slow."""
    noise = {d.what[: -len(" is slow")] for d in found if d.what.endswith(" is slow") and d.percent[0] < 10} - set(named)
    return [d for d in found if d.what not in {f"{n} is slow" for n in noise} | {f"{n} is over" for n in noise}]


def simulate(build, folder, faults, iterations):
    problem, campaign = os.path.join(folder, "problem.yaml"), os.path.join(folder, "campaign.yaml")
    with open(problem, "w") as file:
        file.write(PROBLEM)
    with open(campaign, "w") as file:
        events = ", ".join(f"{{at: {first}, until: {until}, {what}}}" for first, until, _, what in faults)
        file.write(CAMPAIGN % (iterations, 2 * HEALTHY / 1e3, HOLD * HEALTHY / 1e3, f"[{events}]"))
    out = subprocess.run([os.path.join(build, "slackline"), "campaign", campaign, "--problem", problem, "--format", "json", "--log"],
                         capture_output=True, text=True, timeout=100, check=True).stdout
    return {row["strategy"]: row for row in json.loads(out)["strategies"]}


def really(build, folder, name, strategies, faults, iterations):
    run, out = os.path.join(folder, "run.yaml"), os.path.join(folder, name)
    with open(run, "w") as file:
        listed = ", ".join(f"{{iterations: [{first}, {until}], {what}}}" for first, until, what, _ in faults)
        file.write(RUN % (os.path.abspath(__file__), iterations, strategies, f"[{listed}]"))
    return train(build, run, out)


def assert_alike(simulated, result, named):
    expected, found = decisions(simulated["events"]), without_noise(decisions(result.events), named)
    both = "\n".join(["simulated:"] + [repr(d) for d in expected] + ["really:"] + [repr(d) for d in found])
    assert len(expected) == len(found) and all(a.agrees(b) for a, b in zip(expected, found)), both
    assert len(expected) >= 4 * len(named), both  # it begins, something is done and taken back, it is over


def pipeline_ms(build, folder, microbatches, *settings):
    words = [os.path.join(build, "slackline"), "plan", os.path.join(folder, "problem.yaml"), "--schedule", "1f1b", "--format", "json"]
    for setting in (f"pipeline.microbatches={microbatches}",) + settings:
        words += ["--set", setting]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=50).stdout)["makespan_ms"]


def test_a_slow_device_and_a_slow_link_get_the_same_split(folder):
    faults = [SLOW_DEVICE, SLOW_LINK]
    simulated = simulate(build, folder, faults, 62)["balance"]
    result = really(build, folder, "balance", "[balance]", faults, 62)
    assert_alike(simulated, result, [DEVICE, LINK])
    split = [e["split"] for e in result.events if e["kind"] == "arrange"]
    assert len(split) == 4 and split[1] == split[3] == [8, 8], split
    slow = ["pipeline.times_ms.F=[8, 20]", "pipeline.times_ms.I=[8, 20]", "pipeline.times_ms.W=[8, 20]"]
    late = ["pipeline.links.default.latency_ms=40"]
    for iteration, replica, fault, shares in ((20, 1, slow, split[0]), (46, 0, late, split[2])):
        takes = [pipeline_ms(build, folder, shares[r], *(fault if r == replica else [])) for r in (0, 1)]
        stretch = [s for s in simulated["stretches"] if s.get("iterations") and s["iteration"] <= iteration][-1]
        assert abs(stretch["iteration_ms"] - max(takes)) < 2, (shares, takes, stretch)


def test_a_slow_link_gets_the_same_schedule_and_path(folder):
    faults = [(12, 24) + SLOW_LINK[2:]]
    simulated = simulate(build, folder, faults, 36)["adapt+delegate"]
    result = really(build, folder, "adapt", "[schedule, delegate]", faults, 36)
    assert_alike(simulated, result, [LINK])


def test_everything_together_begins_with_the_same_strategy(folder):
    simulated = simulate(build, folder, [SLOW_DEVICE], 36)["ladder"]
    result = really(build, folder, "ladder", "[schedule, delegate, balance, topology]", [SLOW_DEVICE], 36)
    assert_alike(simulated, result, [DEVICE])
