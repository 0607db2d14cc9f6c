/* Plans as text. */
#include "library/library_handles.h"
#include "plan/draw/gantt_text.h"
#include "plan/draw/html.h"
#include "plan/draw/svg.h"
#include "plan/draw/trace.h"
#include "plan/lower/comms_csv.h"
#include "plan/pipeline/csv.h"

#include <string.h>

static sl_status write_text(const slackline_plan *plan, FILE *out) {
    return sl_draw_text(&plan->plan.timeline, &(sl_text_options){.width = 100}, out);
}

static sl_status write_json(const slackline_plan *plan, FILE *out) {
    return sl_plan_write_json(&plan->problem, &plan->plan, out);
}

static sl_status write_csv(const slackline_plan *plan, FILE *out) {
    return sl_order_write_csv(&plan->problem, &plan->plan.order, out);
}

static sl_status write_csv_comms(const slackline_plan *plan, FILE *out) {
    return sl_program_write_csv(&plan->problem, &plan->plan.order, &plan->plan.program, out);
}

static sl_status write_svg(const slackline_plan *plan, FILE *out) {
    const sl_plan *p = &plan->plan;
    char title[96];
    sl_highlight highlight = {0};
    snprintf(title, sizeof title, "%s: %.6g ms, lower bound %.6g ms", p->schedule, sl_to_ms(p->value),
             sl_to_ms(p->bound));
    sl_status status = sl_highlight_make(&plan->problem, &p->program, &p->timeline, &highlight);
    sl_svg_chart chart = {.timeline = &p->timeline, .title = title, .highlight = &highlight};
    SL_THEN(status, sl_draw_svg_charts(&chart, 1, NULL, out));
    sl_highlight_free(&highlight);
    return status;
}

static sl_status write_html(const slackline_plan *plan, FILE *out) {
    return sl_draw_html(&plan->problem, &plan->plan, plan->plan.schedule, out);
}

static sl_status write_trace(const slackline_plan *plan, FILE *out) {
    return sl_trace_plan(&plan->problem, &plan->plan.program, &plan->plan.timeline, out);
}

static const struct {
    const char *name;
    sl_status (*write)(const slackline_plan *plan, FILE *out);
} forms[] = {
    {"text", write_text}, {"json", write_json}, {"csv", write_csv},     {"csv-comms", write_csv_comms},
    {"svg", write_svg},   {"html", write_html}, {"trace", write_trace},
};

static sl_status write_form(const slackline_plan *plan, const char *format, FILE *out) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i].name, format) == 0)
            return forms[i].write(plan, out);
    return sl_error(SL_EINVAL,
                    "unknown plan format '%s'; known: text, json, csv, csv-comms, svg, html and trace",
                    format);
}

SL_PUBLIC slackline_status slackline_plan_write(const slackline_plan *plan, const char *format, char **text,
                                                size_t *size) {
    SL_PLAIN_NUMBERS;
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    sl_status status = out ? write_form(plan, format, out) : sl_error(SL_ENOMEM, "out of memory for a text");
    return sl_library_close_text(out, status, text, &length, size);
}

SL_PUBLIC slackline_status slackline_plan_write_to(const slackline_plan *plan, const char *format,
                                                   FILE *out) {
    SL_PLAIN_NUMBERS;
    sl_status status = write_form(plan, format, out);
    if (status == SL_OK && (fflush(out) != 0 || ferror(out)))
        status = sl_error_errno(SL_ESYS, "the plan cannot be written");
    return sl_library_status(status);
}
