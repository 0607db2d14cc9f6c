"""The statements of README.md, and their tests on a fresh system after the two commands. An entry is a regular expression for the
facts of a sentence (figures, names, links), not for its wording. A sentence without an entry fails, and so does an entry without
a sentence (tests/docs/test_sentences.py, and the bench). The commands of README.md's blocks are run anyway and are not repeated
here. Each entry has one or more of:

run      a command on the fresh system, and a regular expression that its output must contain
said     a regular expression that the output of one of the two commands must contain
quick    CTest tests that tools/test has run there
here     CTest tests that tools/test leaves out; they are run there now
later    a CTest test or a bench that is not run there, and the reason
page     a file that the sentence names, and regular expressions that the file must contain
words    nothing to test, and the reason: the kind of sentence"""
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


# not installed by the two commands, but needed by watched programs and the tests of `here`
PACKAGES = "python3 python3-venv lammps netpipe-openmpi chromium dpkg-dev file"
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

AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "  # as in README.md for Open MPI

BEFORE, DURING, AFTER = 392, 682, 452  # ms in the picture; tests/docs/test_sentences.py checks that README.md and the picture agree

SENTENCES = [
    (r"(?i)slackline keeps .*training fast.*(link|device)",
     [run(MEDIANS, r"^3\d\d 6\d\d 4\d\d 3\d\d$"),
      run("build/slackline train examples/train-ladder.yaml --out runs/ladder", r"(?s)decision: device of rank 1 of replica 1: ops take 2.*healthy.*weights_hash")]),
    (r"no release yet",
     [page("CHANGELOG.md", r"\A(?s:(?!\n## \[\d).)*\n## \[Unreleased\](?s:(?!\n## \[\d).)*\Z")]),
    (r"(?i)planning, training on CPUs .*network namespaces",
     [run("build/slackline plan examples/layers.yaml | head -1", r"makespan .* lower bound .* gap [\d.]+%"),
      said("tools/try", r"(?s)verdict: .* link 0-1 .*"), said("tools/try", r"(?s)swap: .*return; return to the first schedule"),
      quick("train_same_bits", "notice_probe_calls"), here("net_lab", "notice_watch_real_compute", "notice_watch_real_links", "notice_probe_mpi4py"),
      later("net_faults", "a hundred faults of a network of namespaces, minutes"), later("notice_watch_watch_ranks", "two minutes")]),
    (r"(?i)several GPUs .*untested",
     [page("docs/running.md", "(?i)untested: more than one machine"), page("docs/results/gpu.md", "(?i)only one GPU", r"(?is)several GPUs, .*have not been tried")]),
    (r"(?i)watching and adapting .*NCCL .*one GPU",
     [run("build/slackline doctor", r"CUDA"), here("train_cuda")]),
    (r"docs/is-it-for-me\.md",
     [page("docs/is-it-for-me.md", "Megatron-LM", "DeepSpeed", "torchft", "NCCL", "(?i)better", "(?i)train on GPUs at full speed")]),
    (r"(?i)four ranks .*GPT-2",
     [run("grep -E '^(model|parallel)' examples/slow-link.yaml", r"(?s)kind: gpt2.*pipeline: 4")]),
    (rf"60 ms .*{BEFORE} ms .*{DURING} ms",
     [run("grep -E '^  - ' examples/slow-link.yaml", r"link: \[0, 1\], latency_ms: 60"),
      said("tools/try", r"onset: link 0-1, both directions: (59|6[0-2])\.\d+ ms one way"),
      run(MEDIANS, r"^(39\d|40[0-5]) (6[789]\d|70\d) (4[4-6]\d|470) (39\d|40[0-5])$"), quick("docs_sentences")]),
    (rf"slackline measures .*{AFTER} ms",
     [said("tools/try", r"swap: link 0-1, both directions: .* swap to adaptra, because predicted"), run(MEDIANS, r"^\d+ \d+ (4[4-6]\d|470) \d+$"), quick("docs_sentences")]),
    (r"(?i)no schedule .*450 ms",
     [run("build/slackline plan examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60 | head -1", r"makespan 450 ms.*lower bound 450 ms: proven optimal")]),
    (r"(?i)program drew .*picture",
     [run("for f in runs/slow-link/iterations.svg docs/slow-link.svg; do grep -oE '>(Before|During|After|[-+0-9][^<]*(per iteration|of the loss)|bound|rank)[^<]*<' $f | sed 's/[0-9.]//g' | sort -u | md5sum; head -c 60 $f; echo; done",
          r"^(\w+)  -\n<svg.*\n\1  -\n<svg"), quick("report_adaptation")]),
    (r"Debian 12",
     [run("grep VERSION_ID /etc/os-release; id -u", r'^VERSION_ID="12"\n0$'), here("tree_tools")]),
    (r"(?i)five minutes .*docs/results/fresh-install\.md",
     [("time", 300), page("docs/results/fresh-install.md", "## The two commands", r"2 cores")]),
    (r"`tools/try` prints .*HTML",
     [said("tools/try", r"(?s)iterations +measured +predicted +bubble +schedule.*healthy +25 .* adaptra.*slow, not adapted +\d+ .*adapted +\d+ .*adaptra \(adapted\).*relieved +2\d .*adaptra"
           r".*Adapting saved 2[23]\d\.\d ms.*Open in a browser: runs/slow-link/report\.html"),
      run("head -c 200 runs/slow-link/report.html", r"(?i)<!doctype html>")]),
    (r"`tools/test` prints .*`\d+ passed, 0 failed, \d+ skipped`",
     [said("tools/test", r"(?m)^\d+ passed, 0 failed, \d+ skipped$"), here("tree_tools")]),
    (r"(?i)paced: .*10 ms",
     [run("grep pace_ms examples/slow-link.yaml; build/slackline import runs/slow-link/timeline.json", r"(?s)F: 10, I: 10, W: 10.*^ +0 +0 +10(\.0\d*)? +10(\.0\d*)? +10(\.0\d*)? "),
      run("build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --out runs/paced | grep weights_hash; "
          "build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --set device.pace_ms='{F: 1, I: 1, W: 1}' --out runs/faster | grep weights_hash; "
          + HASHES.format("runs/paced/summary.json runs/faster/summary.json"), r"^1$")]),
    (r"slackline demo` .*terminal",
     [run("build/slackline demo --out runs/demo", r"(?s)^rank 3 .*cut an iteration from \d+ ms to \d+ ms"), here("cli_demo"),
      run("build/slackline report runs/slow-link --svg runs/pictures >/dev/null; grep -c '^<g id' runs/pictures/recording.svg; grep -c '^<g id' docs/recording.svg", r"(?s)^4\d\n4\d$"),
      quick("report_screens")]),
    (r"\(examples/slow-link\.yaml\) .*slow link",
     [page("examples/slow-link.yaml", r"faults:\n  - \{iterations: \[25, 50\], link: \[0, 1\], latency_ms: 60\}"),
      run("build/slackline train examples/slow-link.yaml --set faults.0.link=[2,3] --set faults.0.iterations=[10,30] --set iterations=25 --out runs/elsewhere",
          r"(?s)onset: link 2-3: a message takes 6\d\.\d+ ms.*swap: ")]),
    (r"(?i)works in a clone after `tools/try`",
     [words("their commands are tried above"), quick("page_README")]),
    (r"\(docs/tutorial\.md\)",
     [page("docs/tutorial.md", "^# ", "slackline plan", "slackline train"), quick("page_tutorial")]),
    (r"`import` .*PyTorch's profiler, of Megatron-LM",
     [run("build/slackline plan examples/four-ranks.yaml --schedule 1f1b --format trace | gzip >rank0.json.gz; "
          "build/slackline import rank*.json.gz -o problem.yaml --order traced.csv && build/slackline simulate problem.yaml --order traced.csv | head -1",
          r"(?s)traced +450 ms.*better plan +420 ms, 6\.7% less.*makespan 450 ms"),
      quick("plan_trace_label", "base_scan", "cli_import", "train_trace_profile"), here("torch_trace")]),
    (r"docs/howto/pytorch\.md.*docs/python\.md",
     [page("docs/howto/pytorch.md", "```python pipeline.py", r"plan\.schedule\(stage, loss_fn="), page("docs/python.md", "pip install ./python", r"\.schedule\("),
      here("python_install", "python_runtime", "torch_runtime"), later("page_howto_pytorch_slow", "runs that page's script, minutes")]),
    (r"(?i)the program needs no change",
     [run("(echo in | build/slackline watch --out runs/code -- mpirun --allow-run-as-root --oversubscribe -np 1 sh -c 'cat; exit 3'; echo code $?)", r"(?s)^in$.*^code 3$"),
      quick("notice_probe_calls")]),
    (r"MPI or NCCL:",
     [quick("cli_watch", "notice_probe_calls", "notice_probe_nccl")]),
    (r"Open MPI .*`--allow-run-as-root`",
     [run("mpirun -np 1 true 2>&1; mpirun --allow-run-as-root -np 1 true && echo ran; "
          "mpirun --allow-run-as-root -np 99 true 2>&1 | grep -c slots; mpirun --allow-run-as-root --oversubscribe -np 3 true && echo three",
          r"(?s)allow-run-as-root.*^ran$.*^[1-9]\d*$.*^three$")]),
    (r"Slurm, several nodes, .*docs/watching\.md",
     [page("docs/watching.md", "(?i)several nodes", "srun", "Gloo"), here("python_seen")]),
    (r"`slackline dashboard runs/demo` .*docs/dashboard\.md",
     [run(DASHBOARD.format(""), r"(?i)<!doctype html>"), quick("base_lines"), here("dashboard_dashboard"), page("docs/dashboard.md", "(?i)live")]),
    (r"docs/planning\.md.*published schedules.*lower bound",
     [run("for f in four-ranks loop wave bidirectional layers; do build/slackline plan examples/$f.yaml | head -1; done",
          r"^\S+: makespan 390 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\n\S+: makespan 254 ms.*proven optimal\n\S+: makespan 920.*gap"),
      quick("plan_search_search", "plan_bound_bound", "plan_family_static_families", "page_planning")]),
    (r"docs/training\.md.*GPT-2 and Llama",
     [run("for s in 1f1b zb-h1 adaptra; do build/slackline train examples/llama.yaml --set iterations=4 --set schedule=$s --out runs/bits-$s >/dev/null; done; "
          + HASHES.format("runs/bits-*/summary.json"), r"^1$"),
      quick("train_same_bits", "page_training"), here("train_products", "train_replicas", "train_delegates")]),
    (r"(?i)loss and the weights .*bit-identical",
     [run("for s in gpipe zb-h2; do build/slackline train examples/slow-link.yaml --set iterations=4 --set faults=[] --set schedule=$s --out runs/same-$s >/dev/null; done; "
          + HASHES.format("runs/same-*/summary.json"), r"^1$"), quick("train_same_bits")]),
    (r"docs/howto/verdicts\.md",
     [said("tools/try", r"verdict: .* link 0-1"), run("grep -E '\"kind\":\"(onset|suspect)\"' runs/ladder/events.jsonl", r"device of rank 1|rank \d: ops take"),
      quick("run_train_localise", "adapt_orchestrator_naming", "notice_detect_change"), page("docs/results/localisation.md", "(?i)device", "(?i)link"),
      page("docs/results/detection.md", "1000|1,000"), here("notice_watch_real_compute", "notice_watch_real_links")]),
    (r"docs/adapting\.md\).*(?=.*schedule)(?=.*processes)(?=.*microbatch)(?=.*positions)(?=.*restart)",
     [said("tools/try", r"swap: "), run("build/slackline train examples/train-delegated.yaml --out runs/by-auto", r"(?s)delegate.*slow, delegated +\d+.*adapted.*weights_hash"),
      run("cat runs/ladder/decisions.txt", r"(?s)incident \d+ begins: .*time lost [\d.]+%.*(balance|topology): .*predicted time lost [\d.]+%, cost [\d.]+ s.*\(predicted "),
      quick("adapt_ladder_ladder", "run_transport_delegates"), here("train_ladder", "train_arrange"), later("train_leave_host", "three minutes, hosts made of namespaces")]),
    (r"(?i)time lost justifies .*cost", [quick("adapt_ladder_ladder")]),
    (r"docs/checkpoints\.md.*safetensors.*docs/running\.md",
     [run("build/slackline train examples/slow-link.yaml --set iterations=20 --set checkpoint.every=5 --set 'faults=[{iteration: 12, kill: 1}]' --out runs/lost 2>&1; ls runs/lost/checkpoints/step-000020", r"(?s)weights_hash.*\.safetensors"),
      here("run_checkpoint_package", "train_restart", "train_restart_random"), later("train_restart_hosts", "two minutes, hosts made of namespaces")]),
    (r"docs/adapting\.md#without-a-job",
     [run("build/slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml --set job.duration_s=259200 --log",
          r"(?s)^ignore .*^adapt .*^delegate .*^balance .*^topology .*^restart .*^ladder .*^best in hindsight .*incident"),
      quick("adapt_campaign_campaign"), page("docs/results/adapting.md", "(?i)simulated", "(?i)measured")]),
    (r"docs/python\.md.*docs/library\.md.*docs/howto/slurm\.md.*docs/dashboard\.md",
     [run(DASHBOARD.format("metrics"), r"(?m)^# TYPE slackline_\w+ gauge$"), quick("python_package", "library_library", "page_howto_slurm"), page("docs/dashboard.md", "Prometheus"),
      later("library_install", "a minute, and needs g++")]),
    (r"docs/README\.md",
     [page("docs/README.md", r"\(tutorial\.md\)", r"\(howto/", r"\(reference/")]),
    (r"\(docs/design\.md\)", [page("docs/design.md", r"^## The tree")]),
    (r"\(docs/results\)",
     [run("for f in docs/results/*.md; do grep -qE '`[^`]*(bench/[a-z_]+/[a-z_]+\\.py|build/bench/|ctest --test-dir)[^`]*`' $f || echo none in $f; done; ls docs/results/*.md | wc -l", r"\A\d+\s*\Z")]),
    (r"trainer .*NCCL", [page("docs/training.md", "no messages through NCCL")]),
    (r"PyTorch .*bidirectional .*Megatron-LM .*docs/howto/megatron\.md",
     [page("docs/python.md", "(?i)bidirectional plans and plans with parts"), page("docs/howto/megatron.md", "^## 5. What Megatron-LM can run of it")]),
    (r"docs/watching\.md#what-watch-does-not-see",
     [page("docs/watching.md", "^## What watch does not see"), quick("notice_watch_unseen")]),
    (r"\(LICENSE\)",
     [page("LICENSE", "Apache License", "Version 2.0"), quick("tree_license"), later("package_deb", "makes and installs the package, minutes")]),
    (r"Copyright",
     [words("whose it is")]),
]


def commands(text):
    """The commands of the page's blocks as a user types them, without explanations. The commands of a block's `first:` comments come
    before the block."""
    found = []
    for block in Page("README.md", text).blocks:
        if block.kind == "commands":
            lines = [command for _, command in commands_of(block.text, lambda so_far: True)]
            found += block.first + [re.sub(r"\s+# .*$", "", re.sub(r"\\\n\s*", "", line)) for line in lines]
    return found


def promised(text):
    """The figures in the comments of commands: {command: regular expression}. Only numbers of ms, and the number of the last line."""
    numbers = {}
    for block in Page("README.md", text).blocks:
        for line in re.sub(r"\\\n\s*", " ", block.text).splitlines() if block.kind == "commands" else ():
            match = re.match(r"(\S.*?)\s+# .*?([\d.]+) ?(?:ms|$)", line)
            if match:
                numbers[" ".join(match.group(1).split())] = rf"\b{re.escape(match.group(2))}\b"
    return numbers
