#!/usr/bin/env bash
# Sums over 1 to 5 ranks have the bits of an addition in ascending rank, also where a link is emulated: it takes at least as long
# as it should, and nothing else does.
set -eu
program=$1/tests/sum_ranks
[ -x "$program" ] || { echo "skipped: the trainer is not built (MPI or oneDNN is missing)"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
for ranks in 1 2 3 4 5; do
    mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca plm isolated --mca btl self,vader \
        --mca orte_tmpdir_base "$temporary" --mca btl_vader_backing_directory "$temporary" -n "$ranks" "$program"
done
