/* Shared by the files of the page: report.c reads the folder and orders the sections, sections.c writes them,
 * iterations.c those of single iterations, watch_tables.c those of a watched job. */
#pragma once

#include "report/adaptation.h"
#include "report/courses.h"
#include "report/gain.h"
#include "report/recorded.h"

#include <stdio.h>

#define SL_REPORT_STILLS 3

typedef struct sl_report_page {
    sl_run_data data;
    sl_recorded recorded;
    sl_marks marks;
    sl_gain *gain;
    size_t gains;
    sl_adaptation adaptation;
    unsigned char *kept;            /* [recorded.iterations] whether the page includes it */
    size_t still[SL_REPORT_STILLS]; /* recorded: an early one, the chosen one, the last; repeats omitted */
    int is_narrow;                  /* pictures for a phone */
} sl_report_page;

/* A part of the page with a heading: `put` writes its contents. */
typedef struct sl_report_section {
    const char *id, *heading, *nav;
    sl_status (*put)(const sl_report_page *page, FILE *out);
} sl_report_section;

extern const sl_report_section sl_report_of_run[], sl_report_of_watch[]; /* the last has no id */

/* ---- pictures: sections.c ---- */

/* `result` is the part's own. */
typedef sl_status (*sl_report_part)(const sl_report_page *page, FILE *out, void *result);

/** A picture as text, to be freed with free; empty if there is nothing to draw. SL_ENOMEM. */
sl_status sl_report_render(const sl_report_page *page, sl_report_part part, void *result, char **text,
                           size_t *size);

/** The same as a figure of the page, and as a narrower one, which the page shows on a phone. */
sl_status sl_report_put_both(const sl_report_page *page, sl_report_part part, void *result, const char *name,
                             FILE *out, int *there);

/** As a figure of the page alone. *there: whether there was something to draw. */
sl_status sl_report_put_drawn(const sl_report_page *page, sl_report_part part, void *result, const char *name,
                              FILE *out, int *there);

sl_status sl_report_draw_time(const sl_report_page *page, FILE *out, void *drawn); /* size_t */
sl_status sl_report_draw_loss(const sl_report_page *page, FILE *out, void *drawn); /* size_t */
sl_status sl_report_draw_adaptation(const sl_report_page *page, FILE *out, void *ignored);
sl_status sl_report_draw_gains(const sl_report_page *page, FILE *out, void *ignored);
sl_status sl_report_draw_links(const sl_report_page *page, FILE *out, void *courses);   /* sl_courses */
sl_status sl_report_draw_devices(const sl_report_page *page, FILE *out, void *courses); /* sl_courses */

/* Sections of both kinds. */
sl_status sl_report_put_time(const sl_report_page *page, FILE *out);
sl_status sl_report_put_events(const sl_report_page *page, FILE *out);
sl_status sl_report_put_decisions(const sl_report_page *page, FILE *out);

/* ---- watch_tables.c ---- */

/** The key figures of a watched program. */
void sl_watched_figures(const sl_run_data *data, FILE *out);

/* ---- iterations.c ---- */

/** Chooses the recorded iterations in the page, and its still pictures; `wanted` as for sl_report_make. */
sl_status sl_report_choose(sl_report_page *page, int wanted);
sl_status sl_report_put_iterations(const sl_report_page *page, FILE *out);
int sl_report_is_repeated(const sl_report_page *page, int still);

typedef struct sl_report_still {
    size_t index;
    char why_not[400]; /* why there is no prediction; else empty */
} sl_report_still;

sl_status sl_report_draw_still(const sl_report_page *page, FILE *out, void *still); /* sl_report_still */
