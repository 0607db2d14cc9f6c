# labels: slow
"""A build with the sources of hiredis 1.0 or newer speaks rediss://: to the server whose certificate it trusts, and to no other."""
import glob
import os
import subprocess
import sys
import tarfile

from certificates import self_signed
from runner import expect, folder, require, skip, source
from test_tls import PASSWORD, given, watched, works  # noqa: F401

require("cmake", "ninja")


def test_a_build_with_hiredis_from_its_sources(port, own, folder):
    """The sources come with the Python package hiredis."""
    if subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder, "hiredis==3.5.0"], capture_output=True).returncode:
        skip("pip reaches no package index with hiredis")
    with tarfile.open(glob.glob(os.path.join(folder, "hiredis-*.tar.gz"))[0]) as file:
        file.extractall(folder, filter="data")
    made = os.path.join(folder, "build")
    subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", made, f"-DSL_HIREDIS={glob.glob(os.path.join(folder, 'hiredis-*/vendor/hiredis'))[0]}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", made, "--target", "slackline", "slackline_probe", "slackline-solver"], check=True, capture_output=True)
    own_command = {"command": os.path.join(made, "slackline")}
    url = f"rediss://:{PASSWORD}@localhost:{port}"
    works(watched(url, os.path.join(folder, "one"), {**own_command, "env": {"SSL_CERT_FILE": own + ".crt"}}), port, own)
    other = self_signed(os.path.join(folder, "other"))
    watch = watched(url, os.path.join(folder, "two"), {**own_command, "env": {"SSL_CERT_FILE": other + ".crt"}})
    said = watch.communicate("\n", 60)[1]
    expect(watch.returncode != 0 and "certificate" in said.lower(), f"another certificate: exit {watch.returncode}, {said}")
