#include "run/file/run_layout.h"
#include "base/memory.h"
#include "plan/family/family.h"

#include <stdio.h>
#include <string.h>

sl_run_layout sl_run_layout_of(const sl_run *run) {
    return (sl_run_layout){.data = run->parallel.data, .pipeline = run->parallel.pipeline};
}

int sl_run_layout_ranks(const sl_run *run, sl_run_layout layout) {
    return layout.data * layout.pipeline * run->parallel.tensor;
}

/* ---- choosing ---- */

/* Each rank keeps its number of stages. */
static int stages_of(const sl_run *run, sl_run_layout layout) {
    return run->parallel.stages / run->parallel.pipeline * layout.pipeline;
}

static int largest_share(const sl_run *run, sl_run_layout layout) {
    return (run->batch.microbatches + layout.data - 1) / layout.data;
}

/* A smaller layout has no more stages than the run file's, and so enough layers. */
static int is_possible(const sl_run *run, sl_run_layout layout) {
    if (layout.data == run->parallel.data && layout.pipeline == run->parallel.pipeline)
        return 1;
    if (run->parallel.placement == SL_BIDIRECTIONAL && layout.pipeline < 2)
        return 0;
    return (int64_t)stages_of(run, layout) * largest_share(run, layout) * 3 * run->parallel.parts <=
           SL_MAX_OPS;
}

sl_status sl_run_layout_fit(const sl_run *run, int slots, sl_run_layout *layout) {
    const int min_replicas = run->elastic.on ? run->elastic.min_replicas : run->parallel.data,
              min_pipeline = run->elastic.on ? run->elastic.min_pipeline : run->parallel.pipeline;
    sl_run_layout smallest = sl_run_layout_of(run);
    char words[96];
    for (int pipeline = run->parallel.pipeline; pipeline >= min_pipeline; pipeline--)
        for (int data = run->parallel.data; data >= min_replicas; data--) {
            *layout = (sl_run_layout){.data = data, .pipeline = pipeline};
            if (!is_possible(run, *layout))
                continue;
            if (sl_run_layout_ranks(run, *layout) <= slots)
                return SL_OK;
            smallest = *layout;
        }
    sl_run_layout_words(smallest, words, sizeof words);
    return sl_error(SL_ENONE, "the smallest layout (%s) needs %d slots", words,
                    sl_run_layout_ranks(run, smallest));
}

/* ---- changing the run ---- */

static sl_status divide(sl_run *run) {
    const int replicas = run->parallel.data, all = run->batch.microbatches;
    sl_free(run->batch.split);
    run->batch.split = NULL;
    SL_TRY(sl_alloc(&run->batch.split, (size_t)replicas, sizeof *run->batch.split));
    for (int r = 0; r < replicas; r++)
        run->batch.split[r] = all / replicas + (r < all % replicas);
    return SL_OK;
}

static sl_status spread(double **values, int before, int stages) {
    double sum = 0;
    if (!*values)
        return SL_OK;
    for (int stage = 0; stage < before; stage++)
        sum += (*values)[stage];
    sl_free(*values);
    *values = NULL;
    SL_TRY(sl_alloc(values, (size_t)stages, sizeof **values));
    for (int stage = 0; stage < stages; stage++)
        (*values)[stage] = sum / stages;
    return SL_OK;
}

static sl_status recompute_alike(sl_run *run, int before) {
    int any = 0, stages = sl_run_model_stages(run);
    if (!run->device.recompute)
        return SL_OK;
    for (int stage = 0; stage < before; stage++)
        any |= run->device.recompute[stage];
    sl_free(run->device.recompute);
    run->device.recompute = NULL;
    SL_TRY(sl_alloc(&run->device.recompute, (size_t)stages, sizeof *run->device.recompute));
    for (int stage = 0; stage < stages; stage++)
        run->device.recompute[stage] = any;
    return SL_OK;
}

