"""What tests of rearranging share: a small run, arrangements as a setting, and what events tell of them."""
SOURCE_RUN = """
model: {{kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}}
data: {{files: ["{source}/docs/design.md", "{source}/src/base/*.c"], seed: 3}}
parallel: {{pipeline: 2}}
batch: {{microbatches: 6, size: 2}}
optimizer: {{kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}}
iterations: 6
schedule: 1f1b
adapt: false
"""
# bytes of its states: weights and two moments, and the tied head's copy on the last rank
PARAMETERS = 256 * 64 + 32 * 64 + 4 * (12 * 64 * 64 + 13 * 64) + 2 * 64
STATE_MB = (12 * PARAMETERS + 4 * 256 * 64) / 1e6


def arranged(*items):
    words = ("{" + ", ".join(f"{key}: {value}" for key, value in item.items()) + "}" for item in items)
    return "arrangements=[" + ", ".join(words) + "]"


def events(result):
    """Those that the run file asked for."""
    return [event for event in result.events if event["kind"] == "arrange" and event.get("requested")]


def moved(event):
    """Processes that moved, and megabytes between them."""
    return event["moved"], float(event["moved_mb"])


def phases(event):
    """The whole in ms, and that of each phase."""
    return float(event["took_ms"]), {phase: float(ms) for phase, ms in event["phases_ms"].items()}
