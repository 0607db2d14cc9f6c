# SPDX-License-Identifier: Apache-2.0
"""The search for the library and the command, and the test whether a path is trusted: the rules of src/base/find.h.

What an installation built is in the package's folders lib and bin. Nothing comes from the working directory: relative entries of PATH and LD_LIBRARY_PATH are skipped. A path in one of slackline's
own variables may be relative and is made absolute. Other users must not be able to replace the file. So the file and every folder
and link on the way to it must belong to root, to this user, or to the owner of the running Python, and must not be writable by
others. Exceptions are folders with the sticky bit and the private groups of the owners.
"""
from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from typing import Iterator, Optional, Set

from ._errors import LibraryNotFound

_LINKS = 40  # followed in one path; the kernel's limit


def _trusted_owners() -> Set[int]:
    owners = {0, os.geteuid(), os.stat(sys.executable or "/proc/self/exe").st_uid}
    try:  # in a user namespace all ids from outside, root's too, appear as one number
        with open("/proc/self/uid_map") as map_, open("/proc/sys/kernel/overflowuid") as overflow:
            if int(map_.readline().split()[2]) < 2**32 - 1:
                owners.add(int(overflow.read()))
    except (OSError, IndexError, ValueError):
        pass
    return owners


def _is_private_group(group: int, user: int) -> bool:
    """Whether the group has the user's name and no other members."""
    try:
        person, entry = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    return person.pw_gid == group and entry.gr_name == person.pw_name and set(entry.gr_mem) <= {person.pw_name}


def _objection(part: str, owners: Set[int]) -> Optional[str]:
    """Why other users can replace this part of a path; None: they cannot."""
    about = os.lstat(part)
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid not in owners:
        return f"{part} belongs to user {about.st_uid}"
    if stat.S_ISLNK(about.st_mode) or (stat.S_ISDIR(about.st_mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return f"everybody may write to {part} (mode {mode:o})"
    if mode & stat.S_IWGRP and not any(_is_private_group(about.st_gid, user) for user in (about.st_uid, os.geteuid())):
        return f"group {about.st_gid} may write to {part} (mode {mode:o})"
    return None


def trust(path: str) -> str:
    """Returns the absolute `path` if no other user can replace it. Raises LibraryNotFound."""
    owners, done, rest, links = _trusted_owners(), "/", path.split("/"), 0
    while True:
        why = _objection(done, owners)
        if why:
            raise LibraryNotFound(f"{path} is not used, because others could replace it: {why}")
        if os.path.islink(done):
            links += 1
            if links > _LINKS:
                raise LibraryNotFound(f"{path}: too many links")
            target = os.readlink(done)
            rest = target.split("/") + rest
            done = "/" if target.startswith("/") else os.path.dirname(done)
        elif not rest:
            return path
        else:
            part = rest.pop(0)
            done = os.path.dirname(done) if part == ".." else os.path.join(done, part) if part not in ("", ".") else done


def is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def in_package(*name: str) -> Iterator[str]:
    """The paths of a file in the folders of this package: one, or two if the installation is editable, the folder of the sources
    and the folder with what was built from them."""
    folders = (os.path.abspath(folder) for folder in sys.modules[__name__.rpartition(".")[0]].__path__)
    return (path for path in (os.path.join(folder, *name) for folder in folders) if os.path.isfile(path))


def in_path(name: str) -> Iterator[str]:
    """The programs of that name in the absolute entries of PATH."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return (path for path in (os.path.join(entry, name) for entry in entries if os.path.isabs(entry)) if is_program(path))


def starts_package(program: str) -> bool:
    """Whether a program is the script that pip makes of this package's entry point, which searches for the command itself."""
    with open(program, "rb") as file:
        return b"slackline.__main__" in file.read(1024)


def for_loader(name: str) -> str:
    """The name to give the system's loader: the path in an absolute entry of LD_LIBRARY_PATH, or the bare name. Raises
    LibraryNotFound if the loader would take the library from the working directory."""
    value = os.environ.get("LD_LIBRARY_PATH")
    entries = value.replace(";", ":").split(":") if value else []
    found = [os.path.join(entry, name) for entry in entries if os.path.isfile(os.path.join(entry, name))]
    for path in found:
        if os.path.isabs(path):
            return trust(path)
    if found:
        raise LibraryNotFound(f"LD_LIBRARY_PATH names {os.path.abspath(found[0])} by an entry that is no absolute path: nothing is loaded "
                              "from the working directory")
    return name
