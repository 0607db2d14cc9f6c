# labels: slow torch
"""The wheel as tools/wheel makes it: one for every Python, with all that its programs need. Installed on a system of its own that has Python
and PyTorch alone, it plans, simulates, adapts, watches and reports."""
import glob
import json
import os
import re
import subprocess
import sys
import zipfile

from package import EXAMPLE
from runner import expect, folder, require, skip, source
import slackline

sys.path.insert(0, os.path.join(source, "bench", "fresh"))
from system import System, missing  # noqa: E402

# what a system has that has a Python; all other libraries come along
OF_SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1",
             "libstdc++.so.6", "libz.so.1"}
torch = os.path.realpath(os.path.join(source, ".venv", "lib", "python3.11", "site-packages"))


def given():
    require("redis-server", "dpkg-query", "readelf")
    index = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", os.path.join(folder, "index"), "auditwheel"], capture_output=True)
    if index.returncode:
        skip("pip reaches no package index with auditwheel")
    done = subprocess.run([os.path.join(source, "tools", "wheel"), os.path.join(folder, "dist")], capture_output=True, text=True)
    made = glob.glob(os.path.join(folder, "dist", "*"))
    if done.returncode or len(made) != 1:
        raise RuntimeError(f"tools/wheel: {done.returncode}, made {made}\n{done.stdout}{done.stderr}")
    yield made


def test_its_name_fits_every_python(wheel):
    name = os.path.basename(wheel)
    expect(re.fullmatch(rf"slackline-{slackline.__version__}-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl", name), name)


