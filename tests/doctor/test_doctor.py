"""The doctor tells what is there, what is missing and what is broken, on machines made so: without mpirun, with a worker that
fails, with a small /dev/shm, under a quota, without permissions. It ends with 1 only for what is broken."""
import json
import os
import re
import shutil
import subprocess

from calling import command, folder, refused, run
from runner import build, expect, has_facts

temporary = os.path.join(folder, "tmp")
os.mkdir(temporary)
shared_before = set(os.listdir("/dev/shm"))


def look(program=command, before=(), **variables):
    """What the doctor says there: findings by name, and the exit code."""
    done = subprocess.run([*before, program, "doctor", "--format", "json"], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "TMPDIR": temporary, **variables})
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no JSON: {done.stdout[:300]!r} {done.stderr[:300]!r}")
    expect(done.stderr == "", f"nothing on standard error: {done.stderr!r}")
    found = {one["name"]: one for one in said["findings"]}
    broken = [name for name, one in found.items() if one["state"] == "broken"]
    expect(done.returncode == (1 if broken else 0), f"exit {done.returncode} with {broken} broken")
    for state in ("absent", "limited", "broken"):
        expect(said[state] == sum(one["state"] == state for one in said["findings"]), f"how many are {state}")
    for name, one in found.items():
        expect(one["state"] in ("present", "limited", "absent", "broken"), f"{name}: {one['state']}")
        expect(one["found"] and "\n" not in one["found"], f"{name}: {one}")
    return found


def state(found, name):
    return found[name]["state"] if name in found else "not looked at"


here = look()


