/* Collecting: turns the events of one or several trace files into ops and messages of pipeline ranks,
 * unchanged: each with its process, on that process's clock.
 *
 * Little is kept. Of the events inside an op, only those that show when its work began and ended are held,
 * until the file's end: computation (PyTorch's cpu_op) on the op's thread, because a label may begin with a
 * wait for the op's input; and events on a GPU, because there the label only covers the launch. An op whose
 * thread launched kernels lasts from the first to the last of them (without NCCL's). */
#pragma once

#include "base/time.h"
#include "plan/trace/label.h"

typedef struct sl_traced_op {
    int process; /* index */
    uint64_t thread;
    sl_op op;                       /* stage, microbatch -1: unknown */
    sl_time start, end;             /* ns, of the file's clock */
    sl_time work;                   /* when computing began, at or after `start`; -1: unknown */
    sl_time label_start, label_end; /* of the label, if `start` and `end` are those of kernels */
    sl_time sent;                   /* when a send inside it began; -1: none */
    sl_time received;               /* when a receive inside it was done; -1: unknown */
    double bytes;                   /* sent from inside it; 0: unknown */
    int64_t mark;                   /* its iteration, by its arguments or a mark; -1: unknown */
    int of_stack; /* found by a function in the profiler's stacks, not by a label (collect_stack.c) */
} sl_traced_op;

typedef struct sl_traced_message {
    int process;
    uint64_t thread;
    int receive; /* else a send */
    int done;    /* a receive that ends when it was done, not when it was issued */
    int whole;   /* from taking the link to its arrival: slackline's own traces */
    sl_op op;    /* stage that sends or receives (whole: sends); kind SL_F or SL_B */
    sl_time start, end;
    sl_time on_link; /* part of it on the link, by the arguments (plans as traces); -1: unknown */
    double bytes;    /* 0: not in the trace */
    int64_t mark;
} sl_traced_message;

typedef struct sl_traced_process {
    uint64_t key; /* of its file and pid */
    int file;
    int number; /* pid, if that is a number */
    int rank;   /* by the file's distributedInfo or the process's name; -1: unknown */
    int replica;
    uint64_t host; /* the file's host_name; 0: unknown */
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
    char **file_name; /* [files], and of the current one */
    size_t name_rooms;
    int on_gpu;           /* number of ops whose times are those of kernels */
    struct sl_file *file; /* the current file */
    struct sl_name *name; /* unknown names, counted */
    size_t names, name_room;
} sl_traced;

/** Begins with an empty one (zeroed, map set). Free with sl_traced_free. */
void sl_traced_free(sl_traced *traced);

/** A file: begin, its bytes in pieces of any size, end. SL_EINVAL names file and line; each file must have an
 * op, else the text has the most frequent names in it. After an error, only sl_traced_free may be called. */
sl_status sl_traced_begin(sl_traced *traced, const char *file);
sl_status sl_traced_feed(sl_traced *traced, const char *bytes, size_t size);
sl_status sl_traced_end(sl_traced *traced);

/** The file of a process, as given. */
const char *sl_traced_file(const sl_traced *traced, int process);

#define SL_SOURCES 300
/** All files, for errors about all of them: "a.json", "a.json and 3 more". Returns `text`. */
const char *sl_traced_sources(const sl_traced *traced, char text[SL_SOURCES]);
