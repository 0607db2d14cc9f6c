#include "run/journal/health.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 4, NARROW = 50 }; /* links that are named; width in which one is */

typedef struct words {
    char *text;
    size_t size, used, width;
    int full;
} words;

/* All of it or nothing. */
static void add(words *w, const char *piece) {
    size_t length = strlen(piece);
    if (w->full || w->used + length >= w->size || w->used + length > w->width) {
        w->full = 1;
        return;
    }
    memcpy(w->text + w->used, piece, length + 1);
    w->used += length;
}

static int is_device(const sl_incident_view *i) {
    return i->part.kind == SL_PART_DEVICE;
}

static void name_link(const sl_job *job, const sl_incident_view *i, const char *before, char *piece,
                      size_t size) {
    double ms = i->growth / SL_MS;
    int a = i->part.a >= 0 ? sl_job_rank(job, i->part.a) : -1,
        b = i->part.b >= 0 ? sl_job_rank(job, i->part.b) : -1;
    char name[40];
    if (i->stage >= 0)
        snprintf(name, sizeof name, "sum of stage %d", i->stage);
    else if (b < 0)
        snprintf(name, sizeof name, "all of rank %d", a);
    else
        snprintf(name, sizeof name, "%d-%d", a < b ? a : b, a < b ? b : a);
    snprintf(piece, size, "%s%s +%.*f ms", before, name, fabs(ms) < 10 ? 1 : 0, ms);
}

static void add_links(const sl_job *job, const sl_incident_view *incident, int count, int slow, words *w) {
    char piece[96];
    int most = w->width < NARROW ? 1 : NAMED, named = 0;
    if (job->ranks * job->replicas == 1)
        return;
    if (!slow)
        add(w, "links ok");
    for (int i = 0; i < count && named < most; i++) {
        if (is_device(&incident[i]))
            continue;
        name_link(job, &incident[i], named++ ? ", " : "links ", piece, sizeof piece);
        add(w, piece);
    }
    if (slow <= most)
        return;
    snprintf(piece, sizeof piece, ", %d more slow", slow - most);
    add(w, piece);
}

static void add_ranks(const sl_job *job, const sl_incident_view *incident, int count, int slow, words *w) {
    char piece[64];
    const char *before = w->used > 0 ? "; " : "";
    const sl_incident_view *worst = NULL;
    for (int i = 0; i < count; i++)
        if (is_device(&incident[i]) && (!worst || incident[i].growth > worst->growth))
            worst = &incident[i];
    if (!worst)
        snprintf(piece, sizeof piece, "%sranks ok", before);
    else if (slow == 1)
        snprintf(piece, sizeof piece, "%srank %d x%.2g", before, sl_job_rank(job, worst->part.a),
                 worst->growth);
    else
        snprintf(piece, sizeof piece, "%srank %d x%.2g, %d more slow", before,
                 sl_job_rank(job, worst->part.a), worst->growth, slow - 1);
    add(w, piece);
}

int sl_health_words(const sl_job *job, const sl_incident_view *incident, int count, int width, char *text,
                    size_t size) {
    words w = {.text = text, .size = size, .width = width > 0 ? (size_t)width : 0};
    int ranks = 0;
    if (size > 0)
        text[0] = 0;
    for (int i = 0; i < count; i++)
        ranks += is_device(&incident[i]);
    add_links(job, incident, count, count - ranks, &w);
    add_ranks(job, incident, count, ranks, &w);
    return count > 0;
}