static sl_status cut_again(sl_run *run, int pipeline, int stages) {
    const int before = run->parallel.stages, model_before = sl_run_model_stages(run);
    run->parallel.pipeline = pipeline;
    run->parallel.stages = stages;
    SL_FREE(run->parallel.cut, run->wire);
    run->parallel.cut = run->wire = NULL;
    SL_TRY(recompute_alike(run, model_before));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(spread(&run->device.pace_ms[kind], before, stages));
    return spread(&run->device.pair_ms, before, stages);
}

/* An order from a file is for one shape; a family may need a certain number of microbatches. */
static sl_status plan_again(sl_run *run) {
    const sl_family *family = sl_family_find(run->schedule);
    int defined = family != NULL;
    for (int replica = 0; replica < run->parallel.data && defined; replica++) {
        sl_problem shape = sl_run_replica_shape(run, replica);
        defined = sl_family_check(family, &shape) == SL_OK;
    }
    if (defined || strcmp(run->schedule, "auto") == 0)
        return SL_OK;
    sl_free(run->schedule);
    run->schedule = NULL;
    return sl_copy_text(&run->schedule, "auto");
}

static int is_there(const sl_run *run, const sl_fault *f) {
    const int ranks = run->parallel.pipeline, replicas = run->parallel.data;
    if (f->from >= ranks || f->to >= ranks || f->rank >= ranks || f->kill >= ranks ||
        f->replica >= replicas || f->from_replica >= replicas || f->to_replica >= replicas)
        return 0;
    return f->from < 0 || f->from == f->to || sl_run_has_link(run, f->from, f->to);
}

static void keep_faults(sl_run *run) {
    int kept = 0;
    for (int i = 0; i < run->faults; i++)
        if (is_there(run, &run->fault[i]))
            run->fault[kept++] = run->fault[i];
        else
            sl_free(run->fault[i].host);
    run->faults = kept;
}

static void drop_arrangements(sl_run *run, int same_replicas) {
    for (int i = 0; i < run->arrangements; i++) {
        sl_run_arrangement *a = &run->arrangement[i];
        sl_free(a->position);
        a->position = NULL;
        if (same_replicas)
            continue;
        sl_free(a->split);
        a->split = NULL;
    }
}

sl_status sl_run_layout_take(sl_run *run, sl_run_layout layout) {
    const int stages = stages_of(run, layout), same_replicas = layout.data == run->parallel.data;
    char words[96];
    sl_run_layout_words(layout, words, sizeof words);
    if (layout.data < 1 || layout.pipeline < 1 || layout.data > run->parallel.data ||
        layout.pipeline > run->parallel.pipeline || !is_possible(run, layout))
        return sl_error(SL_EINVAL, "the run cannot have %s", words);
    if (same_replicas && layout.pipeline == run->parallel.pipeline)
        return SL_OK;
    drop_arrangements(run, same_replicas);
    if (layout.pipeline != run->parallel.pipeline)
        SL_TRY(cut_again(run, layout.pipeline, stages));
    run->parallel.data = layout.data;
    if (!same_replicas)
        SL_TRY(divide(run));
    keep_faults(run);
    return plan_again(run);
}

/* ---- in words ---- */

void sl_run_layout_words(sl_run_layout layout, char *words, size_t size) {
    snprintf(words, size, "%d replica%s of %d pipeline rank%s", layout.data, layout.data == 1 ? "" : "s",
             layout.pipeline, layout.pipeline == 1 ? "" : "s");
}

void sl_run_layout_write(sl_run_layout layout, char text[SL_RUN_LAYOUT_TEXT]) {
    snprintf(text, SL_RUN_LAYOUT_TEXT, "%dx%d", layout.data, layout.pipeline);
}

sl_status sl_run_layout_named(const char *text, sl_run_layout *layout) {
    int end = 0;
    *layout = (sl_run_layout){0};
    if (sscanf(text, "%5dx%5d%n", &layout->data, &layout->pipeline, &end) != 2 || text[end] ||
        layout->data < 1 || layout->pipeline < 1)
        return sl_error(SL_EINVAL, "'%s' is not a layout, such as 2x3", text);
    return SL_OK;
}
