/* slackline explain: what slowed a traced job down. */
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/explain_dumps.h"
#include "cli/explain_print.h"
#include "cli/plan_request.h"
#include "cli/trace_file.h"
#include "plan/explain/job_clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct explain_options {
    sl_texts trace; /* files */
    const char *svg;
    int is_json, keep_clocks;
    sl_explained result;
} explain_options;

static sl_status take_layout(const sl_options *o, void *options) {
    explain_options *e = options;
    return sl_hybrid_layout_read(o->value, &e->result.layout);
}

static const sl_value clocks[] = {
    {"auto", "offsets are estimated from events that end at the same time, and removed"},
    {"shared", "never"},
    {NULL, NULL}};
static const sl_option options[] = {
    SL_OPTION_OWN(
        "layout", take_layout, "NAME=N,...",
        "tensor, data, pipeline and chunks (virtual stages) of the job, such as "
        "tensor=2,data=4,pipeline=8; workers in Megatron's order. Default: by names of processes and "
        "threads, else from the messages"),
    SL_OPTION("clocks", CHOICE, explain_options, keep_clocks, "HOW", "whether clocks of workers differ",
              .values = clocks, .standard = "auto"),
    SL_OPTION("svg", TEXT, explain_options, svg, "FILE", "write the heat map of workers there",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION_TEXT_OR_JSON(explain_options, is_json),
    SL_OPTION("", TEXTS, explain_options, trace, "TRACE...", NULL, .completes = SL_COMPLETES_FILE,
              .required = 1),
    SL_OPTIONS_END};

static sl_status begin(void *trace, const char *name) {
    return sl_hybrid_trace_begin(trace, name);
}
static sl_status feed(void *trace, const char *bytes, size_t size) {
    return sl_hybrid_trace_feed(trace, bytes, size);
}
static sl_status end(void *trace) {
    return sl_hybrid_trace_end(trace);
}

static sl_status remove_offsets(explain_options *e) {
    sl_explained *r = &e->result;
    SL_TRY(sl_alloc(&r->offset, (size_t)r->layout.pipeline * (size_t)r->layout.data, sizeof *r->offset));
    if (e->keep_clocks)
        return SL_OK;
    SL_TRY(sl_hybrid_clocks(&r->trace, &r->layout, r->offset));
    sl_hybrid_clocks_apply(&r->trace, &r->layout, r->offset);
    return SL_OK;
}

static sl_status examine(explain_options *e) {
    sl_explained *r = &e->result;
    const sl_trace_reader reader = {begin, feed, end, &r->trace};
    if (e->trace.count == 0)
        return sl_error(SL_EINVAL, "explain: no trace given; see slackline explain --help");
    for (int i = 0; i < e->trace.count; i++)
        SL_TRY(sl_trace_file_give(e->trace.text[i], &reader));
    SL_TRY(sl_hybrid_trace_finish(&r->trace));
    SL_TRY(sl_hybrid_layout_find(&r->trace, &r->layout));
    SL_TRY(remove_offsets(e));
    SL_TRY(sl_what_if_make(&r->trace, &r->layout, &r->what_if));
    r->causes = sl_hybrid_causes(&r->trace, &r->layout, &r->what_if, r->cause);
    return SL_OK;
}

static sl_status make_text(const sl_explained *r, sl_status (*print)(const sl_explained *, FILE *),
                           char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    sl_status status = print(r, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the output");
    return status;
}

static sl_status write_all(const explain_options *e) {
    char *report = NULL, *picture = NULL;
    size_t report_size = 0, picture_size = 0;
    sl_status status;
    SL_TRY_GOTO(out, status,
                make_text(&e->result, e->is_json ? sl_explain_print_json : sl_explain_print_text, &report,
                          &report_size));
    if (e->svg) {
        SL_TRY_GOTO(out, status, make_text(&e->result, sl_explain_draw, &picture, &picture_size));
        SL_TRY_GOTO(out, status, sl_leaving_write(e->svg, picture, picture_size));
    }
    if (e->svg && strcmp(e->svg, "-") == 0)
        fwrite(report, 1, report_size, stderr); /* standard output is taken */
    else
        status = sl_leaving_write(NULL, report, report_size);
out:
    free(report);
    free(picture);
    return status;
}

static sl_status explain_traces(explain_options *e) {
    SL_TRY(examine(e));
    return write_all(e);
}

static int run(int argc, char **argv) {
    explain_options e = {.result.width = sl_plan_request_width(&(sl_plan_request){0})};
    int dumps = 0;
    sl_status status = sl_command_options(argc, argv, &e);
    SL_THEN(status, sl_explain_has_dumps(&e.trace, &dumps));
    SL_THEN(status, dumps ? sl_explain_dumps(&e.trace, e.is_json, stdout) : explain_traces(&e));
    sl_what_if_free(&e.result.what_if);
    sl_hybrid_layout_free(&e.result.layout);
    sl_hybrid_trace_free(&e.result.trace);
    SL_FREE(e.result.offset, e.trace.text);
    return sl_plan_request_end(status);
}

const sl_command sl_command_explain = {
    .name = "explain",
    .summary = "find what slows a traced hybrid-parallel job down",
    .about =
        "Finds what slows a traced hybrid-parallel job down: replays every iteration as it was and "
        "without each cause, and reports the cost of each as a share of the time. Causes are a worker, "
        "a pipeline rank (an uneven cut), a replica, the lengths of microbatches, a link, collectives, or "
        "gaps. TRACE is a Chrome trace (JSON, also gzipped) with the events of all workers, or of some of "
        "them: forward-compute, backward-compute, forward-send, grads-reduce-scatter, and others named "
        "below, with args.step.\nGiven dumps of PyTorch's flight recorder, one per rank, or the hang.json "
        "of slackline watch, it reports why the job hangs or stalls (docs/hangs.md). A dump is a pickle, "
        "which is "
        "read and never executed, or JSON; its name ends with the rank. ras://HOST:PORT asks NCCL's RAS "
        "service.",
    .options = options,
    .notes =
        "Events: forward-compute and backward-compute (args.model_chunk, args.mb_id), forward-send, "
        "forward-recv, backward-send, backward-recv, grads-reduce-scatter, params-all-gather, "
        "embedding-grads-all-reduce, optimizer-clip-main-grad, optimizer and others of Megatron's timers. "
        "Others are left out and counted.",
    .example = "slackline explain trace.json.gz --svg workers.svg\n"
               "slackline explain dumps/nccl_trace_rank_*\n"
               "slackline explain worker*.json --layout tensor=1,data=4,pipeline=2,chunks=2",
    .run = run};
