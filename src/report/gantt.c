#include "report/gantt.h"
#include "plan/draw/page_data.h"

sl_status sl_gantt_data(const sl_retraced *r, const char *title, FILE *out) {
    const sl_program *program = r->has_program ? &r->program : NULL;
    sl_page_data d = {.title = title, .parts = 1, .makespan = SL_TIME_NEVER};
    for (int i = 0; i < r->measured.spans; i++)
        d.stages = r->measured.span[i].op.stage >= d.stages ? r->measured.span[i].op.stage + 1 : d.stages;
    if (r->has_predicted)
        d.chart[d.charts++] = (sl_page_chart){.name = "predicted",
                                              .timeline = &r->predicted,
                                              .program = program,
                                              .cause = r->predicted_cause,
                                              .path = &r->predicted_path};
    d.chart[d.charts++] = (sl_page_chart){.name = "measured",
                                          .timeline = &r->measured,
                                          .program = program,
                                          .cause = r->cause,
                                          .path = program ? &r->measured_path : NULL};
    return sl_page_data_write(&d, out);
}

void sl_gantt_title(const char *name, const sl_timeline *t, const char *what, char *text, size_t size) {
    snprintf(text, size, "%s: ops %.6g ms, bubble %.1f %%%s%s%s", name, sl_to_ms(sl_timeline_makespan(t)),
             100 * sl_timeline_bubble(t), *what ? " (" : "", what, *what ? ")" : "");
}

sl_status sl_gantt_still(const sl_retraced *r, const char *predicted, const char *measured, FILE *out) {
    sl_svg_chart charts[2];
    return sl_draw_svg_charts(charts, sl_gantt_charts(r, predicted, measured, charts), NULL, out);
}

int sl_gantt_charts(const sl_retraced *r, const char *predicted, const char *measured, sl_svg_chart *charts) {
    int count = 0;
    if (r->has_predicted)
        charts[count++] =
            (sl_svg_chart){.timeline = &r->predicted, .title = predicted, .highlight = &r->predicted_path};
    charts[count++] = (sl_svg_chart){
        .timeline = &r->measured, .title = measured, .highlight = r->has_program ? &r->measured_path : NULL};
    return count;
}
