"""Real sshd on the hosts of a Star (star.py), each with a host name, network and /dev/shm of its own, and the settings with which
Open MPI reaches them as a user's does: by ssh, with a key and without a prompt.

    with Star(hosts=3) as star, Ssh(folder, star) as ssh:
        star.run(0, [...], env={**os.environ, **ssh.environment})
        ssh.stop(2)                                  # host 2 refuses connections"""
import os
import shutil
import subprocess

from lab import skip
from star import PORT
from waiting import until

SERVER = """
Port 22
ListenAddress %(address)s
HostKey %(folder)s/key
AuthorizedKeysFile %(folder)s/key.pub
PidFile %(folder)s/sshd-%(host)d.pid
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
MaxStartups 100
"""
PRIVILEGES = "/run/sshd"  # an empty folder that sshd wants


class Ssh:
    def __init__(self, folder, star):
        self.folder, self.star, self.servers = folder, star, []
        for name in ("sshd", "ssh", "ssh-keygen"):
            if not (shutil.which(name) or os.path.exists(f"/usr/sbin/{name}")):
                skip(f"{name} is not installed (tools/install slurm)")
        os.makedirs(folder)
        os.makedirs(PRIVILEGES, exist_ok=True)
        key = os.path.join(folder, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        options = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5"
        self.environment = {"OMPI_MCA_plm_rsh_agent": f"ssh {options}", "OMPI_MCA_oob_tcp_if_include": PORT, "OMPI_MCA_btl_tcp_if_include": PORT,
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.options = options.split()

    def __enter__(self):
        for host in range(self.star.hosts):
            config = os.path.join(self.folder, f"sshd-{host}.conf")
            with open(config, "w") as out:
                out.write(SERVER % {"address": self.star.address(host), "folder": self.folder, "host": host})
            self.servers.append(self.star.start(host, ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs tmpfs /dev/shm; exec "$0" "$@"',
                                                       shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", config],
                                                stderr=open(os.path.join(self.folder, f"sshd-{host}.log"), "w")))
        for host in range(self.star.hosts):
            until(lambda: self.answers(host), 10)
            if not self.answers(host):
                skip(f"sshd does not come up here: {open(os.path.join(self.folder, f'sshd-{host}.log')).read()[-500:]}")
        return self

    def __exit__(self, *_):
        for host in range(len(self.servers)):
            self.stop(host)

    def answers(self, host):
        return self.star.run(0, ["ssh", *self.options, self.star.address(host), "true"], capture_output=True).returncode == 0

    def stop(self, host):
        """No more connections; those that are open stay."""
        self.servers[host].terminate()
        self.servers[host].wait()
