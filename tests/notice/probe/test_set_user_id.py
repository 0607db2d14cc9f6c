"""A set-user-id program that links the probe records nothing where its caller's environment says: it would write with its owner's rights.
The same program without that bit records there."""
import os
import shutil
import subprocess

from runner import build, require, skip

require("libslackline_probe.so")
PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
int sl_reported_world(int32_t, int32_t), sl_reported_call(const char *), sl_reported_group(const char *, const int32_t *, int32_t);
int sl_reported_begin(int32_t, int32_t, int32_t, int32_t, uint64_t);
void *sl_reported_end(int);
int main(void) {
    int32_t ranks[] = {0, 1};
    sl_reported_world(0, 2);
    if (sl_reported_begin(sl_reported_call("glooAllreduce"), sl_reported_group("0", ranks, 2), -1, -1, 8))
        sl_reported_end(1);
    printf("%lu\n", getauxval(AT_SECURE));
    return 0;
}
"""
NOBODY = 65534


def made(folder, bit):
    """The files that the program makes in the folder that its environment names, run by somebody else; and whether the kernel calls it secure."""
    rings = os.path.join(folder, f"rings{bit:o}")
    os.mkdir(rings, 0o700)
    os.chown(rings, NOBODY, NOBODY)
    program = os.path.join(folder, "program")
    os.chmod(program, bit | 0o755)
    done = subprocess.run([program], capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[], env={"SLACKLINE_PROBE": rings, "SLACKLINE_PROBE_TIMING": "on"})
    assert done.returncode == 0, done
    return os.listdir(rings), done.stdout.strip() == "1"


def test_the_folder_of_a_set_user_id_program_is_not_its_callers(folder):
    """With the bit nothing is written to the caller's folder, without it a ring is."""
    if os.getuid() != 0:
        skip("only root makes a program of another user")
    os.chmod(os.path.dirname(folder), 0o755)
    os.chmod(folder, 0o755)
    shutil.copy(os.path.join(build, "libslackline_probe.so"), folder)
    with open(os.path.join(folder, "program.c"), "w") as file:
        file.write(PROGRAM)
    subprocess.run(["cc", "-o", os.path.join(folder, "program"), os.path.join(folder, "program.c"), f"-L{folder}", "-lslackline_probe", f"-Wl,-rpath,{folder}"], check=True)
    files, secure = made(folder, 0)
    assert not secure and any(name.endswith(".ring") for name in files), files
    files, secure = made(folder, 0o4000)
    if not secure:
        skip("this file system gives no set-user-id bit")
    assert files == [], files
