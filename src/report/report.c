#include "report/report.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/page_fill.h"
#include "report/report_inside.h"
#include "report/screens.h"
#include "report/tables.h"

#include <stdio.h>
#include <stdlib.h>

extern const char sl_report_html[]; /* page.html, made by the build */

/* ---- the page ---- */

static const sl_report_section *sections_of(const sl_report_page *r) {
    return r->data.is_watch ? sl_report_of_watch : sl_report_of_run;
}

static sl_status put_title(const void *context, FILE *out) {
    const sl_report_page *r = context;
    fputs(r->data.is_watch ? "Watch " : "Run ", out);
    sl_put_escaped(out, r->data.title);
    return SL_OK;
}

static sl_status put_answer(const void *context, FILE *out) {
    const sl_report_page *r = context;
    if (r->data.is_watch || r->data.iterations == 0)
        return SL_OK;
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory)
        sl_adaptation_report(&r->data, &r->adaptation, memory);
    if (!memory || fclose(memory) != 0) {
        free(text);
        return sl_error(SL_ENOMEM, "out of memory for the report");
    }
    fputs("<p class=\"answer\">", out);
    sl_put_escaped(out, text);
    fputs("</p>", out);
    free(text);
    return SL_OK;
}

static sl_status put_figures(const void *context, FILE *out) {
    const sl_report_page *r = context;
    if (r->data.is_watch)
        sl_watched_figures(&r->data, out);
    else
        sl_table_figures(&r->data, r->gain, r->gains, out);
    return SL_OK;
}

static sl_status put_notes(const void *context, FILE *out) {
    sl_table_notes(&((const sl_report_page *)context)->data, out);
    return SL_OK;
}

static sl_status put_nav(const void *context, FILE *out) {
    fputs("<nav aria-label=\"Parts of this page\">", out);
    for (const sl_report_section *s = sections_of(context); s->id; s++)
        fprintf(out, "<a href=\"#%s\">%s</a>", s->id, s->nav);
    fputs("</nav>", out);
    return SL_OK;
}

static sl_status put_sections(const void *context, FILE *out) {
    for (const sl_report_section *s = sections_of(context); s->id; s++) {
        fprintf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", s->id, s->heading);
        SL_TRY(s->put(context, out));
        fputs("\n</section>\n", out);
    }
    return SL_OK;
}

static const sl_page_mark marks[] = {{"@TITLE@", put_title},     {"@ANSWER@", put_answer},
                                     {"@FIGURES@", put_figures}, {"@NOTES@", put_notes},
                                     {"@NAV@", put_nav},         {"@SECTIONS@", put_sections}};

static sl_status read_all(const char *folder, int iteration, sl_report_page *r) {
    SL_TRY(sl_run_data_read(folder, &r->data));
    if (!r->data.is_watch)
        SL_TRY(sl_recorded_read(&r->data, &r->recorded));
    SL_TRY(sl_marks_make(&r->data, &r->marks));
    SL_TRY(sl_gain_make(&r->data, &r->gain, &r->gains));
    SL_TRY(sl_adaptation_find(&r->data, &r->recorded, r->gain, r->gains, &r->adaptation));
    return sl_report_choose(r, iteration);
}

static void free_all(sl_report_page *r) {
    SL_FREE(r->kept, r->gain);
    sl_marks_free(&r->marks);
    sl_recorded_free(&r->recorded);
    sl_run_data_free(&r->data);
}

static sl_status write_page(const sl_report_page *r, char **text, size_t *size) {
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
    sl_report_page r = {0};
    *text = NULL;
    sl_status status = read_all(folder, iteration, &r);
    SL_THEN(status, write_page(&r, text, size));
    free_all(&r);
    return status;
}

/* ---- pictures as files ---- */

static sl_status draw_file(const sl_report_page *r, sl_report_part part, void *result, const char *pictures,
                           const char *name, int *written) {
    char path[4096], *text;
    size_t size;
    if ((size_t)snprintf(path, sizeof path, "%s/%s.svg", pictures, name) >= sizeof path)
        return sl_error(SL_EINVAL, "%s: the path is too long", pictures);
    sl_status status = sl_report_render(r, part, result, &text, &size);
    if (status == SL_OK && size > 0) {
        status = sl_file_write(path, text, size);
        *written += status == SL_OK;
    }
    free(text);
    return status;
}

static sl_status draw_recording(const sl_report_page *r, FILE *out, void *ignored) {
    (void)ignored;
    return sl_screens_record(&r->data, &r->recorded, &r->adaptation, out);
}

static sl_status draw_files(const sl_report_page *r, const char *pictures, int *written) {
    size_t drawn;
    sl_courses links = {0}, devices = {0};
    SL_TRY(sl_directory_make(pictures));
    SL_TRY(draw_file(r, sl_report_draw_time, &drawn, pictures, "iteration-time", written));
    SL_TRY(draw_file(r, sl_report_draw_loss, &drawn, pictures, "loss", written));
    SL_TRY(draw_file(r, sl_report_draw_adaptation, NULL, pictures, "iterations", written));
    SL_TRY(draw_file(r, sl_report_draw_gains, NULL, pictures, "gains", written));
    SL_TRY(draw_file(r, draw_recording, NULL, pictures, "recording", written));
    sl_status status = draw_file(r, sl_report_draw_links, &links, pictures, "links", written);
    SL_THEN(status, draw_file(r, sl_report_draw_devices, &devices, pictures, "devices", written));
    sl_courses_free(&links);
    sl_courses_free(&devices);
    SL_TRY(status);
    for (int k = 0; k < SL_REPORT_STILLS && r->recorded.iterations > 0; k++) {
        sl_report_still s = {.index = r->still[k]};
        const sl_recorded_iteration *it = &r->recorded.iteration[s.index];
        char name[64];
        snprintf(name, sizeof name, r->recorded.replicas > 1 ? "iteration-%d-replica-%d" : "iteration-%d",
                 it->iteration, it->replica);
        if (!sl_report_is_repeated(r, k))
            SL_TRY(draw_file(r, sl_report_draw_still, &s, pictures, name, written));
    }
    return SL_OK;
}

sl_status sl_report_draw(const char *folder, int iteration, const char *pictures, int *written) {
    sl_report_page r = {0};
    *written = 0;
    sl_status status = read_all(folder, iteration, &r);
    SL_THEN(status, draw_files(&r, pictures, written));
    free_all(&r);
    return status;
}

sl_status sl_report_leave(const char *folder) {
    sl_report_page r = {0};
    char *text = NULL, path[4096];
    size_t size;
    int written = 0;
    sl_status status;
    if ((size_t)snprintf(path, sizeof path, "%s/report.html", folder) >= sizeof path)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    SL_TRY_GOTO(done, status, read_all(folder, SL_REPORT_SLOWEST, &r));
    SL_TRY_GOTO(done, status, write_page(&r, &text, &size));
    SL_TRY_GOTO(done, status, sl_file_write(path, text, size));
    status = draw_file(&r, sl_report_draw_adaptation, NULL, folder, "iterations", &written);
done:
    free(text);
    free_all(&r);
    return status;
}
