#include "base/signals.h"

#include <stddef.h>
#include <stdio.h>

/* Of the process; written only by sl_signals_begin, before there are threads. */
static struct {
    int known;
    sigset_t ignored, blocked;
} inherited;

static int is_the_users(int signal) {
    return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP ||
           signal == SIGTTIN || signal == SIGTTOU;
}

static void set(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void sl_signals_begin(const sigset_t *blocked) {
    sigset_t none;
    struct sigaction found;
    sigemptyset(&inherited.ignored);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &found) == 0 && found.sa_handler == SIG_IGN) {
            sigaddset(&inherited.ignored, number);
            if (!is_the_users(number))
                set(number, SIG_DFL);
        }
    set(SIGXFSZ, SIG_IGN);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, blocked ? blocked : &none, &inherited.blocked);
    inherited.known = 1;
}

int sl_signals_were_ignored(int signal) {
    return inherited.known && sigismember(&inherited.ignored, signal) == 1;
}

void sl_signals_give_back(void) {
    if (!inherited.known)
        return;
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&inherited.ignored, number) == 1)
            set(number, SIG_IGN);
        else
            set(number, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &inherited.blocked, NULL);
}

int sl_thread_start(pthread_t *thread, void *(*work)(void *object), void *object) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, work, object);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Written before the threads start, but for what follows the lock. */
typedef struct shared_work {
    sl_status (*work)(void *object);
    void *object;
    atomic_int *failed; /* relaxed: a thread that sees it late does a little more */
    pthread_mutex_t lock;
    sl_status status;
    char error[512];
} shared_work;

static void *take_part(void *object) {
    shared_work *w = object;
    const sl_status status = w->work(w->object);
    if (status == SL_OK)
        return NULL;
    atomic_store_explicit(w->failed, 1, memory_order_relaxed);
    pthread_mutex_lock(&w->lock);
    if (w->status == SL_OK) {
        w->status = status;
        snprintf(w->error, sizeof w->error, "%s", sl_error_text());
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

sl_status sl_threads_join_in(int threads, sl_status (*work)(void *object), void *object, atomic_int *failed) {
    shared_work w = {.work = work, .object = object, .failed = failed, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[SL_THREADS_MAX];
    int started = 0;
    atomic_store_explicit(failed, 0, memory_order_relaxed);
    while (started + 1 < threads && started + 1 < SL_THREADS_MAX &&
           sl_thread_start(&thread[started], take_part, &w) == 0)
        started++;
    take_part(&w);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&w.lock);
    return w.status == SL_OK ? SL_OK : sl_error(w.status, "%s", w.error);
}
