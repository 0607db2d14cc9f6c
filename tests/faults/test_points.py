"""Every call by which a program of slackline touches files, processes, memory maps, sockets, Redis or MPI is a point of faults.c, or is
listed here with the reason why not."""
import glob
import os
import re
import shutil
import subprocess

import faults
from runner import build, expect, skip

MATTERS = re.compile(r"^(open(at|dir|64)?|creat|fopen(64)?|fdopen|freopen|p?readv?(64)?|p?writev?(64)?|f(data)?sync|rename(at2?)?|link|symlink|unlink|"
                     r"(posix_)?fallocate(64)?|f?truncate(64)?|mkdir|mkdtemp|mkstemp|memfd_create|shm_open|mmap(64)?|mremap|v?fork|posix_spawnp?|exec\w+|"
                     r"pthread_create|pipe2?|dup[23]?|eventfd|signalfd|timerfd_create|inotify\w+|epoll_create1?|epoll_p?wait|p?poll|select|socket(pair)?|bind|"
                     r"listen|connect|accept4?|send(msg|to|file)?|recv(msg|from)?|clock_gettime|redis(Connect|Buffer)\w+|MPI_(Init|Comm_split|I)\w*)$")
REASONS = {
    "unlink": "a file that stays is found by the tests of leftovers",
    "symlink": "of a report's folder; its failure is ignored on purpose",
    "opendir": "uses open of the C library, which the caller does not call",
    "fdopen": "allocates only",
    "dup": "of standard streams, before anything else happens",
    "dup2": "of standard streams, before anything else happens",
    "listen": "cannot fail on a socket that is bound",
    "execv": "in a child; the tests of subprocess make it fail by missing programs",
    "execve": "in a child; the tests of subprocess make it fail by missing programs",
    "execvpe": "in a child; the tests of subprocess make it fail by missing programs",
    "mkdtemp": "the same as mkdir",
    "MPI_Init": "of other programs' libraries", "MPI_Initialized": "answers a question",
    "MPI_Ibarrier": "as MPI_Iallgather", "MPI_Ibcast": "as MPI_Iallgather", "MPI_Iallgatherv": "as MPI_Iallgather", "MPI_Igatherv": "as MPI_Iallgather",
}


def called():
    """Functions that objects of ours call, not those of libraries that are linked into the programs."""
    objects = glob.glob(os.path.join(build, "libsl_*.a")) + glob.glob(os.path.join(build, "CMakeFiles", "slackline*.dir", "**", "*.o"), recursive=True)
    if not shutil.which("nm"):
        skip("nm is not installed")
    done = subprocess.run(["nm", "--undefined-only", *objects], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines() if line.startswith(" ")}


def test_no_call_lacks_a_point():
    used = {name for name in called() if MATTERS.match(name)}
    expect(len(used) > 50, f"only {len(used)} calls were found")
    points = set(faults.FUNCTIONS)
    missing = sorted(name for name in used - points - set(REASONS) if name.removesuffix("64") not in {point.removesuffix("64") for point in points})
    expect(not missing, f"faults.c has no points for {missing}: add them, or a reason to REASONS")
    unneeded = sorted(set(REASONS) & points)
    expect(not unneeded, f"REASONS has {unneeded}, which have points")
    print(f"{len(used)} calls, {len(points)} points")
