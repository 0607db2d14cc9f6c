#include "report/report.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/fill.h"
#include "plan/draw/html.h"
#include "report/gantt.h"
#include "report/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char sl_report_html[]; /* page.html, made by the build */

#define MOST_EVENTS 150000 /* ops and messages that the page carries */
#define MOST_STILL 4000    /* ops of a still picture */
#define STILLS 3

typedef struct report {
    sl_told told;
    sl_recorded recorded;
    sl_marks marks;
    sl_gain *gain;
    size_t gains;
    unsigned char *kept;  /* [recorded.iterations] whether the page carries it */
    size_t still[STILLS]; /* recorded: an early one, the chosen one, the last; the same again: left out */
} report;

/* ---- pictures ---- */

/* Within a page a picture needs no namespace, and no address stands in it. */
static void put_picture(const char *svg, const char *name, FILE *out) {
    static const char space[] = " xmlns=\"http://www.w3.org/2000/svg\"";
    const char *at = strstr(svg, space);
    if (!at || !*svg)
        return;
    fputs("<figure>", out);
    fwrite(svg, 1, (size_t)(at - svg), out);
    fprintf(out, " role=\"img\" aria-label=\"%s\"%s</figure>\n", name, at + strlen(space));
}

typedef sl_status (*sl_report_part)(const report *r, FILE *out, void *result);

