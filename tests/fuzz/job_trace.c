/* Traces of hybrid-parallel jobs, and the layout that a user gives with them: what is read is explained. */
#include "fuzz.h"

#include "base/memory.h"
#include "plan/explain/hybrid_cause.h"
#include "plan/explain/job_clock.h"
#include "plan/explain/what_if.h"

#include <stdlib.h>
#include <string.h>

/* A layout, a line end, and the trace. */
static int read_job_trace(const uint8_t *data, size_t size) {
    sl_hybrid_trace trace = {0};
    sl_hybrid_layout layout = {0};
    sl_what_if what_if = {0};
    sl_hybrid_cause causes[SL_MAX_CAUSES];
    sl_time *offset = NULL;
    char *text = fuzz_text(data, size);
    size_t first = strcspn(text, "\n");
    const char *rest = text + first + (text[first] != 0);
    text[first] = 0;
    sl_status status = text[0] ? sl_hybrid_layout_read(text, &layout) : SL_OK;
    SL_THEN(status, sl_hybrid_trace_begin(&trace, "fuzz"));
    SL_THEN(status, sl_hybrid_trace_feed(&trace, rest, size - (size_t)(rest - text)));
    SL_THEN(status, sl_hybrid_trace_end(&trace));
    int accepted = status == SL_OK;
    SL_THEN(status, sl_hybrid_trace_finish(&trace));
    SL_THEN(status, sl_hybrid_layout_find(&trace, &layout));
    if (status == SL_OK && trace.events < 1000) {
        fuzz_must(sl_alloc(&offset, (size_t)layout.pipeline * (size_t)layout.data, sizeof *offset) == SL_OK);
        status = sl_hybrid_clocks(&trace, &layout, offset);
        if (status == SL_OK)
            sl_hybrid_clocks_apply(&trace, &layout, offset);
        SL_THEN(status, sl_what_if_make(&trace, &layout, &what_if));
        if (status == SL_OK)
            fuzz_must(sl_hybrid_causes(&trace, &layout, &what_if, causes) >= 0);
        sl_what_if_free(&what_if);
    }
    sl_free(offset);
    sl_hybrid_layout_free(&layout);
    sl_hybrid_trace_free(&trace);
    free(text);
    return accepted;
}

static void put_event(FILE *out, int worker, int stream, const char *name, int ts, int dur, int microbatch,
                      int step) {
    fprintf(out,
            "{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %d, \"dur\": %d, \"args\": "
            "{\"step\": %d, "
            "\"mb_id\": %d, \"model_chunk\": 0}},\n",
            name, worker, stream, ts, dur, step, microbatch);
}

/* Two pipeline ranks, two microbatches, two steps, one forward at a time. */
static int write_job_trace(int number, FILE *out) {
    if (number > 1)
        return 0;
    fputs(number ? "pipeline=2,data=1\n" : "\n", out);
    fputs("{\"traceEvents\": [\n", out);
    for (int step = 0; step < 2; step++)
        for (int m = 0; m < 2; m++) {
            int at = 1000 * step + 200 * m;
            put_event(out, 0, 0, "forward-compute", at, 50, m, step);
            put_event(out, 0, 1, "forward-send", at + 50, 5, m, step);
            put_event(out, 1, 1, "forward-recv", at + 50, 5, m, step);
            put_event(out, 1, 0, "forward-compute", at + 55, 50, m, step);
            put_event(out, 1, 0, "backward-compute", at + 105, 40, m, step);
            put_event(out, 1, 1, "backward-send", at + 145, 5, m, step);
            put_event(out, 0, 1, "backward-recv", at + 145, 5, m, step);
            put_event(out, 0, 0, "backward-compute", at + 150, 40, m, step);
        }
    fputs("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"a\"}}]}\n", out);
    return 1;
}

const fuzz_reader fuzz_job_trace[] = {
    {"job_trace", "sl_hybrid_trace_feed sl_hybrid_layout_read sl_hybrid_layout_find sl_hybrid_link_read",
     NULL, write_job_trace,
     "forward-compute backward-compute forward-send forward-recv grads-reduce-scatter params-all-gather "
     "optimizer step mb_id model_chunk seq_id "
     "pipeline= data= tensor= chunks= process_name thread_name",
     read_job_trace},
    {0}};
