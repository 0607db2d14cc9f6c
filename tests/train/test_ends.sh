#!/bin/bash
# labels: long
# What a user meets when a training run breaks or is interrupted, also when those who watch it die: one clear line, the exit
# code of docs/design.md, and within 10 s no process, no temporary file and no half-written file. `test_kill.py` kills
# every kind of process of a run with delegates. Usage: test_ends.sh BUILD_DIR SOURCE_DIR
set -u
. "$(dirname "$0")/leftovers.sh"

start() { # NAME: a long run whose first iterations are done; sets $pid $out $reaper $mpirun $rank2
    out=$work/$(echo "$1" | tr ' ' -)
    "$slackline" train "$run" --out "$out" --set iterations=5000 --set faults=[] >"$work/out" 2>"$work/error" &
    pid=$!
    for _ in $(seq 600); do
        [ "$(cat "$out/metrics.jsonl" 2>/dev/null | wc -l)" -ge 2 ] && break
        sleep 0.05
    done
    [ -s "$out/metrics.jsonl" ] || fail "$1: the run does not come up: $(cat "$work/error")"
    reaper=$(pgrep -P $pid)
    mpirun=$(pgrep -P "$reaper" mpirun)
    rank2=$(for p in $(pgrep -P "$mpirun"); do tr '\0' '\n' <"/proc/$p/environ" | grep -qx OMPI_COMM_WORLD_RANK=2 && echo "$p"; done)
    temporary=$(tr '\0' '\n' <"/proc/$rank2/environ" | sed -n 's/^SLACKLINE_RUN=//p')
    [ -d "$temporary" ] || fail "$1: the run has no temporary part"
}

whole_files() { # NAME: every file is complete, and none is a rest of an atomic write
    python3 - "$out" <<'P' || fail "$1: half-written files"
import json, os, re, sys
bad = []
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        text = open(path, errors="replace").read()
        if re.search(r"\.(json|jsonl|yaml|svg|html)\.[A-Za-z0-9]{6}$", name):
            bad.append(f"{path}: a rest of a write")
        try:
            if name.endswith(".jsonl"):
                assert text.endswith("\n"), "no end of line"
                for line in text.splitlines():
                    json.loads(line)
            elif name.endswith(".json"):
                json.loads(text)
            elif name.endswith(".svg"):
                assert text.rstrip().endswith("</svg>"), "no end of the picture"
        except (ValueError, AssertionError) as error:
            bad.append(f"{path}: {error}")
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
P
}

ended() { # NAME CODE PATTERN of its line: within 10 s all is over; LINE "" when nobody was left to speak
    local code
    for _ in $(seq 200); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill -0 $pid 2>/dev/null && fail "$1: still there after 10 s"
    wait $pid 2>/dev/null
    code=$?
    for _ in $(seq 200); do
        [ -z "$(own)" ] && [ ! -e "$temporary" ] && break
        sleep 0.05
    done
    [ $code = "$2" ] || fail "$1: exit code $code, not $2"
    [[ "$(cat "$work/error")" == $3 ]] || fail "$1: said '$(cat "$work/error")', not '$3'"
    [ -z "$(own)" ] || fail "$1: processes are left: $(own)"
    [ ! -e "$temporary" ] || fail "$1: $temporary is left"
    [ -z "$(shared)" ] || fail "$1: left $(shared)"
    whole_files "$1"
    echo "-- $1: done"
}

start "a rank is killed"
kill -KILL "$rank2"
ended "a rank is killed" 1 "slackline: rank 2 (pid $rank2) was killed by signal 9 (SIGKILL)"
start "mpirun is killed"
kill -KILL "$mpirun"
ended "mpirun is killed" 1 "slackline: mpirun (pid $mpirun) was killed by signal 9 (SIGKILL)"
start "the reaper is killed"
kill -KILL "$reaper"
ended "the reaper is killed" 1 "slackline: the reaper (pid $reaper) was killed by signal 9 (SIGKILL)"
start "the supervisor is killed"
kill -KILL $pid
ended "the supervisor is killed" 137 ""
start "it is interrupted"
kill -INT $pid
ended "it is interrupted" 1 'slackline: interrupted after iteration *; `slackline report *` shows the run'

# A stopped rank is not dead, and the others wait for it; an interrupt must still end all of them.
start "an interrupt while a rank is stopped"
kill -STOP "$rank2"
sleep 0.3
kill -TERM $pid
ended "an interrupt while a rank is stopped" 1 'slackline: interrupted after iteration *; `slackline report *` shows the run'

# Both watchers at once: the next start clears what they left.
start "both watchers are killed"
kill -STOP "$reaper"
kill -KILL $pid
kill -KILL "$reaper"
wait $pid 2>/dev/null
for _ in $(seq 400); do # the ranks end by themselves; while they live, the folder is theirs
    [ -z "$(own)" ] && break
    sleep 0.05
done
"$slackline" train "$run" --out "$work/next" --set iterations=1 --set faults=[] >"$work/out" 2>"$work/error" ||
    fail "the next run: $(cat "$work/error")"
[ ! -e "$temporary" ] || fail "the next start has not cleared $temporary"
[ -z "$(own)" ] || fail "the next start has left processes: $(own)"
[ -z "$(shared)" ] || fail "the next start has left files: $(shared)"

# The run file can kill a rank, too.
"$slackline" train "$run" --out "$work/fault" --set iterations=20 --set 'faults=[{iteration: 2, kill: 3}]' \
    >"$work/out" 2>"$work/error"
[ $? = 1 ] || fail "a rank killed by the run file: exit code is not 1"
grep -qxE 'slackline: rank 3 \(pid [0-9]+\) was killed by signal 9 \(SIGKILL\)' "$work/error" ||
    fail "a rank killed by the run file: $(cat "$work/error")"

# Started by mpirun from outside, it is the same run.
root=()
[ "$(id -u)" = 0 ] && root=(--allow-run-as-root)
"$slackline" train "$run" --out "$work/own" --set iterations=2 --set faults=[] >/dev/null 2>&1
mpirun "${root[@]}" -n 4 --oversubscribe --bind-to none "$slackline" train "$run" --out "$work/outside" \
    --set iterations=2 --set faults=[] >"$work/out" 2>"$work/error" || fail "under mpirun: $(cat "$work/error")"
hash() { sed -nE 's/.*"weights_hash": *"([0-9a-f]+)".*/\1/p' "$1/summary.json"; }
[ -n "$(hash "$work/own")" ] && [ "$(hash "$work/own")" = "$(hash "$work/outside")" ] ||
    fail "under mpirun: weights_hash '$(hash "$work/outside")', not '$(hash "$work/own")'"
for directory in /dev/shm/slackline-"$(id -u)"-job-*; do # one that is locked belongs to somebody else's living run
    [ ! -e "$directory/owner" ] || ! flock -xn "$directory/owner" true || fail "under mpirun: $directory is left"
done

[ $failures = 0 ] && echo "all as promised"
exit $((failures > 0))
