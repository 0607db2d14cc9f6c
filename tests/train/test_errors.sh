#!/bin/bash
# What a user meets when a training run cannot start: one clear line, the exit code of docs/design.md, no folder and no
# temporary file. Usage: test_errors.sh BUILD_DIR SOURCE_DIR
set -u
. "$(dirname "$0")/leftovers.sh"

# refused NAME CODE WORDS ARGUMENTS...: one line with WORDS (a regular expression), nothing on standard output
refused() {
    local name=$1 code=$2 words=$3 got
    shift 3
    "$slackline" train "$@" --out "$work/refused" >"$work/out" 2>"$work/error"
    got=$?
    [ $got = "$code" ] || fail "$name: exit code $got, not $code"
    [ "$(wc -l <"$work/error")" = 1 ] || fail "$name: not one line: $(cat "$work/error")"
    grep -qE "$words" "$work/error" || fail "$name: '$(cat "$work/error")' does not say '$words'"
    [ ! -s "$work/out" ] || fail "$name: wrote to standard output: $(cat "$work/out")"
    [ "$code" = 1 ] || [ ! -e "$work/refused" ] || fail "$name: made a folder"
    [ -z "$(shared)" ] || fail "$name: left $(shared)"
    rm -rf "$work/refused"
}
refused "missing file" 2 "/nowhere/run.yaml" /nowhere/run.yaml
refused "unreadable file" 2 "$work: " "$work"
refused "unknown key" 2 "slow-link.yaml.*speed" "$run" --set speed=3
refused "more stages than layers" 2 "slow-link.yaml:[0-9]+: 'pipeline'.* 4 .* 2 " "$run" --set model.layers=2
refused "no microbatches" 2 "'microbatches'.* 0" "$run" --set batch.microbatches=0
refused "no checkpoint to keep" 2 "'keep'.* 0" "$run" --set 'checkpoint={every: 20, keep: 0}'
refused "weights that do not exist" 2 "'model.weights'.*/nowhere" "$run" --set model.weights=/nowhere
refused "unknown schedule" 2 "'schedule'.*sideways" "$run" --set schedule=sideways
printf '%s\n' 0RECV_B0,0F0,0SEND_F0,0B0 1RECV_F0,1F0,1B0,1SEND_B0 >"$work/stops.csv" # rank 0 receives before it sends
refused "an order of messages that can stop" 2 "stops.csv:1: column 1: deadlock in regime fifo: 0RECV_B0 of rank 0" "$run" \
    --set schedule="$work/stops.csv" --set parallel.pipeline=2 --set batch.microbatches=1 --set communication=fifo --set faults=[]
refused "memory that no schedule meets" 1 "memory_mb" "$run" --set device.memory_mb=0.001
refused "data that does not exist" 2 "/nowhere/text" "$run" --set 'data.files=["/nowhere/text"]'
refused "a rail without an interface" 2 "'network.rails'.*'nosuch0'" "$run" --set 'network.rails=["nosuch0"]'
refused "a rail without an interface, delegated" 2 "'network.rails'.*'nosuch0'" "$run" \
    --set 'network.rails=["lo", "nosuch0"]' --set transport=delegated
refused "a rail of another host" 2 "'network.rails'.*'192.0.2.7'" "$run" --set 'network.rails=["192.0.2.7"]'

# Without the program beside it, a run that needs delegates says so before it starts; others do not miss it.
mkdir "$work/bin"
cp "$slackline" "$1/slackline-worker" "$work/bin"
for transport in delegated auto direct; do
    "$work/bin/slackline" train "$run" --out "$work/lone" --set faults=[] --set iterations=1 --set transport=$transport \
        >"$work/out" 2>"$work/error"
    code=$?
    [ $code = $([ $transport = direct ]; echo $?) ] || fail "$transport without slackline-delegate: exit code $code"
    [ $transport = direct ] || grep -qx "slackline: slackline-delegate is not in $work/bin: .*" "$work/error" ||
        fail "$transport without slackline-delegate: $(cat "$work/error")"
    [ $transport = direct ] || [ ! -e "$work/lone" ] || fail "$transport without slackline-delegate: made a folder"
done
"$work/bin/slackline" train "$run" --out "$work/alone" --set faults=[] --set iterations=1 --set parallel.pipeline=1 \
    --set transport=delegated >"$work/out" 2>"$work/error" || fail "one rank, delegated: $(cat "$work/error")"
touch "$work/file"
"$slackline" train "$run" --out "$work/file/run" >"$work/out" 2>"$work/error"
[ $? = 1 ] || fail "an impossible folder: exit code is not 1"
[ "$(wc -l <"$work/error")" = 1 ] && grep -q "$work/file" "$work/error" || fail "an impossible folder: $(cat "$work/error")"

[ $failures = 0 ] && echo "all as promised"
exit $((failures > 0))
