"""Any number of hosts on one machine, each with one interface on a common switch, for tests of programs on several nodes.
Single links, one direction each, are made slow: what one host sends to another passes a token bucket of its own.

    with Star(hosts=4) as star:
        words = star.mpirun(folder, 1, ["prog"])     # one rank a host
        star.slow(1, 2, mbit=50)                     # what host 1 sends to host 2, and nothing else
        star.restore(1)

As in lab.py, hosts live as long as this process does and nothing has a name outside."""
import os
import re
import signal
import subprocess

from lab import Forbidden, Lab, _call, _die_with_parent

PORT = "eth0"


class Star(Lab):
    def __init__(self, hosts=4, mbit=None):
        """`mbit`: rate of every host's port in both directions; None: as fast as the machine."""
        super().__init__(rails=0, mbit=mbit)
        self.hosts = hosts
        self.host_name = [f"star{os.getpid()}-{host}" for host in range(hosts)] + [f"star{os.getpid()}-switch"]
        self.slowed = {host: {} for host in range(hosts)}

    def __enter__(self):
        self.before = {number: signal.signal(number, self._ended) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            for host in range(self.hosts + 1):
                self._hold(host)
            switch = self.hosts
            self.ip(switch, "link", "add", "bridge", "type", "bridge")
            self.ip(switch, "link", "set", "bridge", "up")
            for host in range(self.hosts):
                _call(["ip", "link", "add", PORT, "netns", str(self.holder[host].pid), "type", "veth", "peer", "name",
                       f"port{host}", "netns", str(self.holder[switch].pid)], "a pair of interfaces")
                self.ip(switch, "link", "set", f"port{host}", "master", "bridge", "up")
                self.ip(host, "link", "set", PORT, "up")
                self.ip(host, "address", "add", f"{self.address(host)}/24", "dev", PORT)
                self._shape(host)
        except BaseException:
            self.close()
            raise
        return self

    @staticmethod
    def _ended(number, _frame):
        raise SystemExit(128 + number)

    def address(self, host, rail=0, version=4):
        return f"10.79.0.{host + 1}"

    # ---- trouble ----

    def slow(self, host, to, mbit):
        """What `host` sends to `to` from now on goes at `mbit` megabit/s. What it sends to others, and what comes, does not."""
        self.slowed[host][to] = mbit
        self._shape(host)

    def restore(self, host=None):
        """The links that leave `host` (None: all hosts) are as at first."""
        for one in range(self.hosts) if host is None else [host]:
            self.slowed[one] = {}
            self._shape(one)

    def slow_bytes(self, host, to):
        """What has gone over a slow link since slow()."""
        shown = _call([*self.inside(host), "tc", "-s", "class", "show", "dev", PORT], "a rate (tc, htb)")
        return int(re.search(rf"class htb 1:{to + 16:x} .*?Sent (\d+) bytes", shown, re.DOTALL)[1])

    def _shape(self, host):
        """A class of htb for everything, and one for each slow direction, chosen by the destination's address."""
        tc = [*self.inside(host), "tc"]
        subprocess.run([*tc, "qdisc", "del", "dev", PORT, "root"], stderr=subprocess.DEVNULL, check=False)
        if not self.mbit and not self.slowed[host]:
            return
        what = "a rate (tc, htb)"
        _call([*tc, "qdisc", "add", "dev", PORT, "root", "handle", "1:", "htb", "default", "1"], what)
        _call([*tc, "class", "add", "dev", PORT, "parent", "1:", "classid", "1:1", "htb", "rate", f"{self.mbit or 40000}mbit",
               "quantum", "60000"], what)
        for to, mbit in self.slowed[host].items():
            number = f"1:{to + 16:x}"
            _call([*tc, "class", "add", "dev", PORT, "parent", "1:", "classid", number, "htb", "rate", f"{mbit}mbit", "burst",
                   str(max(4096, int(mbit * 1e6 / 8 * 0.002))), "quantum", "1514"], what)
            _call([*tc, "filter", "add", "dev", PORT, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
                   f"{self.address(to)}/32", "flowid", number], what)

    # ---- running things ----

    def mpirun(self, folder, ranks, arguments, options=()):
        """The command that starts `ranks` processes of `arguments` on every host, in the order of hosts."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        pmix = [f"PMIX_MCA_ptl_base_{key}={value}" for key, value in (("if_include", PORT), ("remote_connections", 1))]
        words = [*self.inside(0), "env", *pmix, "mpirun", *root, "--oversubscribe", "--bind-to", "none"]
        for key, value in [("mpi_yield_when_idle", 1), ("plm", "isolated"), ("ras", "^slurm,tm"), ("pml", "ob1"),
                           ("btl", "self,tcp"), ("btl_tcp_if_include", PORT), ("oob_tcp_if_include", PORT),
                           ("orte_tmpdir_base", folder), ("btl_vader_backing_directory", folder)]:
            words += ["--mca", key, str(value)]
        words += options
        for host in range(self.hosts):
            words += ([":"] if host else []) + ["-n", str(ranks), *(self.inside(host) if host else []), *arguments]
        return words


def permitted():
    """None, or why there can be no such hosts here."""
    try:
        with Star(hosts=2) as star:
            star.slow(0, 1, 10)
    except (Forbidden, FileNotFoundError) as error:
        return str(error)
    return None
