"""A command says once what its options are: each is in its help, its manual page and the completion of every shell, once; all
have an example; what is mistyped is guessed. `test_help_options.py` tries that nothing else is taken."""
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

from helps import documented, helps, names, options_of
from calling import command, folder, problem, refused, run
from runner import expect, source


def test_every_command_has_help_with_an_example():
    for name, text in helps.items():
        expect(text.startswith(f"Usage: slackline {name}"), f"{name}: begins with its usage")
        expect(re.search(rf"^Example: .*slackline {name}\b", text, re.M | re.S), f"{name}: has an example of itself")
        expect(run("help", name).stdout == text, f"help {name} is {name} --help")
        expect(run(name, "-h").stdout == text, f"{name} -h is {name} --help")
        expect(max(map(len, text.splitlines())) <= 80, f"{name}: no line is longer than 80")
        options = [option for option, _ in documented(text)]
        expect(len(options) == len(set(options)), f"{name}: an option is documented twice: {options}")
    refused(2, "'plan'", "help", "plam")


def test_mistyped_words_are_guessed():
    for name in names:
        for option in options_of(helps[name]):
            if len(option) > 4:
                wrong = option[:2] + option[3:]
                refused(2, f"did you mean '--{option}'?", name, f"--{wrong}")
        refused(2, "", name, "--xyzzy")
        refused(2, "'-Z'", name, "-Zo")
        refused(2, "'--help'", name, "--help=1")
    refused(2, "'-Z'", "plan", problem, "--explain", "-Zo")  # not the word before it
    refused(2, "'-Z'", "report", "runs", "-Zo")
    refused(2, "'--log'", "campaign", "--log=5")
    refused(2, "'--grey'", "draw", "--grey=yes")
    refused(2, "'--s' | --schedule | --seed | --set", "plan", problem, "--s", "5")
    refused(2, "'--no' | --no-hold | --no-validate", "watch", "--no", "--", "true")
    refused(2, "'doctor'", "docter")
    refused(2, "'zsh'", "completion", "zhs")
    refused(2, "'plan'", "man", "paln")
    refused(2, "command", "man", "plan", "train")
    for words in (["help", "help"], ["help", "--help"], ["--help", "help"], ["-h"]):
        expect(run(*words).stdout == run("help").stdout, f"{words}: the help of all")
    refused(2, "'version' | '--version'", "version")
    refused(2, "'now'", "help", "plan", "now")
    refused(2, "'now'", "--version", "now")
    refused(2, "shell", "completion")


