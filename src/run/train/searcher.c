#include "run/train/searcher.h"
#include "base/memory.h"
#include "plan/search/replan.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define WORK 100000000 /* ops that it may replay: a second or so of a processor */

struct sl_searcher {
    pthread_t thread;
    int asked; /* there is a thread to be joined */
    int replica;
    sl_problem problem;
    sl_order known;
    sl_plan plan;     /* the thread's until `done` */
    sl_status status; /* likewise */
    atomic_int stop;  /* written by the owner, read by the thread: it ends with the best so far */
    atomic_int done;  /* written by the thread (release) when plan and status are the owner's (acquire) */
};

sl_status sl_searcher_open(sl_searcher **searcher) {
    return sl_alloc(searcher, 1, sizeof **searcher);
}

static void *search(void *of) {
    sl_searcher *s = of;
    const sl_order *known = &s->known;
    const struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    s->status = sl_replan(
        &s->problem,
        &(sl_replan_options){
            .schedule = "auto", .known = &known, .knowns = 1, .work = WORK, .seed = 1, .stop = &s->stop},
        &s->plan);
    atomic_store_explicit(&s->done, 1, memory_order_release);
    return NULL;
}

static void forget(sl_searcher *s) {
    sl_problem_free(&s->problem);
    sl_order_free(&s->known);
    sl_plan_free(&s->plan);
    s->problem = (sl_problem){0};
    s->known = (sl_order){0};
    s->plan = (sl_plan){0};
}

static void join(sl_searcher *s) {
    pthread_join(s->thread, NULL);
    s->asked = 0;
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
}

void sl_searcher_close(sl_searcher *s) {
    if (!s)
        return;
    atomic_store_explicit(&s->stop, 1, memory_order_relaxed);
    if (s->asked)
        join(s);
    forget(s);
    sl_free(s);
}

int sl_searcher_is_idle(const sl_searcher *s) {
    return !s->asked;
}

sl_status sl_searcher_ask(sl_searcher *s, int replica, const sl_problem *problem, const sl_order *known) {
    sl_status status;
    if (s->asked)
        return SL_OK;
    s->replica = replica;
    SL_TRY_GOTO(err_forget, status, sl_problem_copy(problem, &s->problem));
    SL_TRY_GOTO(err_forget, status, sl_order_copy(known, &s->known));
    if (pthread_create(&s->thread, NULL, search, s) != 0)
        SL_TRY_GOTO(err_forget, status, sl_error(SL_ESYS, "no thread for the search of a plan"));
    s->asked = 1;
    return SL_OK;
err_forget:
    forget(s);
    return status;
}

int sl_searcher_take(sl_searcher *s, int *replica, sl_plan *plan) {
    if (!s->asked || !atomic_load_explicit(&s->done, memory_order_acquire))
        return 0;
    join(s);
    int found = s->status == SL_OK;
    if (found) {
        *replica = s->replica;
        *plan = s->plan;
        s->plan = (sl_plan){0};
    }
    forget(s);
    return found;
}
