#include "run/binding/passing.h"

#include <stdatomic.h>
#include <stdio.h>

static void *work(void *object) {
    sl_passing *p = object;
    p->status = sl_group_pass(p->group, p->from, p->to, p->data, p->bytes);
    if (p->status != SL_OK)
        snprintf(p->error, sizeof p->error, "%s", sl_error_text());
    atomic_store_explicit(&p->done, 1, memory_order_release);
    return NULL;
}

sl_status sl_passing_start(sl_passing *p, sl_group *group, int from, int to, void *data, size_t bytes) {
    SL_TRY(sl_passing_finish(p));
    p->group = group;
    p->from = from;
    p->to = to;
    p->data = data;
    p->bytes = bytes;
    p->status = SL_OK;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    if (pthread_create(&p->thread, NULL, work, p) != 0)
        return sl_error(SL_ESYS, "no thread for a message between two ranks");
    p->started = 1;
    return SL_OK;
}

sl_status sl_passing_finish(sl_passing *p) {
    if (!p->started)
        return SL_OK;
    pthread_join(p->thread, NULL);
    p->started = 0;
    return p->status == SL_OK ? SL_OK : sl_error(p->status, "%s", p->error);
}

int sl_passing_close(sl_passing *p) {
    if (!p->started)
        return 1;
    if (!atomic_load_explicit(&p->done, memory_order_acquire)) {
        pthread_detach(p->thread);
        return 0;
    }
    pthread_join(p->thread, NULL);
    p->started = 0;
    return 1;
}
