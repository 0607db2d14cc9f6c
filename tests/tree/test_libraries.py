"""A folder is a library: every file below src/ is compiled into one target, but for two that say why in CMakeLists.txt.
What the preloaded library shares with its readers is compiled twice, because it needs other options; the solver loads a foreign library
and takes three files of base without the sanitizers."""
import collections
import json
import os
import re

from runner import build, source

TWICE = {"slackline_probe": ("src/notice/gate/", "src/notice/record/"),
         "slackline-solver": ("src/base/build.c", "src/base/signals.c", "src/base/status.c")}
with open(os.path.join(build, "compile_commands.json")) as file:
    commands = json.load(file)
targets = collections.defaultdict(set)
for command in commands:
    path = os.path.relpath(os.path.join(command["directory"], command["file"]), source)
    target = re.search(r"CMakeFiles/(.+?)\.dir/", command["command"] + " " + command.get("output", ""))
    if path.startswith("src/") and target and not path.startswith(TWICE.get(target[1], ())):
        targets[path].add({"slackline_archive": "slackline_shared"}.get(target[1], target[1]))  # one library in two forms


def test_a_file_belongs_to_one_target():
    assert len(targets) > 400, f"{len(targets)} files in compile_commands.json"
    several = {path: sorted(names) for path, names in targets.items() if len(names) > 1}
    assert not several, f"compiled into several targets: {several}"


def test_a_folder_belongs_to_one_target():
    folders = collections.defaultdict(set)
    for path, names in targets.items():
        folders[os.path.dirname(path)] |= names
    divided = {folder: sorted(names) for folder, names in folders.items() if len(names) > 1}
    assert not divided, f"folders that are several libraries: {divided}"
