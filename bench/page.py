"""Pages of docs/results/evidence that benches write section by section: each bench replaces its own sections and keeps the others."""
import os
import statistics
import sys

source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(source, "bench", "planner"))
from command import machine, table  # noqa: E402,F401


def need_torch():
    """Starts the bench again under .venv's Python if this one has no torch; without either, ends it with what to do."""
    try:
        import torch  # noqa: F401
    except ImportError:
        venv = os.path.join(source, ".venv", "bin", "python")
        if not os.path.exists(venv) or os.environ.get("SL_IN_VENV"):
            sys.exit("no torch: python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt")
        os.environ["SL_IN_VENV"] = "1"
        os.execv(venv, [venv, *sys.argv])


# by the name of the file: title, text above the sections, their order
PAGES = {
    "data-plane.md": ("The data plane, measured",
                      "Each section names the command that wrote it. Many ranks share few cores. Ops are paced, so that a rank "
                      "waits as a rank with its own device would.",
                      ["Accuracy of emulated links", "Overhead of the runtime", "A slow link that does not block",
                       "Two data centres", "Interference", "Rails", "Delegates with nothing slow", "Faults"]),
    "watch.md": ("Watching unchanged programs", "Each section names the command that wrote it.", ["The culprit", "Hangs", "Hybrid layouts"]),
    "probe.md": ("The cost of watching: all tables", "Each section names the command that wrote it.",
                 ["A call", "A test that completes nothing", "A call over Gloo", "Real programs"]),
    "published.md": ("Published figures: further ones", "Each section names the command that wrote it.",
                     ["Adaptra: figure 16 at the shapes of its models", "Adaptra: figure 19 over the time step",
                      "CrossPipe: tables 5 and 6, sends in groups",
                      "CrossPipe: tables 5 and 6 on paced ranks"]),
    "choose.md": ("Choosing an arrangement", "Each section names the command that wrote it.",
                  ["Predicted and measured", "Published: CrossPipe", "Published: AdaPtis"]),
    "real.md": ("Nothing paced, nothing emulated", "The section names the command that wrote it.", ["Nothing paced, nothing emulated"]),
    "soak.md": ("Hours of running", "The section names the command that wrote it.", ["Hours of running"]),
    "adapting.md": ("Adapting",
                    "Each section names the command that wrote it and states if it is measured or simulated.",
                    ["Delay on one link, live", "A slow link between replicas, live", "One slow replica, live",
                     "Several slow replicas, live", "Congestion between replicas, live", "A congested card, live", "Several congested links, live",
                     "Compound trouble, live", "Random mixed faults, live", "Plans of a running job",
                     "Microbatch balance", "The ladder against hindsight", "Topology", "A slow link in a ring and between stages",
                     "A topology change in the run", "Campaign: Adaptra's trace", "Campaign: Adaptra's figure 17",
                     "Campaign: Falcon's table 7",
                     "Campaign: Falcon's figures", "Campaign: random faults", "Campaign: speed"]),
    "usability.md": ("Compared with other tools: all tables",
                     "What users ask about a pipeline, and which tools answer. Each table of figures has its command above it.",
                     ["What each offers", "Measured", "Large traces"]),
    "pytorch.md": ("Plans in PyTorch's pipelining: all tables", "Each section names the command that wrote it.",
                   ["Live: something gets slow and recovers", "Live: random mixtures", "Simulated: random mixtures", "Overhead", "A slow link, before and after",
                    "From PyTorch's profiler to a better plan"]),
    "scale.md": ("Scale", "Each section names the command that wrote it and states if it is measured or simulated.",
                 ["A year of 400 servers: strategies", "A year of 400 servers: spares", "A year of 400 servers: checkpoints",
                  "A year of 400 servers: slow servers", "A year of 400 servers: speed", "Closed forms", "Planning", "Live load",
                   "Continuing with fewer hosts"]),
    "fuzzing.md": ("Readers under a fuzzer", "Each section names the command that wrote it.", ["Fuzzing"]),
    "mutants.md": ("Small faults that tests notice", "Each section names the command that wrote it.", ["Small faults"]),
    "training.md": ("Training speed on the CPU: all tables", "Each section names the command that wrote it.",
                    ["Speed on the CPU", "Where the time of a step goes"]),
    "fresh-install.md": ("On a fresh system",
                         "Each section names the command that wrote it. The first number of each line of a transcript is the time "
                         "since the start of the command.",
                         ["The two commands", "What the README says", "The Debian package"]),
}


def middle(values):
    """The median and the quartiles, as text."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")  # within the values, also of few
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def parse(text):
    """{heading: body} of a page."""
    found, heading = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
            found[heading] = []
        elif heading:
            found[heading].append(line)
    return {heading: "\n".join(lines).strip("\n") for heading, lines in found.items()}


def write(file, heading, body):
    """Puts a section into the page `file`, which is created if necessary."""
    title, above, order = PAGES.get(os.path.basename(file), PAGES["data-plane.md"])
    assert heading in order, heading
    sections = {}
    if os.path.exists(file):
        with open(file) as old:
            sections = parse(old.read())
    sections[heading] = body.strip("\n")
    with open(file + ".new", "w") as new:
        new.write(f"# {title}\n\n{above}\n")
        for name in order:
            if name in sections:
                new.write(f"\n## {name}\n\n{sections[name]}\n")
    os.replace(file + ".new", file)


def finish(file, heading, body):
    """Prints a section, and writes it to the file of --write."""
    print(body.strip("\n"))
    if file:
        write(file, heading, body)
