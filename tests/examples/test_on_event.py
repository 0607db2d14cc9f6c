# labels: long
"""The programs of examples/on-event/, each against the real thing where it is installed: torchft's lighthouse and manager, Slurm's scontrol
and slurmctld, kubectl, a gRPC client of nvhcd.proto's service, an HTTP server. Events come from the watch of a job that hangs."""
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

from runner import build, require, skip, source

FOLDER = os.path.join(source, "examples", "on-event")
EVENT = {"kind": "hang", "time_s": 30.5, "iteration": -1, "rank": 2, "seen": "rank 2 has not entered: ranks 0,1 wait in MPI_Barrier 'x' \"y\"",
         "decided": "the job hangs: a collective left out", "why": "rank 2 is in MPI_Recv", "job": "job-7"}


def folder_of_job(folder, host="node-b"):
    """As the watch leaves it: rank 2 is on the second node."""
    with open(os.path.join(folder, "watch.json"), "w") as file:
        json.dump({"job": "job-7", "hosts": ["node-a-4026531833", f"{host}-4026531840"], "ranks": [[1, 0, 5, 0], [1, 0, 6, 0], [1, 1, 7, 0]]}, file)
    return folder


def called(program, folder, event=EVENT, **variables):
    """What it prints, and its exit code; called as the watch does."""
    environment = {**os.environ, "SLACKLINE_EVENT": event["kind"], "SLACKLINE_DIRECTORY": folder, "SLACKLINE_SEEN": event["seen"],
                   "SLACKLINE_JOB": event["job"], **variables}
    if "rank" in event:
        environment["SLACKLINE_RANK"] = str(event["rank"])
    done = subprocess.run([os.path.join(FOLDER, program)], input=json.dumps({**event, "directory": folder}), env=environment, capture_output=True,
                          text=True, timeout=60)
    return done.stdout + done.stderr, done.returncode


def test_each_is_short_and_executable():
    for name in os.listdir(FOLDER):
        path = os.path.join(FOLDER, name)
        with open(path) as file:
            lines = file.read().splitlines()
        assert os.access(path, os.X_OK) and lines[0].startswith("#!"), name
        assert len(lines) <= 60, f"{name} has {len(lines)} lines"


def test_the_node_of_a_rank_is_found(folder):
    told, code = called("node-of-rank.py", folder_of_job(folder))
    assert code != 0  # no rank given
    done = subprocess.run([os.path.join(FOLDER, "node-of-rank.py"), "2"], env={**os.environ, "SLACKLINE_DIRECTORY": folder}, capture_output=True, text=True)
    assert done.stdout == "node-b\n", done
    os.remove(os.path.join(folder, "watch.json"))
    with open(os.path.join(folder, "hang.json"), "w") as file:
        json.dump({"ranks": [{"rank": 2, "host": "other-4026531833"}]}, file)
    done = subprocess.run([os.path.join(FOLDER, "node-of-rank.py"), "2"], env={**os.environ, "SLACKLINE_DIRECTORY": folder}, capture_output=True, text=True)
    assert done.stdout == "other\n", done


# ---- webhook ----

class Posted(http.server.BaseHTTPRequestHandler):
    bodies, status = [], 200

    def do_POST(self):
        Posted.bodies.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(Posted.status)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_the_webhook_gets_the_event_of_a_real_hang(folder):
    require("mpirun", "mpicc", "redis-server")
    sys.path.insert(0, os.path.join(source, "tests", "notice", "hang"))
    from hanging import FAMILIES, Standing, mpi_words, usable
    family = next(filter(usable, FAMILIES))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Posted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["WEBHOOK_URL"] = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        with Standing(build, folder, mpi_words(folder, family, 3, ["other-collective", "1"]),
                      ["--hang-after", "2", "--hang", "kill", "--on-event", os.path.join(FOLDER, "webhook.py")]) as run:
            assert run.process.wait(60) == 124
        kind, body = Posted.bodies[0]
        sent = json.loads(body)
        assert kind == "application/json" and sent["event"]["kind"] == "hang" and sent["event"]["rank"] == 1, sent
        assert "rank 1 calls MPI_Allreduce" in sent["text"] and "another collective" in sent["text"], sent
        Posted.status = 500
        told, code = called("webhook.py", folder)
        assert code != 0 and "500" in told, told
        assert called("webhook.py", folder, {**EVENT, "kind": "onset"}) == ("", 0)
    finally:
        del os.environ["WEBHOOK_URL"]
        server.shutdown()


