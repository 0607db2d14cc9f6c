"""What is built resists the usual ways to exploit a mistake in it (docs/security.md): addresses are random, no memory is both writable and
executable, tables of functions are read-only before the program begins, and overwritten stacks and buffers end it."""
import os
import platform
import re
import shutil
import subprocess

from runner import build, expect, skip

if not shutil.which("readelf"):
    skip("no readelf")
if not re.search(r"^CMAKE_BUILD_TYPE:\w+=Release$", open(os.path.join(build, "CMakeCache.txt")).read(), re.M):
    skip("not a release build")
FILES = [name for name in ("slackline", "slackline-worker", "slackline-delegate", "slackline-solver", "libslackline.so", "libslackline_transport.so", "libslackline_probe.so",
                           "libnccl-profiler-slackline.so") if os.path.exists(os.path.join(build, name))]


def read(name, *options):
    return subprocess.run(["readelf", "-W", *options, os.path.join(build, name)], capture_output=True, text=True, check=True).stdout


def test_all_programs_and_libraries_are_looked_at():
    assert {"slackline", "slackline-solver", "libslackline.so", "libslackline_probe.so"} <= set(FILES), FILES


def test_addresses_are_random():
    """Programs are position-independent, and nothing is relocated in code."""
    for name in FILES:
        expect(re.search(r"Type:\s+DYN", read(name, "-h")), f"{name} has a fixed address")
        expect("TEXTREL" not in read(name, "-d"), f"{name} changes its code when it is loaded")


def test_no_memory_is_writable_and_executable():
    for name in FILES:
        segments = read(name, "-l")
        stack = re.search(r"GNU_STACK.*", segments)
        expect(stack and "E" not in stack.group().split()[-2], f"{name}: the stack can be executed: {stack and stack.group()}")
        expect(not re.search(r"LOAD.* RWE ", segments), f"{name} has memory that can be written and executed")


def test_tables_of_functions_are_read_only():
    """They are filled in when the program is loaded, then protected."""
    for name in FILES:
        expect("GNU_RELRO" in read(name, "-l"), f"{name}: no RELRO")
        expect(re.search(r"\bNOW\b", read(name, "-d")), f"{name}: functions are found at their first call")


def test_overwritten_stacks_and_buffers_end_the_program():
    for name in FILES:
        symbols = read(name, "--dyn-syms")
        if name.startswith("libnccl"):
            continue  # it copies nothing into buffers
        expect("__stack_chk_fail" in symbols, f"{name}: no stack protector")
        expect(re.search(r"\b__\w+_chk\b(?<!__stack_chk_fail)", symbols), f"{name}: libc checks no buffer (_FORTIFY_SOURCE)")


def test_jumps_go_to_where_the_compiler_meant():
    """Intel's control-flow protection: functions begin with its mark. Debian's C library and CUDA's have none, so not all
    functions of a program do, and the linker does not switch it on."""
    if platform.machine() != "x86_64":
        skip("not x86-64")
    for name in FILES:
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", os.path.join(build, name)], capture_output=True, text=True, check=True).stdout
        functions = len(re.findall(r"^[0-9a-f]+ <\w+>:$", code, re.M))
        expect(code.count("endbr64") > functions / 4, f"{name}: {code.count('endbr64')} marks in {functions} functions")
