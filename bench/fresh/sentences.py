"""The sentences of a page, and checks of a list of statements about them (bench/fresh/readme.py). Sentences come from paragraphs
only, not from headings, blocks, tables, pictures or comments. A sentence ends at a period, question mark or exclamation mark
before a blank, but not inside `code` or a link's address. The end of a paragraph always ends a sentence."""
import importlib.util
import os
import re
import subprocess
import sys

tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_found = importlib.util.spec_from_file_location("documentation_page", os.path.join(tree, "tests", "docs", "page.py")) # bench/ has a different page.py
_page = importlib.util.module_from_spec(_found)
_found.loader.exec_module(_page)
Page, commands_of = _page.Page, _page.commands_of


# quick tests that a fresh system skips until PyTorch or OR-tools is installed, and then runs again
ALSO = {"plan_exact_solver", "torch_dumps", "notice_probe_mpi4py", "run_model_pytorch"}


def flat(text):
    return " ".join(text.split())


def paragraphs(text):
    held, last = [], None
    for line, words in _page.Page("", text).prose:
        aside = re.match(r"#|\||!\[.*\]\(.*\)$", words)
        if held and (aside or line != last + 1):
            yield flat(" ".join(held))
            held = []
        if not aside:
            held.append(words)
        last = line
    if held:
        yield flat(" ".join(held))


def sentences(text):
    found = []
    for paragraph in paragraphs(text):
        hidden = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", lambda m: "x" * len(m.group()), paragraph) # keeps the length
        begin = 0
        for end in [m.end() for m in re.finditer(r"[.!?][)*\"]*(?= |$)", hidden)] + [len(hidden)]:
            if paragraph[begin:end].strip():
                found.append(paragraph[begin:end].strip())
            begin = end
    return found


def holds(source, name, patterns):
    """The patterns missing in a file that a sentence refers to. A folder only has to exist."""
    path = os.path.join(source, name)
    if not os.path.exists(path):
        return [f"{name} does not exist"]
    if os.path.isdir(path):
        return []
    with open(path) as file:
        text = file.read()
    return [f"{name} has no {pattern}" for pattern in patterns if not re.search(pattern, text, re.M)]


def ctest(build, *options):
    """The names of the tests in a build folder."""
    said = subprocess.run(["ctest", "--test-dir", build, "-N", *options], capture_output=True, text=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)", said, re.M))


def tries_of(sentence, listed):
    """The tests of a sentence, from every entry that matches its facts."""
    return [each for facts, tries in listed if re.search(facts, sentence) for each in tries]


def complaints(text, listed, source, tests, fast):
    """The errors in the list of a page's statements. `tests`: all tests; `fast`: those of tools/test."""
    there = sentences(text)
    entries = [facts for facts, _ in listed]
    found = [f"no entry: {sentence}" for sentence in there if not tries_of(sentence, listed)]
    found += [f"no sentence states: {facts}" for facts in entries if not any(re.search(facts, sentence) for sentence in there)]
    found += [f"twice: {facts}" for facts in set(entries) if entries.count(facts) > 1]
    for facts, tries in listed:
        short = facts[:40]
        if not tries:
            found.append(f"not tried: {short}")
        for kind, *said in tries:
            if kind == "page":
                found += [f"{short}: {lack}" for lack in holds(source, *said)]
            elif kind in ("run", "said"):
                re.compile(said[1])
            elif kind in ("quick", "here"):
                found += [f"{short}: there is no test {name}" for name in said[0] if name not in tests]
                found += [f"{short}: {name} is {'not ' * (kind == 'quick')}among the quick tests" for name in said[0]
                          if name in tests and (name in fast) != (kind == "quick") and name not in ALSO]
            elif kind == "later":
                if said[0] not in tests and not os.path.exists(os.path.join(source, said[0])):
                    found.append(f"{short}: there is neither a test nor a file {said[0]}")
            elif kind not in ("words", "time"):
                found.append(f"{short}: what is {kind}?")
    return found


if __name__ == "__main__":
    for page in sys.argv[1:]:
        with open(page) as file:
            print(*sentences(file.read()), sep="\n")