def test_what_its_programs_load_is_in_it(wheel, folder):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
        names = file.namelist()
    inside = {os.path.basename(name) for name in names if name.startswith("slackline.libs/")}
    programs = [name for name in names if name.startswith(("slackline/bin/", "slackline/lib/", "slackline.libs/"))]
    expect({"slackline/bin/slackline", "slackline/bin/slackline-solver", "slackline/bin/redis-server", "slackline/lib/libslackline.so.0.1", "slackline/lib/libslackline_probe.so", "slackline/lib/libnccl-profiler-slackline.so",
            "slackline/bin/slackline-delegate", "slackline/lib/libslackline_transport.so.0.1"} <= set(programs), f"{programs}")
    for name in programs:
        dynamic = subprocess.run(["readelf", "-d", os.path.join(folder, name)], capture_output=True, text=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        expect(needed and needed <= inside | OF_SYSTEM, f"{name} needs {needed - inside - OF_SYSTEM}")
        paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
        expect(all(path.startswith("$ORIGIN") for path in ":".join(paths).split(":") if path), f"{name} searches {paths}")
        if needed & inside:
            expect(paths, f"{name} finds {needed & inside} nowhere")
    with zipfile.ZipFile(wheel) as file:
        bill = json.loads(file.read(next(name for name in names if name.endswith(".dist-info/sboms/slackline.spdx.json"))))
    parts = {one["name"]: one["versionInfo"] for one in bill["packages"]}
    expect(bill["spdxVersion"] == "SPDX-2.3" and parts.pop("slackline") == slackline.__version__, f"bill of materials: {bill['creationInfo']}")
    expect(all(version == subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}\n", name], text=True).split()[0] for name, version in parts.items()), f"its versions: {parts}")
    licenses = {os.path.basename(name) for name in names if "/licenses/bundled/" in name}
    expect({name for name in licenses if os.path.exists(f"/usr/share/doc/{name}/copyright")} <= set(parts) | {"libc6"}, f"{licenses} are in {sorted(parts)}")
    for package in ("redis", "libhiredis", "libmicrohttpd", "libyaml", "libjansson", "libssl", "libgnutls"):
        expect(any(name.startswith(package) for name in licenses), f"the license of {package} is in {licenses}")


GLOO = """import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(4)
for _ in range(50):
    dist.all_reduce(value)
    value /= 2
assert value[0] == 1
"""


ADAPTED = """import sys
import slackline, torch, torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
dist.init_process_group("gloo")
rank, transport = dist.get_rank(), sys.argv[1]
stage = PipelineStage(torch.nn.Linear(8, 8), rank, 2, torch.device("cpu"))
schedule = slackline.adapt(Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss), transport=transport, out="adapted-" + transport)
for _ in range(12):
    schedule.step(*([torch.ones(8, 8)] if rank == 0 else []), **({"target": torch.ones(8, 8)} if rank == 1 else {}))
assert schedule.adaptation.active, schedule.adaptation.why
assert (schedule._agent.carrier is not None) == (transport == "slackline")
dist.barrier()
print("adapted", flush=True)
dist.destroy_process_group()
"""


def test_it_works_on_a_system_with_python_and_pytorch_alone(wheel, folder):
    if missing():
        skip(f"a fresh system: {missing()}")
    try:
        system = System(os.path.join(folder, "system"), packages=("python3", "python3-venv"))
    except SystemExit as error:
        skip(f"no fresh system can be had: {error}")
    os.link(wheel, f"{system.folder}/root/{os.path.basename(wheel)}")
    for name, text in (("script.py", "import sys\nprint('ran', *sys.argv[1:])\n"), ("gloo.py", GLOO), ("adapted.py", ADAPTED), ("problem.yaml", open(EXAMPLE).read()),
                       ("run.yaml", open(os.path.join(source, "examples", "slow-link.yaml")).read())):
        with open(f"{system.folder}/root/{name}", "w") as file:
            file.write(text)

    def there(command, says, code=0):
        ended, lines, _ = system.run("export PATH=/root/env/bin:$PATH; " + command, "/root", show=False)
        output = "\n".join(line for _, line in lines)
        expect(ended == code and re.search(says, output, re.M), f"{command}: exit {ended}, not {says!r}:\n{output[-3000:]}")
        return output

    there("! command -v gcc && ! command -v cmake && ! command -v redis-server && ! command -v mpirun", "")
    there("python3 -m venv env && find env -type f | sort >before && pip install --quiet --no-index slackline-*.whl && pip check", "No broken")
    there("slackline --version", f"^slackline {slackline.__version__}")
    there("slackline plan problem.yaml", "makespan 390 ms")
    found = there("slackline doctor", "0 broken")
    for part in ("slackline-solver", "slackline-delegate", "libslackline_probe", "redis-server"):
        expect(re.search(rf"present +{part}", found), f"the doctor finds {part}: {found}")
    there("slackline train run.yaml --out trained", "not part of the Python package", code=1)
    there("slackline watch --out one python3 script.py words", "^ran words$")
    there("grep -h 'exit code' one/report.txt", "exit code +0")
    there("slackline watch --out two script.py words", "^ran words$")
    there("slackline plan problem.yaml --schedule adaptra --format csv -o order.csv && slackline simulate problem.yaml --order order.csv", "makespan 390 ms")
    there("""python3 -c "
import slackline
plan = slackline.plan('problem.yaml', 'adaptra')
slow = slackline.simulate('problem.yaml', plan.csv(), changes={'pipeline.links.list.0.latency_ms': 60})
print(plan.makespan_ms, slow.makespan_ms, slackline.watch('script.py', out='three').exit_code, slackline.adapt.__name__)" """, "^390.0 680.0 0 adapt$")
    there("python3 -c 'import slackline; slackline.adapt(1)'", "ImportError: adapt needs PyTorch", code=1)
    if os.path.isdir(os.path.join(torch, "torch")): # PyTorch is this machine's, seen there under the same path
        system.lent.append(torch)
        there(f"echo {torch} >env/lib/python3.11/site-packages/torch.pth && python3 -c 'import torch; print(torch.__version__)'", r"^2\.13\.")
        there("slackline watch --out four -- python3 -m torch.distributed.run --nproc-per-node 2 gloo.py; cat four/report.txt", r"seen +2 ranks on 1 node, 100 calls, 0 records lost")
        for transport in ("torch", "slackline"):
            there(f"python3 -m torch.distributed.run --nproc-per-node 2 adapted.py {transport}", "^adapted$")
            there(f"slackline report adapted-{transport} && slackline draw adapted-{transport} --what iterations | grep -c '<svg'", "^1$")
        there("rm env/lib/python3.11/site-packages/torch.pth", "")
    else:
        print("not tried: PyTorch there (no .venv of Python 3.11 with torch)")
    there("pip uninstall --quiet -y slackline && find env -name '*.pyc' -delete; find env -type f | sort >after; grep -v '\\.pyc$' before | diff - after && ! ls -d env/lib/python3.11/site-packages/slackline* && echo gone", "^gone$")
    system.remove()
