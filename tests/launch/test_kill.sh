#!/bin/bash
# A real MPI program under the launcher: whatever is killed, neither Open MPI's segments in /dev/shm nor its session
# in /tmp outlive the run. Usage: test_kill.sh BUILD_DIR SOURCE_DIR
set -u
drive=$1/tests/test_launch_run
for need in mpicc mpirun; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed"; exit 77; }
done
[ -x "$drive" ] || { echo "skipped: $drive is not built"; exit 77; }
work=$(mktemp -d /tmp/slackline-kill-test.XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

cat >"$work/ranks.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("up %d %d %d\n", rank, sum, (int)getpid());
    fflush(stdout);
    sleep(argc > 1 ? 600 : 0);
    MPI_Finalize();
    return 0;
}
C
mpicc -o "$work/ranks" "$work/ranks.c" || { echo "skipped: mpicc cannot compile"; exit 77; }

leftovers() { # of Open MPI and of us, made since the test began
    find /dev/shm /tmp -mindepth 1 -maxdepth 1 -newer "$work/ranks" \
        \( -name 'vader_segment.*' -o -name 'ompi.*' -o -name 'openmpi-sessions*' -o -name 'pmix*' \) -user "$(id -un)"
}
processes() { pgrep -f "^$work/ranks" | tr '\n' ' '; }

# case NAME: starts a run of 4 ranks and leaves $supervisor $reaper $mpirun $rank2 $temporary set
start() {
    echo "-- $1"
    : >"$work/out"
    : >"$work/error"
    "$drive" drive "$work/run" 4 0 "$work/ranks" sleep >"$work/out" 2>"$work/error" &
    supervisor=$!
    for _ in $(seq 300); do
        [ "$(grep -c '^up ' "$work/out")" = 4 ] && break
        sleep 0.05
    done
    [ "$(grep -c '^up . 6 ' "$work/out")" = 4 ] || fail "$1: the ranks did not come up: $(cat "$work/error")"
    rank2=$(awk '$1 == "up" && $2 == 2 { print $4 }' "$work/out")
    mpirun=$(awk '$1 == "PPid:" { print $2 }' "/proc/$rank2/status")
    reaper=$(awk '$1 == "PPid:" { print $2 }' "/proc/$mpirun/status")
    temporary=$(tr '\0' '\n' <"/proc/$rank2/environ" | sed -n 's/^SLACKLINE_RUN=//p')
    [ -d "$temporary" ] || fail "$1: no temporary part"
    ls "$temporary" | grep -q vader_segment || fail "$1: Open MPI's segments are elsewhere"
}
# finish NAME EXIT_CODE: within 10 s the supervisor has ended, and nothing is left
finish() {
    local code=
    for _ in $(seq 200); do
        kill -0 "$supervisor" 2>/dev/null || break
        sleep 0.05
    done
    kill -0 "$supervisor" 2>/dev/null && fail "$1: the supervisor is still there after 10 s"
    wait "$supervisor" 2>/dev/null
    code=$?
    [ "$code" = "$2" ] || fail "$1: exit code $code, not $2"
    for _ in $(seq 200); do
        [ -z "$(processes)" ] && [ ! -e "$temporary" ] && break
        sleep 0.05
    done
    [ -z "$(processes)" ] || fail "$1: processes are left: $(processes)"
    [ ! -e "$temporary" ] || fail "$1: $temporary is left"
    [ -z "$(leftovers)" ] || fail "$1: files are left: $(leftovers)"
}
line() { # the one line of standard error
    [ "$(cat "$work/error")" = "$2" ] || fail "$1: said '$(cat "$work/error")', not '$2'"
}

start "a rank is killed"
kill -KILL "$rank2"
finish "a rank is killed" 1
line "a rank is killed" "slackline: rank 2 was killed by signal 9 (SIGKILL)"

start "mpirun is killed"
kill -KILL "$mpirun"
finish "mpirun is killed" 1
line "mpirun is killed" "slackline: mpirun (pid $mpirun) was killed by signal 9 (SIGKILL)"

start "the reaper is killed"
kill -KILL "$reaper"
finish "the reaper is killed" 1
line "the reaper is killed" "slackline: the reaper (pid $reaper) was killed by signal 9 (SIGKILL)"

start "the supervisor is killed"
kill -KILL "$supervisor"
finish "the supervisor is killed" 137

start "all of them are interrupted"
kill -INT "$supervisor"
finish "all of them are interrupted" 1
line "all of them are interrupted" "slackline: interrupted"

start "supervisor and reaper are killed, and another run starts"
kill -STOP "$reaper"
kill -KILL "$supervisor"
kill -KILL "$reaper"
wait "$supervisor" 2>/dev/null
for _ in $(seq 100); do # a process holds its lock until the kernel has taken it apart, a moment after the signal
    state=$(sed 's/.*) //' "/proc/$reaper/stat" 2>/dev/null) || break
    case $state in Z* | X* | "") break ;; esac
    sleep 0.05
done
"$drive" drive "$work/next" 1 0 "$work/ranks" >/dev/null 2>"$work/error" || fail "the next run: $(cat "$work/error")"
[ ! -e "$temporary" ] || fail "the next start has not cleared $temporary"
[ -z "$(processes)" ] || fail "the next start has left processes: $(processes)"
[ -z "$(leftovers)" ] || fail "the next start has left files: $(leftovers)"

[ $failures = 0 ] && echo "all as promised"
exit $((failures > 0))
