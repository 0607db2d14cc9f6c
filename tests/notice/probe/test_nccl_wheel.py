#!/usr/bin/env python3
# labels: slow
"""The probe's table of NCCL against the real nccl.h and library of PyPI's wheel (400 MB), where an index can be reached."""
import glob
import os
import re
import subprocess
import sys
import zipfile

from probing import Probe, found
from runner import build, skip, source

here = os.path.dirname(os.path.abspath(__file__))
WHEEL = "nvidia-nccl-cu12==2.32.3"


def check_wheel(probe, compiler, source):
    """Real header and library: prototypes by the compiler, names by the library's own list, both ways."""
    folder = os.path.join(probe.folder, "wheel")
    try:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", folder,
                               WHEEL], capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        done = None
    wheels = glob.glob(os.path.join(folder, "*.whl"))
    if not done or done.returncode or not wheels:
        skip("no wheel of NCCL can be fetched")
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in wheel.namelist():
            if name.endswith("nccl.h") or name.endswith("libnccl.so.2"):
                wheel.extract(name, folder)
    header = os.path.join(folder, "nvidia/nccl/include")
    for name in ("cuda_runtime", "cuda_fp16", "cuda_bf16", "cuda_fp8"):  # what nccl.h needs of CUDA
        with open(os.path.join(folder, name + ".h"), "w") as file:
            file.write("typedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n")

    def compiles(table):
        return subprocess.run([compiler, "-std=c11", "-DSL_CHECK_NCCL", "-fsyntax-only", "-I", folder, "-I", header, "-I", table,
                               "-I", os.path.join(source, "src"), os.path.join(here, "check_prototypes.c")], capture_output=True, text=True)
    done = compiles(folder)
    assert done.returncode == 0, done.stderr
    path = "notice/probe/nccl_table.h"
    with open(os.path.join(source, "src", path)) as file:
        table = file.read()
    os.makedirs(os.path.join(folder, "changed/notice/probe"))
    with open(os.path.join(folder, "changed", path), "w") as file:
        file.write(table.replace("SL_NCCL_OP op, int root, SL_END", "SL_NCCL_OP op, SL_END, int root"))
    assert compiles(os.path.join(folder, "changed")).returncode != 0, "a row that is wrong must not compile"
    rows = set(re.findall(r"^SL_NCCL(?:_HAND|_BRACKET)?\((\w+)", table, re.M))
    with open(os.path.join(header, "nccl.h")) as file:
        declared = dict(re.findall(r"^ncclResult_t\s+(nccl\w+)\(([^;]*)\);", file.read(), re.M))
    enqueue = {name for name, parameters in declared.items() if "cudaStream_t" in parameters}
    # one-sided operations (2.28 on) have no partner whose call could be compared
    assert enqueue - rows == {"ncclPutSignal", "ncclSignal", "ncclWaitSignal"}, enqueue - rows
    listed = subprocess.run(["nm", "-D", "--defined-only", os.path.join(folder, "nvidia/nccl/lib/libnccl.so.2")],
                            capture_output=True, text=True).stdout
    exported = set(re.findall(r" [TW] (nccl\w+)(?:@\S+)?$", listed, re.M))
    assert rows <= exported, rows - exported
    return f"{len(rows)} prototypes and names agree with {WHEEL}"


def test_the_table_is_that_of_the_real_library():
    with Probe(build) as probe:
        print(check_wheel(probe, found(["gcc", "cc", "clang"]), source))
