#include "notice/probe/device_events.h"

#include <pthread.h>
#include <stdlib.h>

#include "notice/probe/probe.h"

static struct {
    _Atomic int state; /* 0 not looked for, 1 there, 2 not there */
    int (*create)(void **);
    int (*record)(void *, void *);
    int (*query)(void *);
    int (*capturing)(void *, int *);
    int (*peek)(void);
    int (*clear)(void);
    int (*device)(int *);
    int (*set_device)(int);
    int (*capture_mode)(int *); /* exchanges; may be missing */
} cuda;

static int runtime(void) {
    int state = atomic_load_explicit(&cuda.state, memory_order_acquire);
    if (state)
        return state == 1;
    cuda.create = (int (*)(void **))(uintptr_t)sl_probe_real("cudaEventCreate");
    cuda.record = (int (*)(void *, void *))(uintptr_t)sl_probe_real("cudaEventRecord");
    cuda.query = (int (*)(void *))(uintptr_t)sl_probe_real("cudaEventQuery");
    cuda.capturing = (int (*)(void *, int *))(uintptr_t)sl_probe_real("cudaStreamIsCapturing");
    cuda.peek = (int (*)(void))(uintptr_t)sl_probe_real("cudaPeekAtLastError");
    cuda.clear = (int (*)(void))(uintptr_t)sl_probe_real("cudaGetLastError");
    cuda.device = (int (*)(int *))(uintptr_t)sl_probe_real("cudaGetDevice");
    cuda.set_device = (int (*)(int))(uintptr_t)sl_probe_real("cudaSetDevice");
    cuda.capture_mode = (int (*)(int *))(uintptr_t)sl_probe_real("cudaThreadExchangeStreamCaptureMode");
    int there = cuda.create && cuda.record && cuda.query && cuda.capturing && cuda.peek && cuda.clear &&
                cuda.device && cuda.set_device;
    atomic_store_explicit(&cuda.state, there ? 1 : 2, memory_order_release);
    return there;
}

/* An error of ours must not become the program's: restores the state before. */
static void restore(int was_clear) {
    if (was_clear && cuda.peek() != 0)
        cuda.clear();
}

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
