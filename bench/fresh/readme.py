"""README.md, sentence by sentence, and how each is tried on a fresh system after its two commands. Every sentence stands here as
it stands there; one that is missing on either side fails (tests/docs/test_sentences.py, and the bench). The commands of the
README's indented blocks are run as they stand and are not repeated here. Each sentence has one or more of:

run      a command on the fresh system, and a regular expression that its output must hold
said     a regular expression that the output of one of the two commands must hold
quick    CTest tests that tools/test has run there
here     CTest tests that it leaves out and that are run there now
later    a CTest test or a bench that is not run there, and why
page     a file that the sentence points at, and regular expressions that it must hold
words    nothing to try, and why: what kind of sentence it is"""
import re

from sentences import Page, commands_of


def run(command, pattern):
    return ("run", command, pattern)


def said(command, pattern):
    return ("said", command, pattern)


def quick(*tests):
    return ("quick", tests)


def here(*tests):
    return ("here", tests)


def later(what, why):
    return ("later", what, why)


def page(path, *patterns):
    return ("page", path, patterns)


def words(kind):
    return ("words", kind)


# what neither of the two commands brings, and the programs that are watched and tests of `here` need
PACKAGES = "lammps netpipe-openmpi chromium dpkg-dev file"
ENVIRONMENT = ("[ -x .venv/bin/python ] || python3 -m venv .venv; .venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt && "
               ".venv/bin/pip install -q --disable-pip-version-check --no-deps -r tests/requirements-alone.txt")

MEDIANS = """python3 - <<'P'
import json, statistics
times = [json.loads(line)["time_ms"] for line in open("runs/slow-link/metrics.jsonl")]
print(*(f"{statistics.median(times[a:b]):.0f}" for a, b in ((0, 25), (25, 29), (30, 50), (60, 80))))
P"""
HASHES = "grep -ho '\"weights_hash\": *\"[0-9a-f]*\"' {} | sort -u | wc -l"
DASHBOARD = ("build/slackline dashboard runs/slow-link --listen 127.0.0.1:9470 & server=$!; sleep 1; python3 -c 'import urllib.request as u; "
             "print(u.urlopen(\"http://127.0.0.1:9470/{}\").read().decode())'; kill $server")

AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "  # as README.md says of Open MPI

BEFORE, DURING, AFTER = 392, 682, 452  # ms of the picture; tests/docs/test_sentences.py holds README.md and picture together

