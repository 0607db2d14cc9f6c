"""slackline watch around programs that call neither MPI nor NCCL: nothing of them changes, and nothing stays behind."""
import glob
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
here = os.path.dirname(os.path.abspath(__file__))
from calling import command, folder, refused, run
from runner import build, expect, has_facts, missing, require, source
from waiting import until

require("libslackline_probe.so", "redis-server")

count = 0


def out():
    global count
    count += 1
    return os.path.join(folder, f"out{count}")


def watch(*words, options=(), **more):
    return run("watch", "--out", out(), "--http", "off", *options, "--", *words, **more)


def start(*words, options=("--http", "off"), **more):
    """A watch that goes on; its folder in .out."""
    results = out()
    process = subprocess.Popen([command, "watch", "--out", results, *options, "--", *words], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    process.out = results
    return process


def awaited(holds, what):
    value = until(holds, 30)
    expect(value, f"not within 30 s: {what}")
    return value


def folders_of(pid):
    """Folders of the node that this watch made."""
    return glob.glob(f"/dev/shm/slackline-{os.getuid()}-watch-{pid}-*")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def children(pid, name):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            pids = [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []
    found = []
    for child in pids:
        try:
            with open(f"/proc/{child}/comm") as file:
                if name in file.read():
                    found.append(child)
        except FileNotFoundError:
            pass
    return found


def test_input_output_and_exit_code_are_the_programs():
    done = watch("sh", "-c", "cat; echo wrong >&2; exit 7", text="to and fro\n")
    expect(done.returncode == 7, f"exit {done.returncode}, not 7")
    expect(done.stdout == "to and fro\n", f"printed {done.stdout!r}")
    expect("wrong\n" in done.stderr, f"said {done.stderr!r}")
    expect(done.stderr.count("no MPI or NCCL call was seen") == 1, f"an unseen program is told so once: {done.stderr!r}")
    done = watch("sh", "-c", "exit 0")
    expect(done.returncode == 0, f"exit {done.returncode}, not 0")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        done = watch("sh", "-c", f"kill -{int(number)} $$")
        expect(done.returncode == 128 + number, f"killed by {number}: exit {done.returncode}")
    done = watch("no-such-program")
    expect(done.returncode == 127 and not missing(done.stderr, "no-such-program"), f"{done.returncode} {done.stderr}")
    done = watch(folder)
    expect(done.returncode == 126, f"a folder as a program: exit {done.returncode}")
    done = run("watch", "--out", out(), "--http", "off", "sh", "-c", "exit 5")  # -- may be left out
    expect(done.returncode == 5, f"without --: exit {done.returncode}")


def test_the_program_inherits_its_environment_files_and_signals():
    done = watch("env", env={**os.environ, "LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6", "OF_MINE": "kept"})
    if "ASan runtime" in done.stderr:  # a sanitized command cannot be started below a preload of another library
        done = watch("env", env={**os.environ, "OF_MINE": "kept"})
        done.stdout = done.stdout.replace("libslackline_probe.so", "libslackline_probe.so:/lib/x86_64-linux-gnu/libm.so.6")
    environment = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    preloaded = environment.get("LD_PRELOAD", "").split(":")
    expect(preloaded[0].endswith("libslackline_probe.so") and preloaded[1:] == ["/lib/x86_64-linux-gnu/libm.so.6"],
           f"LD_PRELOAD is {preloaded}")
    expect(environment.get("OF_MINE") == "kept", "the environment is passed on")
    expect(environment.get("SLACKLINE_PROBE", "").startswith("/dev/shm/"), f"{environment.get('SLACKLINE_PROBE')}")
    expect(environment.get("NCCL_PROFILER_PLUGIN") == os.path.join(os.path.abspath(build), "libnccl-profiler-slackline.so"), f"{environment.get('NCCL_PROFILER_PLUGIN')}")
    expect("SLACKLINE_RUN" not in environment, "the program is none of the processes that are cleared away")
    done = watch(sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    expect(json.loads(done.stdout) == [0, 1, 2, 3], f"files of the program: {done.stdout}")  # 3: the listing itself
    show = "import signal as s; print([int(x) for x in s.pthread_sigmask(s.SIG_BLOCK, [])], s.getsignal(s.SIGPIPE))"
    plain = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True).stdout
    expect(watch(sys.executable, "-c", show).stdout == plain, "signals are blocked and handled as they were")


def test_a_profiler_of_the_users_own_stays_and_is_named():
    for named, said in (("/opt/own/libprofiler.so", True), ("none", True), ("", True), ("slackline", False)):
        done = watch("sh", "-c", 'echo "[$NCCL_PROFILER_PLUGIN]"', env={**os.environ, "NCCL_PROFILER_PLUGIN": named})
        kept = named if said else os.path.join(os.path.abspath(build), "libnccl-profiler-slackline.so")
        expect(done.stdout == f"[{kept}]\n", f"{named!r}: {done.stdout}")
        expect(done.stderr.count(f"NCCL_PROFILER_PLUGIN is '{named}'") == said, f"{named!r}: {done.stderr}")


def test_where_a_gpu_is_the_plug_in_of_nccl_is_said():
    """/dev with the file of a GPU's driver, in a mount namespace of the test's own."""
    new = os.path.join(folder, "dev")
    os.makedirs(os.path.join(new, "shm"))
    script = f"""mount --bind /dev/shm {new}/shm
for name in null zero full random urandom tty ptmx; do touch {new}/$name; mount --bind /dev/$name {new}/$name; done
touch {new}/nvidiactl; mount --rbind {new} /dev; exec "$@" """
    words = ["unshare", "-m", "sh", "-ec", script, "sh"]
    if os.geteuid() != 0 or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        return print("not tried: no mount namespaces")
    for prefix, said in (([], False), (words, True)):
        done = subprocess.run([*prefix, command, "watch", "--out", out(), "--http", "off", "--", "true"], capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0 and ("recorded by its profiler plug-in" in done.stderr) == said and done.stderr.count("NCCL_PROFILER_PLUGIN") == said, f"{done.stderr}")


def test_a_missing_worker_is_said_at_once():
    bare = os.path.join(folder, "bare")
    os.mkdir(bare)
    for name in ("slackline", "libslackline_probe.so"):
        shutil.copy(os.path.join(build, name), bare)
    for options, says in (((), 1), (("--no-validate",), 0), (("--no-hold",), 0)):
        done = subprocess.run([os.path.join(bare, "slackline"), "watch", "--out", out(), "--http", "off", *options, "--", "true"], capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0 and done.stderr.count("slackline-worker is not in ") == says and done.stderr.count("suspects are named and not tested") == says,
               f"without slackline-worker, {options}: {done.returncode} {done.stderr!r}")


def test_wrong_requests_are_refused():
    refused(2, "command", "watch")
    refused(2, "command", "watch", "--")
    refused(2, "'--record'", "watch", "--recrd", "--", "true")
    refused(2, "missing", "watch", "--out")
    refused(2, "--http", "watch", "--http", "99999", "--", "true")
    refused(2, "--http", "watch", "--http", "here", "--", "true")
    refused(2, "numeric", "watch", "--http", "nowhere:9464", "--", "true")
    refused(2, "URL", "watch", "--out", out(), "--redis", "localhost", "--", "true")
    mark = os.path.join(folder, "ran")
    done = subprocess.run([command, "watch", "--out", out(), "--", "/bin/touch", mark], capture_output=True, text=True,
                          env={**os.environ, "PATH": "/nonexistent"})
    expect(done.returncode == 1 and not missing(done.stderr, "redis-server"), f"{done.returncode} {done.stderr}")
    expect(not os.path.exists(mark), "nothing runs when watching cannot begin")
    help_ = run("watch", "--help")
    expect(help_.returncode == 0 and help_.stdout.startswith("Usage: slackline watch") and "Example:" in help_.stdout, "--help")


def test_signals_reach_the_program_once():
    count_signals = """
import signal, sys, time
seen = []
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(s, lambda number, frame: seen.append(int(number)))
print("ready", flush=True)
end = time.monotonic() + 30
while len(seen) < 5 and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.2)
print(sorted(seen), flush=True)
sys.exit(3)
"""
    process = start(sys.executable, "-c", count_signals)
    process.stdout.readline()
    wanted = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT]
    for number in wanted:
        process.send_signal(number)
    text, _ = process.communicate(timeout=60)
    expect(json.loads(text) == sorted(map(int, wanted)), f"each signal is passed on once: {text}")
    expect(process.returncode == 3, f"exit {process.returncode} after signals")
    process = start("sleep", "100")
    awaited(lambda: children(process.pid, "sleep"), "the program runs")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    expect(process.returncode == 128 + signal.SIGTERM, f"ended by SIGTERM: exit {process.returncode}")

    expect(not folders_of(process.pid), f"left: {folders_of(process.pid)}")


def test_nothing_stays_behind():
    process = start("sleep", "100")
    server = awaited(lambda: children(process.pid, "redis-server"), "a private server")
    program = awaited(lambda: children(process.pid, "sleep"), "the program")
    expect(folders_of(process.pid) != [], "the folder is there meanwhile")
    left = folders_of(process.pid)
    process.kill()
    process.wait()
    time.sleep(0.3)
    expect(alive(program[0]), "the program goes on when its watch was killed")
    awaited(lambda: not alive(server[0]), "the private server dies with the watch")
    watch("true")
    expect(not any(map(os.path.exists, left)), "the next watch clears up")
    expect(alive(program[0]), "and does not touch the program")
    os.kill(program[0], signal.SIGKILL)


def get(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def port_of(process):
    """What the watch says on standard error when it listens."""
    for line in process.stderr:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        if found:
            return int(found.group(1)), line
    return None, ""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def code_of(port, path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_lost_redis_changes_nothing():
    process = start("sh", "-c", "read line; exit 4")
    server = awaited(lambda: children(process.pid, "redis-server"), "a private server")
    awaited(lambda: os.path.exists(os.path.join(process.out, "events.jsonl")), "watching has begun")
    os.kill(server[0], signal.SIGKILL)
    awaited(lambda: [pid for pid in children(process.pid, "redis-server") if pid != server[0]], "a new server")
    process.communicate("end\n", timeout=60)
    expect(process.returncode == 4, f"exit {process.returncode} after the server was killed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = taken.getsockname()[1]
    process = start("sh", "-c", "exit 6", options=("--http", "off", "--redis", f"redis://127.0.0.1:{dead}"))
    _, said = process.communicate(timeout=60)
    expect(process.returncode == 6, f"without any Redis: exit {process.returncode} {said}")


def test_an_address_that_others_reach_asks_for_a_token():
    # An address that others reach asks for a token: the one that is given, else one that is printed.
    process = start("sh", "-c", "read line", options=("--http", f"0.0.0.0:{free_port()}"))
    line = next((line for line in process.stderr if "?token=" in line), "")
    found = re.search(rf"http://(?:{re.escape(socket.gethostname())}|127\.0\.0\.1):(\d+)/\?token=([0-9a-f]{{32}});", line)
    expect(found, f"an address that others reach is printed without a token: {line!r}")
    if found:
        port, token = int(found.group(1)), found.group(2)
        for path in ("/", "/metrics", "/status.json"):
            expect(code_of(port, path) == 401, f"{path} without a token: {code_of(port, path)}")
            expect(code_of(port, f"{path}?token={'z' * 32}") == 401, f"{path} with a wrong token")
            expect(code_of(port, f"{path}?token={token}") == 200, f"{path} with the token in the address")
            expect(code_of(port, path, Authorization=f"Bearer {token}") == 200, f"{path} with the token in a header")
    process.communicate("\n", timeout=60)
    secret = os.path.join(folder, "token")
    with open(secret, "w") as file:
        file.write("a-secret-of-mine\n")
    process = start("sh", "-c", "read line", options=("--http", str(free_port()), "--token", f"@{secret}"))
    port, line = port_of(process)
    expect(port and "?token=a-secret-of-mine" in line, f"a token of a file: {line!r}")
    expect(code_of(port, "/metrics") == 401 and code_of(port, "/metrics", Authorization="Bearer a-secret-of-mine") == 200, "a token of a file")
    process.communicate("\n", timeout=60)
    refused(2, "--token", "watch", "--token", "short", "--", "true")


def test_status_and_metrics_are_served():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = busy.getsockname()[1]
        process = start("sh", "-c", "read line", options=("--http", str(taken)))
        port, line = port_of(process)
        expect(port is not None and port != taken and f"port {taken} is in use" in line, f"a busy port: {line!r}")
        kind, text = get(port, "/metrics")
        expect(kind.startswith("text/plain; version=0.0.4"), kind)
        names = re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.M)
        expect(len(names) > 10 and len(set(names)) == len(names), f"metrics: {names}")
        for line in text.splitlines():
            sample = re.fullmatch(r"([a-z_]+)(\{[^}]*\})? \S+", line)
            expect(line.startswith("#") or (sample and sample.group(1) in names), f"{line!r} is no sample of a named metric")
        for name in names:
            with open(os.path.join(source, "docs", "watching.md")) as file:
                expect(name in file.read(), f"docs/watching.md does not name {name}")
        status = json.loads(get(port, "/status.json")[1])
        expect(status["state"] in ("waiting", "searching") and status["slow"] is False, f"{status}")
        expect("slackline watch" in get(port)[1], "/ says what this is")
        try:
            get(port, "/elsewhere")
            expect(False, "a page that is not there")
        except urllib.error.HTTPError as error:
            expect(error.code == 404, f"{error.code}")
        slow = socket.create_connection(("127.0.0.1", port))  # says nothing, and delays nobody
        get(port, "/metrics")
        process.communicate("\n", timeout=60)
        slow.close()


def test_results_are_the_programs_and_its_folder_is_its_own():
    process = start("sh", "-c", "read line; exit 9")
    awaited(lambda: os.path.exists(os.path.join(process.out, "events.jsonl")), "watching has begun")
    second = run("watch", "--out", process.out, "--http", "off", "--", "true")
    expect(second.returncode == 1 and second.stderr.count("\n") == 1, f"{second.stderr}")
    process.communicate("\n", timeout=60)
    with open(os.path.join(process.out, "report.json")) as file:
        report = json.load(file)
    expect(report["exit_code"] == 9 and report["program"] == ["sh", "-c", "read line; exit 9"], f"{report}")
    expect(any("no MPI or NCCL call" in text for text in report["notes"]), f"{report['notes']}")
    expect(has_facts(open(os.path.join(process.out, "report.txt")).read(), "exit code   9"), "report.txt")
    done = subprocess.run([os.path.abspath(command), "watch", "--http", "off", "--", "/bin/true"], cwd=folder, capture_output=True, text=True)
    expect(os.path.exists(os.path.join(folder, "runs", "watch-true", "report.txt")), f"the default folder: {done.stderr}")


def test_a_static_program_is_told_that_it_is_not_seen():
    source = os.path.join(folder, "fixed.c")
    with open(source, "w") as file:
        file.write("int main(void) { return 11; }\n")
    if subprocess.run(["cc", "-static", "-o", source[:-2], source], capture_output=True).returncode == 0:
        done = watch(source[:-2])
        expect(done.returncode == 11, f"a static program: exit {done.returncode}")
        expect(done.stderr.count("/fixed ") == 1 and "MPI or NCCL" not in done.stderr,
               f"it is told so once: {done.stderr!r}")


def test_a_terminal_shows_the_state():
    master, slave = pty.openpty()
    process = subprocess.Popen([command, "watch", "--out", out(), "--http", "off", "--", "sh", "-c", "sleep 0.6; echo hello"],
                               stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 4096):
            shown += chunk
    except OSError:
        pass
    process.wait()
    os.close(master)
    expect(b"waiting" in shown and b"\r" in shown, f"a terminal shows the state: {shown!r}")
    expect(b"hello" in shown, f"{shown!r}")


def test_an_interrupt_reaches_the_program_once():
    results = out()
    pid, master = pty.fork()
    if pid == 0:
        script = ("import signal, sys, time; seen = []; signal.signal(2, lambda *_: seen.append(1)); print('ready', flush=True)\n"
                  "end = time.monotonic() + 30\n"
                  "while not seen and time.monotonic() < end: time.sleep(.01)\n"
                  "time.sleep(.3); print('interrupts', len(seen), flush=True); sys.exit(12)")
        os.execv(command, [command, "watch", "--out", results, "--http", "off", "--", sys.executable, "-c", script])
    shown = b""
    try:
        while chunk := os.read(master, 4096):
            if b"ready" not in shown and b"ready" in shown + chunk:
                os.write(master, b"\x03")
            shown += chunk
    except OSError:
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master)
    expect(b"interrupts 1\r\n" in shown and code == 12, f"Ctrl-C: exit {code}, {shown!r}")
    expect(os.path.exists(os.path.join(results, "report.json")), "a report after Ctrl-C")


def test_a_folder_that_was_used_holds_nothing_of_before():
    results = out()
    os.makedirs(results)
    open(os.path.join(results, "decisions.txt"), "w").write("1 s  incident 0 begins\n")
    done = run("watch", "--out", results, "--http", "off", "--", "true")
    expect(done.returncode == 0 and not os.path.exists(os.path.join(results, "decisions.txt")), f"decisions of another program: {done.stderr}")
