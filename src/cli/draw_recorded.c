/* Measured iterations as charts: of a run's folder, of its timeline alone, of another program's trace. */
#include "base/memory.h"
#include "cli/drawing.h"
#include "cli/trace_file.h"
#include "report/recorded.h"

#include <string.h>

/* The recorded iteration selected by an input's options. */
static sl_status choose(const sl_drawing *d, const sl_input *input, const sl_run_data *data,
                        const sl_recorded *recorded, size_t *index) {
    int wanted = input->options.iteration >= 0 ? input->options.iteration : d->common.iteration;
    int replica = input->options.replica >= 0 ? input->options.replica : d->common.replica;
    SL_TRY(sl_chosen_find(data, recorded, wanted < 0 ? SL_CHOSEN_SLOWEST : wanted, NULL, index));
    if (replica < 0)
        return SL_OK;
    long found = sl_recorded_find(recorded, recorded->iteration[*index].iteration, replica);
    if (found < 0)
        return sl_error(SL_ENONE, "%s: iteration %d of replica %d was not recorded op by op", input->file,
                        recorded->iteration[*index].iteration, replica);
    *index = (size_t)found;
    return SL_OK;
}

/* A trace without memory is counted in activations of a microbatch, as import writes it. */
static sl_status add_memory(const sl_drawing *d, sl_drawn *one) {
    for (int k = 0; k < one->charts && d->what & SL_DRAW_MEMORY; k++)
        SL_TRY(sl_drawn_add_memory(&one->recovered.problem, one->chart[k].timeline, &one->memory[k],
                                   &one->chart[k]));
    return SL_OK;
}

/* A trace of another program, as import reads it: its order in simulation above the trace. */
static sl_status draw_trace(const sl_drawing *d, const sl_input *input, int files, sl_drawn *one) {
    const int wanted = input->options.iteration >= 0 ? input->options.iteration : d->common.iteration;
    const sl_recover_options options = {.iteration = wanted, .microbatches = d->microbatches};
    const sl_recovered *r = &one->recovered;
    const sl_plan *plan = &one->plan;
    char what[64];
    one->traced.map = d->map;
    for (int i = files; i-- > 0;)
        SL_TRY(sl_trace_file_read((input - i)->file, &one->traced));
    SL_TRY(sl_recover(&one->traced, &options, &one->recovered));
    SL_TRY(sl_plan_of_order(&r->problem, &r->order, "traced", &one->plan));
    SL_TRY(sl_highlight_make(&r->problem, &plan->program, &plan->timeline, &one->highlight));
    snprintf(what, sizeof what, "iteration %lld", (long long)r->iteration[r->chosen].number);
    sl_gantt_title("predicted", &plan->timeline, "", one->title[0], sizeof one->title[0]);
    sl_gantt_title("traced", &r->timeline, what, one->title[1], sizeof one->title[1]);
    one->chart[0] =
        (sl_svg_chart){.timeline = &plan->timeline, .title = one->title[0], .highlight = &one->highlight};
    one->chart[1] = (sl_svg_chart){.timeline = &r->timeline, .title = one->title[1]};
    one->charts = 2;
    return add_memory(d, one);
}

/* The iterations of a timeline.json; none: it is another program's trace. */
static sl_status read_recorded(const sl_input *input, sl_run_data *data, sl_recorded *recorded) {
    const char *slash = strrchr(input->file, '/');
    SL_TRY(sl_copy_text(&data->path, slash ? input->file : "."));
    if (slash)
        data->path[slash - input->file] = 0;
    return sl_recorded_read_file(data, slash ? slash + 1 : input->file, recorded);
}

static int is_trace(const sl_input *input) {
    sl_run_data data = {0};
    sl_recorded recorded = {0};
    const int is = input->kind == SL_INPUT_TIMELINE && read_recorded(input, &data, &recorded) == SL_OK &&
                   recorded.iterations == 0;
    sl_recorded_free(&recorded);
    sl_run_data_free(&data);
    return is;
}

