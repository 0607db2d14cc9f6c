"""What tests/docs/commands.py reads out of a page: its command blocks with what the page shows of their output, the
commands inside sentences, files that the page shows, and links. The rules are in docs/README.md, The pages' rules."""
import re

SHELL = {"sh", "bash", "shell", "console"}


class Block:
    """Commands that a reader types one after the other."""

    def __init__(self, line, text):
        self.line, self.text = line, text
        self.not_run = None  # reason
        self.slow = False
        self.exit = [0]  # of its last command
        self.needs = []  # programs
        self.first = []  # commands that are not shown
        self.kind = "commands"
        self.name = None  # of a file that the page shows
        self.compare = "exactly"  # of an output: exactly, or ("within", 0.1), "differ", or ("not", reason)


def _directive(block, text, where):
    for pattern, act in (
        (r"not run: (.+)", lambda m: setattr(block, "not_run", m[1])),
        (r"slow", lambda m: setattr(block, "slow", True)),
        (r"exit (\d+(?: or \d+)*)", lambda m: setattr(block, "exit", [int(code) for code in m[1].split(" or ")])),
        (r"needs: (.+)", lambda m: block.needs.extend(m[1].split())),
        (r"first: (.+)", lambda m: block.first.append(m[1])),
        (r"numbers within (\d+) ?%", lambda m: setattr(block, "compare", ("within", int(m[1]) / 100))),
        (r"numbers differ", lambda m: setattr(block, "compare", "differ")),
        (r"not compared: (.+)", lambda m: setattr(block, "compare", ("not", m[1]))),
    ):
        match = re.fullmatch(pattern, text, re.S)
        if match:
            act(match)
            return True
    return False


