/* Shared by collect.c (events) and collect_file.c (the end of a file): the data kept for a file while
 * it is read. */
#pragma once

#include "plan/trace/collect.h"
#include "plan/trace/trace_form.h"

/* Computation on a thread. */
typedef struct sl_inner {
    uint64_t thread;
    sl_time start;
} sl_inner;

/* A receive that is issued inside an op: computing begins after it. */
typedef sl_inner sl_issue;

/* A receive from its issue until it was done (gloo:recv). */
typedef struct sl_receipt {
    uint64_t thread;
    sl_time start, end;
} sl_receipt;

/* The content of a send. */
typedef struct sl_payload {
    uint64_t thread;
    sl_time start;
    double bytes;
} sl_payload;

/* A launch or a kernel: both have the same correlation. */
typedef struct sl_launch {
    int64_t correlation;
    sl_time at;
} sl_launch;
typedef struct sl_kernel {
    int64_t correlation;
    sl_time start, end;
} sl_kernel;

typedef struct sl_mark {
    int process;
    int64_t iteration;
    sl_time start, end;
} sl_mark;

/* A "B" event that waits for its "E". */
typedef struct sl_open {
    uint64_t thread;
    int process;
    char *text; /* the event, as JSON */
    sl_time start;
} sl_open;

#define SL_RECENT 4096 /* entries for fast lookup of a file's processes */

typedef struct sl_file {
    char *name;
    sl_scanner *scanner;
    sl_time base;  /* baseTimeNanoseconds */
    int rank;      /* distributedInfo.rank; -1 */
    uint64_t host; /* of host_name; 0: unknown */
    size_t first_op, first_message, first_process, first_event;
    size_t recent[SL_RECENT];
    sl_inner *inner;
    size_t inners, inner_room;
    sl_issue *issue;
    size_t issues, issue_room;
    sl_receipt *receipt;
    size_t receipts, receipt_room;
    sl_payload *payload;
    size_t payloads, payload_room;
    sl_launch *launch;
    size_t launches, launch_room;
    sl_kernel *kernel;
    size_t kernels, kernel_room;
    sl_mark *mark;
    size_t marks, mark_room;
    sl_open *open;
    size_t opens, open_room;
} sl_file;

/** SL_EINVAL: the file has no op. */
sl_status sl_file_check(const sl_traced *traced, const sl_file *file);
/** Combines the file's data about its ops: kernels, computation, payloads, marks, ranks. */
sl_status sl_file_finish(sl_traced *traced, sl_file *file);
void sl_file_free(sl_file *file);

/** Keeps ops that only the stacks show if the file has no others. */
void sl_file_sort_stack(sl_traced *traced, const sl_file *file);

/** Counts an unknown name. */
sl_status sl_name_count(sl_traced *traced, const char *name);
