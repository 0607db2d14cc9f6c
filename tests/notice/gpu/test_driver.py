"""The declarations of NVIDIA's driver against the real headers, and the products' PTX against its source: where CUDA is installed."""
import os
import re
import shutil
import subprocess

from runner import expect, skip, source

CUDA = next((path for path in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/usr") if path and os.path.exists(os.path.join(path, "include", "cuda.h"))), None)
if CUDA is None:
    skip("no cuda.h")
HERE, GPU = os.path.dirname(os.path.abspath(__file__)), os.path.join(source, "src", "notice", "gpu")


def compiles(table):
    return subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-I", table, "-I", os.path.join(source, "src"), "-I", os.path.join(CUDA, "include"),
                           os.path.join(HERE, "check_driver.c")], capture_output=True, text=True)


def test_declarations_are_those_of_the_headers(folder):
    done = compiles(folder)
    expect(done.returncode == 0, done.stderr)
    os.makedirs(os.path.join(folder, "notice", "gpu"))
    with open(os.path.join(GPU, "driver.h")) as file:
        text = file.read()
    changed = text.replace("(SL_CU_EVENT event, SL_CU_STREAM stream)", "(SL_CU_STREAM stream, SL_CU_EVENT event)")
    expect(changed != text, "the row to change")
    with open(os.path.join(folder, "notice", "gpu", "driver.h"), "w") as file:
        file.write(changed)
    expect(compiles(folder).returncode != 0, "a row that is wrong must not compile")


def test_the_kernels_are_those_of_their_source(folder):
    nvcc, ptxas = (shutil.which(name, path=os.path.join(CUDA, "bin") + ":" + os.environ["PATH"]) for name in ("nvcc", "ptxas"))
    if not nvcc or not ptxas:
        return print("not tried: no nvcc")
    made = os.path.join(folder, "kernels.ptx")
    subprocess.run([nvcc, "-O3", "-arch=compute_80", "-ptx", "-o", made, os.path.join(GPU, "kernels.cu")], check=True)
    with open(made) as ours, open(os.path.join(GPU, "kernels.ptx")) as kept:
        def code(text):
            return re.sub(r"(?m)^(//.*|\.version.*)\n", "", text)
        if "release 13.0" in subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout:  # the one that made it
            expect(code(ours.read()) == code(kept.read()), "make kernels.ptx again: see kernels.cu")
    for target in ("sm_80", "sm_90", "sm_100"):
        done = subprocess.run([ptxas, "-v", f"-arch={target}", "-o", os.devnull, os.path.join(GPU, "kernels.ptx")], capture_output=True, text=True)
        expect(done.returncode == 0 and "spill" not in done.stderr.replace("0 bytes spill", ""), f"{target}: {done.stderr}")
