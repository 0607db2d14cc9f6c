/* The iterations that a run recorded op by op: reads timeline.json one event at a time, so that a truncated
 * or large file yields as much as it has. */
#pragma once

#include "plan/timing/timeline.h"
#include "report/read_back.h"

/* One op, message or collective. Times in ns since the run's start. */
typedef struct sl_recorded_event {
    int32_t iteration, replica, rank;
    int32_t track; /* 0: an op; 1: an update or a reduction; 2: a message */
    int32_t to;    /* of a message */
    sl_op op;
    sl_time start, end; /* a message: starts its transfer, arrives */
} sl_recorded_event;

/* One iteration of one replica: its events. */
typedef struct sl_recorded_iteration {
    int iteration, replica;
    size_t first, count;
} sl_recorded_iteration;

typedef struct sl_recorded {
    int ranks, replicas;
    sl_recorded_event *event;         /* by iteration, replica, track, rank, start */
    sl_recorded_iteration *iteration; /* by iteration, replica */
    size_t events, iterations;
} sl_recorded;

/** Unreadable parts are listed in the notes of `data`; no recorded iteration is not an error. SL_ENOMEM. Free
 * with sl_recorded_free, also on error. */
sl_status sl_recorded_read(sl_run_data *data, sl_recorded *recorded);
/** The same for another file of the folder. */
sl_status sl_recorded_read_file(sl_run_data *data, const char *name, sl_recorded *recorded);
/** The same for `size` bytes of such a file, which are modified: whole lines of its start, which name the
 * processes, and of its newest part, if reading all of it is not needed. */
sl_status sl_recorded_read_text(char *text, size_t size, sl_recorded *recorded);
void sl_recorded_free(sl_recorded *recorded);

/** The index of an iteration of a replica, -1 if not recorded. */
long sl_recorded_find(const sl_recorded *recorded, int iteration, int replica);

/** Its timeline from its earliest event on; messages as recorded, their time all latency. SL_ENOMEM. */
sl_status sl_recorded_timeline(const sl_recorded *recorded, size_t index, sl_timeline *timeline);

/* The recorded iteration to show, and its name. */

#define SL_CHOSEN_SLOWEST (-1)

/** The index of iteration `wanted`, in the replica that ends last; or of the slowest one after the first,
 * which is cold. kept[recorded->iterations]: the allowed ones; NULL: all. SL_ENONE: not recorded. */
sl_status sl_chosen_find(const sl_run_data *data, const sl_recorded *recorded, int wanted,
                         const unsigned char *kept, size_t *index);

/** "iteration 7, replica 1"; the replica if there are several. Returns as snprintf. */
int sl_chosen_name(const sl_recorded *recorded, size_t index, char *text, size_t size);
/** "iteration 7, replica 1: zb-h2, 210 ms (predicted 200 ms)", as far as known. */
void sl_chosen_title(const sl_run_data *data, const sl_recorded *recorded, size_t index, char *text,
                     size_t size);
