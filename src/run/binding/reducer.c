#include "run/binding/reducer.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define QUIT UINT32_MAX

struct sl_reducer {
    sl_clock *clock;
    sl_reducer_sum sum;
    void *object;
    int stages, threaded, started;
    pthread_t thread;
    unsigned char *over;     /* [stages] the rank's: its W has finished in this iteration */
    sl_time *ended;          /* [stages] written by the rank before `ready` counts the stage */
    sl_reduction *reduction; /* [stages] written by the thread before `done` counts the stage */
    /* Stages over the whole run, so that neither word ever decreases. */
    _Atomic uint32_t ready; /* the rank; QUIT: no more come */
    _Atomic uint32_t done;  /* the thread; QUIT: one failed */
    uint32_t base;          /* what both were when the iteration began */
    sl_status status;
    char error[512];
};

/* The n-th of an iteration is stage stages - 1 - n. */
static sl_status sum_one(sl_reducer *r, int n) {
    int index = r->stages - 1 - n;
    sl_clock_sleep_until(r->clock, r->ended[index]); /* a paced W ends later than its arithmetic */
    r->reduction[index].start = sl_clock_now(r->clock);
    SL_TRY(r->sum(r->object, index));
    r->reduction[index].end = sl_clock_now(r->clock);
    return SL_OK;
}

static void *work(void *object) {
    sl_reducer *r = object;
    for (uint32_t done = 0;;) {
        uint32_t ready = atomic_load_explicit(&r->ready, memory_order_acquire);
        if (ready == QUIT)
            return NULL;
        if (ready == done) {
            sl_clock_wait(r->clock, &r->ready, ready, SL_TIME_NEVER);
            continue;
        }
        r->status = sum_one(r, (int)(done % (uint32_t)r->stages));
        if (r->status != SL_OK)
            snprintf(r->error, sizeof r->error, "%s", sl_error_text());
        done++;
        atomic_store_explicit(&r->done, r->status == SL_OK ? done : QUIT, memory_order_release);
        sl_clock_wake(r->clock, &r->done);
        if (r->status != SL_OK)
            return NULL;
    }
}

sl_status sl_reducer_open(int stages, int threaded, sl_reducer_sum sum, void *object, sl_reducer **reducer) {
    sl_reducer *r;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    *r = (sl_reducer){
        .clock = sl_clock_real(), .sum = sum, .object = object, .stages = stages, .threaded = threaded};
    *reducer = r;
    SL_TRY(sl_alloc(&r->over, (size_t)stages, 1));
    SL_TRY(sl_alloc(&r->ended, (size_t)stages, sizeof *r->ended));
    SL_TRY(sl_alloc(&r->reduction, (size_t)stages, sizeof *r->reduction));
    if (threaded && pthread_create(&r->thread, NULL, work, r) != 0)
        return sl_error(SL_ESYS, "no thread for the sums over replicas");
    r->started = threaded;
    return SL_OK;
}

int sl_reducer_close(sl_reducer *r) {
    if (!r)
        return 1;
    if (r->started) {
        uint32_t done = atomic_load_explicit(&r->done, memory_order_acquire);
        uint32_t ready = atomic_load_explicit(&r->ready, memory_order_acquire);
        if (done != ready && done != QUIT) {
            pthread_detach(r->thread);
            return 0;
        }
        atomic_store_explicit(&r->ready, QUIT, memory_order_release);
        sl_clock_wake(r->clock, &r->ready);
        pthread_join(r->thread, NULL);
    }
    SL_FREE(r->over, r->ended, r->reduction, r);
    return 1;
}

void sl_reducer_begin(sl_reducer *r) {
    r->base = atomic_load_explicit(&r->ready, memory_order_relaxed);
    memset(r->over, 0, (size_t)r->stages);
}

void sl_reducer_ready(sl_reducer *r, int index, sl_time end) {
    r->ended[index] = end;
    r->over[index] = 1;
    uint32_t before = atomic_load_explicit(&r->ready, memory_order_relaxed), ready = before;
    while (ready - r->base < (uint32_t)r->stages && r->over[r->stages - 1 - (int)(ready - r->base)])
        ready++;
    if (ready == before)
        return;
    atomic_store_explicit(&r->ready, ready, memory_order_release);
    if (r->threaded)
        sl_clock_wake(r->clock, &r->ready);
}

sl_status sl_reducer_finish(sl_reducer *r, sl_reduction *times) {
    uint32_t all = r->base + (uint32_t)r->stages;
    if (!r->threaded) {
        for (int n = 0; n < r->stages; n++)
            SL_TRY(sum_one(r, n));
    } else {
        for (uint32_t done; (done = atomic_load_explicit(&r->done, memory_order_acquire)) != all;) {
            if (done == QUIT)
                return sl_error(r->status, "%s", r->error);
            sl_clock_wait(r->clock, &r->done, done, SL_TIME_NEVER);
        }
    }
    memcpy(times, r->reduction, (size_t)r->stages * sizeof *times);
    return SL_OK;
}
