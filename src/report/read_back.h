/* The contents of a folder, read once to the end (folder/follow.h) and kept: a run's metrics, events,
 * decisions, profile and summary, or the files `slackline watch` wrote for a program. Missing, truncated or
 * damaged parts are omitted and listed in `notes`; only a folder without anything readable is an error. */
#pragma once

#include "folder/follow.h"
#include "plan/pipeline/problem.h"

/* A line of metrics.jsonl; NaN: not known. Times in ms. */
typedef struct sl_run_data_iteration {
    int iteration, delegates, late;
    int lossless;        /* its loss was written, but is not finite */
    int schedule, phase; /* index into `name`; -1: not given */
    double loss, validation, time, predicted;
} sl_run_data_iteration;

/* A direction of a link; replica -1: the run has only one. */
typedef struct sl_run_data_link {
    int from, to, replica;
} sl_run_data_link;

typedef struct sl_run_data_sample {
    int32_t row, link;       /* row of `iteration`, in ascending order */
    float latency, transfer; /* ms */
} sl_run_data_sample;

/* Texts are never NULL. */
typedef struct sl_run_data_event {
    double time; /* s */
    int iteration;
    char *kind, *where, *seen, *decided, *why;
} sl_run_data_event;

typedef struct sl_run_data {
    char *path, *title; /* of the folder: as given, and a name that is meaningful elsewhere */
    sl_run_data_iteration *iteration;
    sl_run_data_link *link;
    sl_run_data_sample *sample;
    sl_run_data_event *event;
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
} sl_run_data;

/** SL_EINVAL: not a folder, or nothing of a run or watch is readable. Free with sl_run_data_free, also on
 * error. */
sl_status sl_run_data_read(const char *folder, sl_run_data *data);
void sl_run_data_free(sl_run_data *data);

/** Adds a sentence to the notes. SL_ENOMEM. */
sl_status sl_run_data_note(sl_run_data *data, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The row of an iteration, -1 if metrics.jsonl lacks it. O(log iterations). */
long sl_run_data_find(const sl_run_data *data, int iteration);

/** The first sample of a row or of a later one. */
size_t sl_run_data_samples_from(const sl_run_data *data, size_t row);
