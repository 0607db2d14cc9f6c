/* Iteration time, loss, links and devices of a run, each as a chart over the iterations with the events
 * marked, thinned if the run is long. */
#pragma once

#include "plan/draw/chart.h"
#include "report/recorded.h"

#define SL_COURSE_POINTS 1500 /* of a chart, at most, approximately */
#define SL_COURSE_LINES 8     /* the worst links and devices */
#define SL_COURSE_ROWS 200    /* of a table of links or devices */

/* Event marks for all charts: the events that matter, grouped by iteration; signs are their kinds. */
typedef struct sl_marks {
    sl_chart_mark *mark;
    char **text; /* [2 * count] storage of the marks' signs and texts */
    int count;
} sl_marks;

/** SL_ENOMEM. Free with sl_marks_free, also on error. */
sl_status sl_marks_make(const sl_run_data *data, sl_marks *marks);
void sl_marks_free(sl_marks *marks);
/** Whether an event is marked. */
int sl_marks_has(const sl_run_data_event *event);

/* One line of a chart over rows, and of a table: a link or a device. */
typedef struct sl_course {
    char name[64];
    size_t count;         /* values */
    double middle, worst; /* median and largest; worst_at: its iteration */
    double last;
    int worst_at;
} sl_course;

typedef struct sl_courses {
    sl_course *course; /* the worst first */
    size_t count;
    size_t thinned; /* points drawn; 0: all */
} sl_courses;

/** Measured and predicted time; `style` may be NULL. *drawn: points drawn if not all, else 0. Nothing is
 * written if no iteration has a value. SL_ENOMEM, SL_ESYS. */
sl_status sl_course_time(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                         FILE *out, size_t *drawn);
/** Loss, and validation loss if measured. */
sl_status sl_course_loss(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                         FILE *out, size_t *drawn);
/** Message times on each direction of a link, latency and transfer: draws the worst ones, lists all. Free
 * with sl_courses_free, also on error. */
sl_status sl_course_links(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                          FILE *out, sl_courses *courses);
/** Compute time per microbatch of each rank, from the recorded iterations. */
sl_status sl_course_devices(const sl_recorded *recorded, const sl_marks *marks, const sl_draw_style *style,
                            FILE *out, sl_courses *courses);
void sl_courses_free(sl_courses *courses);