class Page:
    def __init__(self, name, text):
        self.name = name
        self.blocks, self.errors = [], []
        self.prose = []  # (line, text), without blocks
        self._read(text.split("\n"))

    def _add(self, block, pending):
        for line, text in pending:
            _directive(block, text, line)
        pending.clear()
        self.blocks.append(block)

    def _read(self, lines):
        at, pending, before = 0, [], ""
        while at < len(lines):
            line = lines[at]
            comment = re.match(r"<!--", line)
            fence = re.match(r" {0,3}(```+|~~~+)\s*(.*)$", line)
            if comment:
                begin, text = at, line
                while "-->" not in text and at + 1 < len(lines):
                    at += 1
                    text += "\n" + lines[at]
                text = text[4 : text.index("-->")].strip()
                if _directive(Block(0, ""), text, begin):
                    pending.append((begin + 1, text))
                at += 1
                continue  # what stands before it still counts as before
            if fence:
                begin, marks, info = at + 1, fence[1], fence[2].strip()
                at += 1
                while at < len(lines) and lines[at].strip() != marks:
                    at += 1
                self._fence(begin, info.split(), "\n".join(lines[begin:at]), pending)
                before = ""
            elif line.startswith("    ") and line.strip() and (before == "" or before.startswith("#")):
                begin = at
                while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                    at += 1
                text = "\n".join(row[4:] for row in lines[begin : at + 1]).rstrip()
                self._add(Block(begin + 1, text), pending)
                before = ""
            else:
                if line.strip():
                    if pending and not line.startswith("#"):
                        self.errors.append(f"line {pending[0][0]}: <!-- {pending[0][1]} --> stands before no block")
                        pending.clear()
                    self.prose.append((at + 1, line))
                    if line.startswith("#"):
                        heading = Block(at + 1, line)
                        heading.kind = "heading"
                        self.blocks.append(heading)
                before = line.strip() if not line.startswith("#") else line
            at += 1

    def _fence(self, line, info, text, pending):
        block = Block(line + 1, text)
        if not info:
            self.errors.append(f"line {line}: a fence says what it holds: sh (commands, which are run), text (their output), yaml ...")
            block.kind = "other"
        elif info[0] in SHELL:
            if len(info) > 1:
                block.kind, block.name = "file", info[1]
        elif info[0] == "text":
            block.kind = "output"
        else:
            block.kind = "file" if len(info) > 1 else "other"
            block.name = info[1] if len(info) > 1 else None
        self._add(block, pending)

    def inline(self):
        """Commands in sentences: (line, command)."""
        for line, text in self._paragraphs():
            for match in re.finditer(r"(?<!`)`((?:build/)?slackline(?: [^`]*)?)`(?!`)", text):
                yield line + text[: match.start()].count("\n"), " ".join(match[1].split())

    def _paragraphs(self):
        held = []
        for line, text in self.prose:
            if held and line != held[-1][0] + 1:
                yield held[0][0], "\n".join(t for _, t in held)
                held = []
            held.append((line, text))
        if held:
            yield held[0][0], "\n".join(t for _, t in held)

    def links(self):
        for line, text in self.prose:
            for match in re.finditer(r"!?\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
                yield line, match[1]

    def anchors(self):
        """As GitHub makes them of headings."""
        for _, text in self.prose:
            head = re.match(r"#+ (.*)", text)
            if head:
                yield re.sub(r"[^\w\- ]", "", head[1].strip().lower()).replace(" ", "-")


def commands_of(text, complete):
    """The commands of a block, each as its lines: as few lines as `complete(text)` takes for whole. (first line, text)."""
    held, begin = [], 0
    for number, line in enumerate(text.split("\n")):
        if not held:
            begin = number
            if not line.strip() or line.lstrip().startswith("#"):
                continue
        held.append(line)
        if not line.endswith("\\") and complete("\n".join(held)):
            yield begin, "\n".join(held)
            held = []
    if held:
        yield begin, "\n".join(held)


def figures_of(command):
    """Milliseconds that the comment behind a command gives: `# 390 ms, proven optimal`, and a comment that is one number."""
    found = []
    for line in command.split("\n"):
        comment = re.search(r"(?:^|\s)#\s+(.*)$", line)
        if comment:
            found += re.findall(r"(?<![\w.])(\d+(?:\.\d+)?) ms\b", comment[1])
            found += re.findall(r"^(\d+(?:\.\d+)?)$", comment[1].strip())
    return found


def shows(number, text):
    """Whether a figure stands in the text, rounded as it is given."""
    digits = len(number.partition(".")[2])
    return any(abs(float(other) - float(number)) <= 0.5000001 * 10**-digits for other in re.findall(r"\d+(?:\.\d+)?", text))


def _same(shown, real, how):
    if how != "exactly":
        numbers = re.findall(r"\d+(?:\.\d+)?", shown), re.findall(r"\d+(?:\.\d+)?", real)
        blank = [re.sub(r"\d+(?:\.\d+)?", "0", text) for text in (shown, real)]
        blank = [re.sub(r"[-+](?=0)", "", text) for text in blank]
        if how == "differ" or "..." in shown:
            return _wild(blank[0], blank[1])
        return _wild(*blank) and all(abs(float(a) - float(b)) <= how[1] * max(abs(float(a)), abs(float(b))) + 0.15 for a, b in zip(*numbers))
    return _wild(shown, real)


def _wild(shown, real):
    return re.fullmatch(".*".join(re.escape(part) for part in shown.split("...")), real) is not None


NUMBER = r"[-+]?\d+(?:\.\d+)?"


def renumber(shown, real):
    """A line that a page shows with the numbers of the real one, in the same columns; None: their words differ."""
    parts = [" ".join(part.split(" ")) for part in re.sub(r" +", " ", shown.strip()).split("...")]
    pattern = ".*".join(f"({NUMBER})".join(re.escape(piece) for piece in re.split(NUMBER, part)) for part in parts)
    match = re.fullmatch(pattern, " ".join(real.split()))
    if not match:
        return None
    made, at = "", 0
    for old, new in zip(re.finditer(NUMBER, shown), match.groups()):
        made += shown[at : old.start()]
        more = len(new) - len(old[0])
        if made.endswith("  "):  # a column that ends where it ended
            made = made + " " * -more if more < 0 else made[: len(made) - min(more, len(made) - len(made.rstrip()) - 1)]
        made, at = made + new, old.end()
    return made + shown[at:]


def remade(shown, real):
    """A sample with the numbers of the real output, found as `compare` finds its lines; None: the words are not all there."""
    lines, real = shown.split("\n"), [line for line in real.split("\n") if line.strip()]
    pieces = [[]]
    for number, line in enumerate(lines):
        if line.strip() == "...":
            pieces.append([])
        elif line.strip():
            pieces[-1].append(number)
    at = 0
    for piece in filter(None, pieces):
        for begin in range(at, len(real) - len(piece) + 1):
            made = [renumber(lines[number], real[begin + i]) for i, number in enumerate(piece)]
            if None not in made:
                break
        else:
            return None
        at = begin + len(piece)
        for number, line in zip(piece, made):
            lines[number] = line
    return "\n".join(lines)


def compare(shown, real, how="exactly"):
    """None when the lines that a page shows are in the real output: in order and side by side, less empty ones; a line
    `...` stands for any lines, `...` inside a line for anything. Else what is missing. Spaces are not compared."""
    squeeze = lambda text: [" ".join(line.split()) for line in text.split("\n") if line.strip()]  # noqa: E731
    real = squeeze(real)
    pieces, held = [], []
    for line in squeeze(shown):
        if line == "...":
            pieces.append(held)
            held = []
        else:
            held.append(line)
    pieces.append(held)
    at = 0
    for piece in filter(None, pieces):
        best = 0
        for begin in range(at, len(real) + 1):
            count = 0
            while count < len(piece) and begin + count < len(real) and _same(piece[count], real[begin + count], how):
                count += 1
            best = max(best, count)
            if count == len(piece):
                at = begin + count
                break
        else:
            return piece[best]
    return None
