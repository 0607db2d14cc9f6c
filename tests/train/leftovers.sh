# Sourced by tests that start runs which do not go well: skips where there is no trainer, sets $slackline, $run (a run file)
# and $work (a folder, removed at the end), counts $failures, and knows what runs below $work have left behind.
slackline=$1/slackline
run=$2/examples/slow-link.yaml
[ -x "$1/slackline-worker" ] || { echo "skipped: the trainer is not built (MPI, oneDNN or xxHash is missing)"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed"; exit 77; }
work=$(mktemp -d /tmp/slackline-errors-test.XXXXXX)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
own() { pgrep -f "$work/" | grep -vx $$ | tr '\n' ' '; } # every process of a run has its folder among its arguments
shared() { # temporary parts of runs whose owner names our folder
    grep -ls "^run: $work/" /dev/shm/slackline-*/owner 2>/dev/null
    find /dev/shm /tmp -mindepth 1 -maxdepth 1 -newer "$work/begin" -user "$(id -un)" \
        \( -name 'vader_segment.*' -o -name 'ompi.*' -o -name 'openmpi-sessions*' -o -name 'pmix*' \)
}
touch "$work/begin"
