"""docs/reference/ is generated from the program: its tables of keys, events and metrics, and the help of its commands.
Usage: test_reference.py BUILD SOURCE [--write]; --write generates the pages again."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import build, expect, require, source  # noqa: E402

require("slackline")
command = os.path.join(build, "slackline")
folder = os.path.join(source, "docs", "reference")
MADE = "<!-- made by tests/docs/test_reference.py BUILD SOURCE --write -->\n"

# What the examples of the help need to run in the test of the page: comments for tests/docs/commands.py.
NEEDS = {
    "slackline import rank*": [
        "<!-- first: slackline plan examples/four-ranks.yaml --format trace | gzip > rank0.json.gz -->",
        # the same with names that nobody knows
        "<!-- first: slackline plan examples/four-ranks.yaml --schedule 1f1b --format trace | sed -E "
        "'s/\"name\":\"([FB])([0-9]+)\"(.*\"stage\":)([0-9]+)/\"name\":\"\\1 stage \\4 mb \\2\"\\3\\4/; s/\"F stage/\"fwd stage/; s/\"B stage/\"bwd stage/' > trace.json -->",
    ],
    "slackline explain": ["<!-- first: python3 tests/explain/hybrid_job.py trace.json.gz -->",
                          "<!-- first: python3 -c 'import sys; sys.path.insert(0, \"tests/explain\"); import hybrid_job as h; e = h.chrome(h.Job(data=4, pipeline=2, chunks=2)); "
                          "[h.save(f\"worker{p}.json\", [x for x in e if x[\"pid\"] == p]) for p in range(8)]' -->",
                          "<!-- first: mkdir -p dumps; python3 -c 'import pickle; [pickle.dump({\"version\": \"2.10\", \"entries\": [], \"pg_config\": {}}, "
                          "open(f\"dumps/nccl_trace_rank_{r}\", \"wb\"), 2) for r in range(2)]' -->"],
    "slackline demo": ["<!-- slow -->", "<!-- needs: slackline-worker mpirun -->"],
    "slackline train": ["<!-- slow -->", "<!-- needs: slackline-worker mpirun -->"],
    "slackline detect": ["<!-- first: mkdir -p runs/slow-link; for i in $(seq 60); do echo \"{\\\"time_ms\\\": $((i < 30 ? 400 : 600)).$((i % 7))}\"; done > runs/slow-link/metrics.jsonl -->"],
    "slackline report": ["<!-- slow -->", "<!-- needs: slackline-worker mpirun -->", "<!-- first: rm -rf runs/slow-link; cp -r /tmp/run runs/slow-link -->"],  # the example of train
    "slackline draw": ["<!-- slow -->", "<!-- needs: slackline-worker mpirun -->", "<!-- first: mkdir -p traces; slackline plan examples/four-ranks.yaml --format trace > traces/rank0.json -->"],
    "slackline dashboard": ["<!-- not run: serves until it is ended -->"],
    "slackline watch": ["<!-- not run: takes hpcc and its input file; docs/howto/slurm.md watches a program that is there -->"],
    "slackline healthcheck": ["<!-- needs: slackline-worker mpirun -->", "<!-- exit 0 or 1 -->"],
    "slackline completion": ["<!-- first: export HOME=$PWD; mkdir -p .local/share/bash-completion/completions -->"],
    "slackline man": ["<!-- needs: man groff -->"],
}


def said(*words):
    done = subprocess.run([command, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def tables():
    """{heading: table} of `slackline formats`."""
    return {piece.partition("\n")[0]: piece.partition("\n")[2].strip() + "\n" for piece in said("formats").split("### ")[1:]}


def names():
    return re.findall(r"^  (\w+) +\S", said("--help"), re.M)


def commands():
    text = ["# Commands\n", MADE, "The output of `slackline COMMAND --help`. `slackline man COMMAND` shows the same as a manual page.\n"]
    for line in re.findall(r"^  (\w+ +\S.*)$", said("--help"), re.M):
        name, meaning = line.split(maxsplit=1)
        text.append(f"- [{name}](#{name}): {meaning}")
    for name in names():
        helped, _, examples = said(name, "--help").partition("\nExample: ")
        lines = [re.sub(r"^ {9}", "", row) for row in examples.rstrip().split("\n")]
        start = " ".join(lines[0].split()[:2])
        needs = next((found for key, found in NEEDS.items() if lines[0].startswith(key) or key == start), [])
        text += [f"\n## {name}", "```text", helped.rstrip(), "```", *needs, "```sh", *lines, "```"]
    return "\n".join(text) + "\n"


def codes():
    rows = ["| command | exit code |", "|---|---|"]
    for name in names():
        match = re.search(r"^Exit code: (.*?)\n\n", said(name, "--help"), re.M | re.S)
        rows.append(f"| `{name}` | {' '.join(match[1].split()) if match else '0 done, 1 no answer or a failure, 2 a wrong request'} |")
    return (f"# Exit codes\n\n{MADE}\n[Exit codes](../formats.md#exit-codes) explains 0, 1, and 2. The help of a command describes any further meaning.\n\n" + "\n".join(rows) + "\n")  # fmt: skip


def keys(title, table, words):
    return f"# {title}\n\n{MADE}\n{words}\n\n{table}"


def pages():
    table = tables()
    change = "`--set KEY=VALUE` changes any key by this path."
    return {
        "commands.md": commands(),
        "problem-keys.md": keys("Keys of a problem file", table["Keys of a problem file"],
                                f"Input of `plan`, `simulate`, and `compare`, explained in [Problem](../formats.md#problem). {change}"),
        "run-keys.md": keys("Keys of a run file", table["Keys of a run file"],
                            f"Input of `train`. [The folder of a run](../formats.md#the-folder-of-a-run) describes its output. {change}"),
        "cluster-keys.md": keys("Keys of a cluster file", table["Keys of a cluster file"],
                                "Input of `topology` and `choose`, explained in [Cluster and arrangement](../formats.md#cluster-and-arrangement)."),
        "model-keys.md": keys("Keys of a model file", table["Keys of a model file"], f"Input of `choose`, explained in [Choosing](../choosing.md#the-model). {change}"),
        "campaign-keys.md": keys("Keys of a campaign file", table["Keys of a campaign file"],
                                 "Input of `campaign`, explained in [Campaign](../formats.md#campaign)."),
        "events.md": keys("Kinds of events", table["Kinds of events"],
                          "In `events.jsonl` of a run ([The folder of a run](../formats.md#the-folder-of-a-run)) and of `watch` ([Output](../watching.md#output))."),
        "metrics.md": keys("Metrics", table["Metrics of watch"],
                           "`watch` serves these metrics to Prometheus; [HTTP](../watching.md#http) lists their labels. [The folder of a run](../formats.md#the-folder-of-a-run) "
                           "describes `metrics.jsonl`, the metrics that `train` writes for each iteration."),
        "exit-codes.md": codes(),
    }  # fmt: skip


def test_pages_are_what_the_program_says():
    made = pages()
    for name, text in made.items():
        path = os.path.join(folder, name)
        expect(os.path.exists(path) and open(path).read() == text, f"docs/reference/{name} is out of date: run tests/docs/test_reference.py BUILD SOURCE --write")
    for name in sorted(os.listdir(folder)):
        expect(name in made, f"docs/reference/{name} is not made from anything")


if __name__ == "__main__" and "--write" in sys.argv:
    os.makedirs(folder, exist_ok=True)
    for name, text in pages().items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
