/* The files that `slackline watch` leaves (docs/watching.md). */
#include "base/memory.h"
#include "report/folder_inside.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* 0 where it is not there. */
static time_t time_of(const sl_told *t, const char *name) {
    struct stat file;
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", t->path, name);
    return stat(path, &file) == 0 ? file.st_mtim.tv_sec : 0;
}

int sl_told_is_watch(const sl_told *t) {
    return (time_of(t, "watch.json") || time_of(t, "report.json")) && !time_of(t, "metrics.jsonl") &&
           !time_of(t, "run.yaml");
}

static sl_status take_points(sl_told *t, const json_t *points) {
    size_t i;
    json_t *one;
    json_array_foreach(points, i, one) {
        const json_t *number = json_array_get(one, 0), *ms = json_array_get(one, 1);
        json_int_t iteration = json_is_integer(number) ? json_integer_value(number) : -1;
        double time = json_is_number(ms) ? json_number_value(ms) : NAN;
        int held = json_integer_value(json_array_get(one, 2)) == 1; /* a time that says nothing: no point */
        int behind = t->iterations == 0 || iteration > t->iteration[t->iterations - 1].iteration;
        if (iteration < 0 || iteration >= INT_MAX || !behind || !isfinite(time) || fabs(time) > 1e12)
            continue;
        SL_TRY(sl_grow(&t->iteration, &t->room[SL_TOLD_ITERATIONS], t->iterations + 1, sizeof *t->iteration));
        t->iteration[t->iterations++] = (sl_told_iteration){.iteration = (int)iteration,
                                                            .schedule = -1,
                                                            .phase = -1,
                                                            .loss = NAN,
                                                            .validation = NAN,
                                                            .time = held ? NAN : time,
                                                            .predicted = NAN};
    }
    return SL_OK;
}

/* report.json is written at the end. */
static sl_status take_outcome(sl_told *t) {
    int code = sl_told_count(t->outcome, "exit_code", -1);
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(t->outcome, "not_told"), i, one) if (json_is_string(one))
        SL_TRY(sl_told_note(t, "%s", json_string_value(one)));
    if (code < 0)
        return SL_OK;
    char why[40];
    t->state = code == 0 ? SL_TOLD_ENDED : SL_TOLD_FAILED;
    snprintf(why, sizeof why, "exit code %d", code);
    sl_free(t->why);
    return sl_copy_text(&t->why, why);
}

sl_status sl_told_read_watch(sl_told *t, int *found) {
    int events;
    char *text;
    SL_TRY(sl_told_lines(t, "events.jsonl", sl_told_take_event, t, &events));
    SL_TRY(sl_told_read_text(t, "decisions.txt", NULL, &t->decisions));
    SL_TRY(
        sl_told_read_object(t, "watch.json", "ranks, links and iterations are not known", &text, &t->watch));
    sl_free(text);
    t->state = SL_TOLD_OPEN; /* events of kinds that a run has, too, mean something else here */
    if (time_of(t, "report.json") + 1 >= time_of(t, "events.jsonl")) {
        SL_TRY(sl_told_read_object(t, "report.json", NULL, &text, &t->outcome));
        sl_free(text);
        SL_TRY(take_outcome(t));
    }
    SL_TRY(take_points(t, json_object_get(t->watch, "iterations")));
    *found = events || t->watch || t->outcome;
    return SL_OK;
}
