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

SENTENCES = [
    ("slackline keeps pipeline-parallel training fast when links or devices turn slow.",
     [run(MEDIANS, r"^3\d\d 6\d\d 4\d\d 3\d\d$"),
      run("build/slackline train examples/train-ladder.yaml --out runs/ladder", r"(?s)decision: device of rank 1 of replica 1: ops take 2.*healthy.*weights_hash")]),
    ("It **plans** pipeline schedules that leave slack where it is needed and says how far they are from the best possible, "
     "**runs** them on a trainer of its own, with the same result in every bit whatever the schedule, **notices** slow links and devices, also "
     "in programs that know nothing of it, and **adapts** between two iterations.",
     [run("build/slackline plan examples/layers.yaml | head -1", r"makespan .* lower bound .* gap [\d.]+ %"),
      run("for s in 1f1b zb-h1 adaptra; do build/slackline train examples/llama.yaml --set iterations=4 --set schedule=$s --out runs/bits-$s >/dev/null; done; "
          + HASHES.format("runs/bits-*/summary.json"), r"^1$"),
      said("tools/try", r"(?m)verdict: .* link 0 <-> 1 .*"), said("tools/try", r"swap: .* swap to adaptra"),
      quick("train_same_bits", "notice_probe_calls")]),
    ("It is written in C for Linux and stands on three published systems: Adaptra, Falcon and CrossPipe.",
     [run("uname -s; git ls-files 'src/*.c' | wc -l; git ls-files 'src/*' | grep -vcE '\\.(c|h|md|html|map|in|cmake|abi|constants)$' || true", r"^Linux\n\d{3,}\n0$"),
      page("docs/design.md", "Adaptra", "Falcon", "CrossPipe")]),
    ("[docs/words.md](docs/words.md) says what rank, microbatch, slack, bubble and the other words mean.",
     [page("docs/words.md", r"\| rank \|", r"\| microbatch \|", r"\| slack \|", r"\| bubble \|", "Adaptra", "Falcon", "CrossPipe")]),
    ("Four ranks train a small GPT-2; the link between ranks 0 and 1 gains 60 ms each way.",
     [run("grep -E '^(model|parallel|  - )' examples/slow-link.yaml", r"(?s)kind: gpt2.*pipeline: 4.*link: \[0, 1\], latency_ms: 60"),
      said("tools/try", r"onset: link 0-1, both directions: (59|6[0-2])\.\d+ ms one way")]),
    ("An iteration goes from 393 ms to 684 ms, and back to 453 ms once slackline has swapped the schedule.",
     [run(MEDIANS, r"^(39\d|40[0-5]) (6[789]\d|70\d) (4[4-6]\d|470) (39\d|40[0-5])$")]),
    ("The bound, which no schedule can beat, is 390 + 60 ms of ops.",
     [run("build/slackline plan examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60 | head -1", r"makespan 450 ms.*lower bound 450 ms: proven optimal")]),
    ("The picture was measured and drawn by the program (`tools/try` writes it to `runs/slow-link/iterations.svg`).",
     [run("for f in runs/slow-link/iterations.svg docs/slow-link.svg; do grep -oE '>(before|during|after|rank)[^<]*<' $f | sed 's/[0-9.]//g' | sort -u | md5sum; head -c 60 $f; echo; done",
          r"^(\w+)  -\n<svg.*\n\1  -\n<svg")]),
    ("In a copy of this repository on Debian 12, as root or with sudo:",
     [run("grep VERSION_ID /etc/os-release; id -u", r'^VERSION_ID="12"\n0$'), here("tree_tools")]),
    ("On a fresh system with 2 cores they take less than five minutes together, as [docs/results/fresh-install.md](docs/results/fresh-install.md) measures.",
     [("time", 300), page("docs/results/fresh-install.md", "## The two commands")]),
    ("`tools/try` prints this table, measured on 2 cores, and where the run's page lies:",
     [said("tools/try", r"(?s)iterations +measured +predicted +bubble +schedule.*healthy +25 .* adaptra.*slow, not adapted +\d+ .*adapted +\d+ .*adaptra \(adapted\).*relieved +2\d .*adaptra"
           r".*Open in a browser: runs/slow-link/report\.html"),
      run("head -c 200 runs/slow-link/report.html", r"(?i)<!doctype html>")]),
    ("The ranks are paced: each op does its real arithmetic and is then held to 10 ms, so that four ranks behave like a cluster on two cores.",
     [run("grep pace_ms examples/slow-link.yaml; build/slackline profile runs/slow-link/timeline.json", r"(?s)F: 10, I: 10, W: 10.*^ +0 +0 +10(\.0\d*)? +10(\.0\d*)? +10(\.0\d*)? "),
      run("build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --out runs/paced | grep weights_hash; "
          "build/slackline train examples/slow-link.yaml --set iterations=3 --set faults=[] --set device.pace_ms='{F: 1, I: 1, W: 1}' --out runs/faster | grep weights_hash; "
          + HASHES.format("runs/paced/summary.json runs/faster/summary.json"), r"^1$")]),
    ("The slow link is injected by the run file ([examples/slow-link.yaml](examples/slow-link.yaml)); how it is found and answered is not told to the program.",
     [page("examples/slow-link.yaml", r"faults:\n  - \{iterations: \[25, 50\], link: \[0, 1\], latency_ms: 60\}"),
      run("build/slackline train examples/slow-link.yaml --set faults.0.link=[2,3] --set faults.0.iterations=[10,30] --set iterations=25 --out runs/elsewhere",
          r"(?s)onset: link 2-3, both directions: 6\d\.\d+ ms.*swap: ")]),
    ("docs/results/ has more figures, each with its command.",
     [run("for f in docs/results/*.md; do grep -qE '`[^`]*(bench/[a-z_]+/[a-z_]+\\.py|build/bench/)[^`]*`' $f || echo none in $f; done; ls docs/results/*.md | wc -l", r"\A\d+\s*\Z")]),
    ("[docs/results/usability.md](docs/results/usability.md) sets all of it beside what users know.",
     [page("docs/results/usability.md", "PyTorch", "zero-bubble", "Perfetto", "Nsight", "torchrun", "Slurm")]),
    ("**[docs/README.md](docs/README.md) says what to read for what**: a [tutorial](docs/tutorial.md), how-to pages, reference.",
     [page("docs/README.md", r"you want to \| read", r"\(tutorial\.md\)", r"\(howto/", r"\(reference/"), page("docs/tutorial.md", "^# ")]),
    ("`build/slackline doctor` says what is there, what is missing, what that means and how to get it; `source <(build/slackline "
     "completion bash)` completes commands, options and values; `cpack -G DEB` in a build folder makes a Debian package "
     "([docs/running.md](docs/running.md)).",
     [run("build/slackline doctor", r"(?s)^  present  planner.*^  absent   OR-tools.*\n +\S.*\n +.*(pip install|apt)"),
      run("""source <(build/slackline completion bash); type -t _slackline; for words in 'pl' 'plan --sch' 'plan examples/four-ranks.yaml --schedule zb-h'; do
COMP_WORDS=(slackline $words) COMP_CWORD=$(wc -w <<<"$words") COMP_LINE="slackline $words" COMP_POINT=${#COMP_LINE} COMPREPLY=()
_slackline slackline "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"; echo "reply: ${COMPREPLY[*]}"; done""",
          r"(?s)reply: plan.*reply: --schedule.*reply: zb-h1 ?zb-h2"),
      run("tools/build build >/dev/null && cd build && cpack -G DEB", r"slackline_.*\.deb generated"),
      page("docs/running.md", r"^#+ .*", "cpack -G DEB")]),
    ("Other forms are text, json, svg, trace (for Perfetto), and csv and csv-comms, PyTorch's own.",
     [run("for form in text json svg html trace csv csv-comms; do build/slackline plan examples/four-ranks.yaml --format $form >form.$form || exit 1; done; "
          "head -1 form.text; head -c 5 form.svg; echo; head -1 form.csv | cut -c1-20; python3 -c 'import json; json.load(open(\"form.json\")); print(len(json.load(open(\"form.trace\"))[\"traceEvents\"]) > 100)'",
          r"makespan 390 ms.*\n<svg \n.*\nTrue"),
      quick("plan_draw_trace", "plan_family_static_families")]),
    ("`build/slackline draw` makes figures for papers: `build/slackline draw examples/four-ranks.yaml --schedule 1f1b,zb-h2 --width "
     "85mm --font-size 7 -o schedules.svg`, of plans, orders and runs, several on one axis, also in grey.",
     [run("build/slackline draw examples/four-ranks.yaml --schedule 1f1b,zb-h2 --width 85mm --font-size 7 -o schedules.svg && grep -oE '^<svg|width=\"85mm\"|>(1f1b|zb-h2): [^<]*' schedules.svg",
          r'(?s)^<svg\nwidth="85mm"\n.*>1f1b: 450 ms.*>zb-h2: 390 ms'),
      run("build/slackline draw examples/four-ranks.yaml --order order.csv runs/slow-link --iteration 30 --grey -o both.svg && head -c 5 both.svg; grep -c '<pattern' both.svg", r"^<svg ?[1-9]"),
      quick("cli_draw", "plan_draw_paper")]),
    ("[docs/theory.md](docs/theory.md) explains slack with such figures.",
     [page("docs/theory.md", r"(?i)slack", r"!\[.*\]\(figures/slack\.svg\)"), quick("docs_theory", "page_theory")]),
    ("`build/slackline profile rank*.json.gz -o problem.yaml --order order.csv` makes the problem file from a trace that you have "
     "(PyTorch's profiler, Megatron, any Chrome trace with labelled ops), and says what a better plan would gain.",
     [run("build/slackline plan examples/four-ranks.yaml --schedule 1f1b --format trace | gzip >rank0.json.gz; "
          "build/slackline profile rank*.json.gz -o problem.yaml --order traced.csv && build/slackline simulate problem.yaml --order traced.csv | head -1",
          r"(?s)traced +450 ms.*better plan +420 ms, 6\.7 % less.*makespan 450 ms"),
      quick("plan_trace_label", "plan_trace_scan", "cli_profile", "train_trace_profile"), here("torch_trace")]),
    ("A problem file says how long the ops of each stage take, what they do to memory, and what the links are like; see [docs/formats.md](docs/formats.md).",
     [page("docs/formats.md", r"times_ms", r"delta", r"latency_ms"),
      run("for s in times_ms.F=20 memory.limit=3 links.list.0.latency_ms=60; do build/slackline plan examples/four-ranks.yaml --set pipeline.$s | head -1; done",
          r"^\S+: makespan (?!390 )[\d.]+ ms.*\n\S+: makespan [\d.]+ ms.*\n\S+: makespan 450 ms")]),
    ("Stages may lie on ranks in a line, a loop, a wave or two pipelines in opposite directions, or be cut from layers; `plan` knows "
     "the published schedules of each and searches for a shorter one until a bound proves that there is none, or its time is over.",
     [run("for f in four-ranks loop wave bidirectional layers; do build/slackline plan examples/$f.yaml | head -1; done",
          r"^\S+: makespan 390 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\noptimal: makespan 256.5 ms.*proven optimal\n\S+: makespan 254 ms.*proven optimal\n\S+: makespan 920.*gap"),
      run("build/slackline plan examples/wave.yaml --schedule zb-v | head -1; build/slackline plan examples/loop.yaml --schedule interleaved-1f1b | head -1; "
          "build/slackline plan examples/bidirectional.yaml --schedule chimera | head -1",
          r"^zb-v: makespan .*\ninterleaved-1f1b: makespan .*\nchimera: makespan"),
      quick("plan_search_search", "plan_bound_bound")]),
    ("[docs/results/planner.md](docs/results/planner.md) sets it beside the papers' figures, [docs/results/search.md](docs/results/search.md) beside an exact solver.",
     [page("docs/results/planner.md", r"(?i)published", "CrossPipe", "Adaptra"), page("docs/results/search.md", "CP-SAT")]),
    ("`pip install --no-deps ortools==9.15.6755` into `.venv` (or SLACKLINE_ORTOOLS=FOLDER) lets the search end with OR-tools CP-SAT.",
     [run("tools/install python >/dev/null && python3 -m venv .venv && .venv/bin/pip install -q --no-deps ortools==9.15.6755 && build/slackline doctor", r"present +OR-tools +9\.15\.6755"),
      run("mv .venv elsewhere; build/slackline doctor | grep OR-tools; SLACKLINE_ORTOOLS=$(dirname $(find elsewhere -name 'libortools.so.9')) build/slackline doctor | grep OR-tools; mv elsewhere .venv",
          r"absent +OR-tools.*\n +present +OR-tools|absent +OR-tools.*\n.*present +OR-tools"),
      here("plan_exact_solver", "plan_exact_exact")]),
    ("PyTorch's pipelining runtime executes what `--format csv` and `csv-comms` write, and `simulate` checks and times what PyTorch dumps.",
     [here("torch_runtime", "torch_dumps")]),
    ("These install for all users, as root; `ninja -C out uninstall` takes all of it away again.",
     [run("for t in install uninstall; do DESTDIR=$PWD/all ninja -C build $t >/dev/null && find all -type f | wc -l; done", r"^\d{2,}\n0$"), later("library_install", "a minute, and needs g++")]),
    ("`include/slackline/` holds the whole interface: problems, a planner, plans, anybody's order, adapting a running job.",
     [run("nm -D --defined-only build/libslackline.so | awk '$2 == \"T\" {print $3}' | while read f; do grep -qw $f include/slackline/*.h || echo $f is in no header; done; "
          "nm -D --defined-only build/libslackline.so | grep -vc ' slackline_\\| A '; ls include/slackline", r"\A0\nadapt\.h\n(?s:.*)plan\.h\nproblem\.h"),
      quick("library_library", "library_orders", "library_adapt", "library_balance", "library_ladder", "library_topology", "examples_library")]),
    ("It keeps nothing outside its handles and prints nothing; [docs/library.md](docs/library.md) has more.",
     [run("nm -D --undefined-only build/libslackline.so | grep -wE 'stdout|stderr|printf|puts|putchar'; size -A build/libslackline.so | awk '$1 == \".data\" || $1 == \".bss\" {n += $2} END {print n}'", r"\A\d{1,3}\s*\Z"),
      quick("library_library"), page("docs/library.md", "slackline_plan")]),
    ("(`tools/install build` brings what the build needs.)", [run("tools/install build", "all there"), said("tools/try", "packages: done")]),
    ("`slackline.plan` takes a dict, YAML or a file and gives a plan as data, as CSV and with `.schedule(stage, loss_fn=...)` as a "
     "ready schedule of PyTorch's pipelining; [docs/python.md](docs/python.md), "
     "[examples/python/slow_link.py](examples/python/slow_link.py) (a PyTorch pipeline over a slow link, before and after).",
     [run("""cat >try.py <<'P'
import slackline
problem = {"pipeline": {"ranks": 4, "microbatches": 12, "times_ms": {"F": 10, "I": 10, "W": 10}}}
for form in (problem, open("examples/four-ranks.yaml").read(), "examples/four-ranks.yaml"):
    plan = slackline.plan(form)
    print(plan.makespan_ms, len(plan.ops), len(plan.csv().splitlines()))
P
SLACKLINE_LIBRARY=build/libslackline.so env/bin/python try.py""", r"^(390\.0 \d+ 4\n?){3}"),
      quick("python_package"), here("python_runtime"), page("docs/python.md", r"\.schedule\("),
      later("examples_python", "runs that page's example, three minutes")]),
    ("`slackline train RUN` trains what a run file says ([examples/slow-link.yaml](examples/slow-link.yaml)) and leaves metrics, "
     "events, a Perfetto timeline and a measured problem file behind, which `plan` reads.",
     [run("ls runs/slow-link; build/slackline plan runs/slow-link/profile.yaml | head -1", r"(?s)events.jsonl.*metrics.jsonl.*profile.yaml.*timeline.json.*makespan \d+"), here("train_outputs")]),
    ("A rank may hold several stages (`parallel: {pipeline: 4, placement: wave}`, or the placement that the schedule needs); loss and weights have the same bits.",
     [run("w='build/slackline train examples/train-wave.yaml --set iterations=3 --set faults=[]'; $w --out runs/wave >/dev/null && $w --set parallel.placement=linear --set parallel.stages=4 --set schedule=zb-h2 --out runs/line >/dev/null; "
          + HASHES.format("runs/wave/summary.json runs/line/summary.json"), r"^1$"),
      here("train_placements")]),
    ("`slackline report DIR` draws such a folder as one page, report.html (`train` leaves it at its end): iteration time with events and "
     "decisions, what each change gained, any recorded iteration op by op with what had been foretold above it, links and devices.",
     [run("ls runs/slow-link/report.html && rm runs/slow-link/report.html && build/slackline report runs/slow-link && grep -oE '<h2[^>]*>[^<]*' runs/slow-link/report.html",
          r"(?is)iteration.*(gain|change).*(predicted|foretold|gantt|recorded|op by op|one iteration).*link"), quick("cli_report")]),
    ("It works offline, prints, and shows a run that still goes on or was killed as far as it came.",
     [run("grep -cE '(src|href)=\"(https?:)?//' runs/slow-link/report.html; cd runs/slow-link && chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer --print-to-pdf=/tmp/report.pdf file://$PWD/report.html >/dev/null 2>&1; "
          "head -c 5 /tmp/report.pdf; echo; grep -ac '/Type /Page\\b' /tmp/report.pdf", r"^0\n%PDF-\n[1-9]"),
      run("(timeout -s KILL 6 build/slackline train examples/slow-link.yaml --out runs/killed || true) >/dev/null 2>&1; build/slackline report runs/killed && grep -oiE 'killed|goes on|not ended|no end' runs/killed/report.html | head -1",
          r"(?i)killed|goes on|not ended|no end"),
      quick("report_states")]),
    ("It draws the folder of a `watch`, too.", [quick("report_watch")]),
    ("`slackline dashboard DIR` shows a run while it goes on, as a page for the browser: ranks, links, iteration time, schedule, "
     "suspects, decisions; with `--redis URL` a job under `slackline watch`.",
     [run(DASHBOARD.format("state.json"), r'(?s)"iteration":.*"schedule":.*"suspects":.*"ranks":.*"links":'), here("dashboard_dashboard", "dashboard_redis"), later("dashboard_browser", "in Chromium with 1,000 ranks, minutes")]),
    ("Prometheus reads the same ([docs/dashboard.md](docs/dashboard.md), [examples/grafana-dashboard.json](examples/grafana-dashboard.json)).",
     [run(DASHBOARD.format("metrics"), r"(?m)^# TYPE slackline_\w+ gauge$"), quick("dashboard_lines"),
      page("docs/dashboard.md", "Prometheus", "slackline_loss"), page("examples/grafana-dashboard.json", r'"expr": *"[^"]*slackline_')]),
    ("The model is a GPT-2 or a Llama ([examples/llama.yaml](examples/llama.yaml)) over bytes or a tokenizer's ids; stages are cut by "
     "cost or as the file says, and may recompute instead of keeping.",
     [run("l='build/slackline train examples/llama.yaml --set iterations=6'; python3 -c 'import random, struct; random.seed(1); open(\"ids\", \"wb\").write(struct.pack(\"<60000H\", *(random.randrange(1000) for _ in range(60000))))'; "
          "$l --set data.files=[ids] --set data.tokens=uint16 --set model.vocabulary=1000 --out runs/ids | grep -c weights_hash; "
          "$l --out runs/cost >/dev/null; $l --set parallel.cut=[1,3] --out runs/cut >/dev/null; $l --set device.recompute=true --out runs/again >/dev/null; "
          + HASHES.format("runs/cost/summary.json runs/cut/summary.json runs/again/summary.json"), r"^1\n1$"),
      quick("run_model_cut", "run_model_recompute")]),
    ("`parallel: {pipeline: 2, data: 2, tensor: 2, zero: 1}` divides the model over any product "
     "([examples/train-hybrid.yaml](examples/train-hybrid.yaml)): replicas may take different numbers of microbatches and adapt each for "
     "itself, gradients are summed while the pipeline goes on, and sums go in a fixed order, so the number of pipeline ranks and zero "
     "change no bit ([src/run/train/README.md](src/run/train/README.md)).",
     [run("h='build/slackline train examples/train-hybrid.yaml --set iterations=3 --set faults=[]'; $h --out runs/h1 >/dev/null; $h --set parallel.zero=0 --out runs/h2 >/dev/null; $h --set parallel.pipeline=1 --out runs/h3 >/dev/null; "
          + HASHES.format("runs/h1/summary.json runs/h2/summary.json runs/h3/summary.json"), r"^1$"),
      here("train_products", "train_replicas"), page("src/run/train/README.md", r"fixed|ascending order", "ZeRO")]),
    ("`transport` says who carries messages: the ranks (`direct`), processes of their own that a slow or dying network cannot block "
     "(`delegated`), or those while a link is slower than the schedule tolerates (`auto`, [examples/train-delegated.yaml](examples/train-delegated.yaml)).",
     [run("for t in direct delegated; do build/slackline train examples/train-delegated.yaml --set iterations=3 --set faults=[] --set transport=$t --out runs/by-$t >/dev/null; done; "
          "build/slackline train examples/train-delegated.yaml --out runs/by-auto", r"(?s)delegate.*slow, delegated +\d+.*adapted.*weights_hash"),
      quick("run_transport_delegates"), later("net_faults", "a hundred faults of a network of namespaces, minutes")]),
    ("Changing takes some ten milliseconds between two iterations; a delegate that is killed is replaced at once.",
     [run("grep -ho '\"path_change_ms\": *[0-9.]*' runs/by-auto/summary.json runs/by-delegated/summary.json", r'^"path_change_ms": *\d{1,2}\.'), here("train_delegates"), quick("run_transport_delegates")]),
    ("Loss and weights keep their bits through all of it.",
     [run("for t in direct delegated; do build/slackline train examples/train-delegated.yaml --set transport=$t --set device.pace_ms='{F: 1, I: 1, W: 1}' --set faults=[] --out runs/by-$t >/dev/null; done; "
          + HASHES.format("runs/by-*/summary.json"), r"^1$"), here("train_delegates")]),
    ("`checkpoint: {every: 20, keep: 2}` writes safetensors that other tools load, in the background; `--resume` goes on from the newest "
     "whole one with the same bits, also on another number of ranks, and `model.weights` starts from anybody's "
     "([docs/checkpoints.md](docs/checkpoints.md)).",
     [run("a='build/slackline train examples/llama.yaml --set checkpoint={every:_5,keep:_2}'; a=${a//_/ }; a() { build/slackline train examples/llama.yaml --set 'checkpoint={every: 5, keep: 2}' \"$@\" >/dev/null; }; "
          "a --set iterations=20 --out runs/a && a --set iterations=10 --out runs/b && a --set iterations=20 --set parallel.pipeline=4 --out runs/b --resume; ls runs/b/checkpoints; "
          + HASHES.format("runs/a/summary.json runs/b/summary.json"), r"^step-000015\nstep-000020\n1$"),
      run("build/slackline train examples/llama.yaml --set iterations=1 --set model.weights=runs/a/checkpoints/step-000020 --out runs/from", r"iteration +0  loss [1-4]\."),
      here("run_checkpoint_package"), quick("run_checkpoint_weights"), page("docs/checkpoints.md", "safetensors", r"weights:")]),
    ("A rank, host or link that is lost costs the time since the newest checkpoint: the ranks are started again by themselves, at most "
     "`restarts` times, on the hosts that pass a test; SIGTERM writes a checkpoint first, `--resume` goes on.",
     [run("build/slackline train examples/slow-link.yaml --set iterations=20 --set checkpoint.every=5 --set 'faults=[{iteration: 12, kill: 1}]' --out runs/lost 2>&1", r"(?s)weights_hash"),
      run("a='build/slackline train examples/slow-link.yaml --set checkpoint.every=50 --out runs/ended'; timeout -s TERM 8 $a; ls runs/ended/checkpoints && $a --set iterations=30 --resume", r"(?s)ended by SIGTERM.*weights_hash"),
      here("train_restart"), later("train_restart_hosts", "two minutes, hosts made of namespaces")]),
    ("Loss and weights keep their bits through 100 random kills.",
     [here("train_restart_random")]),
    ("[docs/running.md](docs/running.md): hosts, mpirun, Slurm, signals.", [page("docs/running.md", r"(?i)hosts", "mpirun", "Slurm", "SIGTERM")]),
    ("`slackline detect FILE` finds where a series becomes slow and recovers (a CSV, a run's metrics.jsonl, or standard input while it is "
     "written), within a few iterations and without false alarms on 1,000 generated traces "
     "([docs/results/detection.md](docs/results/detection.md)).",
     [run("printf 'time_ms\\n' >s.csv; for i in $(seq 60); do echo $((i > 20 && i < 40 ? 150 : 100 + i % 3)); done >>s.csv; build/slackline detect s.csv; build/slackline detect runs/slow-link/metrics.jsonl; "
          "(cat s.csv; sleep 2) | build/slackline detect - | while read l; do echo \"$l\"; done", r"(?s)onset.*relief.*onset.*relief.*onset.*relief"),
      quick("notice_detect_change"), page("docs/results/detection.md", "1000|1,000"),
      run("python3 bench/detection/run.py build", r"^\| bocd-v \|.*/1000\) \| .* \| 0\.00 \(0/\d+\) \|.* \| [1-5] / \d+ / \d+ \|")]),
    ("`train` does the same while it runs and names the device or link ([docs/results/localisation.md](docs/results/localisation.md)).",
     [said("tools/try", r"verdict: .* link 0 <-> 1"), run("grep -E '\"kind\":\"(onset|suspect)\"' runs/ladder/events.jsonl", r"device of rank 1|rank \d: ops take"), quick("run_train_localise", "notice_detect_localise"),
      page("docs/results/localisation.md", "(?i)device", "(?i)link"), later("train_localise", "live runs with random faults, minutes")]),
    ("libslackline_probe.so, preloaded, records the MPI and NCCL calls of a program that knows nothing of it "
     "([src/notice/probe/README.md](src/notice/probe/README.md)).",
     [run("mkdir -p /dev/shm/rings && SLACKLINE_PROBE=/dev/shm/rings LD_PRELOAD=build/libslackline_probe.so mpirun --allow-run-as-root --oversubscribe -np 2 NPopenmpi -u 256 >/dev/null 2>&1; ls /dev/shm/rings", r"(?s)\.ring"),
      quick("notice_probe_calls", "notice_probe_nccl"), later("notice_probe_programs", "Fortran, MPICH, programs linked statically: needs their compilers"), page("src/notice/probe/README.md", "LD_PRELOAD")]),
    ("`slackline watch -- mpirun -np 4 PROGRAM` runs such a program with it: a live line, events, a report, metrics for Prometheus over "
     "HTTP; input, output and exit code are the program's.",
     [run("(sleep 4; python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:9464/metrics\").read().decode()[:300])') & "
          "build/slackline watch --out runs/watched -- mpirun --allow-run-as-root --oversubscribe -np 2 NPopenmpi -u 4096 && ls runs/watched", r"(?s)# (HELP|TYPE) slackline_.*events\.jsonl.*report\.txt"),
      run("(echo in | build/slackline watch --out runs/code -- mpirun --allow-run-as-root --oversubscribe -np 1 sh -c 'cat; exit 3'; echo code $?)", r"(?s)^in$.*^code 3$"),
      quick("cli_watch", "notice_watch_telling"), later("notice_watch_watch_ranks", "two minutes")]),
    ("[docs/watching.md](docs/watching.md): several nodes, srun, Redis, what is not seen.", [page("docs/watching.md", "(?i)several nodes", "srun", "(?i)redis", "(?i)not seen")]),
    ("LAMMPS, mpi4py and NetPIPE are among its tests: a rank under a quota or beside other load, and one slow direction of one link, are "
     "named with their cause.",
     [here("notice_watch_real_compute", "notice_watch_real_links", "notice_probe_mpi4py")]),
    ("It also says what it would do, at what cost and gain, and why not otherwise; `--on-event CMD` hands that to a program of yours, "
     "which carries it out ([docs/watching.md](docs/watching.md#a-program-that-carries-it-out)).",
     [quick("notice_watch_advice", "launch_hook"), later("notice_watch_hook", "an MPI job that becomes slow, minutes"), page("docs/watching.md", r"^#+ A program that carries it out")]),
    ("`slackline validate --ranks 4`, or `mpirun -np 8 slackline validate` inside an allocation, tests devices and links in a few passes and "
     "names what is slow; `watch` does so with a program's suspects while it is held.",
     [run("build/slackline validate --ranks 4 ; mpirun --allow-run-as-root --oversubscribe -np 8 build/slackline validate; true", r"(?s)4 processes.*passes.*^device .*^link .*8 processes.*passes.*^device .*^link "),
      quick("cli_validate", "notice_validate_passes", "notice_validate_verdict"), here("net_validate"), later("notice_validate_members", "ranks under quotas and beside other load, minutes")]),
    ("`train` answers trouble by itself: another schedule, delegates, fewer microbatches for a slow replica, processes that change places "
     "from memory to memory, a restart without the bad host; each when the time lost has come to what it costs, and taken back on relief.",
     [said("tools/try", r"(?s)swap: .*return; return to the first schedule"), run("grep -c arrange runs/ladder/events.jsonl; cat runs/by-auto/decisions.txt", r"(?s)^[1-9].*delegate"),
      here("train_ladder", "train_arrange"), quick("adapt_ladder_ladder"), later("train_leave_host", "three minutes, hosts made of namespaces")]),
    ("Schedules and delegates change by themselves, the rest with `adaptation: {strategies: all}` "
     "([examples/train-ladder.yaml](examples/train-ladder.yaml)); all but the microbatches keep every bit.",
     [page("examples/train-ladder.yaml", r"adaptation: \{strategies: all\}"), run("cat runs/ladder/events.jsonl", r'"kind":"arrange"'), here("train_arrange", "train_ladder")]),
    ("`decisions.txt` tells each step: what was seen, what it loses, what was considered at what cost and gain, what was done and what it "
     "brought ([docs/adapting.md](docs/adapting.md)).",
     [run("cat runs/ladder/decisions.txt", r"(?s)incident \d+ begins: .*% of the time is lost.*(balance|topology).* would become .* for [\d.]+ s.*were foretold"), page("docs/adapting.md", r"decisions\.txt")]),
    ("Timing model and ladder are those of `train`, and the job may be of any size; "
     "[docs/results/adapting.md](docs/results/adapting.md) sets measured and simulated figures beside the published ones.",
     [run("build/slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml --set job.replicas=64 --set pipeline.ranks=16 --set pipeline.microbatches=32 | head -1", r"64 replicas x 16 ranks"),
      quick("adapt_campaign_campaign"), page("docs/results/adapting.md", "(?i)simulated", "(?i)measured", "(?i)published|paper")]),
    ("`slackline campaign TRACE --problem FILE` ([examples/campaign.yaml](examples/campaign.yaml)) simulates days of training while links, "
     "devices and hosts become slow and well again: what ignoring costs, what each remedy and the ladder of all bring back, the best in "
     "hindsight, and with `--log` every decision with its reasons.",
     [run("build/slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml --set job.duration_s=259200 --log",
          r"(?s)^ignore .*^adapt .*^delegate .*^balance .*^topology .*^restart .*^ladder .*^best in hindsight .*incident")]),
    ("Events come from a file, a CSV, or published rates.",
     [run("printf 'first_iteration,last_iteration,links,latency_ms\\n10,50,0-1,60\\n' >e.csv; build/slackline campaign e.csv --problem examples/four-ranks.yaml | sed -n 2p; "
          "printf 'job: {replicas: 4, duration_s: 360000}\\ndraw: {rates: probes}\\n' >d.yaml; build/slackline campaign d.yaml --problem examples/four-ranks.yaml | sed -n 2p; "
          "build/slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml | sed -n 2p", r"^1 events?\n\d+ events; \d+ events drawn.*\n5 events$")]),
    ("Training has no bidirectional placement (two copies of the weights) and no GPU.",
     [run("build/slackline train examples/train-wave.yaml --set parallel.placement=bidirectional 2>&1 || build/slackline doctor", r"(?s)keeps two copies of the weights, which training does not have.*no CUDA device yet")]),
    ("CHANGELOG.md says what is there; docs/releasing.md how a version is made.",
     [page("CHANGELOG.md", r"^## \[Unreleased\]"), page("docs/releasing.md", "tools/release")]),
    ("Apache-2.0; the text is in [LICENSE](LICENSE).", [page("LICENSE", "Apache License", "Version 2.0"), quick("tree_license"), later("package_deb", "makes and installs the package, minutes")]),
    ("Copyright: the slackline authors.", [words("whose it is")]),
]


def commands(text):
    """The commands of the indented blocks, joined where a line goes on, without what only explains them."""
    found = []
    for block in re.findall(r"(?:^    \S.*\n(?:^ {4,}.*\n)*)", text, re.M):
        lines = [line[4:] for line in block.splitlines()]
        if not re.match(r"(tools/|build/|cmake |cc |python3 |source |SLACKLINE_)", lines[0]):
            continue
        joined = ""
        for line in lines:
            line = re.sub(r"\s+# .*$", "", line).rstrip()
            joined += line[:-1] + " " if line.endswith("\\") else line
            if not line.endswith("\\"):
                found.append(re.sub(r"\s+", " ", joined) if "'" not in joined else joined)
                joined = ""
    return found


def promised(text):
    """What the comments beside the commands say: {command: regular expression}. Only numbers of ms, and the last line's."""
    numbers = {}
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        match = re.match(r"    (\S.*?)\s+# .*?([\d.]+) ?(?:ms|$)", line)
        if match:
            numbers[" ".join(match.group(1).split())] = rf"\b{re.escape(match.group(2))}\b"
    return numbers