SENTENCES = [
    ("slackline keeps pipeline-parallel training fast when a network link or a device slows down, for engineers who run such jobs and for "
     "researchers who study their schedules.",
     [run(MEDIANS, r"^3\d\d 6\d\d 4\d\d 3\d\d$"),
      run("build/slackline train examples/train-ladder.yaml --out runs/ladder", r"(?s)decision: device of rank 1 of replica 1: ops take 2.*healthy.*weights_hash")]),
    ("**Status:** no release yet.", [page("CHANGELOG.md", r"\A(?s:(?!\n## \[\d).)*\n## \[Unreleased\](?s:(?!\n## \[\d).)*\Z")]),
    ("Planning, training on CPUs, watching MPI programs, and adapting work; tests run them on single machines, with network namespaces "
     "standing in for clusters.",
     [run("build/slackline plan examples/layers.yaml | head -1", r"makespan .* lower bound .* gap [\d.]+ %"),
      said("tools/try", r"(?s)verdict: .* link 0 <-> 1 .*"), said("tools/try", r"(?s)swap: .*return; return to the first schedule"),
      quick("train_same_bits", "notice_probe_calls"), here("net_lab", "notice_watch_real_compute", "notice_watch_real_links", "notice_probe_mpi4py"),
      later("net_faults", "a hundred faults of a network of namespaces, minutes"), later("notice_watch_watch_ranks", "two minutes")]),
    ("Real clusters, fast interconnects, and NCCL on GPUs are untested.",
     [page("docs/running.md", "several nodes under Slurm.*real ssh", r"(?i)not\s+tried"), page("docs/python.md", "NCCL's untested on a GPU")]),
    ("There is no GPU support so far.", [run("build/slackline doctor", r"no CUDA device yet")]),
    ("Four ranks train a small GPT-2.", [run("grep -E '^(model|parallel)' examples/slow-link.yaml", r"(?s)kind: gpt2.*pipeline: 4")]),
    (f"The link between ranks 0 and 1 gains 60 ms each way, and an iteration takes {DURING} ms instead of {BEFORE} ms.",
     [run("grep -E '^  - ' examples/slow-link.yaml", r"link: \[0, 1\], latency_ms: 60"),
      said("tools/try", r"onset: link 0-1, both directions: (59|6[0-2])\.\d+ ms one way"),
      run(MEDIANS, r"^(39\d|40[0-5]) (6[789]\d|70\d) (4[4-6]\d|470) (39\d|40[0-5])$"), quick("docs_sentences")]),
    (f"slackline measures the link, plans a schedule for it, and switches between two iterations: {AFTER} ms.",
     [said("tools/try", r"swap: link 0-1, both directions: .* swap to adaptra, because predicted"), run(MEDIANS, r"^\d+ \d+ (4[4-6]\d|470) \d+$"), quick("docs_sentences")]),
    ("No schedule can beat 450 ms on that link.",
     [run("build/slackline plan examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60 | head -1", r"makespan 450 ms.*lower bound 450 ms: proven optimal")]),
    ("The program drew the picture from its own measurements.",
     [run("for f in runs/slow-link/iterations.svg docs/slow-link.svg; do grep -oE '>(Before|During|After|[+0-9][^<]*(per iteration|of the loss)|bound|rank)[^<]*<' $f | sed 's/[0-9.]//g' | sort -u | md5sum; head -c 60 $f; echo; done",
          r"^(\w+)  -\n<svg.*\n\1  -\n<svg"), quick("report_adaptation")]),
    ("In a clone of this repository on Debian 12, as root or with sudo:",
     [run("grep VERSION_ID /etc/os-release; id -u", r'^VERSION_ID="12"\n0$'), here("tree_tools")]),
    ("On a fresh system with two cores they take less than five minutes together ([measured](docs/results/fresh-install.md)).",
     [("time", 300), page("docs/results/fresh-install.md", "## The two commands", r"2 cores")]),
    ("`tools/try` prints this table and the path of an HTML report:",
     [said("tools/try", r"(?s)iterations +measured +predicted +bubble +schedule.*healthy +25 .* adaptra.*slow, not adapted +\d+ .*adapted +\d+ .*adaptra \(adapted\).*relieved +2\d .*adaptra"
           r".*Adapting saved 2[23]\d\.\d ms.*Open in a browser: runs/slow-link/report\.html"),
      run("head -c 200 runs/slow-link/report.html", r"(?i)<!doctype html>")]),
    ("`tools/test` prints its progress, the tests that failed or were skipped, and a line such as `235 passed, 0 failed, 7 skipped`.",
     [said("tools/test", r"(?m)^\d+ passed, 0 failed, \d+ skipped$"), here("tree_tools")]),
    ("The ranks are paced: each op does its real arithmetic and then waits until 10 ms have passed, so two cores behave like a cluster of four.",
     [run("grep pace_ms examples/slow-link.yaml; build/slackline profile runs/slow-link/timeline.json", r"(?s)F: 10, I: 10, W: 10.*^ +0 +0 +10(\.0\d*)? +10(\.0\d*)? +10(\.0\d*)? "),
      run("build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --out runs/paced | grep weights_hash; "
          "build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --set device.pace_ms='{F: 1, I: 1, W: 1}' --out runs/faster | grep weights_hash; "
          + HASHES.format("runs/paced/summary.json runs/faster/summary.json"), r"^1$")]),
    ("The [run file](examples/slow-link.yaml) injects the slow link; slackline has to find it.",
     [page("examples/slow-link.yaml", r"faults:\n  - \{iterations: \[25, 50\], link: \[0, 1\], latency_ms: 60\}"),
      run("build/slackline train examples/slow-link.yaml --set faults.0.link=[2,3] --set faults.0.iterations=[10,30] --set iterations=25 --out runs/elsewhere",
          r"(?s)onset: link 2-3, both directions: 6\d\.\d+ ms.*swap: ")]),
    ("Each works in a clone after `tools/try`.", [words("their commands are tried above"), quick("page_README")]),
    ("The [tutorial](docs/tutorial.md) explains the steps.", [page("docs/tutorial.md", "^# ", "slackline plan", "slackline train"), quick("page_tutorial")]),
    ("Give `profile` a trace of PyTorch's profiler, of Megatron-LM, or, as here, of `tools/try`:",
     [run("build/slackline plan examples/four-ranks.yaml --schedule 1f1b --format trace | gzip >rank0.json.gz; "
          "build/slackline profile rank*.json.gz -o problem.yaml --order traced.csv && build/slackline simulate problem.yaml --order traced.csv | head -1",
          r"(?s)traced +450 ms.*better plan +420 ms, 6\.7 % less.*makespan 450 ms"),
      quick("plan_trace_label", "plan_trace_scan", "cli_profile", "train_trace_profile"), here("torch_trace")]),
    ("The complete script is in [docs/howto/pytorch.md](docs/howto/pytorch.md); [docs/python.md](docs/python.md) installs the package.",
     [page("docs/howto/pytorch.md", "```python pipeline.py", r"plan\.schedule\(stage, loss_fn="), page("docs/python.md", "pip install ./python", r"\.schedule\("),
      quick("python_install"), here("python_runtime", "torch_runtime"), later("page_howto_pytorch_slow", "runs that page's script, minutes")]),
    ("The program stays as it is.",
     [run("(echo in | build/slackline watch --out runs/code -- mpirun --allow-run-as-root --oversubscribe -np 1 sh -c 'cat; exit 3'; echo code $?)", r"(?s)^in$.*^code 3$"),
      quick("notice_probe_calls")]),
    ("It may use MPI or NCCL:", [quick("cli_watch", "notice_probe_calls", "notice_probe_nccl")]),
    ("As root, Open MPI also needs `--allow-run-as-root`.",
     [run("mpirun -np 1 true 2>&1; mpirun --allow-run-as-root -np 1 true && echo ran", r"(?s)allow-run-as-root.*^ran$")]),
    ("Slurm, several nodes, and PyTorch over Gloo: [docs/watching.md](docs/watching.md).",
     [page("docs/watching.md", "(?i)several nodes", "srun", "Gloo"), here("python_seen")]),
    ("While it runs, `slackline dashboard runs/demo` shows it live ([docs/dashboard.md](docs/dashboard.md)).",
     [run(DASHBOARD.format(""), r"(?i)<!doctype html>"), quick("base_lines"), here("dashboard_dashboard"), page("docs/dashboard.md", "while it goes on|live")]),
    ("- [Planning](docs/planning.md): published schedules, a search for shorter ones, and a lower bound that shows how far a plan is from optimal.",
     [run("for f in four-ranks loop wave bidirectional layers; do build/slackline plan examples/$f.yaml | head -1; done",
          r"^\S+: makespan 390 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\n\S+: makespan 254 ms.*proven optimal\n\S+: makespan 920.*gap"),
      quick("plan_search_search", "plan_bound_bound", "plan_family_static_families", "page_planning")]),
    ("- [Training](docs/training.md): GPT-2 and Llama on CPUs, with pipeline, data, and tensor parallelism; a change of schedule changes no "
     "bit of the loss or the weights.",
     [run("for s in 1f1b zb-h1 adaptra; do build/slackline train examples/llama.yaml --set iterations=4 --set schedule=$s --out runs/bits-$s >/dev/null; done; "
          + HASHES.format("runs/bits-*/summary.json"), r"^1$"),
      quick("train_same_bits", "page_training"), here("train_products", "train_replicas", "train_delegates")]),
    ("- [Detection](docs/howto/verdicts.md): slow ranks and links are found and named, in slackline's own runs and in unmodified programs.",
     [said("tools/try", r"verdict: .* link 0 <-> 1"), run("grep -E '\"kind\":\"(onset|suspect)\"' runs/ladder/events.jsonl", r"device of rank 1|rank \d: ops take"),
      quick("run_train_localise", "adapt_orchestrator_naming", "notice_detect_change"), page("docs/results/localisation.md", "(?i)device", "(?i)link"),
      page("docs/results/detection.md", "1000|1,000"), here("notice_watch_real_compute", "notice_watch_real_links")]),
    ("- [Adaptation](docs/adapting.md): another schedule, separate processes for messages, other microbatch counts, other positions, or a "
     "restart without the slow host, each once the time lost justifies its cost.",
     [said("tools/try", r"swap: "), run("build/slackline train examples/train-delegated.yaml --out runs/by-auto", r"(?s)delegate.*slow, delegated +\d+.*adapted.*weights_hash"),
      run("cat runs/ladder/decisions.txt", r"(?s)incident \d+ begins: .*% of the time is lost.*(balance|topology).* would become .* for [\d.]+ s.*were foretold"),
      quick("adapt_ladder_ladder", "run_transport_delegates"), here("train_ladder", "train_arrange"), later("train_leave_host", "three minutes, hosts made of namespaces")]),
    ("- [Checkpoints](docs/checkpoints.md) in safetensors, and [restarts](docs/running.md) after a rank, host, or link is lost.",
     [run("build/slackline train examples/slow-link.yaml --set iterations=20 --set checkpoint.every=5 --set 'faults=[{iteration: 12, kill: 1}]' --out runs/lost 2>&1; ls runs/lost/checkpoints/step-000020", r"(?s)weights_hash.*\.safetensors"),
      here("run_checkpoint_package", "train_restart", "train_restart_random"), later("train_restart_hosts", "two minutes, hosts made of namespaces")]),
    ("- Long jobs under faults, [simulated](docs/adapting.md#without-any-job) with the timing model of the trainer.",
     [run("build/slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml --set job.duration_s=259200 --log",
          r"(?s)^ignore .*^adapt .*^delegate .*^balance .*^topology .*^restart .*^ladder .*^best in hindsight .*incident"),
      quick("adapt_campaign_campaign"), page("docs/results/adapting.md", "(?i)simulated", "(?i)measured")]),
    ("- Interfaces for [Python](docs/python.md), [C and C++](docs/library.md), [Slurm](docs/howto/slurm.md), and [Prometheus](docs/dashboard.md).",
     [run(DASHBOARD.format("metrics"), r"(?m)^# TYPE slackline_\w+ gauge$"), quick("python_package", "library_library", "page_howto_slurm"), page("docs/dashboard.md", "Prometheus"),
      later("library_install", "a minute, and needs g++")]),
    ("[docs/README.md](docs/README.md) lists all pages, [docs/results](docs/results) has measurements with the commands that repeat them, "
     "and [docs/design.md](docs/design.md) shows how the source is organized.",
     [page("docs/README.md", r"you want to \| read", r"\(tutorial\.md\)", r"\(howto/", r"\(reference/"), page("docs/design.md", r"^## The tree"),
      run("for f in docs/results/*.md; do grep -qE '`[^`]*(bench/[a-z_]+/[a-z_]+\\.py|build/bench/|ctest --test-dir)[^`]*`' $f || echo none in $f; done; ls docs/results/*.md | wc -l", r"\A\d+\s*\Z")]),
    ("- The trainer computes on CPUs and has no bidirectional placement.",
     [run("build/slackline train examples/train-wave.yaml --set parallel.placement=bidirectional 2>&1 || true", r"keeps two copies of the weights, which training does not have")]),
    ("- PyTorch runs neither bidirectional plans nor plans with ops in parts, and Megatron-LM runs only [some of them](docs/howto/megatron.md#5-what-megatron-lm-can-run-of-it).",
     [page("docs/python.md", "bidirectional plans and plans with parts, which PyTorch's runtime cannot run"), page("docs/howto/megatron.md", "^## 5. What Megatron-LM can run of it")]),
    ("- Some calls are invisible to `watch`; [its page](docs/watching.md#what-is-not-seen) lists them.",
     [page("docs/watching.md", "^## What is not seen"), quick("notice_watch_unseen")]),
    ("Apache-2.0; the text is in [LICENSE](LICENSE).", [page("LICENSE", "Apache License", "Version 2.0"), quick("tree_license"), later("package_deb", "makes and installs the package, minutes")]),
    ("Copyright: the slackline authors.", [words("whose it is")]),
]


def commands(text):
    """The commands of the page's blocks as they are typed, without what only explains them; in front of a block what its comments
    `first:` have run."""
    found = []
    for block in Page("README.md", text).blocks:
        if block.kind == "commands":
            lines = [command for _, command in commands_of(block.text, lambda so_far: True)]
            found += block.first + [re.sub(r"\s+# .*$", "", re.sub(r"\\\n\s*", "", line)) for line in lines]
    return found


def promised(text):
    """What the comments beside the commands say: {command: regular expression}. Only numbers of ms, and the last line's."""
    numbers = {}
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        match = re.match(r"    (\S.*?)\s+# .*?([\d.]+) ?(?:ms|$)", line)
        if match:
            numbers[" ".join(match.group(1).split())] = rf"\b{re.escape(match.group(2))}\b"
    return numbers
