"""Runs the commands of a page of the documentation as a reader would, and compares what the page shows.
Usage: commands.py BUILD SOURCE PAGE [--slow] [--show] [--keep FOLDER]    PAGE: docs/tutorial.md; examples: first lines of examples/*.yaml
--show prints what commands print, to be put into a page; --keep copies the folder in which they ran. --write puts the numbers
of the outputs into the page's samples whose numbers are measured; samples whose words differ are listed (samples.py: all pages).

Every indented block and every fence with sh is commands. They run in order, in one shell, in a copy of the tree with build/
as BUILD; an unmarked one is always run, and has to end well. A fence with text is the output of the block before it. What
cannot run says so in a comment above it, and is listed here with its reason. All rules: docs/README.md, The pages' rules.
Without --slow blocks that are marked slow are left out; with it all are run. tests/CMakeLists.txt makes a test of each page."""
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import Page, commands_of, compare, figures_of, remade, shows  # noqa: E402

QUICK = {"plan", "simulate", "compare", "topology", "balance", "campaign", "doctor", "completion", "man", "formats", "help"}
MARK = "\x1e"


class Shell:
    """One bash for a page: variables and the folder stay from command to command."""

    def __init__(self, folder, build):
        scratch = os.path.join(folder, ".shell")
        os.makedirs(scratch, exist_ok=True)
        self.script = os.path.join(scratch, "command")
        environment = {
            **os.environ, "PATH": build + ":" + os.environ["PATH"], "TERM": "dumb", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "MANPAGER": "cat", "PAGER": "cat",
            # what a launcher refuses root and two cores otherwise; a reader has neither
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
        }  # fmt: skip
        self.process = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True, env=environment)  # fmt: skip

    def run(self, command, limit):
        """Exit status (None: not over within the limit, or the shell has ended) and output."""
        with open(self.script, "w") as file:
            file.write(command + "\n")
        self.process.stdin.write(f". {shlex.quote(self.script)} </dev/null; printf '{MARK}%d{MARK}' $?\n".encode())
        self.process.stdin.flush()
        held, end = b"", time.monotonic() + limit
        while True:
            match = re.search(MARK + r"(\d+)" + MARK, held.decode(errors="replace"))
            if match:
                return int(match[1]), held.decode(errors="replace")[: match.start()]
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None, held.decode(errors="replace") + f"\n(not over after {limit} s)"
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                return None, held.decode(errors="replace") + "\n(the shell has ended)"
            held += piece

    def end(self):
        """With what still runs in the background."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            time.sleep(0.1)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def complete(text):
    done = subprocess.run(["bash", "-n"], input=text + "\n", capture_output=True, text=True)
    return done.returncode == 0 and not done.stderr


READ_ONLY = {"src", "tests"}  # most of the files, and what no page writes to: not copied


def copy_tree(source, build, folder):
    left_out = {".git", ".venv", "build", "out", "runs", "env", ".ci"}
    for name in os.listdir(source):
        path = os.path.join(source, name)
        if name in left_out or name.startswith("build") or os.path.realpath(path) == os.path.realpath(build):
            continue
        if name in READ_ONLY:
            os.symlink(path, os.path.join(folder, name))
        elif os.path.isdir(path):
            shutil.copytree(path, os.path.join(folder, name), ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", *(["build"] if name == "python" else [])))
        else:
            shutil.copy(path, folder)
    os.symlink(build, os.path.join(folder, "build"))
    if os.path.isdir(os.path.join(source, ".venv")):
        os.symlink(os.path.join(source, ".venv"), os.path.join(folder, ".venv"))


def page_of_examples(source):
    """The comments at the begin of the examples as one page; commands there stand two blanks in."""
    lines = []
    folder = os.path.join(source, "examples")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".yaml"):
            lines += ["", f"# {name}"]
            for line in open(os.path.join(folder, name)):
                if not line.startswith("#"):
                    break
                text = line[1:].rstrip("\n")
                lines.append(re.sub(r"^   +", "    ", text) if text.startswith("   ") else text[1:])
            lines.append("")
    return "\n".join(lines)


class Run:
    def __init__(self, build, source, page, slow, folder):
        self.build, self.source, self.page, self.slow, self.folder = build, source, page, slow, folder
        self.failed, self.not_run, self.counts = [], [], {"run": 0, "outputs": 0, "figures": 0, "inline": 0, "links": 0}
        self.shell = Shell(folder, build)
        self.output = None  # of the block before it in its section; None: there is none that was run
        self.helps, self.modules = {}, {}

    def fail(self, line, what, output=""):
        self.failed.append(line)
        print(f"FAILED: {self.page.name}:{line}: {what}")
        for row in output.strip().split("\n")[-15:] if output.strip() else ():
            print(f"        | {row}")

    def leave(self, line, what, why):
        self.not_run.append((line, what, why))

    def there(self, name):
        """A program, or python:MODULE."""
        if not name.startswith("python:"):
            return shutil.which(name, path=self.build + ":" + os.environ["PATH"])
        if name not in self.modules:
            python = os.path.join(self.folder, ".venv", "bin", "python")
            self.modules[name] = os.path.exists(python) and subprocess.run([python, "-c", "import " + name[7:]], capture_output=True).returncode == 0
        return self.modules[name]

    def missing(self, block):
        absent = [name for name in block.needs if not self.there(name)]
        return f"not here: {', '.join(absent)}" if absent else None

    def commands(self, block):
        why = block.not_run or ("slow: run by the test of this page with that label" if block.slow and not self.slow else self.missing(block))
        listed = list(commands_of(block.text, complete))
        if why:
            self.output = None
            for offset, command in listed:
                self.leave(block.line + offset, command, why)
            return
        self.output = ""
        limit = 900 if self.slow else 120
        todo = [(0, command, False) for command in block.first] + [(offset, command, True) for offset, command in listed]
        for number, (offset, command, shown) in enumerate(todo):
            began = time.monotonic()
            code, output = self.shell.run(command, limit)
            line, short = block.line + offset, command.split("\n")[0]
            wanted = block.exit if number == len(todo) - 1 else [0]
            print(f"{time.monotonic() - began:6.1f} s  {self.page.name}:{line}: {short}", flush=True)
            if "--show" in sys.argv:
                print(output, end="")
            if code not in wanted:
                self.fail(line, f"`{short}` ended with {code}, not {' or '.join(map(str, wanted))}", output)
                if code is None:
                    self.shell.end()
                    self.shell = Shell(self.folder, self.build)
            for figure in figures_of(command) if shown else ():
                self.counts["figures"] += 1
                if not shows(figure, output):
                    self.fail(line, f"the comment says {figure}, the output does not", output)
            self.counts["run"] += 1
            self.output += output if shown else ""

    def shown(self, block):
        if self.output is None:
            return  # its commands were listed as not run
        if "--write" in sys.argv and block.compare != "exactly":
            self.rewrite(block)
            return
        if isinstance(block.compare, tuple) and block.compare[0] == "not":
            self.leave(block.line, "(output)", "not compared: " + block.compare[1])
            return
        self.counts["outputs"] += 1
        lacks = compare(block.text, self.output, block.compare)
        if lacks is not None:
            self.fail(block.line, f"the output has no line `{lacks}` in that place", self.output)

    def rewrite(self, block):
        path = os.path.join(self.source, self.page.name)
        text = remade(block.text, self.output)
        if text is None:
            self.leave(block.line, "(output)", "its words differ: put it there by hand, from --show")
            return
        with open(path) as file:
            lines = file.read().split("\n")
        lines[block.line - 1 : block.line - 1 + len(block.text.split("\n"))] = text.split("\n")
        with open(path, "w") as file:
            file.write("\n".join(lines))

    def help_of(self, name):
        if name not in self.helps:
            self.helps[name] = subprocess.run([os.path.join(self.build, "slackline"), name, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return self.helps[name]

    def inline(self, line, command):
        """Commands in sentences: their names and options are held to the help; those that are quick and whole are run."""
        words = command.split()
        if len(words) < 2:
            return
        self.counts["inline"] += 1
        name = words[1].rstrip(",.")
        if name == "--version" or not re.fullmatch(r"[a-z]+", name):
            if not re.fullmatch(r"[A-Z]+|--[a-z]+|\.\.\.", name):
                self.fail(line, f"`{command}`: what command is that?")
            return
        if name not in ("help", "formats") and self.help_of(name).returncode:
            self.fail(line, f"`{command}`: there is no command {name}")
            return
        own = command.partition(" -- ")[0]
        for option in re.findall(r"(?<= )(--?[a-z][a-z-]*)", own):
            if option not in ("--help", "-h") and name != "help" and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", self.help_of(name).stdout):
                self.fail(line, f"`{command}`: {name} has no option {option}")
        whole = not re.search(r"(^|[ =])[A-Z][A-Z_]*\b|\.\.\.|\.\.|[|<>\[\]*]|…", own)
        there = all(os.path.exists(os.path.join(self.folder, word)) for word in words[2:] if re.search(r"\.(yaml|csv|json|jsonl)$", word) and "=" not in word)
        quick = name in QUICK or (self.slow and name == "train" and self.page.name == "examples")
        arguments = len(words) > 2 or name in ("doctor", "man", "formats")
        if whole and there and quick and arguments and not (name in ("man", "help", "completion") and len(words) < 3):
            began = time.monotonic()
            code, output = self.shell.run(command, 900 if self.slow else 120)
            print(f"{time.monotonic() - began:6.1f} s  {self.page.name}:{line}: {command}", flush=True)
            self.counts["run"] += 1
            if code:
                self.fail(line, f"`{command}` ended with {code}", output)

    def link(self, line, target):
        if re.match(r"[a-z]+:", target):
            return
        self.counts["links"] += 1
        file, _, anchor = target.partition("#")
        base = os.path.join(self.source, self.page.name)
        path = os.path.normpath(os.path.join(os.path.dirname(base), file)) if file else base
        if not os.path.exists(path):
            self.fail(line, f"the link {target} leads nowhere")
        elif anchor and path.endswith(".md") and anchor not in set(Page(path, open(path).read()).anchors()):
            self.fail(line, f"the link {target}: {os.path.basename(path)} has no such heading")

    def whole(self):
        for error in self.page.errors:
            self.fail(error.split()[1].rstrip(":"), error)
        for block in self.page.blocks:
            if block.kind == "heading":
                self.output = None
            elif block.kind == "commands":
                self.commands(block)
            elif block.kind == "output":
                self.shown(block)
            elif block.kind == "file":
                path = os.path.join(self.folder, block.name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(block.text + "\n")
                os.chmod(path, 0o755 if block.text.startswith("#!") else 0o644)
        for line, command in self.page.inline():
            self.inline(line, command)
        for line, target in self.page.links() if self.page.name != "examples" else ():
            self.link(line, target)
        self.shell.end()


def main():
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    build, source, name = os.path.realpath(arguments[0]), os.path.realpath(arguments[1]), arguments[2]
    if not os.path.exists(os.path.join(build, "slackline")):
        print("skipped: slackline is not built")
        return 77
    text = page_of_examples(source) if name == "examples" else open(os.path.join(source, name)).read()
    began = time.monotonic()
    # Open MPI's sockets lie below TMPDIR, and their paths may not be long: a short name
    with tempfile.TemporaryDirectory(prefix="doc") as folder:
        copy_tree(source, build, folder)
        run = Run(build, source, Page(name, text), "--slow" in sys.argv, folder)
        try:
            run.whole()
        finally:
            run.shell.end()
        if "--keep" in sys.argv:
            shutil.copytree(folder, sys.argv[sys.argv.index("--keep") + 1], symlinks=True, dirs_exist_ok=True)
    for line, command, why in run.not_run:
        print(f"not run: {name}:{line}: {command.splitlines()[0] if command else ''}  ({why})")
    print(", ".join(f"{count} {what}" for what, count in run.counts.items()) + f", {len(run.not_run)} not run, {len(run.failed)} failed, {time.monotonic() - began:.0f} s")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
