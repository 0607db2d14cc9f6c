/* The inside of checkpoints, shared by the main thread (saving.c) and the writing thread (saving_write.c). */
#pragma once

#include "run/binding/snapshot.h"
#include "run/checkpoint/checkpoint_folder.h"
#include "run/saving/identity.h"
#include "run/saving/saving.h"

#include <pthread.h>

typedef enum sl_saving_work {
    SL_SAVING_NOTHING,
    SL_SAVING_WRITE,   /* the files of this rank's stages */
    SL_SAVING_PUBLISH, /* leader: the rest, and the name */
    SL_SAVING_REMOVE,  /* leader: unfinished checkpoints */
    SL_SAVING_END      /* of the thread */
} sl_saving_work;

struct sl_saving {
    const sl_run *run;
    sl_binding *binding;
    sl_group *group;
    int leader, leads;  /* the leader; this rank is the leader */
    int stages, writes; /* writes: this rank holds stages that it writes */
    char run_folder[3072];
    char folder[3584]; /* DIR/checkpoints */
    sl_snapshot snapshot;
    sl_model_description model;
    /* Main thread, the same on all ranks. */
    sl_saving_work phase; /* the threads' current work; SL_SAVING_NOTHING: no checkpoint is under way */
    int iteration, tried; /* under way; the last one begun */
    int whole;            /* the last complete one; or the start of training */
    sl_time took;         /* from its begin to its name */
    int due;
    sl_time began, snapped; /* leader: real clock, and the duration of the copy */
    char why[256];          /* leader: why it failed */
    int64_t largest;        /* bytes of the largest copy of a rank */
    /* The thread's task: written by the main thread while `busy` is 0, by the other one while it is 1. */
    sl_saving_work work;
    sl_status status;
    char text[256];           /* of the error */
    sl_checkpoint_file *file; /* [2 * stages] files written by this rank */
    int files;
    sl_checkpoint_state state; /* leader: the published state; its files are those of all ranks */
    /* Shared: `busy` under the lock; `stop` may be set at any time and is only read. */
    pthread_t thread;
    int started, busy;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int stop;
};

/** The thread: waits for work, does it, reports it. */
void *sl_saving_thread(void *saving);
