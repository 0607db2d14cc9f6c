/* Checkpoints from inside: what the main thread (saving.c) and the writing thread (saving_write.c) share. */
#pragma once

#include "run/binding/snapshot.h"
#include "run/checkpoint/checkpoint_folder.h"
#include "run/saving/identity.h"
#include "run/saving/saving.h"

#include <pthread.h>

typedef enum sl_saving_work {
    SL_SAVING_NOTHING,
    SL_SAVING_WRITE,   /* the files of this rank's stages */
    SL_SAVING_PUBLISH, /* who leads: the rest, and the name */
    SL_SAVING_REMOVE,  /* who leads: what could not be finished */
    SL_SAVING_END      /* of the thread */
} sl_saving_work;

struct sl_saving {
    const sl_run *run;
    sl_binding *binding;
    sl_group *group;
    int leader, leads;  /* the rank that leads; this one does */
    int stages, writes; /* writes: this rank holds stages that it writes */
    char run_folder[3072];
    char folder[3584]; /* DIR/checkpoints */
    sl_snapshot snapshot;
    sl_model_description model;
    /* Main thread, the same on all ranks. */
    sl_saving_work phase; /* what the threads are at; SL_SAVING_NOTHING: no checkpoint is under way */
    int iteration, tried; /* under way; the last that was begun */
    int whole;            /* the last that became whole; or what training began with */
    sl_time took;         /* from its begin to its name */
    int due;
    sl_time began, snapped; /* who leads: real clock, and what the copy took */
    char why[256];          /* who leads: why it failed */
    int64_t largest;        /* bytes of the largest copy of a rank */
    /* The thread's task: written by the main thread while `busy` is 0, by the other one while it is 1. */
    sl_saving_work work;
    sl_status status;
    char text[256];           /* of the error */
    sl_checkpoint_file *file; /* [2 * stages] what this rank has written */
    int files;
    sl_checkpoint_state state; /* who leads: what is published; its files are those of all ranks */
    /* Shared: `busy` under the lock; `stop` may be set at any time and is only looked at. */
    pthread_t thread;
    int started, busy;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int stop;
};

/** The thread: waits for work, does it, says so. */
void *sl_saving_thread(void *saving);
