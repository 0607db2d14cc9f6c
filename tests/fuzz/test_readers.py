"""No reader of outside bytes lacks a fuzz target. What reads is found in the tree in two ways: functions in headers of src/ that are called
read, parse, load, unpack, decode and the like; and files of src/ in which bytes enter (recv, read, fgets, mmap, sl_file_read, JSON's and
YAML's parsers ...). Each such function is named in a table of tests/fuzz/*.c, and each such file has one that is, or they are in
tests/fuzz/exempt.txt, with the reason. That the targets do reach the functions that they name is bench/fuzz/run.py's to see."""
import os
import re

from runner import source

here = os.path.join(source, "tests", "fuzz")
WORDS = {"read", "parse", "load", "unpack", "decode", "hear", "receive", "feed", "obey"}
ENTERS = re.compile(r"(?<![>.\w])(recv|recvfrom|recvmsg|read|readv|pread|fgets|getline|getdelim|fread|fscanf|mmap|json_load\w*|yaml_parser_parse"
                    r"|redis(?:GetReply|BufferRead)\w*|sl_file_read\w*|sl_document_(?:read|parse)|sl_lines_step|sl_store_(?:get|read)|sl_folder_map"
                    r"|sl_shared_map|sl_wire_receive|sl_ask_read|MHD_lookup_\w+)\(")
# What talks to libraries and devices of this machine, or is preloaded into the program itself
OUTSIDE = ("src/run/device/", "src/notice/gpu/", "src/notice/probe/", "src/notice/plugin/")


def files(folder, ending):
    for at, _, names in os.walk(os.path.join(source, folder)):
        for name in sorted(names):
            if name.endswith(ending):
                yield os.path.relpath(os.path.join(at, name), source)


def text_of(path):
    with open(os.path.join(source, path), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment[0]), file.read(), flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def declared(path):
    """External functions in a header."""
    return [name for name in re.findall(r"^(?!\s|static|typedef|#|}).*?\b(sl_\w+)\(", text_of(path), re.M)]


def tables():
    """{function: reader}: the second text of each row of a table, which may be put together of several."""
    found = {}
    for path in files("tests/fuzz", ".c"):
        with open(os.path.join(source, path), encoding="utf-8") as file:
            text = file.read()
        for table in re.findall(r"^const fuzz_reader \w+\[\] = \{(.*?)\{0\}\};", text, re.M | re.S):
            for name, functions in re.findall(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+)', table):
                found.update((function, name) for function in "".join(re.findall(r'"([^"]*)"', functions)).split())
    return found


def exempt():
    """{function or file: reason}"""
    found, names = {}, []
    with open(os.path.join(here, "exempt.txt"), encoding="utf-8") as file:
        for line in file:
            if not line.strip() or line.startswith("#"):
                continue
            name, separator, reason = line.partition(": ")
            assert separator and reason.strip(), f"exempt.txt: no reason in: {line}"
            names.append(name)
            found[name] = reason.strip()
    assert len(names) == len(found), "exempt.txt names one twice"
    return found


def readers_of(headers):
    return {name: path for path in headers for name in declared(path) if WORDS & set(name.split("_"))}


def missing(readers, entries, known, left_out):
    """Sentences about what has no target. `readers`: {function: header}, `entries`: {file: functions defined in it}."""
    said = [f"{name} ({path}) reads bytes, as its name says, and no reader in tests/fuzz names it: add a row to the table of a file there that "
            f"calls it, or a line to tests/fuzz/exempt.txt that says why nobody outside chooses these bytes"
            for name, path in sorted(readers.items()) if name not in known and name not in left_out]
    said += [f"bytes enter in {path}, and no reader in tests/fuzz names a function of it: add one, or a line to tests/fuzz/exempt.txt that says "
             f"why nobody outside chooses these bytes" for path, functions in sorted(entries.items()) if not functions & set(known) and path not in left_out]
    return said


def inputs():
    readers = readers_of(path for path in files("src", ".h") if not path.startswith(OUTSIDE))
    entries = {}
    for path in files("src", ".c"):
        text = text_of(path)
        if ENTERS.search(text) and not path.startswith(OUTSIDE):
            entries[path] = set(re.findall(r"^(?!static)\w[\w *]*?\b(sl_\w+)\(", text, re.M))
    return readers, entries


def test_every_reader_has_a_target():
    readers, entries = inputs()
    assert len(readers) > 60 and len(entries) > 60, (len(readers), len(entries))  # else nothing was looked at
    said = missing(readers, entries, tables(), exempt())
    assert not said, "\n".join(said)


def test_tables_and_exemptions_name_what_exists():
    readers, entries = inputs()
    every = {name for path in files("src", ".h") for name in declared(path)}
    known, left_out = tables(), exempt()
    assert len(known) > 60, known
    assert not set(known) - every, f"no such functions: {sorted(set(known) - every)}"
    assert not set(left_out) - set(readers) - set(entries), f"exempt.txt names what reads nothing: {sorted(set(left_out) - set(readers) - set(entries))}"
    assert not set(left_out) & set(known), f"exempt, and in a table: {sorted(set(left_out) & set(known))}"


def test_a_reader_without_a_target_is_noticed():
    readers, entries = inputs()
    before = missing(readers, entries, tables(), exempt())
    readers["sl_news_parse"] = "src/news/news.h"
    entries["src/news/fetch.c"] = {"sl_news_fetch"}
    said = [text for text in missing(readers, entries, tables(), exempt()) if text not in before]
    assert len(said) == 2 and "sl_news_parse" in said[0] and "src/news/fetch.c" in said[1], said
