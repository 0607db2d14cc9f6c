/* The contents of a folder, read once to the end (folder/follow.h) and kept: a run's metrics, events,
 * decisions, profile and summary, or the files `slackline watch` wrote for a program. Missing, truncated or
 * damaged parts are omitted and listed in `notes`; only a folder without anything readable is an error. */
#pragma once

#include "folder/follow.h"
#include "plan/pipeline/problem.h"

/* A line of metrics.jsonl; NaN: not known. Times in ms. */
typedef struct sl_told_iteration {
    int iteration, delegates, late;
    int lossless;        /* its loss was written, but is not finite */
    int schedule, phase; /* index into `name`; -1: not given */
    double loss, validation, time, predicted;
} sl_told_iteration;

/* A direction of a link; replica -1: the run has only one. */
typedef struct sl_told_link {
    int from, to, replica;
} sl_told_link;

typedef struct sl_told_sample {
    int32_t row, link;       /* row of `iteration`, in ascending order */
    float latency, transfer; /* ms */
} sl_told_sample;

/* Texts are never NULL. */
typedef struct sl_told_event {
    double time; /* s */
    int iteration;
    char *kind, *where, *seen, *decided, *why;
} sl_told_event;

typedef struct sl_told {
    char *path, *title; /* of the folder: as given, and a name that is meaningful elsewhere */
    sl_told_iteration *iteration;
    sl_told_link *link;
    sl_told_sample *sample;
    sl_told_event *event;
    size_t iterations, links, samples, events;
    char **name; /* of schedules and phases */
    size_t names;
    char *decisions, *run, *profile, *summary_text; /* verbatim from the folder; NULL: absent */
    json_t *summary;                                /* object; NULL: absent or damaged */
    sl_problem problem;                             /* profile.yaml */
    int has_problem;
    int is_watch;            /* for a watched program, not a run: */
    json_t *watch, *outcome; /* objects of watch.json and report.json; NULL: absent, damaged, or (report.json)
                              * of an earlier watch */
    sl_folder_state state;
    int living;
    char *why;   /* the reason of its failure; "" if unknown */
    char **note; /* missing or damaged parts, one sentence each */
    size_t notes;
    size_t iteration_room, link_room, sample_room, event_room, name_room, note_room, decisions_room,
        decisions_size;
} sl_told;

/** SL_EINVAL: not a folder, or nothing of a run or watch is readable. Free with sl_told_free, also on
 * error. */
sl_status sl_told_read(const char *folder, sl_told *told);
void sl_told_free(sl_told *told);

/** Adds a sentence to the notes. SL_ENOMEM. */
sl_status sl_told_note(sl_told *told, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The row of an iteration, -1 if metrics.jsonl lacks it. O(log iterations). */
long sl_told_find(const sl_told *told, int iteration);

/** The first sample of a row or of a later one. */
size_t sl_told_samples_from(const sl_told *told, size_t row);
