/* A rank's copy engine: a thread that runs the moves of the program (plan/lower/offload.h) one after the
 * other, concurrently with the rank's ops, for one iteration.
 *
 * The rank reports the end of its steps. A move starts at the later of that and the end of the previous move,
 * runs the stage's offload or fetch, and lasts at least its pace. Then the rank learns its end. Two counters
 * carry this, each written by one thread: `steps` (the rank; preceded by ended[], all of its steps so far)
 * and `moves` (the copier; preceded by begun[] and done[]), stored with release and loaded with acquire. On a
 * virtual clock the copier is a participant. */
#pragma once

#include "base/clock.h"
#include "plan/lower/program.h"
#include "run/engine/stage_ops.h"
#include <pthread.h>

typedef struct sl_copier {
    const sl_rank_program *mine;
    const sl_stage *stage; /* [stages] */
    const sl_time *pace;   /* [stages] */
    sl_clock *clock;
    sl_time begin;
    pthread_t thread;
    int running;
    sl_time *ended;         /* [steps] written by the rank */
    sl_time *begun, *done;  /* [moves] written by the copier */
    _Atomic uint32_t steps; /* ended; the rank. SL_COPIER_QUIT: no more come */
    _Atomic uint32_t moves; /* done; the copier. SL_COPIER_QUIT: one failed */
    size_t step_capacity, begun_capacity, done_capacity;
    int overruns; /* moves that took longer than their pace; read after sl_copier_end */
    sl_status status;
    char error[512];
} sl_copier;

#define SL_COPIER_QUIT UINT32_MAX

/** Starts the moves of an iteration; a program without moves starts nothing, and the calls below do nothing.
 * The copier must be zeroed before its first use. SL_ENOMEM, SL_ESYS. */
sl_status sl_copier_begin(sl_copier *copier, const sl_rank_program *mine, const sl_stage *stage,
                          const sl_time *pace, sl_clock *clock, sl_time begin);
/** The first `steps` steps have ended, the last ones at `end`. */
void sl_copier_step(sl_copier *copier, int32_t steps, sl_time end);
/** Waits until a move (-1: none) has ended; *start becomes its end if that is later. Returns the error of a
 * failed move. */
sl_status sl_copier_wait(sl_copier *copier, int32_t move, sl_time *start);
/** Ends the iteration: the thread has ended when this returns, whether all moves were made or not. */
sl_status sl_copier_end(sl_copier *copier);
/** Frees all; after sl_copier_end. */
void sl_copier_free(sl_copier *copier);
