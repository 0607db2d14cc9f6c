#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What watching and adapting do with the real NCCL, with several ranks on one GPU: bench/nccl/run.sh BUILD OUT [STEP...]
# PYTHON: an interpreter with PyTorch for CUDA (default python3). Needs nvcc, cc, and NCCL's header. Each step writes OUT/STEP.txt;
# docs/results/gpu.md has what one H200 gave.
set -u
[ $# -ge 2 ] || { sed -n 3,5p "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd) python=${PYTHON:-python3}
mkdir -p "$2"; out=$(cd "$2" && pwd); shift 2
site=$("$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
nccl=$site/nvidia/nccl cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
nvcc=$cuda/bin/nvcc
"$nvcc" -O2 -arch=native -shared -Xcompiler -fPIC -cudart static -o "$work/libspin.so" "$here/spin.cu" || exit 1
cc -O2 -o "$work/real_nccl" "$here/real_nccl.c" -I"$cuda/include" -I"$nccl/include" -L"$nccl/lib" -l:libnccl.so.2 -L"$cuda/lib64" -lcudart \
    -Wl,-rpath,"$nccl/lib:$cuda/lib64" || exit 1
export SPIN=$work/libspin.so PYTHONPATH=$here/../../python SLACKLINE_LIBRARY=$build/libslackline.so
probe="LD_PRELOAD=$build/libslackline_probe.so" plugin="LD_PRELOAD=$build/libslackline_probe.so NCCL_PROFILER_PLUGIN=$build/libnccl-profiler-slackline.so"

ranks() { # NUMBER MODE...: real_nccl with that many ranks, with $under in front
    local number=$1 r id; shift; id=$(mktemp -u "$work/id.XXXX")
    for ((r = 0; r < number; r++)); do RANK=$r WORLD_SIZE=$number env ${under:-} "$work/real_nccl" "$id" "$@" & done
    wait
}
calls() { # what is recorded, next to what the program did and CUDA's events say
    mkdir "$work/rings"; under="SLACKLINE_PROBE=$work/rings $plugin SLACKLINE_PROBE_TIMING=device" ranks "${1:-2}" calls
    "$build/tests/print_rings" "$work/rings"; rm -rf "$work/rings"
}
held() { # a program with two communicators, alone, and held at random moments
    ranks 2 loop 7 1000
    mkdir "$work/rings"; under="SLACKLINE_PROBE=$work/rings $probe" ranks 2 loop 7 1000 &
    "$build/tests/hold_gates" "$work/rings" 2 20 1 30000; wait; rm -rf "$work/rings"
}
cost() { # host time per call, in turns
    for turn in 1 2 3; do
        mkdir "$work/rings"; echo "without"; ranks 2 cost 8; echo "probe"; under="SLACKLINE_PROBE=$work/rings $probe" ranks 2 cost 8
        for timing in on device; do echo "plug-in, $timing"; under="SLACKLINE_PROBE=$work/rings $plugin SLACKLINE_PROBE_TIMING=$timing" ranks 2 cost 8; done
        rm -rf "$work/rings"
    done
}
watch() { # rank 2 of 4 is slow after some seconds: its kernels, or its host
    for what in device host; do
        "$build/slackline" watch --out "$out/watch-$what" --overwrite --http off -- "$python" -m torch.distributed.run --nproc-per-node 4 "$here/watched.py" 16 7 $what
        cat "$out/watch-$what/report.txt"
    done
}
adapt() { "$python" "$here/adapt.py" --ranks 2 --steps 30 --slow-from 12 --slow-to 30 --slow-link-ms 20 --op-ms 6 --memory free --out "$out"; }
hang() { # dumps of PyTorch's flight recorder, and the answer of NCCL's RAS service
    for case in collective message other batch circle; do
        "$python" "$here/hang.py" 3 $case "$out/dumps"; "$build/slackline" explain "$out"/dumps/${case}_rank_*
    done
    under="NCCL_RAS_ADDR=localhost:28999" ranks 3 hang 12 & sleep 9
    "$python" "$here/ras.py" 28999 "$out" ras; "$build/slackline" explain ras://127.0.0.1:28999; wait
}
gpu() { "$build/slackline" doctor | grep -A3 GPU; "$build/slackline" healthcheck --ranks 3 --only devices; }
for step in ${@:-gpu calls held cost watch adapt hang}; do
    echo "== $step"; $step >"$out/$step.txt" 2>&1 </dev/null; tail -n 5 "$out/$step.txt" | cut -c1-200
done