# ---- Kubernetes ----

def test_the_printed_kubectl_command_sets_a_condition_that_kubectl_accepts(folder):
    told, code = called("kubernetes-condition.sh", folder_of_job(folder), KUBECTL_PRINT="1")
    assert code == 0 and told.startswith("kubectl patch node node-b --subresource=status --type=strategic -p '"), told
    assert called("kubernetes-condition.sh", folder, KUBECTL_PRINT="1", NODE_NAME="gpu-7")[0].startswith("kubectl patch node gpu-7 ")
    condition = json.loads(told[told.index("{"):told.rindex("}") + 1])["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("SlacklineTrouble", "True", "hang"), condition
    relieved, _ = called("kubernetes-condition.sh", folder, {**EVENT, "kind": "moves"}, KUBECTL_PRINT="1")
    assert '"status":"False"' in relieved, relieved
    unnamed = {key: value for key, value in EVENT.items() if key != "rank"}
    assert called("kubernetes-condition.sh", folder, unnamed, KUBECTL_PRINT="1")[0].startswith("no single rank"), "a node without a rank"
    if not shutil.which("kubectl"):
        return print("kubectl is not installed: the patch was not applied")
    node = os.path.join(folder, "node.json")
    with open(node, "w") as file:
        json.dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"},
                   "status": {"conditions": [{"type": "Ready", "status": "True"}]}}, file)
    patch = told[told.index("{"):told.rindex("}") + 1]
    done = subprocess.run(["kubectl", "patch", "--local", "-f", node, "--type=strategic", "-p", patch, "-o", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    conditions = {one["type"]: one for one in json.loads(done.stdout)["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "True" and conditions["SlacklineTrouble"]["message"].startswith("rank 2 has not entered"), conditions


# ---- Slurm ----

def slurm(folder, ports):
    """A controller of two nodes without daemons, as this user."""
    name = os.path.join(folder, "slurm.conf")
    with open(name, "w") as file:
        file.write(f"""ClusterName=test
SlurmctldHost={socket.gethostname()}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={__import__('pwd').getpwuid(os.getuid()).pw_name}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
ProctrackType=proctrack/pgid
SwitchType=switch/none
SelectType=select/linear
NodeName=node-a NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
NodeName=node-b NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
""")
    return name


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def test_scontrol_drains_the_node_with_the_reason(folder):
    told, code = called("slurm-drain.sh", folder_of_job(folder), DRAIN_PRINT="1")
    assert (told, code) == ("scontrol update nodename=node-b state=drain reason=\"slackline: rank 2 has not entered: ranks 0,1 wait in MPI_Barrier x y\"\n", 0), told
    assert called("slurm-drain.sh", folder, {**EVENT, "kind": "stall"}) == ("", 0)
    if not all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in ("scontrol", "slurmctld", "munged")):
        return print("Slurm is not installed: only the printed command was checked")
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
    key = os.path.join(folder, "munge.key")
    with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(os.urandom(1024))
    os.chmod(folder, 0o711)
    munged = subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                               f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"], env=environment, stderr=subprocess.DEVNULL)
    environment["SLURM_CONF"] = slurm(folder, (free_port(), free_port()))
    time.sleep(1)
    controller = subprocess.Popen(["slurmctld", "-D", "-i"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(60):
            if subprocess.run(["scontrol", "ping"], env=environment, capture_output=True, text=True).stdout.find("UP") >= 0:
                break
            time.sleep(0.5)
        else:
            with open(os.path.join(folder, "slurmctld.log")) as file:
                return print("slurmctld did not start here: only the printed command was checked:", file.read()[-400:])
        told, code = called("slurm-drain.sh", folder, PATH=environment["PATH"], SLURM_CONF=environment["SLURM_CONF"])
        assert code == 0 and told.startswith("drained node-b"), told
        shown = subprocess.run(["scontrol", "show", "node", "node-b"], env=environment, capture_output=True, text=True).stdout
        assert "DRAIN" in shown and "slackline: rank 2 has not entered" in shown, (told, shown)
        assert "DRAIN" not in subprocess.run(["scontrol", "show", "node", "node-a"], env=environment, capture_output=True, text=True).stdout
        print("tried with slurmctld")
    finally:
        for process in (controller, munged):
            process.terminate()
            process.wait()


# ---- NVIDIA's resiliency extension ----

def test_the_health_daemon_answers_as_the_extension_asks(folder):
    """The client speaks gRPC with the messages of the extension's nvhcd.proto, written here by hand: the extension itself is not installed."""
    try:
        import grpc
    except ImportError:
        skip("grpcio is not installed")
    address, health = f"unix://{folder}/nvhcd.sock", os.path.join(folder, "health")
    daemon = subprocess.Popen([sys.executable, os.path.join(FOLDER, "nvrx-health.py"), "serve", address], env={**os.environ, "NVRX_HEALTH": health})
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(30)
            ask = channel.unary_unary("/nvhcd.HealthCheckService/RunHealthCheck")
            assert ask(b"") == b"\x08\x01\x1a\x02{}"  # success = true, output = "{}"
            called("nvrx-health.py", folder_of_job(folder, "elsewhere"), NVRX_HEALTH=health)
            assert ask(b"") == b"\x08\x01\x1a\x02{}"  # another node
            called("nvrx-health.py", folder_of_job(folder, socket.gethostname()), NVRX_HEALTH=health)
            answer = ask(b"")
            assert answer.startswith(b"\x10\x01\x1a") and b"rank 2 has not entered" in answer, answer  # exit_code = 1
            called("nvrx-health.py", folder, {**EVENT, "kind": "moves"}, NVRX_HEALTH=health)
            assert ask(b"") == b"\x08\x01\x1a\x02{}"
    finally:
        daemon.terminate()
        daemon.wait()


# ---- torchft ----

REPLICA = """
import sys
from datetime import timedelta
from torchft._torchft import ManagerClient, ManagerServer
server = ManagerServer(replica_id=sys.argv[2], lighthouse_addr=sys.argv[1], hostname="localhost", bind="[::]:0", store_addr="localhost:1", world_size=1,
                       heartbeat_interval=timedelta(milliseconds=100), connect_timeout=timedelta(seconds=10), quorum_retries=0)
client = ManagerClient(server.address(), connect_timeout=timedelta(seconds=10))
step = 0
while True:
    client._quorum(group_rank=0, step=step, checkpoint_metadata="", shrink_only=False, timeout=timedelta(seconds=30), init_sync=False, commit_failures=0)
    step += 1
    import time; time.sleep(0.2)
"""


def test_torchft_ends_the_replica_that_hangs_and_no_other(folder):
    try:
        import torchft  # noqa: F401
    except ImportError:
        skip("torchft is not installed")
    port = free_port()
    where = f"http://localhost:{port}"
    lighthouse = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "torchft_lighthouse"), "--bind", f"[::]:{port}", "--min_replicas", "2",
                                   "--join_timeout_ms", "1000"], stderr=subprocess.DEVNULL)
    names = "train_0:aaaa", "train_1:bbbb"
    workers = [subprocess.Popen([sys.executable, "-c", REPLICA, where, name], stderr=subprocess.DEVNULL) for name in names]
    variables = {"TORCHFT_LIGHTHOUSE": where, "REPLICA_ID": "train_1"}
    try:
        for _ in range(120):
            told, _ = called("torchft-kill.py", folder, {**EVENT, "kind": "stall"}, **variables)
            if all(name in told for name in names):
                break
            time.sleep(0.5)
        assert all(name in told for name in names), told
        assert [worker.poll() for worker in workers] == [None, None]  # a stall only reports
        told, code = called("torchft-kill.py", folder, **variables)
        assert code == 0 and "asked train_1:bbbb to exit" in told, told
        assert workers[1].wait(20) != 0 and workers[0].poll() is None
        told, code = called("torchft-kill.py", folder, **{**variables, "REPLICA_ID": "train_9"})
        assert code == 1 and "nothing is ended" in told, told
    finally:
        for process in (*workers, lighthouse):
            process.kill()
            process.wait()
