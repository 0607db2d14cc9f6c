/* The lines of a run's files, parsed once for every reader: an iteration of metrics.jsonl (or of a watch's
 * watch.json), an event of events.jsonl. Times in ms unless named otherwise; NaN and -1: not known. Texts
 * belong to `object` and are never NULL. */
#pragma once

#include "base/json.h"
#include "base/status.h"

/* The largest plausible size of a time, and of any other number. */
#define SL_ROW_TIME_MAX 1e12
#define SL_ROW_MAX 1e30

typedef struct sl_row_iteration {
    int iteration, delegates, late;
    int lossless; /* its loss was written, but is not finite */
    double loss, validation, time, predicted, tokens;
    const char *schedule, *phase;
    const json_t *links, *works; /* lists; NULL: none */
    json_t *object;              /* NULL: of a watch */
} sl_row_iteration;

/** SL_EINVAL: not such a line. Free with json_decref(row->object), also on error. */
sl_status sl_row_iteration_read(const char *line, size_t length, sl_row_iteration *row);

/* An entry of its `links`, a direction of a link; replica -1: the run has only one. */
typedef struct sl_row_link {
    int from, to, replica;
    double latency, transfer;
} sl_row_link;

/** Returns 0 if it is invalid. */
int sl_row_link_read(const json_t *entry, sl_row_link *link);

/* A point of a watch: [iteration, ms, 1 if the job was held and the time is invalid]. */
/** Returns 0 if it is invalid. */
int sl_row_point_read(const json_t *entry, sl_row_iteration *row);

typedef struct sl_row_event {
    double time; /* s */
    int iteration, rank, replica, from, to, both;
    const char *kind, *seen, *decided, *why;
    json_t *object;
} sl_row_event;

/** As sl_row_iteration_read. */
sl_status sl_row_event_read(const char *line, size_t length, sl_row_event *row);
