#include "run/engine/copier.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Waits until more than `step` steps have ended. 0: no more will come. */
static int wait_for_step(sl_copier *c, int32_t step) {
    for (;;) {
        uint32_t steps = atomic_load_explicit(&c->steps, memory_order_acquire);
        if (steps == SL_COPIER_QUIT)
            return 0;
        if ((int64_t)steps > step)
            return 1;
        sl_clock_wait(c->clock, &c->steps, steps, SL_TIME_NEVER);
        if (sl_clock_stuck(c->clock))
            return 0;
    }
}

/* Until `time`, unless the iteration is given up. */
static int sleep_until(sl_copier *c, sl_time time) {
    while (sl_clock_now(c->clock) < time) {
        uint32_t steps = atomic_load_explicit(&c->steps, memory_order_acquire);
        if (steps == SL_COPIER_QUIT || sl_clock_stuck(c->clock))
            return 0;
        sl_clock_wait(c->clock, &c->steps, steps, time);
    }
    return 1;
}

static sl_status make_move(sl_copier *c, int32_t m, sl_time start) {
    const sl_move *move = &c->mine->move[m];
    const sl_stage *stage = &c->stage[move->stage];
    sl_time pace = c->pace[move->stage];
    if (pace == 0) {
        sl_time now = sl_clock_now(c->clock);
        start = now > start ? now : start;
    }
    SL_TRY(move->kind == SL_OFFLOAD ? stage->offload(stage->object, move->microbatch)
                                    : stage->fetch(stage->object, move->microbatch));
    sl_time now = sl_clock_now(c->clock);
    c->overruns += pace > 0 && now > start + pace;
    c->begun[m] = start;
    c->done[m] = now > start + pace ? now : start + pace;
    return SL_OK;
}

static void publish(sl_copier *c, uint32_t moves) {
    atomic_store_explicit(&c->moves, moves, memory_order_release);
    sl_clock_wake(c->clock, &c->moves);
}

static void *run(void *object) {
    sl_copier *c = object;
    sl_time free_at = c->begin;
    for (int32_t m = 0; m < c->mine->moves; m++) {
        int32_t after = c->mine->move[m].after;
        if (after >= 0 && !wait_for_step(c, after))
            break;
        sl_time start = after >= 0 && c->ended[after] > free_at ? c->ended[after] : free_at;
        if (!sleep_until(c, start))
            break;
        c->status = make_move(c, m, start);
        if (c->status != SL_OK) {
            snprintf(c->error, sizeof c->error, "%s", sl_error_text());
            publish(c, SL_COPIER_QUIT);
            break;
        }
        free_at = c->done[m];
        publish(c, (uint32_t)m + 1);
    }
    sl_clock_leave(c->clock);
    return NULL;
}

sl_status sl_copier_begin(sl_copier *c, const sl_rank_program *mine, const sl_stage *stage,
                          const sl_time *pace, sl_clock *clock, sl_time begin) {
    c->mine = mine;
    c->stage = stage;
    c->pace = pace;
    c->clock = clock;
    c->begin = begin;
    c->overruns = 0;
    c->status = SL_OK;
    c->running = 0;
    atomic_store(&c->steps, 0);
    atomic_store(&c->moves, 0);
    if (mine->moves == 0)
        return SL_OK;
    SL_TRY(sl_grow(&c->ended, &c->step_capacity, (size_t)mine->steps, sizeof *c->ended));
    SL_TRY(sl_grow(&c->begun, &c->begun_capacity, (size_t)mine->moves, sizeof *c->begun));
    SL_TRY(sl_grow(&c->done, &c->done_capacity, (size_t)mine->moves, sizeof *c->done));
    sl_clock_join(clock);
    int failed = pthread_create(&c->thread, NULL, run, c);
    if (failed) {
        sl_clock_leave(clock);
        return sl_error(SL_ESYS, "no thread for moves to host memory: %s", strerror(failed));
    }
    c->running = 1;
    return SL_OK;
}

void sl_copier_step(sl_copier *c, int32_t steps, sl_time end) {
    if (!c->running)
        return;
    for (int32_t i = (int32_t)atomic_load_explicit(&c->steps, memory_order_relaxed); i < steps; i++)
        c->ended[i] = end;
    atomic_store_explicit(&c->steps, (uint32_t)steps, memory_order_release);
    sl_clock_wake(c->clock, &c->steps);
}

sl_status sl_copier_wait(sl_copier *c, int32_t move, sl_time *start) {
    while (move >= 0 && c->running) {
        uint32_t moves = atomic_load_explicit(&c->moves, memory_order_acquire);
        if (moves == SL_COPIER_QUIT)
            return sl_error(c->status, "%s", c->error);
        if ((int64_t)moves > move) {
            *start = c->done[move] > *start ? c->done[move] : *start;
            return SL_OK;
        }
        sl_clock_wait(c->clock, &c->moves, moves, SL_TIME_NEVER);
        if (sl_clock_stuck(c->clock))
            return sl_error(SL_EINVAL, "move %d to or from host memory never comes", (int)move);
    }
    return SL_OK;
}

sl_status sl_copier_end(sl_copier *c) {
    if (!c->running)
        return SL_OK;
    atomic_store_explicit(&c->steps, SL_COPIER_QUIT, memory_order_release);
    sl_clock_wake(c->clock, &c->steps);
    pthread_join(c->thread, NULL);
    c->running = 0;
    return c->status == SL_OK ? SL_OK : sl_error(c->status, "%s", c->error);
}

void sl_copier_free(sl_copier *c) {
    SL_FREE(c->ended, c->begun, c->done);
    *c = (sl_copier){0};
}
