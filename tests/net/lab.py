"""Two hosts on one machine, for tests and benches of rails: two network namespaces with their own host names, joined by
a management pair of interfaces (MPI's bootstrap) and by any number of pairs that are the rails. Rails are shaped, taken
down, made deaf in one direction or made to flap while something runs.

    with Lab(rails=2, mbit=1000) as lab:
        lab.run(0, ["ping", lab.address(1, 0)])
        lab.blackhole(rail=0, host=0)      # what host 0 sends on rail 0 vanishes; what host 1 sends still comes
        lab.heal(rail=0, host=0)

A namespace lives as long as a process is in it: a holder each and whatever was started in it; the kernel ends the
holder, and what start() and run() started, with this process, also when that is killed. Nothing has a name outside (no file below /run/netns, no interface on the real host), so
nothing can clash with another run and nothing can stay: close() ends all that runs in the two namespaces and the kernel
removes the rest. Where this is not permitted Lab raises Forbidden with the reason; skip() is for tests."""
import ctypes
import os
import signal
import subprocess
import sys
import time

MANAGEMENT = "mgmt"
NOWHERE = "02:00:00:00:de:ad"  # nobody's hardware address: frames to it are thrown away by the other end
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class Forbidden(Exception):
    """The system does not let us make what a laboratory needs."""


def _die_with_parent():
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def _ended(signal_number, _frame):
    sys.exit(128 + signal_number)  # unwinds through __exit__


