/* Fuzzer of what is read when a job stands: dumps of PyTorch's flight recorder, pickled and as JSON, and
 * hang.json. Built as fuzz_readers is: ninja -C build-fuzz fuzz_dumps && build-fuzz/tests/fuzz_dumps
 * -max_total_time=60
 *
 * What is read can be diagnosed, and its JSON reads back as the same. */
#include "notice/hang/diagnosis.h"
#include "notice/hang/torch_dump.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void diagnose(const sl_hang_job *job, sl_hang_verdict *verdict) {
    if (sl_hang_diagnose(job, 0, verdict) != SL_OK || verdict->rank >= job->size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_hang_job job = {0}, again = {0};
    sl_hang_verdict verdict, second;
    if (sl_torch_dump_add("rank_1", (const char *)data, size, &job) == SL_OK && job.size < 64) {
        if (sl_torch_dump_finish(&job) != SL_OK)
            abort();
        diagnose(&job, &verdict);
        json_t *json = sl_hang_job_json(&job);
        again.from_dumps = job.from_dumps;
        if (json && sl_hang_job_read(json, &again) == SL_OK)
            diagnose(&again, &second);
        json_decref(json);
    }
    sl_hang_job_free(&job);
    sl_hang_job_free(&again);
    return 0;
}