static int has_options(const sl_input_options *o) {
    return o->set.count > 0 || o->order.count > 0 || o->title.count > 0 || o->schedules ||
           o->iteration >= 0 || o->replica >= 0;
}

int sl_drawn_ranks(const sl_drawing *d, int first) {
    int count = 1;
    if (first + 1 == d->inputs || !is_trace(&d->input[first]))
        return 1;
    while (first + count < d->inputs && !has_options(&d->input[first + count - 1].options) &&
           is_trace(&d->input[first + count]))
        count++;
    return count;
}

/* A timeline without its run's folder: measured, not predicted. */
sl_status sl_drawn_timeline(const sl_drawing *d, const sl_input *input, int files, sl_drawn *one) {
    char what[300];
    sl_run_data data = {0};
    sl_recorded recorded = {0};
    size_t index = 0;
    sl_status status;
    if (files > 1)
        return draw_trace(d, input, files, one);
    SL_TRY_GOTO(out, status, read_recorded(input, &data, &recorded));
    if (recorded.iterations == 0) {
        status = draw_trace(d, input, 1, one);
        goto out;
    }
    SL_TRY_GOTO(out, status,
                sl_drawn_refuse_memory(
                    d, input, "a timeline does not contain the memory of ops: draw its run's folder"));
    SL_TRY_GOTO(out, status, choose(d, input, &data, &recorded, &index));
    SL_TRY_GOTO(out, status, sl_recorded_timeline(&recorded, index, &one->timeline));
    sl_chosen_title(&data, &recorded, index, what, sizeof what);
    sl_gantt_title("measured", &one->timeline, what, one->title[0], sizeof one->title[0]);
    one->chart[0] = (sl_svg_chart){.timeline = &one->timeline, .title = one->title[0]};
    one->charts = 1;
out:
    sl_recorded_free(&recorded);
    sl_run_data_free(&data);
    return status;
}

static sl_status draw_analysis(const sl_drawing *d, const sl_input *input, sl_drawn *one) {
    const sl_analysis *r = &one->analysis;
    one->charts = sl_gantt_charts(r, one->title[0], one->title[1], one->chart);
    if (one->charts == 1) {
        one->chart[0].title = one->title[1];
        fprintf(stderr, "%s: nothing is predicted: %s\n", input->file, r->why_not);
    }
    if (!(d->what & SL_DRAW_MEMORY))
        return SL_OK;
    if (!r->has_program)
        return sl_error(SL_ENONE, "%s: the memory of its ops is unknown: %s", input->file, r->why_not);
    for (int k = 0; k < one->charts; k++)
        SL_TRY(sl_drawn_add_memory(&r->problem, one->chart[k].timeline, &one->memory[k], &one->chart[k]));
    return SL_OK;
}

sl_status sl_drawn_run(const sl_drawing *d, const sl_input *input, sl_drawn *one) {
    char what[300];
    sl_run_data data;
    sl_recorded recorded = {0};
    size_t index = 0;
    sl_status status;
    SL_TRY_GOTO(out, status, sl_run_data_read(input->file, &data));
    SL_TRY_GOTO(out, status, sl_recorded_read(&data, &recorded));
    SL_TRY_GOTO(out, status, choose(d, input, &data, &recorded, &index));
    SL_TRY_GOTO(out, status, sl_analysis_make(&data, &recorded, index, &one->analysis));
    sl_chosen_title(&data, &recorded, index, what, sizeof what);
    sl_gantt_title("predicted", &one->analysis.predicted, "", one->title[0], sizeof one->title[0]);
    sl_gantt_title("measured", &one->analysis.measured, what, one->title[1], sizeof one->title[1]);
    status = draw_analysis(d, input, one);
out:
    sl_recorded_free(&recorded);
    sl_run_data_free(&data);
    return status;
}
