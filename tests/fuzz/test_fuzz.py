# labels: slow
"""Each reader of outside bytes is fuzzed for SL_FUZZ_SECONDS (10) seconds, under the address and undefined-behavior sanitizers, from its
examples on: bench/fuzz/run.py, which builds build-fuzz in the source folder. A find stays in build-fuzz/finds."""
import os
import shutil
import subprocess

from runner import skip, source


def test_no_reader_gives_way():
    done = subprocess.run(["clang", "-fsanitize=fuzzer", "-x", "c", "-", "-o", "/dev/null"], text=True, capture_output=True,
                          input="int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0 & (d != 0) & (n > 0); }") if shutil.which("clang") else None
    if not done or done.returncode:
        skip("no clang with libFuzzer: tools/install check brings it")
    run = os.path.join(source, "bench", "fuzz", "run.py")
    done = subprocess.run(["python3", run, os.path.join(source, "build-fuzz"), "--build", "--seconds", os.environ.get("SL_FUZZ_SECONDS", "10")], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
