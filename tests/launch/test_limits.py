"""What a run needs of its process's limits is asked for first: a soft limit below it is raised, a hard one below it is one line,
and none lets mpirun wait for ever. The limits are set for real."""
import os
import resource
import shutil
import subprocess
import tempfile

from runner import build, expect, require

require("slackline", "slackline-worker", "mpirun")
slackline = os.path.join(build, "slackline")
worker = os.path.join(build, "slackline-worker")
# what somebody who is not root can reach, too
_folder = tempfile.TemporaryDirectory(prefix="slackline-limits.", dir="/tmp")
folder = _folder.name
os.chmod(folder, 0o777)
RUN = """model: {{kind: gpt2, layers: {ranks}, width: 8, heads: 2, context: 8}}
data: {{files: ["/usr/share/common-licenses/*"], seed: 1}}
parallel: {{pipeline: {ranks}}}
batch: {{microbatches: 4, size: 1}}
optimizer: {{kind: adamw, lr: 1e-3, clip: 1.0}}
iterations: 2
schedule: 1f1b
adapt: false
device: {{kind: cpu}}
"""


def limited(words, which, soft, hard, user=None):
    """The command under these limits; what waits for ever is killed after a minute, and has failed."""
    def lower():
        resource.setrlimit(which, (soft, hard))
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=folder, preexec_fn=lower,
                              env={**os.environ, "HOME": folder, "TMPDIR": folder})
    except subprocess.TimeoutExpired:
        expect(False, f"{words} under {soft} of {hard}: no end within a minute")
        return subprocess.CompletedProcess(words, -1, "", "")


def train(ranks, name, *sets):
    path = os.path.join(folder, f"run{ranks}.yaml")
    with open(path, "w") as file:
        file.write(RUN.format(ranks=ranks))
    return [slackline, "train", path, "-o", os.path.join(folder, name), *sets]


def need_of(ranks):
    return 48 + 4 * ranks


def refused(done, says, what):
    expect(done.returncode == 1, f"{what}: exit {done.returncode}, not 1: {done.stderr}")
    expect(done.stderr.count("\n") == 1 and says in done.stderr, f"{what}: one line that says {says!r}: {done.stderr!r}")


NOFILE = resource.RLIMIT_NOFILE


def test_a_soft_limit_is_raised():
    # The soft limit is raised to the hard one where that is enough, and each process has it.
    done = limited(train(2, "soft"), NOFILE, 16, need_of(2))
    expect(done.returncode == 0 and done.stderr == "", f"a soft limit of 16 below a hard one of {need_of(2)}: {done.returncode} {done.stderr}")


def test_a_hard_limit_of_the_need_is_enough():
    # The hard one at just the need is enough: direct and by delegates, which take more.
    for ranks, sets in ((1, ()), (4, ()), (4, ("--set", "transport=delegated"))):
        done = limited(train(ranks, f"least{ranks}{len(sets)}", *sets), NOFILE, need_of(ranks), need_of(ranks))
        expect(done.returncode == 0, f"{ranks} ranks {sets} with {need_of(ranks)} files: {done.returncode} {done.stderr}")


def test_a_hard_limit_below_the_need_is_refused_at_once():
    # Below it: one line, at once, and no folder is made.
    for limit in (need_of(2) - 1, 32, 20):
        done = limited(train(2, "never"), NOFILE, limit, limit)
        refused(done, f"2 ranks: each process needs up to {need_of(2)} open files, and the limit is {limit} (ulimit -Hn): raise it", f"{limit} files")
        expect(not os.path.exists(os.path.join(folder, "never")), "a run that is refused leaves no folder")


def test_advice_says_what_is_enough():
    # What is advised is enough: 48 + 4 * 300 = 1248.
    refused(limited(train(300, "many"), NOFILE, 1024, 1024), "300 ranks: each process needs up to 1248 open files, and the limit is 1024 (ulimit -Hn): raise it "
            "as root before the command (ulimit -n 1248), by LimitNOFILE= of a service, or docker run --ulimit nofile=1248", "300 ranks")
    refused(limited([slackline, "healthcheck", "--ranks", "2", "--only", "devices"], NOFILE, 32, 32), "2 ranks: each process needs up to 56 open files, and the limit is 32", "healthcheck")
    expect(not [name for name in os.listdir(folder) if name.startswith("slackline-healthcheck")], "healthcheck leaves nothing behind")


def reached_by(user):
    """Not where the tree lies in a home that is closed to others, as root's is."""
    try:
        return limited([slackline, "--version"], NOFILE, 256, 256, user).returncode == 0
    except OSError:
        return False


def test_a_program_under_watch_is_refused_by_its_command_line():
    # A program under watch: of mpirun's ranks the command line tells how many there are.
    if shutil.which("redis-server"):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        mpirun = ["mpirun", *root, "--oversubscribe", "-n", "2", "true"]
        watch = [slackline, "watch", "--http", "off", "-o", os.path.join(folder, "watched"), "--"]
        refused(limited([*watch, *mpirun], NOFILE, 32, 32), "watch: 2 ranks: each process needs up to 56 open files, and the limit is 32", "watch of mpirun")
        refused(limited([*watch, "touch", os.path.join(folder, "ran")], NOFILE, 20, 20), "watch: each process needs up to 48 open files, and the limit is 20", "watch")
        expect(not os.path.exists(os.path.join(folder, "ran")), "the program has not run then")
        done = limited([*watch, *mpirun], NOFILE, 24, 4096)
        expect(done.returncode == 0, f"watch with a soft limit of 24 below a hard one of 4096: {done.returncode} {done.stderr}")
    else:
        print("redis-server is not installed: watch not tried")


def test_limits_of_processes_are_refused():
    # Processes of a user, which root is not limited in: a user that nobody else uses.
    USER = 64123
    if os.geteuid() == 0 and not reached_by(USER):
        print("what was built cannot be reached as another user: limits of processes not tried")
    elif os.geteuid() == 0:
        NPROC = resource.RLIMIT_NPROC
        done = limited(train(2, "asuser"), NPROC, 64, 64, USER)
        if "Permission denied" in done.stderr:
            print("what was built cannot be reached as another user: limits of processes not tried")
        else:
            expect(done.returncode == 0, f"64 processes: {done.returncode} {done.stderr}")
            refused(limited(train(2, "never"), NPROC, 12, 12, USER), "2 ranks: need 17 processes and threads in addition to the 1 that this user has, and the limit is 12 (ulimit -Hu)", "12 processes")
            done = limited(train(2, "raised"), NPROC, 5, 64, USER)
            expect(done.returncode == 0, f"a soft limit of 5 processes below a hard one of 64: {done.returncode} {done.stderr}")
        # Memory that may be locked is asked for by nobody who cannot do without
        done = limited(train(2, "unlocked"), resource.RLIMIT_MEMLOCK, 0, 0, USER)
        expect(done.returncode == 0, f"no locked memory: {done.returncode} {done.stderr}")
