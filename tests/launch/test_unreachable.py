"""A host that ssh cannot reach ends a run with one line that names it. ssh is a script that says what OpenSSH says."""
import os
import subprocess
import tempfile

from runner import build, expect, require

require("slackline", "slackline-worker", "mpirun")
slackline = os.path.join(build, "slackline")
RUN = """model: {kind: gpt2, layers: 2, width: 8, heads: 2, context: 8}
data: {files: ["/usr/share/common-licenses/*"], seed: 1}
parallel: {pipeline: 2}
batch: {microbatches: 4, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 1.0}
iterations: 2
schedule: 1f1b
adapt: false
device: {kind: cpu}
"""
SAYS = "ssh: Could not resolve hostname nohost1: Name or service not known"


def test_a_host_that_ssh_cannot_reach_is_named():
    with tempfile.TemporaryDirectory(prefix="slackline-unreachable.") as folder:
        run, agent, out = (os.path.join(folder, name) for name in ("run.yaml", "agent", "out"))
        with open(run, "w") as file:
            file.write(RUN)
        with open(agent, "w") as file:
            file.write(f"#!/bin/sh\nprintf '{SAYS}\\r\\n' >&2\nexit 255\n")
        os.chmod(agent, 0o755)
        for sets, last in (((), "slackline: cannot reach nohost1: Name or service not known"),
                           (("--set", "checkpoint.every=1"), f"slackline: 2 ranks need as many slots, but 0 are left: these hosts failed their test: nohost1 ({SAYS})")):
            done = subprocess.run([slackline, "train", run, "-o", out, "--hosts", "nohost1:2", *sets], capture_output=True, text=True, timeout=100,
                                  env={**os.environ, "OMPI_MCA_plm_rsh_agent": agent}, check=False)
            lines = done.stderr.replace("\r", "").strip().split("\n")
            expect(done.returncode == 1 and lines[0] == SAYS and lines[-1] == last and "ORTE" not in done.stderr,
                   f"{sets}: exit {done.returncode}: {done.stderr!r}; the last line should be {last!r}")
