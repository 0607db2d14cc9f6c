/* Charts over the iterations of runs, one below the other on one axis. */
#include "base/memory.h"
#include "cli/drawing.h"
#include "plan/draw/stack.h"
#include "report/courses.h"
#include "report/gain.h"

#include <math.h>
#include <stdlib.h>

typedef struct drawn_run {
    sl_run_data data;
    sl_recorded recorded;
    sl_marks marks;
    sl_gain *gain;
    size_t gains;
} drawn_run;

static sl_status read_run(const char *folder, drawn_run *r) {
    *r = (drawn_run){0};
    SL_TRY(sl_run_data_read(folder, &r->data));
    SL_TRY(sl_recorded_read(&r->data, &r->recorded));
    SL_TRY(sl_marks_make(&r->data, &r->marks));
    return sl_gain_make(&r->data, &r->gain, &r->gains);
}

static void close_run(drawn_run *r) {
    sl_free(r->gain);
    sl_marks_free(&r->marks);
    sl_recorded_free(&r->recorded);
    sl_run_data_free(&r->data);
}

static sl_status draw_one(const drawn_run *r, int what, const sl_draw_style *style, FILE *out) {
    size_t drawn;
    sl_courses courses = {0};
    sl_status status = SL_OK;
    if (what == SL_DRAW_ITERATIONS)
        status = sl_course_time(&r->data, &r->marks, style, out, &drawn);
    if (what == SL_DRAW_LOSS)
        status = sl_course_loss(&r->data, &r->marks, style, out, &drawn);
    if (what == SL_DRAW_GAINS)
        status = sl_course_gains(&r->data, r->gain, r->gains, style, out);
    if (what == SL_DRAW_LINKS)
        status = sl_course_links(&r->data, &r->marks, style, out, &courses);
    if (what == SL_DRAW_DEVICES)
        status = sl_course_devices(&r->recorded, &r->marks, style, out, &courses);
    sl_courses_free(&courses);
    return status;
}

static const struct {
    int what;
    const char *missing;
} order[] = {{SL_DRAW_ITERATIONS, "no iteration time can be read (metrics.jsonl)"},
             {SL_DRAW_LOSS, "no loss can be read (metrics.jsonl)"},
             {SL_DRAW_GAINS, "the run changed nothing, so nothing was gained or lost"},
             {SL_DRAW_LINKS, "no link was measured (metrics.jsonl)"},
             {SL_DRAW_DEVICES, "no iteration was recorded op by op (timeline.json)"}};
enum { MAX = sizeof order / sizeof order[0] };

/* The charts of a run; with `is_part`, as parts of a picture of several. */
static sl_status draw_charts(const sl_drawing *d, int i, const drawn_run *r, const sl_draw_style *style,
                             int is_part, sl_svg_part *part, int *count) {
    const sl_input_options *o = &d->input[i].options;
    int titles = 0;
    for (int k = 0; k < MAX; k++) {
        size_t size;
        sl_draw_style own = *style;
        if (!(d->what & order[k].what))
            continue;
        own.title = titles < o->title.count          ? o->title.text[titles]
                    : *count < d->common.title.count ? d->common.title.text[*count]
                                                     : NULL;
        own.name = d->inputs > 1 ? d->input[i].file : NULL;
        own.part = is_part ? &part[*count] : NULL;
        titles++;
        FILE *out = open_memstream(&part[*count].text, &size);
        if (!out)
            return sl_error(SL_ENOMEM, "out of memory for the picture");
        sl_status status = draw_one(r, order[k].what, &own, out);
        const int closed = fclose(out);
        ++*count;
        SL_TRY(status);
        if (closed != 0)
            return sl_error(SL_ENOMEM, "out of memory for the picture");
        if (size == 0)
            return sl_error(SL_ENONE, "%s: %s", d->input[i].file,
                            !r->data.is_watch ? order[k].missing
                            : order[k].what == SL_DRAW_ITERATIONS
                                ? "no iteration was found in the program's calls"
                                : "only iterations of a watch can be drawn");
    }
    return SL_OK;
}

/* From the first to the last iteration of any run, unless a range was requested. */
static void find_axis(const drawn_run *r, int runs, sl_draw_style *style) {
    double first = INFINITY, last = 0;
    for (int i = 0; i < runs; i++)
        if (r[i].data.iterations > 0) {
            first = fmin(first, r[i].data.iteration[0].iteration);
            last = fmax(last, r[i].data.iteration[r[i].data.iterations - 1].iteration);
        }
    if (!style->has_from && isfinite(first))
        style->from = first;
    if (!style->has_to)
        style->to = last;
    style->has_from = style->has_to = isfinite(first);
}

sl_status sl_draw_over_run(const sl_drawing *d, FILE *out) {
    sl_draw_style style = d->style;
    drawn_run *runs;
    sl_svg_part *part = NULL;
    int read = 0, count = 0, charts = 0;
    for (int k = 0; k < MAX; k++)
        charts += (d->what & order[k].what) != 0;
    charts *= d->inputs;
    sl_status status;
    SL_TRY(sl_alloc(&runs, (size_t)d->inputs, sizeof *runs));
    SL_TRY_GOTO(close, status, sl_alloc(&part, (size_t)charts, sizeof *part));
    for (int i = 0; i < d->inputs; i++) {
        read++;
        SL_TRY_GOTO(close, status, read_run(d->input[i].file, &runs[i]));
    }
    if (charts > 1) {
        style.names_below = 1;
        find_axis(runs, read, &style);
    }
    for (int i = 0; i < read; i++)
        SL_TRY_GOTO(close, status, draw_charts(d, i, &runs[i], &style, charts > 1, part, &count));
    if (charts > 1)
        status = sl_draw_stack(part, count, &style, out);
    else
        fputs(part[0].text, out);
close:
    for (int i = 0; i < read; i++)
        close_run(&runs[i]);
    for (int i = 0; i < count; i++)
        free(part[i].text);
    SL_FREE(part, runs);
    return status;
}
