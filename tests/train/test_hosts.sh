#!/usr/bin/env bash
# labels: long
# The same weights whether slackline starts mpirun, mpirun started slackline, or the ranks sit on two hosts and talk over
# TCP (a second host name in its own UTS namespace), with nothing left behind.
set -eu
build=$1 source=$2
[ -x "$build/slackline-worker" ] || { echo "skipped: the trainer is not built (MPI or oneDNN is missing)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/run.yaml" <<YAML
model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}
data: {files: ["$source/docs/*.md", "$source/src/plan/*/*.c"], seed: 3}
parallel: {pipeline: 4}
batch: {microbatches: 6, size: 2}
optimizer: {kind: adamw, lr: 1e-3}
iterations: 6
schedule: adaptra
YAML
before=$(ls /dev/shm)
hash_of() { sed -n 's/^weights_hash //p' "$work/$1.log"; }
inside() { # NAME OPTION...: under a mpirun of our own
    local name=$1
    shift
    timeout 120 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca plm isolated \
        --mca orte_tmpdir_base "$work" --mca btl_vader_backing_directory "$work" "$@" >"$work/$name.log" 2>&1 ||
        { echo "FAILED: $name"; cat "$work/$name.log"; exit 1; }
}
train=("$build/slackline" train "$work/run.yaml" --out)

"${train[@]}" "$work/alone" >"$work/alone.log"
expected=$(hash_of alone)
[ ${#expected} = 16 ] || { echo "FAILED: no weights_hash"; exit 1; }
inside mpirun -n 4 "${train[@]}" "$work/mpirun"
[ "$(hash_of mpirun)" = "$expected" ] || { echo "FAILED: inside mpirun: $(hash_of mpirun), not $expected"; exit 1; }
echo "inside mpirun: the same weights"

# a rank whose kernels use another instruction set would change bits: refused, with both named
if timeout 120 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca plm isolated \
    --mca orte_tmpdir_base "$work" --mca btl_vader_backing_directory "$work" -n 3 "${train[@]}" "$work/mixed" : \
    -n 1 env DNNL_MAX_CPU_ISA=SSE41 "${train[@]}" "$work/mixed" >"$work/mixed.log" 2>&1; then
    echo "FAILED: mixed instruction sets were accepted"
    exit 1
fi
grep -q "rank 3 with sse4.1: results would not be bit-identical" "$work/mixed.log" || { echo "FAILED: mixed instruction sets:"; cat "$work/mixed.log"; exit 1; }
echo "mixed instruction sets: refused"

if ! unshare -u true 2>/dev/null; then
    echo "two hosts: not tried, UTS namespaces are not permitted"
else
    inside hosts --mca btl self,tcp -n 2 "${train[@]}" "$work/hosts" : \
        -n 2 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/hosts"
    [ "$(hash_of hosts)" = "$expected" ] || { echo "FAILED: two hosts: $(hash_of hosts), not $expected"; exit 1; }
    echo "two hosts over TCP: the same weights"
    fifo=(--set communication=fifo)
    inside fifo --mca btl self,tcp -n 2 "${train[@]}" "$work/fifo" "${fifo[@]}" : \
        -n 2 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/fifo" "${fifo[@]}"
    [ "$(hash_of fifo)" = "$expected" ] || { echo "FAILED: two hosts, fifo: $(hash_of fifo), not $expected"; exit 1; }
    echo "two hosts over TCP, each message when both ends have reached it: the same weights"
    for transport in direct delegated; do
        name=rails-$transport
        rails=(--set 'network={rails: ["127.0.0.1", "127.0.0.2"], queues: 2}' --set transport=$transport)
        inside $name --mca btl self,tcp -n 2 "${train[@]}" "$work/$name" "${rails[@]}" : \
            -n 2 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/$name" "${rails[@]}"
        [ "$(hash_of $name)" = "$expected" ] || { echo "FAILED: two rails, $transport: $(hash_of $name), not $expected"; exit 1; }
        echo "two hosts over two rails, $transport: the same weights"
    done
    for transport in direct delegated; do
        name=seats-$transport
        seats=(--set 'arrangements=[{iteration: 1, positions: [2, 0, 3, 1]}, {iteration: 3, positions: [1, 2, 0, 3]}]' --set transport=$transport)
        inside $name --mca btl self,tcp -n 2 "${train[@]}" "$work/$name" "${seats[@]}" : \
            -n 2 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/$name" "${seats[@]}"
        [ "$(hash_of $name)" = "$expected" ] || { echo "FAILED: other seats, $transport: $(hash_of $name), not $expected"; exit 1; }
        [ "$(grep -c '"kind":"arrange"' "$work/$name/events.jsonl")" = 2 ] || { echo "FAILED: no arrangement"; exit 1; }
        echo "two hosts, processes that change seats between them, $transport: the same weights"
    done
    # sums across hosts: over two replicas, one on either host; then over tensor ranks, one on either
    for sizes in "2 2 1" "1 2 2"; do
        read -r pipeline data tensor <<<"$sizes"
        name=product-$pipeline$data$tensor
        sizes=(--set "parallel.pipeline=$pipeline" --set "parallel.data=$data" --set "parallel.tensor=$tensor" --set parallel.zero=1)
        "${train[@]}" "$work/$name-alone" "${sizes[@]}" >"$work/$name-alone.log"
        # tensor ranks number first: ranks 0 and 2 here, 1 and 3 there
        inside $name --mca btl self,tcp -n 1 "${train[@]}" "$work/$name" "${sizes[@]}" : \
            -n 1 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/$name" "${sizes[@]}" : \
            -n 1 "${train[@]}" "$work/$name" "${sizes[@]}" : \
            -n 1 unshare -u bash -c 'hostname other-host; exec "$@"' - "${train[@]}" "$work/$name" "${sizes[@]}"
        expected=$(hash_of $name-alone)
        [ ${#expected} = 16 ] && [ "$(hash_of $name)" = "$expected" ] ||
            { echo "FAILED: $name on two hosts: $(hash_of $name), not $expected"; exit 1; }
        echo "$pipeline x $data x $tensor on two hosts: the same weights"
    done
fi
for path in /dev/shm/slackline-"$(id -u)"-* /dev/shm/vader_segment.*; do
    name=${path##*/}
    grep -qxF "$name" <<<"$before" && continue
    [ -e "$path" ] || continue
    [ -e "$path/owner" ] && ! flock -xn "$path/owner" true && continue # of somebody else's living run
    echo "FAILED: left in /dev/shm: $name"
    exit 1
done