def _call(arguments, what):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise Forbidden(f"{what}: {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Lab:
    """`rails` pairs, each of `mbit` megabit/s in both directions (None: as fast as the machine). Hosts are 0 and 1."""

    def __init__(self, rails=2, mbit=None):
        self.rails, self.mbit = rails, mbit
        self.holder, self.space, self.dead, self.started = [], [], set(), []
        self.host_name = [f"lab{os.getpid()}-{host}" for host in (0, 1)]

    def __enter__(self):
        self.before = {number: signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            for host in (0, 1):
                self._hold(host)
            for rail in range(self.rails):
                self._join(self.interface(rail), [(host, [self.address(host, rail), self.address(host, rail, 6)])
                                                  for host in (0, 1)])
                for host in (0, 1):
                    self._introduce(rail, host)
                if self.mbit:
                    self.shape(rail, self.mbit)
            self._join(MANAGEMENT, [(host, [self.management(host)]) for host in (0, 1)])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what it is made of ----

    def _hold(self, host):
        """A process that does nothing, in new network and UTS namespaces."""
        try:
            holder = subprocess.Popen(
                ["unshare", "--net", "--uts", "sh", "-c", 'hostname "$1" && echo ready && exec sleep infinity', "sh",
                 self.host_name[host]],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                preexec_fn=_die_with_parent)
        except FileNotFoundError as error:
            raise Forbidden(f"{error.filename} is not installed") from None
        self.holder.append(holder)
        if holder.stdout.readline() != "ready\n":
            raise Forbidden(f"network and UTS namespaces: {holder.stderr.read().strip()}")
        self.space.append(os.stat(f"/proc/{holder.pid}/ns/net").st_ino)
        self.ip(host, "link", "set", "lo", "up")
        # addresses of version 6 stay when their interface goes down, and are usable at once
        self.run(host, ["sh", "-c", "for c in all default; do echo 1 >/proc/sys/net/ipv6/conf/$c/keep_addr_on_down; "
                                    "echo 0 >/proc/sys/net/ipv6/conf/$c/accept_dad; done 2>/dev/null; true"])

    def _join(self, name, ends):
        _call(["ip", "link", "add", name, "netns", str(self.holder[0].pid), "type", "veth", "peer", "name", name, "netns",
               str(self.holder[1].pid)], "a pair of interfaces")
        for host, _ in ends:
            if name != MANAGEMENT:
                self.ip(host, "link", "set", name, "address", self.hardware(host, int(name.removeprefix("rail"))))
            self.ip(host, "link", "set", name, "up")
        for host, addresses in ends:
            for address in addresses:
                extra = ["nodad"] if ":" in address else []
                self.ip(host, "address", "add", address + ("/64" if ":" in address else "/24"), "dev", name, *extra)

    def interface(self, rail):
        return f"rail{rail}"

    def address(self, host, rail, version=4):
        return f"10.77.{rail}.{host + 1}" if version == 4 else f"fd77:0:0:{rail + 1}::{host + 1}"

    def hardware(self, host, rail):
        return f"02:00:00:00:{rail:02x}:{host + 1:02x}"

    def management(self, host):
        return f"10.78.0.{host + 1}"

    # ---- running things ----

    def inside(self, host):
        """The words before a command that make it run on `host`."""
        return ["nsenter", "--net", "--uts", "--target", str(self.holder[host].pid)]

    def ip(self, host, *words):
        return _call([*self.inside(host), "ip", *words], "an interface's settings")

    def run(self, host, arguments, **more):
        return subprocess.run([*self.inside(host), *arguments], preexec_fn=_die_with_parent, **more)

    def start(self, host, arguments, **more):
        self.started.append(subprocess.Popen([*self.inside(host), *arguments], preexec_fn=_die_with_parent, **more))
        return self.started[-1]

    def mpirun(self, folder, ranks, arguments, interfaces=MANAGEMENT):
        """The command that starts ranks[0] processes of `arguments` on host 0 and ranks[1] on host 1, in that order of
        ranks. MPI starts over the management pair, sends its messages over `interfaces` and keeps its files in `folder`."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        # PMIx connects every rank to mpirun; it would listen on the loopback interface of host 0 alone
        pmix = [f"PMIX_MCA_ptl_base_{key}={value}" for key, value in (("if_include", MANAGEMENT), ("remote_connections", 1))]
        words = [*self.inside(0), "env", *pmix, "mpirun", *root, "--oversubscribe", "--bind-to", "none"]
        for key, value in [("mpi_yield_when_idle", 1), ("plm", "isolated"), ("ras", "^slurm,tm"), ("pml", "ob1"),
                           ("btl", "self,tcp"), ("btl_tcp_if_include", interfaces), ("oob_tcp_if_include", MANAGEMENT),
                           ("orte_tmpdir_base", folder), ("btl_vader_backing_directory", folder)]:
            words += ["--mca", key, str(value)]
        words += ["-n", str(ranks[0]), *arguments]
        return words + [":", "-n", str(ranks[1]), *self.inside(1), *arguments] if ranks[1] else words

    # ---- trouble ----

    def shape(self, rail, mbit, host=None):
        """Token bucket on one end (`host`) or both; a burst of 2 ms, so that a second's rate is the rate."""
        for one in (0, 1) if host is None else (host,):
            burst = max(16384, int(mbit * 1e6 / 8 * 0.002))
            _call([*self.inside(one), "tc", "qdisc", "replace", "dev", self.interface(rail), "root", "tbf", "rate",
                   f"{mbit}mbit", "burst", str(burst), "latency", "20ms"], "a rate (tc, tbf)")

    def down(self, rail, host=0):
        """Set down at `host`: routes go, netlink says so; the other end loses its carrier."""
        self.ip(host, "link", "set", self.interface(rail), "down")

    def up(self, rail, host=0):
        self.ip(host, "link", "set", self.interface(rail), "up")
        self._introduce(rail, host)  # the kernel forgot it with the link

    def blackhole(self, rail, host):
        """What `host` sends on this rail vanishes without a word: no error, no lost carrier, no reset. The other
        direction works."""
        self.dead.add((rail, host))
        self._introduce(rail, host)

    def _introduce(self, rail, host):
        """Tells `host` the hardware address of the other end, the right one or nobody's. Not left to ARP and neighbour
        discovery: those need both directions. Of no use while the link is down; up() says it again."""
        if "UP" not in self.ip(host, "link", "show", "dev", self.interface(rail)).split(">")[0].split("<")[1].split(","):
            return
        link = NOWHERE if (rail, host) in self.dead else self.hardware(1 - host, rail)
        for version in (4, 6):
            self.ip(host, "neighbour", "replace", self.address(1 - host, rail, version), "lladdr", link, "dev",
                    self.interface(rail), "nud", "permanent")

    def unreachable(self, rail, host):
        """As blackhole, but told: a blackhole route, so that sending fails at once on this host."""
        for version, length in ((4, 32), (6, 128)):
            self.ip(host, f"-{version}", "route", "replace", "blackhole",
                    f"{self.address(1 - host, rail, version)}/{length}", "metric", "1")

    def heal(self, rail, host):
        """Ends blackhole and unreachable; nothing where there is neither."""
        self.dead.discard((rail, host))
        self._introduce(rail, host)
        for version, length in ((4, 32), (6, 128)):
            self.run(host, ["ip", f"-{version}", "route", "del", "blackhole",
                            f"{self.address(1 - host, rail, version)}/{length}"], stderr=subprocess.DEVNULL)

    def flap(self, rail, times, seconds_down, seconds_up, host=0):
        for _ in range(times):
            self.down(rail, host)
            time.sleep(seconds_down)
            self.up(rail, host)
            time.sleep(seconds_up)

    def outage(self, seconds, host=0):
        """All rails down for so long."""
        for rail in range(self.rails):
            self.down(rail, host)
        time.sleep(seconds)
        for rail in range(self.rails):
            self.up(rail, host)

    def restore(self):
        """Every rail up and hearing in both directions."""
        for rail in range(self.rails):
            for host in (0, 1):
                self.heal(rail, host)
                self.up(rail, host)

    # ---- the end ----

    def processes(self):
        """Ids of what runs in the two namespaces, holders left out."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in (holder.pid for holder in self.holder):
                try:
                    if os.stat(f"/proc/{name}/ns/net").st_ino in self.space:
                        found.append(int(name))
                except OSError:
                    pass  # ended meanwhile, or not ours
        return found

    def close(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second one must not leave half of it
        for process in self.started:  # one that has not entered its namespace yet is not found there
            if process.poll() is None:
                process.kill()
                process.wait()
        until = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < until:
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
        for holder in self.holder:
            holder.kill()
            holder.wait()
            holder.stdout.close()
            holder.stderr.close()
        self.holder, self.space = [], []
        for number, handler in self.before.items():
            signal.signal(number, handler)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def permitted():
    """None, or why there can be no laboratory here."""
    if sys.platform != "linux":
        return "no Linux"
    try:
        with Lab(rails=1, mbit=100) as lab:
            lab.blackhole(0, 0)
            lab.heal(0, 0)
    except (Forbidden, FileNotFoundError) as error:
        return str(error)
    return None
