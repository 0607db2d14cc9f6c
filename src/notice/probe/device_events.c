#include "notice/probe/device_events.h"

#include <pthread.h>
#include <stdlib.h>

#include "notice/probe/probe.h"

typedef struct pending_event {
    void *start, *end; /* events, made once and used again */
    sl_call call;
    int used;
} pending_event;

typedef struct thread_events {
    pending_event at[SL_EVENTS];
    unsigned first,
        count; /* a queue: streams may finish out of order, but then only later calls are seen late */
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
    int (*device)(int *);
    int (*set_device)(int);
    int (*capture_mode)(int *); /* exchanges; may be missing */
    _Atomic int reported;
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
    cuda.device = (int (*)(int *))(uintptr_t)sl_probe_real("cudaGetDevice");
    cuda.set_device = (int (*)(int))(uintptr_t)sl_probe_real("cudaSetDevice");
    cuda.capture_mode = (int (*)(int *))(uintptr_t)sl_probe_real("cudaThreadExchangeStreamCaptureMode");
    int there = cuda.create && cuda.record && cuda.query && cuda.elapsed && cuda.capturing && cuda.peek &&
                cuda.clear && cuda.device && cuda.set_device;
    atomic_store_explicit(&cuda.state, there ? 1 : 2, memory_order_release);
    return there;
}

/* An error of ours must not become the program's: restores the state before. */
static void restore(int was_clear) {
    if (was_clear && cuda.peek() != 0)
        cuda.clear();
}

static int wanted(void) {
    if (atomic_load_explicit(&sl_probe_control->timing, memory_order_relaxed) != SL_TIMING_DEVICE)
        return 0;
    if (runtime())
        return 1;
    if (atomic_exchange(&cuda.reported, 1) == 0)
        sl_probe_say("device timing is requested, but the program has no CUDA runtime: times are the host's");
    return 0;
}

int sl_events_before(void *stream) {
    if (!wanted() || (!mine && !(mine = calloc(1, sizeof *mine))) || mine->count == SL_EVENTS)
        return -1;
    int capturing = 0, was_clear = cuda.peek() == 0, slot = (int)((mine->first + mine->count) % SL_EVENTS);
    pending_event *p = &mine->at[slot];
    int good = cuda.capturing(stream, &capturing) == 0 && !capturing &&
               (p->start || cuda.create(&p->start) == 0) && (p->end || cuda.create(&p->end) == 0) &&
               cuda.record(p->start, stream) == 0;
    restore(was_clear);
    return good ? slot : -1;
}

void sl_events_after(int slot, void *stream, const sl_call *call) {
    if (slot < 0)
        return;
    int was_clear = cuda.peek() == 0;
    pending_event *p = &mine->at[slot];
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
    for (pending_event *p; mine->count > 0 && cuda.query((p = &mine->at[mine->first])->end) == 0;) {
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

/* ---- whether a device is idle ---- */

#define STREAMS 64
#define RELAXED 2 /* cudaStreamCaptureModeRelaxed */

/* Under `lock`. */
typedef struct device_stream {
    void *stream, *comm, *event;
    int device;
    uint64_t calls;          /* made there */
    uint64_t recorded, done; /* calls that the event comes after; calls seen done */
} device_stream;

static struct {
    pthread_mutex_t lock;
    int count, full;
    device_stream at[STREAMS];
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sl_events_enqueued(void *comm, void *handle) {
    int slot = 0;
    pthread_mutex_lock(&streams.lock);
    while (slot < streams.count && streams.at[slot].stream != handle)
        slot++;
    if (slot == STREAMS)
        streams.full = 1;
    else {
        device_stream *s = &streams.at[slot];
        if (slot == streams.count) {
            *s = (device_stream){.stream = handle};
            if (runtime())
                cuda.device(&s->device);
            streams.count++;
        }
        s->comm = comm;
        s->calls++;
    }
    pthread_mutex_unlock(&streams.lock);
}

void sl_events_group_ended(void) {
    pthread_mutex_lock(&streams.lock);
    for (int i = 0; i < streams.count; i++)
        streams.at[i].calls++;
    pthread_mutex_unlock(&streams.lock);
}

/* The event of a forgotten stream stays with its slot. */
void sl_events_forget(void *comm) {
    pthread_mutex_lock(&streams.lock);
    for (int i = streams.count - 1; i >= 0; i--)
        if (streams.at[i].comm == comm)
            streams.at[i] = streams.at[--streams.count];
    pthread_mutex_unlock(&streams.lock);
}

/* Records an event after the stream's current work; 0 if that is not possible. */
static int record_after(device_stream *s) {
    int capturing = 0;
    if (cuda.capturing(s->stream, &capturing) != 0 || capturing || cuda.set_device(s->device) != 0 ||
        (!s->event && cuda.create(&s->event) != 0))
        return 0;
    if (cuda.record(s->event, s->stream) != 0)
        return 0;
    s->recorded = s->calls;
    return 1;
}

static int stream_is_done(device_stream *s) {
    if (s->done == s->calls)
        return 1;
    if ((s->recorded != s->calls && !record_after(s)) || cuda.query(s->event) != 0)
        return 0;
    s->done = s->recorded;
    return 1;
}

int sl_events_drained(void) {
    if (!runtime() || pthread_mutex_trylock(&streams.lock) != 0)
        return 0;
    int all = !streams.full, device = 0, was_clear = cuda.peek() == 0, mode = RELAXED;
    int known = cuda.device(&device) == 0;
    if (cuda.capture_mode) /* a capture elsewhere in the process is not disturbed */
        cuda.capture_mode(&mode);
    for (int i = 0; i < streams.count; i++)
        all &= stream_is_done(&streams.at[i]);
    if (cuda.capture_mode)
        cuda.capture_mode(&mode);
    if (known)
        cuda.set_device(device);
    restore(was_clear);
    pthread_mutex_unlock(&streams.lock);
    return all;
}

int sl_events_capturing(void *handle) {
    int capturing = 0;
    if (!runtime())
        return 0;
    int was_clear = cuda.peek() == 0;
    if (cuda.capturing(handle, &capturing) != 0)
        capturing = 0;
    restore(was_clear);
    return capturing != 0;
}
