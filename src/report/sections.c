/* The sections of a run's page, and the pictures in them. */
#include "report/report_inside.h"
#include "report/tables.h"

#include <stdlib.h>
#include <string.h>

/* ---- pictures ---- */

/* In a page a picture needs no namespace, and must contain no address. */
static void put_picture(const char *svg, const char *name, const char *kind, FILE *out) {
    static const char space[] = " xmlns=\"http://www.w3.org/2000/svg\"";
    const char *at = strstr(svg, space);
    if (!at || !*svg)
        return;
    fprintf(out, "<figure%s>", kind);
    fwrite(svg, 1, (size_t)(at - svg), out);
    fprintf(out, " role=\"img\" aria-label=\"%s\"%s</figure>\n", name, at + strlen(space));
}

sl_status sl_report_render(const sl_report_page *r, sl_report_part part, void *result, char **text,
                           size_t *size) {
    *text = NULL;
    *size = 0;
    FILE *memory = open_memstream(text, size);
    if (!memory)
        return sl_error(SL_ENOMEM, "out of memory for the report");
    sl_status status = part(r, memory, result);
    if (fclose(memory) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the report");
    return status;
}

static sl_status put_as(const sl_report_page *r, sl_report_part part, void *result, const char *name,
                        const char *kind, FILE *out, int *there) {
    char *text;
    size_t size;
    sl_status status = sl_report_render(r, part, result, &text, &size);
    *there = status == SL_OK && size > 0;
    if (*there)
        put_picture(text, name, kind, out);
    free(text);
    return status;
}

sl_status sl_report_put_drawn(const sl_report_page *r, sl_report_part part, void *result, const char *name,
                              FILE *out, int *there) {
    return put_as(r, part, result, name, "", out, there);
}

sl_status sl_report_put_both(const sl_report_page *r, sl_report_part part, void *result, const char *name,
                             FILE *out, int *there) {
    sl_report_page narrow = *r;
    narrow.is_narrow = 1;
    SL_TRY(put_as(&narrow, part, result, name, " class=\"narrow\"", out, there));
    return put_as(r, part, result, name, " class=\"wide\"", out, there);
}

static const sl_draw_style *style_of(const sl_report_page *r) {
    static const sl_draw_style phone = {.width = 376, .font = 11};
    return r->is_narrow ? &phone : NULL;
}

static void put_thinned(size_t drawn, size_t all, FILE *out) {
    if (drawn > 0)
        fprintf(out,
                "<p class=\"soft\">%zu of %zu iterations are drawn: the first, lowest, and highest of each "
                "section.</p>\n",
                drawn, all);
}

sl_status sl_report_draw_time(const sl_report_page *r, FILE *out, void *drawn) {
    return sl_course_time(&r->data, &r->marks, style_of(r), out, drawn);
}

sl_status sl_report_draw_loss(const sl_report_page *r, FILE *out, void *drawn) {
    return sl_course_loss(&r->data, &r->marks, style_of(r), out, drawn);
}

sl_status sl_report_draw_adaptation(const sl_report_page *r, FILE *out, void *ignored) {
    (void)ignored;
    return sl_adaptation_draw(&r->data, &r->recorded, &r->adaptation, style_of(r), out);
}

sl_status sl_report_draw_gains(const sl_report_page *r, FILE *out, void *ignored) {
    (void)ignored;
    return sl_course_gains(&r->data, r->gain, r->gains, style_of(r), out);
}

sl_status sl_report_draw_links(const sl_report_page *r, FILE *out, void *courses) {
    sl_courses *own = courses;
    sl_courses_free(own); /* of a picture before it */
    *own = (sl_courses){0};
    return sl_course_links(&r->data, &r->marks, style_of(r), out, own);
}

sl_status sl_report_draw_devices(const sl_report_page *r, FILE *out, void *courses) {
    sl_courses *own = courses;
    sl_courses_free(own);
    *own = (sl_courses){0};
    return sl_course_devices(&r->recorded, &r->marks, style_of(r), out, own);
}

/* ---- sections ---- */

sl_status sl_report_put_time(const sl_report_page *r, FILE *out) {
    size_t drawn = 0;
    int there;
    SL_TRY(sl_report_put_both(r, sl_report_draw_time, &drawn, "Iteration time, measured and predicted", out,
                              &there));
    if (!there)
        fputs(r->data.is_watch ? "<p>No iteration was found in the program's calls.</p>\n"
                               : "<p>No iteration time can be read (metrics.jsonl).</p>\n",
              out);
    else
        fputs("<p class=\"soft\">Solid lines with &#9670;: changes made by the run; dotted lines with "
              "&#9661;: other events, such as onset and relief. The table of events below has the "
              "details.</p>\n",
              out);
    put_thinned(drawn, r->data.iterations, out);
    return SL_OK;
}

#define MAX_DRAWN 12000 /* ops and messages of a picture in the page */

static int is_small(const sl_report_page *r) {
    size_t events = 0;
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++)
        if (r->adaptation.part[k].recorded >= 0)
            events += r->recorded.iteration[r->adaptation.part[k].recorded].count;
    return events <= MAX_DRAWN;
}

