"""Every call by which a program of slackline touches files, processes, memory maps, sockets, Redis or MPI is a point of faults.c, or is
listed here with the reason why not."""
import os
import re
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


def imported(path):
    done = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True)
    if done.returncode:
        skip("nm is not installed")
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}


def test_no_call_lacks_a_point():
    programs = [os.path.join(build, name) for name in ("slackline", "slackline-worker", "slackline-delegate")]
    used = {name for path in programs if os.path.exists(path) for name in imported(path) if MATTERS.match(name)}
    points = {function for function in faults.FUNCTIONS}
    missing = sorted(name for name in used - points - set(REASONS) if name.removesuffix("64") not in {point.removesuffix("64") for point in points})
    expect(not missing, f"faults.c has no points for {missing}: add them, or a reason to REASONS")
    unneeded = sorted(set(REASONS) & points)
    expect(not unneeded, f"REASONS has {unneeded}, which have points")
    print(f"{len(used)} calls, {len(points)} points")