/* A picture as text, to be freed with free; empty where there is nothing to draw. */
static sl_status render(const report *r, sl_report_part part, void *result, char **text, size_t *size) {
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

/* *there: whether there was something to draw. */
static sl_status put_drawn(const report *r, sl_report_part part, void *result, const char *name, FILE *out,
                           int *there) {
    char *text;
    size_t size;
    sl_status status = render(r, part, result, &text, &size);
    *there = status == SL_OK && size > 0;
    if (*there)
        put_picture(text, name, out);
    free(text);
    return status;
}

static void put_thinned(size_t drawn, size_t all, FILE *out) {
    if (drawn > 0)
        fprintf(out,
                "<p class=\"soft\">%zu of %zu iterations are drawn: of each piece of the run its first, its "
                "lowest and its "
                "highest.</p>\n",
                drawn, all);
}

static sl_status draw_time(const report *r, FILE *out, void *drawn) {
    return sl_course_time(&r->told, &r->marks, out, drawn);
}

static sl_status draw_loss(const report *r, FILE *out, void *drawn) {
    return sl_course_loss(&r->told, &r->marks, out, drawn);
}

static sl_status draw_links(const report *r, FILE *out, void *courses) {
    return sl_course_links(&r->told, &r->marks, out, courses);
}

static sl_status draw_devices(const report *r, FILE *out, void *courses) {
    return sl_course_devices(&r->recorded, &r->marks, out, courses);
}

/* ---- the parts of the page ---- */

static sl_status put_title(const void *context, FILE *out) {
    fputs("Run ", out);
    sl_put_escaped(out, ((const report *)context)->told.path);
    return SL_OK;
}

static sl_status put_figures(const void *context, FILE *out) {
    const report *r = context;
    sl_table_figures(&r->told, r->gain, r->gains, out);
    return SL_OK;
}

static sl_status put_notes(const void *context, FILE *out) {
    sl_table_notes(&((const report *)context)->told, out);
    return SL_OK;
}

static sl_status put_time(const void *context, FILE *out) {
    const report *r = context;
    size_t drawn = 0;
    int there;
    SL_TRY(put_drawn(r, draw_time, &drawn, "Iteration time, measured and predicted", out, &there));
    if (!there)
        fputs("<p>No iteration time can be read (metrics.jsonl).</p>\n", out);
    else
        fputs("<p class=\"soft\">Full lines with &#9670;: the run changed something; dotted lines with "
              "&#9661;: trouble, "
              "relief and what else happened. Numbers are those of the events below.</p>\n",
              out);
    put_thinned(drawn, r->told.iterations, out);
    return SL_OK;
}

static sl_status put_gains(const void *context, FILE *out) {
    const report *r = context;
    return sl_table_gains(&r->told, r->gain, r->gains, out);
}

static sl_status put_events(const void *context, FILE *out) {
    sl_table_events(&((const report *)context)->told, out);
    return SL_OK;
}

static sl_status put_decisions(const void *context, FILE *out) {
    sl_table_decisions(&((const report *)context)->told, out);
    return SL_OK;
}

static sl_status put_loss(const void *context, FILE *out) {
    const report *r = context;
    size_t drawn = 0;
    int there;
    SL_TRY(put_drawn(r, draw_loss, &drawn, "Loss", out, &there));
    if (!there)
        fputs("<p>No loss can be read (metrics.jsonl).</p>\n", out);
    put_thinned(drawn, r->told.iterations, out);
    return SL_OK;
}

static sl_status put_links(const void *context, FILE *out) {
    const report *r = context;
    sl_courses courses = {0};
    int there;
    sl_status status = put_drawn(r, draw_links, &courses, "Links over the run", out, &there);
    if (status == SL_OK && !there)
        fputs("<p>No link was measured, or metrics.jsonl cannot be read.</p>\n", out);
    if (status == SL_OK) {
        put_thinned(courses.thinned, r->told.iterations, out);
        sl_table_courses(&courses, "link, rank to rank", out);
    }
    sl_courses_free(&courses);
    return status;
}

static sl_status put_devices(const void *context, FILE *out) {
    const report *r = context;
    sl_courses courses = {0};
    int there;
    sl_status status =
        put_drawn(r, draw_devices, &courses, "Devices over the recorded iterations", out, &there);
    if (status == SL_OK && !there)
        fputs("<p>Ops are known of recorded iterations only, and there are none.</p>\n", out);
    if (status == SL_OK && there)
        fputs("<p class=\"soft\">Of the recorded iterations: all ops of a rank over its microbatches. A rank "
              "is a position in "
              "the pipeline; after <em>arrange</em> another device may have it.</p>\n",
              out);
    if (status == SL_OK) {
        put_thinned(courses.thinned, r->recorded.iterations, out);
        sl_table_courses(&courses, "rank", out);
    }
    sl_courses_free(&courses);
    return status;
}

static sl_status put_setup(const void *context, FILE *out) {
    sl_table_setup(&((const report *)context)->told, out);
    return SL_OK;
}

/* ---- recorded iterations ---- */

static double time_of(const report *r, int iteration) {
    long row = sl_told_find(&r->told, iteration);
    return row < 0 ? NAN : r->told.iteration[row].time;
}

/* Whether something happened there, or just before. */
static int is_eventful(const report *r, int iteration) {
    for (int i = 0; i < r->marks.count; i++)
        if (r->marks.mark[i].x <= iteration && iteration <= r->marks.mark[i].x + 1)
            return 1;
    return 0;
}

/* All recorded iterations where they are few enough; else every n-th, and those at which something happened
 * as long as there is room. */
static void keep(report *r, int wanted) {
    const sl_recorded *rec = &r->recorded;
    const size_t every = rec->events / MOST_EVENTS + 1;
    size_t number = 0, used = 0;
    for (size_t i = 0; i < rec->iterations; i++) {
        number += i > 0 && rec->iteration[i].iteration != rec->iteration[i - 1].iteration;
        r->kept[i] = number % every == 0 || rec->iteration[i].iteration == wanted;
        used += r->kept[i] ? rec->iteration[i].count : 0;
    }
    for (size_t i = 0; i < rec->iterations; i++) {
        if (r->kept[i] || used + rec->iteration[i].count > MOST_EVENTS + MOST_EVENTS / 2 ||
            !is_eventful(r, rec->iteration[i].iteration))
            continue;
        r->kept[i] = 1;
        used += rec->iteration[i].count;
    }
}

static sl_time end_of(const sl_recorded *rec, const sl_recorded_iteration *it) {
    sl_time end = 0;
    for (size_t k = it->first; k < it->first + it->count; k++)
        end = rec->event[k].end > end ? rec->event[k].end : end;
    return end;
}

/* The slowest one after the first, which is cold; of its replicas the one whose last op ends last. */
static size_t slowest(const report *r) {
    const sl_recorded *rec = &r->recorded;
    size_t best = rec->iterations;
    double longest = -1;
    sl_time end_of_best = -1;
    for (size_t i = 0; i < rec->iterations; i++) {
        const sl_recorded_iteration *it = &rec->iteration[i];
        double time = i == 0 || it->iteration == rec->iteration[0].iteration ? 0 : time_of(r, it->iteration);
        sl_time end = end_of(rec, it);
        if (!r->kept[i] || isnan(time) || time < longest || (!(time > longest) && end <= end_of_best))
            continue;
        best = i;
        longest = time;
        end_of_best = end;
    }
    for (size_t i = 0; i < rec->iterations && best == rec->iterations; i++)
        best = r->kept[i] ? i : best;
    return best;
}

static void write_title(const report *r, size_t index, char *text, size_t size) {
    const sl_recorded_iteration *it = &r->recorded.iteration[index];
    long row = sl_told_find(&r->told, it->iteration);
    const sl_told_iteration *told = row < 0 ? NULL : &r->told.iteration[row];
    size_t used = (size_t)snprintf(text, size, "iteration %d", it->iteration);
    if (r->recorded.replicas > 1)
        used += (size_t)snprintf(text + used, size - used, ", replica %d", it->replica);
    if (told && told->schedule >= 0)
        used += (size_t)snprintf(text + used, size - used, ": %.60s", r->told.name[told->schedule]);
    if (told && !isnan(told->time))
        used += (size_t)snprintf(text + used, size - used, ", %.6g ms", told->time);
    if (told && !isnan(told->predicted))
        snprintf(text + used, size - used, " (predicted %.6g ms)", told->predicted);
}

static void put_option(const report *r, size_t index, int chosen, FILE *out) {
    char title[256];
    write_title(r, index, title, sizeof title);
    fprintf(out, "<option value=\"recorded-%zu\"%s>", index, chosen ? " selected" : "");
    sl_put_escaped(out, title);
    fputs("</option>\n", out);
}

static sl_status put_data(const report *r, size_t index, FILE *out) {
    sl_retraced retraced;
    char title[256];
    write_title(r, index, title, sizeof title);
    sl_status status = sl_retrace(&r->told, &r->recorded, index, &retraced);
    if (status == SL_OK) {
        fprintf(out, "<script type=\"application/json\" id=\"recorded-%zu\" data-title=\"iteration %d\">",
                index, r->recorded.iteration[index].iteration);
        status = sl_gantt_data(&retraced, title, out);
        fputs("</script>\n", out);
    }
    sl_retraced_free(&retraced);
    return status;
}

static sl_status put_live(const report *r, size_t chosen, FILE *out) {
    fputs("<div class=\"live\">\n<p><label>Recorded iteration: <select id=\"iteration\">\n", out);
    for (size_t i = 0; i < r->recorded.iterations; i++)
        if (r->kept[i])
            put_option(r, i, i == chosen, out);
    fputs("</select></label> <button id=\"before\">&larr; before</button> <button id=\"behind\">behind "
          "&rarr;</button></p>\n"
          "<iframe id=\"gantt-frame\" title=\"Gantt chart of the chosen iteration\" "
          "sandbox=\"allow-scripts\"></iframe>\n"
          "</div>\n<script type=\"application/json\" id=\"gantt-page\">",
          out);
    sl_put_json(out, sl_gantt_html);
    fputs("</script>\n", out);
    for (size_t i = 0; i < r->recorded.iterations; i++)
        if (r->kept[i])
            SL_TRY(put_data(r, i, out));
    return SL_OK;
}

/* ---- still pictures ---- */

typedef struct still {
    size_t index;
    char why_not[400]; /* nothing is foretold; else empty */
} still;

static sl_status draw_still(const report *r, FILE *out, void *still_) {
    still *s = still_;
    sl_retraced retraced;
    char title[256], predicted[400], measured[400];
    write_title(r, s->index, title, sizeof title);
    sl_status status = sl_retrace(&r->told, &r->recorded, s->index, &retraced);
    if (status == SL_OK && retraced.measured.spans <= MOST_STILL && retraced.measured.ranks <= 64) {
        snprintf(predicted, sizeof predicted, "predicted: ops %.6g ms, bubble %.1f %%",
                 sl_to_ms(sl_timeline_makespan(&retraced.predicted)),
                 100 * sl_timeline_bubble(&retraced.predicted));
        snprintf(measured, sizeof measured, "measured: ops %.6g ms, bubble %.1f %% (%s)",
                 sl_to_ms(sl_timeline_makespan(&retraced.measured)),
                 100 * sl_timeline_bubble(&retraced.measured), title);
        status = sl_gantt_still(&retraced, predicted, measured, out);
    }
    snprintf(s->why_not, sizeof s->why_not, "%s", retraced.why_not);
    sl_retraced_free(&retraced);
    return status;
}

static sl_status put_still(const report *r, size_t index, FILE *out) {
    still s = {.index = index};
    char name[64];
    int there;
    snprintf(name, sizeof name, "Gantt chart of iteration %d", r->recorded.iteration[index].iteration);
    SL_TRY(put_drawn(r, draw_still, &s, name, out, &there));
    if (!there)
        fprintf(out, "<p class=\"soft\">Iteration %d has too many ops for a still picture.</p>\n",
                r->recorded.iteration[index].iteration);
    else if (s.why_not[0]) {
        fputs("<p class=\"soft\">Not foretold again: ", out);
        sl_put_escaped(out, s.why_not);
        fputs(".</p>\n", out);
    }
    return SL_OK;
}

/* The first ones of a run are cold. */
static void choose_stills(report *r, size_t chosen) {
    const sl_recorded *rec = &r->recorded;
    r->still[0] = 0;
    r->still[1] = chosen;
    r->still[2] = rec->iterations > 0 ? rec->iterations - 1 : 0;
    for (size_t i = 0; i < rec->iterations; i++)
        if (rec->iteration[i].iteration > rec->iteration[0].iteration &&
            rec->iteration[i].replica == rec->iteration[0].replica) {
            r->still[0] = i;
            break;
        }
}

static int is_repeated(const report *r, int k) {
    for (int i = 0; i < k; i++)
        if (r->still[i] == r->still[k])
            return 1;
    return 0;
}

static sl_status put_stills(const report *r, FILE *out) {
    fputs("<div class=\"still\">\n", out);
    for (int k = 0; k < STILLS; k++)
        if (!is_repeated(r, k))
            SL_TRY(put_still(r, r->still[k], out));
    fputs("</div>\n", out);
    return SL_OK;
}

static sl_status put_gantt(const void *context, FILE *out) {
    const report *r = context;
    const sl_recorded *rec = &r->recorded;
    size_t kept = 0, iterations = 0;
    if (rec->iterations == 0) {
        fputs("<p>No iteration was recorded op by op.</p>\n", out);
        return SL_OK;
    }
    for (size_t i = 0; i < rec->iterations; i++)
        kept += r->kept[i];
    for (size_t i = 0; i < rec->iterations; i++)
        iterations += i == 0 || rec->iteration[i].iteration != rec->iteration[i - 1].iteration;
    fprintf(out,
            "<p>%zu iterations were recorded. Predicted: the order that ran, replayed on the "
            "ops of the "
            "iteration before and the links that metrics.jsonl has of it. Links are lanes below the ranks; "
            "of messages the "
            "time from taking the link to arrival is shown. The critical path of what was measured goes back "
            "from the last "
            "op, each time to what came last: the op before, or the message that it needed.</p>\n",
            iterations);
    if (kept < rec->iterations)
        fprintf(out,
                "<p class=\"soft\">The page carries %zu of %zu (each replica counted), spread over the run "
                "and where something "
                "happened; "
                "timeline.json has all.</p>\n",
                kept, rec->iterations);
    SL_TRY(put_live(r, r->still[1], out));
    return put_stills(r, out);
}

/* ---- the whole ---- */

static const sl_page_mark marks[] = {
    {"@TITLE@", put_title},         {"@FIGURES@", put_figures}, {"@NOTES@", put_notes},
    {"@TIME@", put_time},           {"@GAINS@", put_gains},     {"@EVENTS@", put_events},
    {"@DECISIONS@", put_decisions}, {"@LOSS@", put_loss},       {"@GANTT@", put_gantt},
    {"@LINKS@", put_links},         {"@DEVICES@", put_devices}, {"@SETUP@", put_setup}};

/* The replica of iteration `wanted` that ends last, or of the slowest. */
static sl_status choose(report *r, int wanted) {
    size_t chosen = slowest(r);
    sl_time last = -1;
    for (size_t i = 0; i < r->recorded.iterations && wanted != SL_REPORT_SLOWEST; i++) {
        const sl_recorded_iteration *it = &r->recorded.iteration[i];
        sl_time end = end_of(&r->recorded, it);
        if (it->iteration != wanted || !r->kept[i] || end <= last)
            continue;
        chosen = i;
        last = end;
    }
    if (wanted != SL_REPORT_SLOWEST && last < 0)
        return sl_error(SL_ENONE, "%s: iteration %d was not recorded op by op", r->told.path, wanted);
    choose_stills(r, chosen);
    return SL_OK;
}

static sl_status read_all(const char *folder, int iteration, report *r) {
    SL_TRY(sl_told_read(folder, &r->told));
    SL_TRY(sl_recorded_read(&r->told, &r->recorded));
    SL_TRY(sl_marks_make(&r->told, &r->marks));
    SL_TRY(sl_gain_make(&r->told, &r->gain, &r->gains));
    SL_TRY(sl_alloc(&r->kept, r->recorded.iterations, 1));
    keep(r, iteration);
    return choose(r, iteration);
}

static void free_all(report *r) {
    sl_free(r->kept);
    sl_free(r->gain);
    sl_marks_free(&r->marks);
    sl_recorded_free(&r->recorded);
    sl_told_free(&r->told);
}

static sl_status write_page(const report *r, char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the report");
    sl_status status = sl_page_fill(sl_report_html, marks, sizeof marks / sizeof marks[0], r, out);
    int failed = ferror(out);
    if ((fclose(out) != 0 || failed) && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the report");
    if (status != SL_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

sl_status sl_report_make(const char *folder, int iteration, char **text, size_t *size) {
    report r = {0};
    *text = NULL;
    sl_status status = read_all(folder, iteration, &r);
    if (status == SL_OK)
        status = write_page(&r, text, size);
    free_all(&r);
    return status;
}

/* ---- pictures as files ---- */

static sl_status draw_file(const report *r, sl_report_part part, void *result, const char *pictures,
                           const char *name, int *written) {
    char path[4096], *text;
    size_t size;
    if ((size_t)snprintf(path, sizeof path, "%s/%s.svg", pictures, name) >= sizeof path)
        return sl_error(SL_EINVAL, "%s: the path is too long", pictures);
    sl_status status = render(r, part, result, &text, &size);
    if (status == SL_OK && size > 0) {
        status = sl_file_write(path, text, size);
        *written += status == SL_OK;
    }
    free(text);
    return status;
}

static sl_status draw_files(const report *r, const char *pictures, int *written) {
    size_t drawn;
    sl_courses links = {0}, devices = {0};
    SL_TRY(sl_directory_make(pictures));
    SL_TRY(draw_file(r, draw_time, &drawn, pictures, "iteration-time", written));
    SL_TRY(draw_file(r, draw_loss, &drawn, pictures, "loss", written));
    sl_status status = draw_file(r, draw_links, &links, pictures, "links", written);
    if (status == SL_OK)
        status = draw_file(r, draw_devices, &devices, pictures, "devices", written);
    sl_courses_free(&links);
    sl_courses_free(&devices);
    for (int k = 0; k < STILLS && status == SL_OK && r->recorded.iterations > 0; k++) {
        still s = {.index = r->still[k]};
        const sl_recorded_iteration *it = &r->recorded.iteration[s.index];
        char name[64];
        snprintf(name, sizeof name, r->recorded.replicas > 1 ? "iteration-%d-replica-%d" : "iteration-%d",
                 it->iteration, it->replica);
        if (!is_repeated(r, k))
            status = draw_file(r, draw_still, &s, pictures, name, written);
    }
    return status;
}

sl_status sl_report_draw(const char *folder, int iteration, const char *pictures, int *written) {
    report r = {0};
    *written = 0;
    sl_status status = read_all(folder, iteration, &r);
    if (status == SL_OK)
        status = draw_files(&r, pictures, written);
    free_all(&r);
    return status;
}
