"""Rounds of validation, and the doctor, on a node with three GPUs that standin_gpu.c plays, whose rates are those of a real one: what is wrong
with GPU 1 is named, with its cause. bench/nccl measures a real one."""
import os
import subprocess
import sys
import tempfile

from runner import build, expect, require, skip, source

sys.path.insert(0, os.path.join(source, "tests", "notice", "validate"))
from members import Round, Store, need_programs  # noqa: E402

need_programs()
HERE = os.path.dirname(os.path.abspath(__file__))
where = tempfile.mkdtemp(prefix="slackline-standin-gpu-")
with open(os.path.join(build, "CMakeCache.txt")) as file:
    if "SL_SANITIZE:BOOL=ON" in file.read():
        skip("the stand-ins are not built with sanitizers (test_gpu.c has them)")
for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
    subprocess.run(["cc", "-w", "-O1", "-shared", "-fPIC", "-o", os.path.join(where, name), os.path.join(HERE, "standin_gpu.c")], check=True)
RATES = {"bf16_tflops": 615, "f32_tflops": 54.6, "memory_gb_per_s": 4080, "from_host_gb_per_s": 55.3, "to_host_gb_per_s": 55.1}


def report(members=3, words=(), **variables):
    with_library = [f"LD_LIBRARY_PATH={where}", *(f"{name}={value}" for name, value in variables.items())]
    with Store() as store, Round(store, members=members) as one:
        for member in range(members):
            one.start(member, words=["--gemm", "--only", "devices", "--repeat", "2", "--deadline", "20000", *words], inside=["env", *with_library])
        said = one.report()
        expect(all(not errors for errors in one.errors.values()), f"{one.errors}")
        return said


def of_gpus(said):
    return [one for one in said["verdicts"] if one.get("cause", "").startswith("GPU")]


def test_healthy_gpus_are_each_tested_once_at_their_rates():
    said = report()
    expect([(one["rank"], one["gpu"], one["pci"]) for one in said["gpus"]] == [(i, i, f"00000000:0{i}:06.0") for i in range(3)], f"{said['gpus']}")
    for one in said["gpus"]:
        expect(all(abs(one[name] / rate - 1) < 0.01 for name, rate in RATES.items()) and one["not_tested"] == "" and not one["slow"], f"{one}")
    expect(of_gpus(said) == [] and said["kinds"]["gpu"]["name"] == "NVIDIA H200", f"{said['verdicts']}")
    fewer = report(members=2)
    expect(sorted((one["gpu"], one["rank"]) for one in fewer["gpus"]) == [(0, 0), (1, 1), (2, 0)], f"{fewer['gpus']}")


def test_what_is_wrong_is_named():
    for wrong, cause, why in (("slow", "GPU: heat (91 C)", "bf16 products 410 of 615 TFLOP/s expected"), ("wrong", "GPU: computes wrongly", "multiprocessor 77"),
                              ("corrupt", "GPU: corrupts copies", "words came back"), ("lanes", "GPU: link to the host: x8 of x16", "8 of 16 lanes"),
                              ("errors", "GPU: memory errors", "4 uncorrectable errors")):
        said = report(STANDIN=wrong)
        found = of_gpus(said)
        expect(len(found) == 1 and found[0]["rank"] == 1 and found[0]["component"] == "device" and found[0]["cause"] == cause and why in found[0]["why"], f"{wrong}: {found}")
        expect("GPU 1 (00000000:01:06.0)" in found[0]["why"] and not said["healthy"], f"{found}")


def test_a_gpu_that_cannot_be_tested_says_why():
    for wrong, why in (("memory", "cuCtxCreate_v2: out of memory"), ("lost", "error 15")):
        said = report(STANDIN=wrong)
        one = next(gpu for gpu in said["gpus"] if gpu["gpu"] == 1)
        expect(why in one["not_tested"] and one["bf16_tflops"] is None and of_gpus(said) == [], f"{wrong}: {one} {said['verdicts']}")


def test_a_node_without_gpus_has_none():
    expect(report(STANDIN_NONE="1")["gpus"] == [], "none")


def test_next_to_a_program_its_gpu_is_tested_by_one_of_its_ranks():
    with subprocess.Popen(["sleep", "60"]) as program:
        try:
            said = report(words=["--pid", str(program.pid)], STANDIN_GPU="2", STANDIN_PID=str(program.pid))
        finally:
            program.kill()
    expect([one["gpu"] for one in said["gpus"]] == [2], f"{said['gpus']}")
    for device in said["devices"]:
        expect(device["evidence"]["gpus_tested"] == 1 and device["evidence"]["gpus_not_tested"] == 0, f"{device}")
    without = report(STANDIN_GPU="2", STANDIN_PID="1", words=["--pid", str(os.getpid())])
    expect(without["gpus"] == [], f"{without['gpus']}")
