# labels: long
"""What the processes of a run share with each other is closed to other users of the machine: memory, sockets, files, secrets in process lists."""
import os
import re
import stat
import socket
import sys

sys.dont_write_bytecode = True
from runner import build, expect, skip, source
from training import Training, command_line, descendants, until

NOBODY = 65534
RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 4}
batch: {microbatches: 8, size: 1}
iterations: 2000
transport: delegated
adapt: false
device: {pace_ms: {F: 2, I: 2, W: 2}}
"""


def shared(pids, out):
    """Files, memory and sockets that these processes have open or mapped, in places where others may look."""
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps") as file:
                found.update(re.findall(r"(/(?:dev/shm|tmp)/\S+)", file.read()))
            for name in os.listdir(f"/proc/{pid}/fd"):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    with open("/proc/net/unix") as file:
        sockets = {line.split()[7] for line in file if len(line.split()) > 7}
    found |= {path for path in sockets if path.startswith("/") and os.path.basename(os.path.dirname(path)).startswith("slackline")}
    return {path for path in found if path.startswith(("/dev/shm/", "/tmp/", out)) and os.path.exists(path)}


def tried(paths):
    """In a process of another user: what can be opened, connected to, or listed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        for path in sorted(paths):
            try:
                if stat.S_ISSOCK(os.stat(path).st_mode):
                    socket.socket(socket.AF_UNIX).connect(path)
                elif os.path.isdir(path):
                    os.listdir(path)
                else:
                    os.close(os.open(path, os.O_RDONLY))
                os.write(writer, path.encode() + b"\n")
            except OSError:
                pass
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        reached = file.read().split()
    os.waitpid(child, 0)
    return reached


def test_another_user_reaches_nothing_of_a_run(folder):
    """Not while it runs: neither what its processes have mapped, nor their sockets, nor their memory."""
    if os.getuid() != 0:
        skip("only root becomes another user")
    os.chmod(os.path.dirname(folder), 0o755)
    os.chmod(folder, 0o755)
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN % source)
    with Training(build, file, os.path.join(folder, "out")) as run:
        delegates = until(lambda: [pid for pid in descendants(run.process.pid) if command_line(pid)[:1] == ["slackline-delegate"]], 60, 0.1)
        assert delegates, "no delegate is started"
        assert until(lambda: os.path.exists(os.path.join(run.out, "metrics.jsonl")) and os.path.getsize(os.path.join(run.out, "metrics.jsonl")), 60, 0.1), "no iteration"
        run.look()
        pids = [run.process.pid, *descendants(run.process.pid)]
        paths = shared(pids, run.out)
        ours = {path for path in paths if "slackline" in path and not path.startswith(folder)}
        assert ours, f"nothing is shared: {paths}"
        expect(tried(ours | {os.path.dirname(path) for path in ours if "slackline" in os.path.dirname(path)}) == [], f"opened by another user: {tried(ours)}")
        expect(tried({f"/proc/{pid}/{what}" for pid in pids for what in ("mem", "environ", "maps", "fd")}) == [], "processes are open to another user")
        key = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
        expect(not [word for pid in pids for word in command_line(pid) if key.search(word)], "a key in a process list")
