#include "run/device/threads.h"

/* libgomp's interface for compiled code ("The libgomp ABI" of its manual). */
extern void GOMP_parallel(void (*work)(void *), void *object, unsigned threads, unsigned flags);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);

typedef struct team {
    void (*work)(void *object, int thread, int threads);
    void *object;
    int threads;
} team;

/* A nested or limited region may have fewer threads than requested: each takes several shares. */
static void enter(void *object) {
    const team *t = object;
    for (int share = omp_get_thread_num(); share < t->threads; share += omp_get_num_threads())
        t->work(t->object, share, t->threads);
}

void sl_threads_run(int threads, void (*work)(void *object, int thread, int threads), void *object) {
    team t = {.work = work, .object = object, .threads = threads};
    if (threads == 1)
        work(object, 0, 1);
    else
        GOMP_parallel(enter, &t, (unsigned)threads, 0);
}

void sl_threads_share(size_t items, size_t unit, int thread, int threads, size_t *first, size_t *end) {
    const size_t units = (items + unit - 1) / unit, t = (size_t)thread, n = (size_t)threads;
    *first = units * t / n * unit;
    *end = units * (t + 1) / n * unit;
    *first = *first < items ? *first : items;
    *end = *end < items ? *end : items;
}