def test_what_is_here_is_found_as_it_is():
    text = run("doctor", env={**os.environ, "TMPDIR": temporary})
    for name, one in here.items():
        expect(re.search(rf"^  {one['state']} +{re.escape(name)} ", text.stdout, re.M), f"the text has {name} as {one['state']}")
    expect(text.stdout.startswith("slackline ") and re.search(r"^\d+ present, \d+ limited, \d+ absent, \d+ broken$", text.stdout, re.M), "the text's ends")
    expect(state(here, "planner") == "present", f"the planner: {here['planner']}")
    expect(here["processors"]["found"].startswith(f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"), f"{here['processors']}")


trains = os.path.exists(os.path.join(build, "slackline-worker"))
mpirun = shutil.which("mpirun")
opens = bool(mpirun) and "Open MPI" in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout


def test_programs_that_are_here_are_present():
    expect(state(here, "slackline-worker") == ("present" if trains else "absent"), f"{here['slackline-worker']}")
    if opens:
        version = re.search(r"\(Open MPI\) (\S+)", subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout).group(1)
        expect(state(here, "mpirun") == "present" and f"Open MPI {version}, {mpirun}" == here["mpirun"]["found"], f"{here['mpirun']}")
        if trains:
            expect(state(here, "two ranks") == "present" and f"Open MPI v{version}" in here["two ranks"]["found"], f"{here['two ranks']}")
    if shutil.which("redis-server"):
        version = re.search(r"v=(\S+)", subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout).group(1)
        expect(here["redis-server"]["state"] == "present" and here["redis-server"]["found"].startswith(version), f"{here['redis-server']}")
    if trains:
        flags = set(re.search(r"^flags\s*:(.*)$", open("/proc/cpuinfo").read(), re.M).group(1).split())
        if "ONEDNN_MAX_CPU_ISA" not in os.environ:
            expect((state(here, "bf16") == "present") == ("avx512_bf16" in flags), f"{here['bf16']}")


def script(where, name, lines):
    path = os.path.join(where, name)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + lines + "\n")
    os.chmod(path, 0o755)
    return path


def test_programs_that_are_missing_are_absent():
    some = os.path.join(folder, "some")
    os.mkdir(some)
    if shutil.which("redis-server"):
        os.symlink(shutil.which("redis-server"), os.path.join(some, "redis-server"))
    found = look(PATH=some)
    expect(state(found, "mpirun") == "absent" and "train" in found["mpirun"]["means"] and has_facts(found["mpirun"]["remedy"], "apt install openmpi-bin"), f"no mpirun: {found['mpirun']}")
    expect(state(found, "two ranks") == "absent", f"no mpirun, no ranks: {found['two ranks']}")
    expect(state(found, "redis-server") == state(here, "redis-server"), "redis-server is found where PATH says")
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    found = look(PATH=empty)
    expect(state(found, "redis-server") == "absent" and "watch" in found["redis-server"]["means"], f"no redis-server: {found['redis-server']}")
    expect(state(found, "planner") == "present", "plan needs nothing")


def test_no_variable_is_needed_and_a_wrong_one_is_named():
    done = subprocess.run(["env", "-i", os.path.abspath(command), "doctor", "--format", "json"], capture_output=True, text=True, timeout=240)
    bare = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    for name, where in (("redis-server", "/usr/bin"), ("mpirun", "/usr/bin")):
        if os.path.exists(os.path.join(where, name)):
            expect(state(bare, name) == "present", f"without PATH programs are looked for where the system has them: {bare[name]}")
    found = look(TMPDIR=os.path.join(folder, "nowhere"))
    expect(state(found, "temporary files") == "limited" and "TMPDIR" in found["temporary files"]["remedy"], f"a TMPDIR that is not there: {found['temporary files']}")
    for name in ("libslackline_probe", "two ranks", "redis-server"):
        expect(state(found, name) == state(here, name), f"{name} does not suffer from it: {found[name]}")


def test_programs_that_fail_are_broken():
    fake = os.path.join(folder, "fake")
    os.mkdir(fake)
    path = f"{fake}:{os.environ['PATH']}"
    script(fake, "mpirun", "echo kaputt >&2; exit 7")
    found = look(PATH=path)
    expect(state(found, "mpirun") == "broken" and has_facts(found["mpirun"]["found"], "exit code 7: kaputt"), f"an mpirun that fails: {found['mpirun']}")
    script(fake, "mpirun", '[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit 0; }; kill -9 $$')
    found = look(PATH=path)
    if trains:
        expect(state(found, "mpirun") == "present" and state(found, "two ranks") == "broken", f"an mpirun that dies: {found['two ranks']}")
    if shutil.which("mpirun.mpich"):
        os.unlink(os.path.join(fake, "mpirun"))
        os.symlink(shutil.which("mpirun.mpich"), os.path.join(fake, "mpirun"))
        version = re.search(r"Version:\s+(\S+)", subprocess.run(["mpirun.mpich", "--version"], capture_output=True, text=True).stdout).group(1)
        found = look(PATH=path)
        expect(state(found, "mpirun") == "limited" and f"MPICH {version}" in found["mpirun"]["found"], f"MPICH's: {found['mpirun']}")
        expect(state(found, "two ranks") == "absent", f"no ranks through it: {found['two ranks']}")
    else:
        print("not tried: MPICH is not installed")
    os.unlink(os.path.join(fake, "mpirun"))
    script(fake, "redis-server", '[ "$1" = --version ] && { echo "Redis server v=9.9.9 sha=0"; exit 0; }; exit 1')
    found = look(PATH=path)
    expect(state(found, "redis-server") == "broken" and has_facts(found["redis-server"]["found"], "ended at its start"), f"a server that ends: {found['redis-server']}")
    os.unlink(os.path.join(fake, "redis-server"))
    script(fake, "nvidia-smi", "exit 9")
    found = look(PATH=path)
    expect(state(found, "GPU") == ("broken" if state(here, "GPU") != "absent" else "absent"), f"nvidia-smi alone: {found['GPU']}")
    os.unlink(os.path.join(fake, "nvidia-smi"))


def test_parts_of_another_version_or_none_are_named():
    place = os.path.join(folder, "place")
    os.mkdir(place)
    slackline = os.path.join(place, "slackline")
    shutil.copy(command, slackline)
    found = look(slackline)
    for name in ("slackline-worker", "slackline-delegate", "slackline-solver", "libslackline_probe"):
        expect(state(found, name) == "absent" and found[name]["means"] and found[name]["remedy"], f"{name} is not there: {found[name]}")
    expect(state(found, "oneDNN") == "absent" and state(found, "two ranks") == "absent", "what the worker would say is not known")
    script(place, "slackline-worker", "echo 'libdnnl.so.2: cannot open shared object file' >&2; exit 127")
    script(place, "slackline-delegate", "echo slackline-delegate 0.0.1")
    script(place, "slackline-solver", "exit 0")
    with open(os.path.join(place, "libslackline_probe.so"), "w") as file:
        file.write("no library")
    found = look(slackline)
    expect(state(found, "slackline-worker") == "broken" and has_facts(found["slackline-worker"]["found"], "libdnnl.so.2: cannot open"), f"{found['slackline-worker']}")
    expect(state(found, "slackline-delegate") == "broken" and "build 0.0.1, not" in found["slackline-delegate"]["found"], f"{found['slackline-delegate']}")
    expect(state(found, "slackline-solver") == "broken" and has_facts(found["slackline-solver"]["found"], "build unknown"), f"{found['slackline-solver']}")
    expect(state(found, "libslackline_probe") == "broken", f"{found['libslackline_probe']}")
    with open(os.path.join(place, "libslackline_probe.so"), "wb") as file:  # whole but for its beginning: of the right version, not to be loaded
        whole = open(os.path.join(build, "libslackline_probe.so"), "rb").read()
        file.write(b"no ELF" + whole[6:])
    os.unlink(os.path.join(place, "slackline-solver"))
    shutil.copy(os.path.join(build, "slackline-solver"), place)
    found = look(slackline)
    expect(state(found, "libslackline_probe") == "broken" and has_facts(found["libslackline_probe"]["found"], "cannot be preloaded"), f"{found['libslackline_probe']}")
    shutil.copy(os.path.join(build, "libslackline_probe.so"), place)
    expect(state(found, "NCCL plug-in") == "absent" and "NCCL" in found["NCCL plug-in"]["means"], f"{found['NCCL plug-in']}")
    shutil.copy(os.path.join(build, "libnccl-profiler-slackline.so"), place)
    found = look(slackline)
    expect(state(found, "NCCL plug-in") == "present" and place in found["NCCL plug-in"]["found"], f"{found['NCCL plug-in']}")
    found = look(slackline, NCCL_PROFILER_PLUGIN="other")
    expect(state(found, "NCCL plug-in") == "limited" and "'other'" in found["NCCL plug-in"]["found"], f"{found['NCCL plug-in']}")
    if trains:
        real = os.path.join(build, "slackline-worker")
        script(place, "slackline-worker", f'[ "$1" = --exchange ] && kill -11 $$; exec {real} "$@"')
        found = look(slackline)
        expect(state(found, "slackline-worker") == "present", f"{found['slackline-worker']}")
        expect(state(found, "libslackline_probe") == "present", f"{found['libslackline_probe']}")
        if opens:  # mpirun names the rank, or ends as a shell says it
            expect(state(found, "two ranks") == "broken" and re.search("signal 11|exit code 139", found["two ranks"]["found"]), f"ranks that die: {found['two ranks']}")


def test_the_solver_library_is_absent_or_broken():
    found = look(SLACKLINE_ORTOOLS=os.path.join(folder, "none"))
    expect(state(found, "OR-tools") == "absent" and has_facts(found["OR-tools"]["remedy"], "pip install"), f"{found['OR-tools']}")
    library = os.path.join(folder, "libortools.so.9")
    open(library, "w").write("no library")
    found = look(SLACKLINE_ORTOOLS=library)
    expect(state(found, "OR-tools") == "broken", f"a library that cannot be loaded: {found['OR-tools']}")


def test_missing_permissions_are_named():
    if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        found = look(before=["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"])
        expect(state(found, "/proc") == "absent" and "mount" in found["/proc"]["remedy"] and "/proc" not in here, f"without /proc: {found.get('/proc')}")
        expect(state(found, "memory") == "present" and has_facts(found["memory"]["found"], "not known"), f"then memory is not known: {found['memory']}")
        found = look(before=["unshare", "-m", "sh", "-c", 'mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"', "sh"], TMPDIR="/tmp")
        expect(state(found, "temporary files") == "broken", f"nothing can be written: {found['temporary files']}")
        for name in ("libslackline_probe", "two ranks", "redis-server"):
            expect(state(found, name) == "absent" and (state(here, name) == "absent" or has_facts(found[name]["found"], "not tried")), f"{name} is not tried: {found[name]}")
        found = look(before=["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=8m none /dev/shm && exec "$@"', "sh"])
        expect(state(found, "/dev/shm") == "limited" and found["/dev/shm"]["found"].startswith("8 MiB, 8 free"), f"8 MiB: {found['/dev/shm']}")
        expect(state(found, "two ranks") == state(here, "two ranks"), "ranks start all the same")
        found = look(before=["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=8m,ro none /dev/shm && exec "$@"', "sh"])
        expect(state(found, "/dev/shm") == "limited" and has_facts(found["/dev/shm"]["found"], "cannot be written"), f"not to be written: {found['/dev/shm']}")
    else:
        print("not tried: /dev/shm, for which one must be root with mount namespaces")
    if os.geteuid() == 0 and shutil.which("setpriv"):
        found = look(before=["setpriv", "--bounding-set", "-sys_nice,-sys_admin", "--inh-caps", "-all"])
        expect(state(found, "network spaces") == "absent" and has_facts(found["network spaces"]["found"], "not permitted"), f"{found['network spaces']}")
        if trains and "FIFO" in here["scheduling"]["found"]:
            expect("FIFO" not in found["scheduling"]["found"] or found["scheduling"]["state"] == "limited", f"{found['scheduling']}")
    else:
        print("not tried: permissions, for which one must be root with setpriv")


def test_a_quota_of_processors_is_found():
    group = f"/sys/fs/cgroup/cpu/slackline-doctor-{os.getpid()}"
    try:
        os.mkdir(group)
        open(f"{group}/cpu.cfs_quota_us", "w").write("50000")
        quota = True
    except OSError as error:
        print(f"not tried: a quota of processors ({error})")
        quota = False
    if quota:
        found = look(before=["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"])
        expect(state(found, "processors") == "limited" and has_facts(found["processors"]["found"], "0.5 of their time"), f"{found['processors']}")
    if os.path.isdir(group):
        os.rmdir(group)


def test_a_limit_of_memory_is_found():
    group = f"/sys/fs/cgroup/memory/slackline-doctor-{os.getpid()}"
    try:
        os.mkdir(group)
        open(f"{group}/memory.limit_in_bytes", "w").write(str(256 << 20))
        limit = True
    except OSError as error:
        print(f"not tried: a limit of memory ({error})")
        limit = False
    if limit:
        found = look(before=["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"])
        expect(state(found, "memory") == "limited" and has_facts(found["memory"]["found"], "control group 256 MiB"), f"{found['memory']}")
        expect(state(here, "memory") == "limited" or "256 MiB" not in here["memory"]["found"], "which is of that group alone")
    if os.path.isdir(group):
        os.rmdir(group)


def test_one_processor_is_one():
    found = look(before=["taskset", "-c", str(min(os.sched_getaffinity(0)))])
    expect(found["processors"]["found"].startswith("1 of "), f"one processor: {found['processors']}")


def test_limits_of_a_process_are_found():
    expect(state(here, "open files") == "present" and state(here, "address space") == "present", f"{here['open files']} {here['address space']}")
    found = look(before=["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh"])
    expect(state(found, "open files") == "limited" and re.findall(r"\d+", found["open files"]["found"]) == ["100", "100"], f"{found['open files']}")
    found = look(before=["sh", "-c", 'ulimit -v 1572864 && exec "$@"', "sh"])
    expect(state(found, "address space") == "limited" and found["address space"]["found"].startswith("1536 MiB "), f"{found['address space']}")


def test_wrong_requests_are_refused():
    refused(2, "--format | text | json | 'xml'", "doctor", "--format", "xml")
    refused(2, "'now'", "doctor", "now")
    refused(2, "'--format'", "doctor", "--fromat", "json")


def test_nothing_is_left_behind():
    expect(os.listdir(temporary) == [], f"left behind: {os.listdir(temporary)}")
    left = {name for name in set(os.listdir("/dev/shm")) - shared_before if name.startswith("slackline-") and not os.path.exists(f"/dev/shm/{name}/owner")}
    expect(not left, f"left in /dev/shm: {left}")