def on_terminal(columns, *words):
    """What a terminal of so many columns is given."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([command, *words], stdout=its, stderr=its)
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(mine, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(mine)
    expect(process.wait() == 0, f"{words} on a terminal")
    return shown.decode().replace("\r\n", "\n")


def test_options_and_inputs_come_in_any_order():
    campaign = os.path.join(source, "examples", "campaign.yaml")
    cluster = os.path.join(source, "examples", "cluster.yaml")
    orders = os.path.join(folder, "1f1b.csv")
    open(orders, "w").write(run("plan", problem, "--schedule", "1f1b", "--format", "csv").stdout)
    for first, file, last in (("plan", problem, ["--schedule", "1f1b", "--format", "csv"]), ("simulate", problem, ["--order", orders, "--format", "csv"]), ("compare", problem, ["--schedules", "1f1b"]),
                              ("campaign", campaign, ["--problem", problem, "--set", "job.duration_s=3000"]), ("topology", cluster, ["--effort", "0.01", "--format", "json"]),
                              ("detect", orders.replace("1f1b.csv", "series.csv"), ["--format", "json"]), ("draw", problem, ["--grey"])):
        if first == "detect":
            open(file, "w").write("time_ms\n" + "10\n" * 20 + "20\n" * 20)
        given = lambda *words: re.sub(r'"solve_ms": *[0-9.e-]*|"seconds": *[0-9.e-]*|"search_s": *[0-9.e-]*', "", (lambda done: f"{done.returncode} {done.stderr} {done.stdout}")(run(first, *words)))  # noqa: E731
        once = given(file, *last)
        expect(once.startswith("0 "), f"{first}: {once[:200]}")
        if first != "draw":  # where options in front of an input are for all
            expect(given(*last, file) == once, f"{first}: the file behind its options")
        expect(given(*last, "--", file) == given(*last, file), f"{first}: the file behind --")
        strict = run(first, file, *last, env={**os.environ, "POSIXLY_CORRECT": "1"})
        expect(strict.returncode == 0, f"{first} with POSIXLY_CORRECT: {strict.stderr}")
        other = os.path.join(folder, "--format")
        if not os.path.exists(other):
            os.symlink(os.path.realpath(problem), other)
    done = run("plan", "--schedule", "1f1b", "--", "--format", cwd=folder) if os.path.isabs(command) else run("plan", "--schedule", "1f1b", "--", other)
    expect(done.returncode == 0, f"a file whose name is that of an option: {done.stderr}")


def words_of(text):
    """What is left when lines are filled: hyphens at ends of lines, headings and spaces are of the page."""
    return re.sub(r"\s+", " ", text)


def test_help_fits_a_narrow_terminal():
    for name in names:
        for columns in (60, 70):
            shown = on_terminal(columns, name, "--help")
            for line in shown.splitlines():  # what has no blank cannot be broken
                expect(len(line) <= columns or " " not in re.split("  +", line.strip())[-1], f"{name} --help on {columns} columns: {line!r}")
            words = lambda text: [word for word in text.split() if word != "\\"]  # noqa: E731  # examples that are too long continue behind it
            expect(words(shown) == words(helps[name]), f"{name} --help on {columns} columns: the same words")
        expect(on_terminal(200, name, "--help") == helps[name] == on_terminal(200, "help", name), f"{name} --help on a wide terminal is that of 80 columns")
    expect(re.search(r"^(  --set KEY=VALUE +)change .*\n(?! *-)( +)\w", (narrow := on_terminal(52, "plan", "--help")), re.M) and
           all(len(head) == len(left) for head, left in re.findall(r"^(  --set KEY=VALUE +)change .*\n( +)", narrow, re.M)), "words go on below words")


def test_manual_pages_have_every_word_of_the_help():
    pages = os.path.join(folder, "man1")
    expect(run("man", "--out", pages).returncode == 0, "man --out")
    expect(sorted(os.listdir(pages)) == sorted(["slackline.1"] + [f"slackline-{name}.1" for name in names]), "a page a command, and one of all")
    expect(run("man").stdout == open(os.path.join(pages, "slackline.1")).read(), "man prints the first page")
    for name in names:
        page = open(os.path.join(pages, f"slackline-{name}.1")).read()
        expect(run("man", name).stdout == page, f"man {name} prints what --out writes")
        heads = re.findall(r"^\.TP\n(\\fB\\-.*)$", page, re.M)
        for option in options_of(helps[name]):
            written = "\\fB" + (("--" if len(option) > 1 else "-") + option).replace("-", "\\-") + "\\fR"
            expect(sum(written in head.replace(",\\fR", "\\fR") for head in heads) == 1, f"{name}: {written} is in the page, once")
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO"):
            expect(f"\n.SH {section}\n" in page, f"{name}: section {section}")
    if shutil.which("man") and shutil.which("groff"):
        for page in sorted(os.listdir(pages)):
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-P", "cat", "-l", os.path.join(pages, page)], capture_output=True,
                                   text=True, env={**os.environ, "MANWIDTH": "400", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "MAN_KEEP_FORMATTING": ""})
            expect(shown.returncode == 0 and shown.stderr == "", f"{page}: {shown.stderr}")
            name = page[len("slackline-"):-2]
            if name not in helps:
                continue
            text = words_of(re.sub(".\b", "", shown.stdout)).replace("’", "'").replace("‘", "`")
            for line in helps[name].splitlines():
                # paragraphs are filled anew and heads stand in a column of their own: every word of the help is there
                body = re.sub(r"^(Usage|Example|Exit code): |:$| \\$", "", line.strip())
                for part in re.split(r"  +", body):
                    missing = [word for word in part.split() if word not in text]
                    expect(not missing, f"{page} lacks {missing} of {line!r}")
    else:
        print("not tried: man is not installed")
    if shutil.which("mandoc"):
        for page in sorted(os.listdir(pages)):
            shown = subprocess.run(["mandoc", "-Tlint", "-Wwarning", os.path.join(pages, page)], capture_output=True, text=True)
            expect(shown.returncode == 0, f"{page}: {shown.stdout}")
    else:
        print("not tried: mandoc is not installed")


script = os.path.join(folder, "slackline.bash")
work = os.path.join(folder, "work")


def complete(*words):
    """What Tab behind these words offers."""
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slackline; ((${#COMPREPLY[@]} == 0)) || printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", script, command, *words], capture_output=True, text=True, cwd=work)
    expect(done.returncode == 0 and done.stderr == "", f"{words}: {done.stderr}")
    return done.stdout.splitlines()


there = re.search(r"known: (.*)$", run("plan", problem, "--schedule", "none").stderr, re.M).group(1).split(", ")


def test_bash_completes_what_is_taken():
    open(script, "w").write(run("completion", "bash").stdout)
    os.mkdir(work)
    for name in ("a problem.yaml", "order.csv"):
        open(os.path.join(work, name), "w").close()

    expect(set(complete("")) == {*names, "help", "--help", "--version"}, "every command is offered")
    expect(complete("si") == ["simulate"], "a command that is begun")
    for name in names:
        said = options_of(helps[name])
        words = [word.lstrip("-") for word in complete(name, "-")]
        offered = set(words)
        expect(len(words) == len(offered), f"{name}: offered twice: {words}")
        expect(offered == {*said, "help"}, f"{name}: offered {sorted(offered ^ {*said, 'help'})} more or less")
    expect(set(complete("plan", "a.yaml", "--format", "")) == {"text", "json", "csv", "csv-comms", "trace", "svg", "html", "torchtitan", "megatron", "deepspeed", "primus", "pytorch"}, "values of --format")
    expect(complete("plan", "--schedule", "") == there, f"every schedule that there is: {there}")
    expect(set(complete("plan", "--schedule", "zb")) == {"zb-auto", "zb-h1", "zb-h2", "zb-v"}, "values that are begun")
    expect(complete("plan", "--schedule", "=", "1f") == ["1f1b"], "a value behind =")
    expect(set(complete("plan", "--schedule", "=")) >= {"auto", "1f1b"}, "nothing yet behind =")
    expect(set(complete("healthcheck", "--topology", "")) == {"ring", "tree", "all"}, "values of --topology")
    expect(set(complete("plan", "")) == {"a problem.yaml", "order.csv"}, "files in the place of PROBLEM, blanks and all")
    expect(complete("plan", "-o", "o") == ["order.csv"] == complete("plan", "--output", "o"), "files behind -o")


# keys of --set, from the tables that slackline formats prints
tables, keys = {}, {}


def test_bash_completes_keys_of_files():
    for line in run("formats").stdout.splitlines():
        if line.startswith("### "):
            table = tables.setdefault(line[4:], [])
        elif line.startswith("| `"):
            table.append(re.match(r"\| `([^`]*)`", line)[1].replace("[]", ".0"))
    for name, kinds in (("problem", ["problem"]), ("run", ["run"]), ("cluster", ["cluster"]), ("campaign", ["campaign", "problem"]), ("model", ["model"])):
        keys[name] = [key for kind in kinds for key in tables[f"Keys of a {kind} file"]]
    taking = {"plan": "problem", "simulate": "problem", "check": "problem", "compare": "problem", "balance": "problem", "draw": "problem", "train": "run", "topology": "cluster", "campaign": "campaign", "choose": "model"}
    for name in names:
        expect(("set" in options_of(helps[name])) == (name in taking), f"{name}: the table of its keys is known where it takes --set")
    for name, kind in taking.items():
        expect(complete(name, "--set", "") == [key + "=" for key in keys[kind]], f"{name}: every key")
        expect(complete(name, "--set", "=", "") == [key + "=" for key in keys[kind]], f"{name}: every key behind --set=")
    expect(complete("compare", "--sweep", "pipeline.mi") == ["pipeline.microbatches="], "--sweep takes keys too")
    expect(complete("train", "--set", "model.k") == ["model.kind=", "model.kv_heads="], "keys that are begun")
    expect(complete("train", "--set", "model.kind", "=") == ["gpt2", "llama"] == complete("train", "--set", "model.kind", "=", ""), "values of a choice")
    expect(complete("train", "--set", "=", "model.kind", "=", "l") == ["llama"], "and behind --set=")
    expect(complete("train", "--set", "model.kind=l") == ["model.kind=llama"], "where = parts no words")
    expect(complete("train", "--set", "adapt", "=", "t") == ["true"], "truth")
    expect(set(complete("train", "--set", "schedule", "=", "zb")) == {"zb-auto", "zb-h1", "zb-h2", "zb-v"}, "schedules")
    expect(complete("train", "--set", "schedule", "=", "") == [name for name in there if name != "optimal"], "every schedule that a run file may name")
    expect(complete("train", "--set", "iterations", "=", "") == [], "nothing is known of a number")
    expect(complete("train", "--set", "faults.3.lat") == ["faults.3.latency_ms="], "any item of a list")
    expect(complete("train", "--set", "faults.12.one_way", "=", "f") == ["false"], "and its values")
    expect(complete("campaign", "--set", "draw.rates", "=", "") == ["probes", "at-scale"], "of a campaign")
    expect("order.csv" in complete("train", "--set", "a", "=", "b", "o"), "and then files again")
    expect("bash" in complete("watch", "--out", "d", "--", "bas"), "programs behind --")
    expect(complete("watch", "--", "cat", "o") == ["order.csv"], "and their files")
    expect(set(complete("completion", "")) == {"bash", "zsh", "fish"}, "shells")
    expect(set(complete("man", "")) == set(names) == set(complete("help", "")), "commands behind man and help")


def test_zsh_and_fish_complete_what_is_taken():
    for shell, check in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
        path = os.path.join(folder, f"completion.{shell}")
        open(path, "w").write(run("completion", shell).stdout)
        for name in names:
            offered = {line.split("\t")[0].lstrip("-") for line in run("completion", shell, "--", name, "-").stdout.splitlines()}
            expect(offered == {*options_of(helps[name]), "help"}, f"{shell}: {name}: offered {sorted(offered ^ {*options_of(helps[name]), 'help'})} more or less")
        if not shutil.which(shell):
            print(f"not tried: {shell} is not installed")
            continue
        done = subprocess.run([*check, path], capture_output=True, text=True)
        expect(done.returncode == 0 and done.stderr == "", f"{shell} reads it: {done.stderr}")
    if shutil.which("fish"):
        def fish(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {folder}/completion.fish; complete -C '{line}'"], capture_output=True, text=True, cwd=work,
                                  env={**os.environ, "PATH": os.path.dirname(command) + ":" + os.environ["PATH"], "HOME": folder})
            return {answer.split("\t")[0] for answer in done.stdout.splitlines()}
        expect(set(names) <= fish("slackline "), "fish: commands")
        for name in names:
            offered = {word.lstrip("-") for word in fish(f"slackline {name} -")}
            expect(offered == {*options_of(helps[name]), "help"}, f"fish: {name}: offered {sorted(offered ^ {*options_of(helps[name]), 'help'})} more or less")
        expect(fish("slackline plan --schedule zb") == {"zb-auto", "zb-h1", "zb-h2", "zb-v"}, "fish: values")
        expect("order.csv" in fish("slackline plan o"), "fish: files")
        expect(fish("slackline train --set model.k") == {"model.kind=gpt2", "model.kind=llama", "model.kv_heads="}, f"fish: keys: {fish('slackline train --set model.k')}")
        expect(fish("slackline train --set faults.2.la") == {"faults.2.latency_ms="}, f"fish: keys of an item: {fish('slackline train --set faults.2.la')}")
        expect(fish("slackline train --set adapt=t") == {"adapt=true"}, "fish: values of a key")
        expect("bash" in fish("slackline watch --out d -- bas") and fish("slackline watch bas") == set(), "fish: programs behind --")
        expect("order.csv" in fish("slackline watch -- cat o"), "fish: and their files")
        expect("--format" not in fish("slackline man plan --f") and "--format" in fish("slackline plan train --f"), "fish: the first word is the command, whatever others are called")
        expect({key + "=" for key in keys["problem"]} <= {answer.split("=")[0] + "=" for answer in fish("slackline plan --set ")}, "fish: every key")
    if shutil.which("zsh"):
        # a terminal of zsh's own: what it lists after a Tab
        def zsh(line, until):
            code = ("zmodload zsh/zpty; zpty z 'zsh -f -i'; zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; "
                    f"source {folder}/completion.zsh; zstyle \":completion:*\" list-prompt \"\"; LISTMAX=0; print READY'; "
                    f"zpty -r z out '*READY*READY*'; zpty -n -w z $'{line}\\t\\t'; zpty -r z out '*{until}*'; print -r -- $out")
            return subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, cwd=work, timeout=60,
                                  env={**os.environ, "PATH": os.path.dirname(command) + ":" + os.environ["PATH"], "HOME": folder, "TERM": "dumb", "COLUMNS": "200"}).stdout
        for line, until in (("slackline plan --schedule zb-", "zb-h1*zb-v"), ("slackline si", "simulate"), ("slackline completion ", "bash*fish*zsh"), ("slackline train --set model.k", "kind=*kv_heads="),
                            ("slackline train --set model.kind=", "gpt2*llama"), ("slackline train --set faults.2.lat", "latency_ms="), ("slackline train --set=adapt=f", "false")):
            try:
                zsh(line, until)
            except subprocess.TimeoutExpired:
                expect(False, f"zsh offers {until} behind {line!r}")
