/* The trace of a hybrid-parallel job: the events of all workers, from one Chrome trace or several, kept in a
 * compact form (48 bytes each), so that traces of hundreds of megabytes fit.
 *
 * A stream is a tid of a pid of a file. Its worker is the pid, unless the names of threads and processes give
 * coordinates ("DP rank [1]", "PP rank 3, TP rank 0, compute"), or several threads of one pid compute.
 * Events with B and E are joined. What cannot be used as it is, is counted: an event without a duration keeps
 * `open` (usual.h estimates its time), one of negative duration takes no time. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/explain/traced_kind.h"
#include <stddef.h>

typedef struct sl_hybrid_event {
    sl_time start, end;
    int64_t step;
    int32_t stream;
    int32_t chunk, microbatch; /* of the arguments; -1: not given */
    int32_t sequence;          /* seq_id, or the line in the file */
    uint8_t kind;              /* index into sl_traced_kinds */
    uint8_t open;              /* it has no end: `end` is a guess */
} sl_hybrid_event;

typedef struct sl_hybrid_coordinates {
    int pipeline, data, tensor; /* -1: the names do not say */
} sl_hybrid_coordinates;

typedef struct sl_hybrid_stream {
    int file;
    int64_t pid, tid; /* numbers, or a hash of a text */
    int pid_is_text;
    sl_hybrid_coordinates named;
    int worker; /* after sl_hybrid_trace_finish; -1: none of its events is of use */
    int computes;
    int32_t begun[16]; /* events that await their E; -1: of no use */
    int depth;
} sl_hybrid_stream;

typedef struct sl_hybrid_worker {
    char name[64]; /* "pid 3", "pid 0, PP rank 2" */
    int file;
    int64_t pid, first_tid;
    int pid_is_text;
    sl_hybrid_coordinates named;
    size_t first, end; /* its events, by step, then start */
} sl_hybrid_worker;

typedef struct sl_hybrid_trace {
    sl_hybrid_event *event;
    size_t events, event_room;
    sl_hybrid_stream *stream;
    size_t streams, stream_room;
    sl_hybrid_worker *worker; /* by file, pid, first compute thread */
    int workers;
    int files;
    char **file_name;
    size_t file_rooms;
    /* counts of what was not as it should be */
    size_t read, unknown, negative, repaired, dropped;
    char unknown_names[160]; /* the first of them */
    struct sl_hybrid_file *file;
} sl_hybrid_trace;

/** A file: begin, bytes in pieces of any size, end. SL_EINVAL names file and line. Begin with a zeroed
 * struct; free with sl_hybrid_trace_free, also on error. */
sl_status sl_hybrid_trace_begin(sl_hybrid_trace *trace, const char *name);
sl_status sl_hybrid_trace_feed(sl_hybrid_trace *trace, const char *bytes, size_t size);
sl_status sl_hybrid_trace_end(sl_hybrid_trace *trace);

/** After the last file: workers, ends of open events, order. SL_EINVAL: no worker computes. */
sl_status sl_hybrid_trace_finish(sl_hybrid_trace *trace);
void sl_hybrid_trace_free(sl_hybrid_trace *trace);
