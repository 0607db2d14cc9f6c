#include "dashboard/newest.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "report/analysis.h"
#include "report/recorded.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARE 10 /* times the duration of the last one */
enum { BEGIN = 1 << 20, NEWEST = 4 << 20, MAX_OPS = 12000 };

sl_status sl_newest_open(const char *folder, const sl_draw_style *style, sl_newest *n) {
    size_t size = strlen(folder) + sizeof "/timeline.json";
    *n = (sl_newest){.style = style};
    SL_TRY(sl_alloc(&n->path, size, 1));
    snprintf(n->path, size, "%s/timeline.json", folder);
    return SL_OK;
}

void sl_newest_close(sl_newest *n) {
    free(n->svg);
    sl_free(n->path);
    *n = (sl_newest){0};
}

/* ---- the file ---- */

/* text[*size]: its start, and its newest part from the start of a line. *cut: there is a gap between them. */
static sl_status read_ends(int file, off_t length, char **text, size_t *size, int *cut) {
    *cut = length > BEGIN + NEWEST;
    const off_t from = *cut ? length - NEWEST : length;
    const size_t first = *cut ? BEGIN : (size_t)length;
    SL_TRY(sl_alloc(text, first + NEWEST + 2, 1));
    ssize_t got = pread(file, *text, first, 0);
    *size = got > 0 ? (size_t)got : 0;
    if (!*cut)
        return SL_OK;
    char *last = memrchr(*text, '\n', *size), *more;
    *size = last ? (size_t)(last - *text) + 1 : 0;
    got = pread(file, *text + *size, NEWEST, from);
    more = got > 0 ? memchr(*text + *size, '\n', (size_t)got) : NULL;
    if (!more)
        return SL_OK;
    size_t skipped = (size_t)(more + 1 - (*text + *size));
    memmove(*text + *size, more + 1, (size_t)got - skipped);
    *size += (size_t)got - skipped;
    return SL_OK;
}

/* Whether no iteration is being written. */
static int is_closed(const char *text, size_t size) {
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) && text[size - 1])
        size--;
    return size > 1 && memcmp(text + size - 2, "]}", 2) == 0;
}

/* The newest complete one; -1: none. The last may still be incomplete. With a gap (`cut`) between both parts,
 * one is known to be complete if the previous one is present, too. */
static long choose(const sl_recorded *r, int cut, int closed, int *too_large) {
    long last = -1, before = -1, third = -1;
    for (size_t i = 0; i < r->iterations; i++)
        if (last < 0 || r->iteration[i].iteration > r->iteration[last].iteration) {
            third = before;
            before = last;
            last = (long)i;
        }
    long newest = closed ? last : before, former = closed ? before : third;
    int alone = former < 0 || r->iteration[former].iteration != r->iteration[newest].iteration - 1;
    *too_large = newest >= 0 && ((cut && alone) || r->iteration[newest].count > MAX_OPS);
    return *too_large ? -1 : newest;
}

/* ---- the picture ---- */

/* page.html knows it by its class, shows the text, and asks again. */
static void say(FILE *out, const char *why) {
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"none\" width=\"640\" height=\"40\"><text x=\"8\" y=\"25\" "
          "font-family=\"sans-serif\" font-size=\"13\">",
          out);
    sl_put_escaped(out, why);
    fputs("</text></svg>\n", out);
}

static sl_status draw(const sl_recorded *r, size_t index, const sl_draw_style *style, FILE *out) {
    sl_timeline timeline = {0};
    char what[80], title[200];
    sl_status status = sl_recorded_timeline(r, index, &timeline);
    if (status == SL_OK) {
        snprintf(what, sizeof what, "iteration %d%s", r->iteration[index].iteration,
                 r->replicas > 1 ? " of replica 0" : "");
        sl_gantt_title("measured", &timeline, what, title, sizeof title);
        const sl_svg_chart chart = {.timeline = &timeline, .title = title};
        status = sl_draw_svg_charts(&chart, 1, style, out);
    }
    sl_timeline_free(&timeline);
    return status;
}

static sl_status make(int file, off_t length, const sl_draw_style *style, FILE *out) {
    char *text = NULL;
    size_t size = 0;
    int cut = 0, too_large = 0;
    sl_recorded recorded = {0};
    sl_status status;
    SL_TRY_GOTO(done, status, read_ends(file, length, &text, &size, &cut));
    const int closed = is_closed(text, size); /* reading modifies it */
    SL_TRY_GOTO(done, status, sl_recorded_read_text(text, size, &recorded));
    long index = choose(&recorded, cut, closed, &too_large);
    if (index >= 0)
        status = draw(&recorded, (size_t)index, style, out);
    else
        say(out, too_large ? "An iteration is too large for this page: slackline report shows it."
                           : "No iteration can be read from timeline.json.");
done:
    sl_recorded_free(&recorded);
    sl_free(text);
    return status;
}

/* Makes a new picture if the file has changed. */
static void renew(sl_newest *n) {
    struct stat file;
    char *svg = NULL;
    size_t size = 0;
    int in = open(n->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in < 0 || fstat(in, &file) != 0 || !S_ISREG(file.st_mode))
        file = (struct stat){0};
    int same = n->svg && !sl_file_differs(&n->file, &file);
    FILE *out = same ? NULL : open_memstream(&svg, &size);
    if (out) {
        sl_status status = SL_OK;
        if (file.st_ino)
            status = make(in, file.st_size, n->style, out);
        else
            say(out, "No iteration has been recorded op by op yet.");
        int whole = fclose(out) == 0 && status == SL_OK;
        free(n->svg);
        n->svg = whole ? svg : NULL;
        n->file = file;
        if (!whole)
            free(svg);
    }
    if (in >= 0)
        close(in);
}

void sl_newest_put(sl_newest *n, FILE *out) {
    sl_time begin = sl_now();
    if (begin >= n->next) {
        renew(n);
        sl_time end = sl_now();
        n->next = end + SHARE * (end - begin);
    }
    if (n->svg)
        fputs(n->svg, out);
    else
        say(out, "The picture cannot be drawn: there is not enough memory, or an op is invalid.");
}