static sl_status put_gains(const sl_report_page *r, FILE *out) {
    int there;
    if (r->gains > 0 && is_small(r))
        SL_TRY(sl_report_put_both(r, sl_report_draw_adaptation, NULL,
                                  "Iterations before, during and after a slowdown", out, &there));
    return sl_table_gains(&r->data, r->gain, r->gains, out);
}

sl_status sl_report_put_events(const sl_report_page *r, FILE *out) {
    sl_table_events(&r->data, out);
    return SL_OK;
}

sl_status sl_report_put_decisions(const sl_report_page *r, FILE *out) {
    sl_table_decisions(&r->data, out);
    return SL_OK;
}

/* The curve has gaps there. */
static void put_lossless(const sl_run_data *t, FILE *out) {
    int count = 0, first = 0;
    for (size_t i = t->iterations; i-- > 0;)
        if (t->iteration[i].lossless) {
            count++;
            first = t->iteration[i].iteration;
        }
    if (count > 0)
        fprintf(out, "<p>The loss of %d iteration%s was not finite, first in iteration %d.</p>\n", count,
                count == 1 ? "" : "s", first);
}

static sl_status put_loss(const sl_report_page *r, FILE *out) {
    size_t drawn = 0;
    int there;
    SL_TRY(sl_report_put_both(r, sl_report_draw_loss, &drawn, "Loss", out, &there));
    if (!there)
        fputs(r->data.iterations > 0 ? "<p>No loss was recorded.</p>\n"
                                     : "<p>No loss can be read (metrics.jsonl).</p>\n",
              out);
    put_lossless(&r->data, out);
    put_thinned(drawn, r->data.iterations, out);
    return SL_OK;
}

static sl_status put_links(const sl_report_page *r, FILE *out) {
    sl_courses courses = {0};
    int there;
    sl_status status;
    SL_TRY_GOTO(done, status,
                sl_report_put_both(r, sl_report_draw_links, &courses, "Links over the run", out, &there));
    if (!there)
        fputs("<p>No link was measured, or metrics.jsonl cannot be read.</p>\n", out);
    put_thinned(courses.thinned, r->data.iterations, out);
    sl_table_courses(&courses, "link, rank to rank", out);
done:
    sl_courses_free(&courses);
    return status;
}

static sl_status put_devices(const sl_report_page *r, FILE *out) {
    sl_courses courses = {0};
    int there;
    sl_status status;
    SL_TRY_GOTO(done, status,
                sl_report_put_both(r, sl_report_draw_devices, &courses,
                                   "Devices over the recorded iterations", out, &there));
    fputs(there ? "<p class=\"soft\">For the recorded iterations: the time of all ops of a rank, divided by "
                  "its microbatches. A rank is a position in the pipeline; after <em>arrange</em>, another "
                  "device may hold it.</p>\n"
                : "<p>Ops are known only for recorded iterations, and there are none.</p>\n",
          out);
    put_thinned(courses.thinned, r->recorded.iterations, out);
    sl_table_courses(&courses, "rank", out);
done:
    sl_courses_free(&courses);
    return status;
}

static sl_status put_setup(const sl_report_page *r, FILE *out) {
    sl_table_setup(&r->data, out);
    return SL_OK;
}

const sl_report_section sl_report_of_run[] = {
    {"time", "Iteration time", "Iteration time", sl_report_put_time},
    {"gains", "What changes gained", "What changes gained", put_gains},
    {"events", "Events", "Events", sl_report_put_events},
    {"decisions", "Decisions", "Decisions", sl_report_put_decisions},
    {"loss", "Loss", "Loss", put_loss},
    {"gantt", "Iterations op by op", "Iterations op by op", sl_report_put_iterations},
    {"links", "Links", "Links", put_links},
    {"devices", "Devices", "Devices", put_devices},
    {"setup", "Configuration and versions", "Configuration", put_setup},
    {0},
};
