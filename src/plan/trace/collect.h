/* Collecting: the events of one or several trace files into ops and messages of pipeline ranks, as they stand
 * there: each with the process that it ran in, on that process's clock.
 *
 * What is kept is small. Of the events inside an op only those that tell when its work began and ended are
 * held, until the file's end: computation (PyTorch's cpu_op) on the op's thread, because a label may begin
 * with a wait for the op's input; and what runs on a GPU, because there the label only covers the launch. An
 * op whose thread launched kernels takes from the first to the last of them (NCCL's left out). */
#pragma once

#include "base/time.h"
#include "plan/trace/label.h"

typedef struct sl_traced_op {
    int process; /* index */
    uint64_t thread;
    sl_op op;           /* stage, microbatch -1: not said */
    sl_time start, end; /* ns, of the file's clock */
    sl_time work;       /* when computing began, at or after `start`; -1: the trace does not say */
    sl_time label_start, label_end; /* of the label, where `start` and `end` are those of kernels */
    sl_time sent;                   /* when a send inside it began; -1: there was none */
    sl_time received;               /* when a receive inside it was done; -1: the trace does not say */
    double bytes;                   /* sent from inside it; 0: the trace does not say */
    int64_t mark; /* iteration that it belongs to, by its arguments or a mark; -1: not said */
    int of_stack; /* a function of the profiler's stacks says so, no label (collect_stack.c) */
} sl_traced_op;

typedef struct sl_traced_message {
    int process;
    uint64_t thread;
    int receive; /* else a send */
    int done;    /* a receive whose end is when it was done, not when it was issued */
    int whole;   /* from taking the link to its arrival: slackline's own traces */
    sl_op op;    /* stage that sends or receives (whole: sends); kind SL_F or SL_B */
    sl_time start, end;
    sl_time on_link; /* of it on the link, by the arguments (plans as traces); -1: not said */
    double bytes;    /* 0: the trace does not say */
    int64_t mark;
} sl_traced_message;

typedef struct sl_traced_process {
    uint64_t key; /* of its file and pid */
    int file;
    int number; /* pid, where that is one */
    int rank;   /* by the file's distributedInfo or the process's name; -1: neither says */
    int replica;
    uint64_t host; /* the file's host_name; 0: not said */
    int ops;
} sl_traced_process;

typedef struct sl_traced {
    sl_label_map map;
    sl_traced_op *op; /* collectives (SL_GATHER, SL_REDUCE) among them */
    size_t ops, op_room;
    sl_traced_message *message;
    size_t messages, message_room;
    sl_traced_process *process;
    size_t processes, process_room;
    size_t events;
    int files;
    char **file_name; /* [files], and of the one that is read now */
    size_t name_rooms;
    int on_gpu;           /* ops whose times are those of kernels */
    struct sl_file *file; /* what is read now */
    struct sl_name *name; /* names that mean nothing to us, counted */
    size_t names, name_room;
} sl_traced;

/** Begins with an empty one (zeroed, map set). Free with sl_traced_free. */
void sl_traced_free(sl_traced *traced);

/** A file: begin, its bytes in pieces of any size, end. SL_EINVAL names file and line; each file must have an
 * op, or the text tells the most frequent names that were seen instead. After an error only sl_traced_free.
 */
sl_status sl_traced_begin(sl_traced *traced, const char *file);
sl_status sl_traced_feed(sl_traced *traced, const char *bytes, size_t size);
sl_status sl_traced_end(sl_traced *traced);

/** The file of a process, as it was given. */
const char *sl_traced_file(const sl_traced *traced, int process);

#define SL_SOURCES 300
/** All files, for errors about what they are together: "a.json", "a.json and 3 more". Returns `text`. */
const char *sl_traced_sources(const sl_traced *traced, char text[SL_SOURCES]);
