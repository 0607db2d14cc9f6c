#include "notice/probe/events.h"

#include <stdlib.h>

#include "notice/probe/probe.h"

typedef struct pending {
    void *start, *end; /* events, made once and used again */
    sl_call call;
    int used;
} pending;

typedef struct thread_events {
    pending at[SL_EVENTS];
    unsigned first,
        count; /* a queue: streams may finish out of order, but then only later ones wait to be seen */
} thread_events;

static __thread thread_events *mine __attribute__((tls_model("initial-exec")));

static struct {
    _Atomic int state; /* 0 not looked for, 1 there, 2 not there */
    int (*create)(void **);
    int (*record)(void *, void *);
    int (*query)(void *);
    int (*elapsed)(float *, void *, void *);
    int (*capturing)(void *, int *);
    int (*peek)(void);
    int (*clear)(void);
} cuda;

static int runtime(void) {
    int state = atomic_load_explicit(&cuda.state, memory_order_acquire);
    if (state)
        return state == 1;
    cuda.create = (int (*)(void **))(uintptr_t)sl_probe_real("cudaEventCreate");
    cuda.record = (int (*)(void *, void *))(uintptr_t)sl_probe_real("cudaEventRecord");
    cuda.query = (int (*)(void *))(uintptr_t)sl_probe_real("cudaEventQuery");
    cuda.elapsed = (int (*)(float *, void *, void *))(uintptr_t)sl_probe_real("cudaEventElapsedTime");
    cuda.capturing = (int (*)(void *, int *))(uintptr_t)sl_probe_real("cudaStreamIsCapturing");
    cuda.peek = (int (*)(void))(uintptr_t)sl_probe_real("cudaPeekAtLastError");
    cuda.clear = (int (*)(void))(uintptr_t)sl_probe_real("cudaGetLastError");
    int there =
        cuda.create && cuda.record && cuda.query && cuda.elapsed && cuda.capturing && cuda.peek && cuda.clear;
    if (!there)
        sl_probe_say("device timing is asked for, but the program has no CUDA runtime: times are the host's");
    atomic_store_explicit(&cuda.state, there ? 1 : 2, memory_order_release);
    return there;
}

/* An error of ours must not become the program's: what was clear before is clear after. */
static void restore(int was_clear) {
    if (was_clear && cuda.peek() != 0)
        cuda.clear();
}

static int wanted(void) {
    return atomic_load_explicit(&sl_probe_control->timing, memory_order_relaxed) == SL_TIMING_DEVICE &&
           runtime();
}

int sl_events_before(void *stream) {
    if (!wanted() || (!mine && !(mine = calloc(1, sizeof *mine))) || mine->count == SL_EVENTS)
        return -1;
    int capturing = 0, was_clear = cuda.peek() == 0, place = (int)((mine->first + mine->count) % SL_EVENTS);
    pending *p = &mine->at[place];
    int good = cuda.capturing(stream, &capturing) == 0 && !capturing &&
               (p->start || cuda.create(&p->start) == 0) && (p->end || cuda.create(&p->end) == 0) &&
               cuda.record(p->start, stream) == 0;
    restore(was_clear);
    return good ? place : -1;
}

void sl_events_after(int place, void *stream, const sl_call *call) {
    if (place < 0)
        return;
    int was_clear = cuda.peek() == 0;
    pending *p = &mine->at[place];
    p->call = *call;
    p->call.kind = SL_RECORD_COMPLETION;
    if (cuda.record(p->end, stream) == 0)
        mine->count++;
    restore(was_clear);
}

void sl_events_collect(void) {
    if (!mine || mine->count == 0)
        return;
    int was_clear = cuda.peek() == 0;
    for (pending *p; mine->count > 0 && cuda.query((p = &mine->at[mine->first])->end) == 0;) {
        float ms = 0;
        if (cuda.elapsed(&ms, p->start, p->end) == 0) {
            p->call.device = (int64_t)((double)ms * 1e6);
            p->call.end = sl_probe_now();
            sl_probe_write(&p->call);
        }
        mine->first = (mine->first + 1) % SL_EVENTS;
        mine->count--;
    }
    restore(was_clear);
}
