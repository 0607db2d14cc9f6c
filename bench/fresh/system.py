"""A fresh Debian in its own folder, made by debootstrap from the sources of this system's apt. Commands run in it as root, with
separate mounts and process ids, which end with the command. Addresses and this machine's names are removed from output for a
page. Needs root."""
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import time

CERTIFICATES = "/etc/pip-certificates.pem"
INSIDE = r"""
set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root" # a mount point, as the root of a machine or container is one
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done
shift
cd "$root"
pivot_root . mnt
exec chroot . bash -c 'cd / && umount -l /mnt && exec "$@"' - "$@"
"""


def missing():
    """The reason why no system can be made here; None: one can."""
    if os.geteuid() != 0:
        return "root is needed (debootstrap, chroot)"
    for tool in ("debootstrap", "unshare", "chroot", "git"):
        if not shutil.which(tool):
            return f"{tool} is missing"
    return None


def mirror(suite):
    """The source of this system's apt for `suite`, or Debian's own if none is configured."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
                          capture_output=True, text=True).stdout
    found = [line.split()[2] for line in said.splitlines() if line.split()[:2] == [suite, "main"]]
    return found[0] if found else "http://deb.debian.org/debian"


def clean(line, *places):
    """The line without addresses, without the names of this machine, and without the folders `places`."""
    line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rsplit("\r", 1)[-1])
    line = re.sub(r"\b(https?|ftp|file)://[^\s\"'>)]+", "(server)", line)
    line = re.sub(r"\b\d{1,3}(\.\d{1,3}){3}\b", lambda m: m.group() if m.group().startswith("127.") or m.group() == "0.0.0.0" else "(address)", line)
    for place in places:
        line = line.replace(place, "")
    name = platform.node()
    return re.sub(rf"\b{re.escape(name)}\b", "host", line) if len(name) > 2 else line


class System:
    def __init__(self, folder, suite="bookworm", server=None, packages=()):
        self.folder = os.path.realpath(folder)
        self.lent = [value for name, value in os.environ.items() if name == "PIP_FIND_LINKS" and os.path.isdir(value)]
        more = ["--include=" + ",".join(packages)] if packages else []
        done = subprocess.run(["debootstrap", "--variant=minbase", *more, suite, self.folder, server or mirror(suite)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SystemExit("debootstrap: " + clean("\n".join(done.stdout.splitlines()[-5:])))
        self._settings(server)

    def _settings(self, server):
        """Copies this system's settings for the network, apt and pip, as a user would set them."""
        for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
            if os.path.isfile(file):
                os.makedirs(os.path.dirname(self.folder + file), exist_ok=True)
                shutil.copyfile(file, self.folder + file)
        # pip's trusted certificates, in a separate file, because installing ca-certificates rewrites the system's
        if os.path.isfile(os.environ.get("PIP_CERT", "")):
            shutil.copyfile(os.environ["PIP_CERT"], self.folder + CERTIFICATES)
        if server: # keeps the list that debootstrap made
            return
        for file in glob.glob("/usr/share/keyrings/*") + glob.glob("/etc/apt/sources.list.d/*.sources") + glob.glob("/etc/apt/sources.list.d/*.list") + glob.glob("/etc/apt/apt.conf.d/99*") + ["/etc/apt/sources.list"]:
            if os.path.isfile(file):
                os.makedirs(os.path.dirname(self.folder + file), exist_ok=True)
                shutil.copyfile(file, self.folder + file)
        if not os.path.exists("/etc/apt/sources.list") and glob.glob("/etc/apt/sources.list.d/*"):
            os.truncate(os.path.join(self.folder, "etc/apt/sources.list"), 0)

    def run(self, command, cwd="/", show=True):
        """(exit code, [(seconds since the start, line)], seconds). All processes of the command end with it."""
        environment = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                       **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "no_proxy")}}
        if os.path.exists(self.folder + CERTIFICATES):
            environment["PIP_CERT"] = CERTIFICATES
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", INSIDE, "-", self.folder, *self.lent, "--",
                 "bash", "-c", f"cd {cwd} || exit 1\n{command}"]
        began = time.monotonic()
        lines = []
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment) as process:
            for line in process.stdout:
                lines.append((time.monotonic() - began, clean(line.rstrip("\n"), self.folder)))
                if show:
                    print(f"{lines[-1][0]:7.1f} s  {lines[-1][1]}", file=sys.stderr, flush=True)
        return process.returncode, lines, time.monotonic() - began

    def files(self):
        """Every file except those that apt and the kernel manage."""
        found = set()
        for top, folders, names in os.walk(self.folder):
            at = top[len(self.folder):]
            folders[:] = [name for name in folders if not re.match(r"/(proc|sys|dev|tmp|run|var/(cache|log|lib/(apt|dpkg|systemd)))$", f"{at}/{name}")]
            found.update(f"{at}/{name}" for name in names)
        return found

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
