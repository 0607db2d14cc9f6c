/* The contents of the opaque handles of include/slackline, and their errors. Each wraps one of the project's
 * own types; nothing here plans. */
#pragma once

#include "plan/search/plan.h"
#include <locale.h>
#include <slackline/slackline.h>
#include <stdatomic.h>

/* Every public function is visible in the shared library, nothing else is. */
#define SL_PUBLIC __attribute__((visibility("default")))

/* First line of functions that read or write texts: numbers have a point in any locale of the program, which
 * is restored at the end. Affects only this thread; the C library has that locale ready. */
#define SL_PLAIN_NUMBERS                                                                                     \
    __attribute__((cleanup(sl_library_locale_back), unused)) locale_t sl_program_locale_ =                   \
        uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0))

static inline void sl_library_locale_back(const locale_t *before) {
    uselocale(*before);
}

struct slackline_problem {
    sl_problem problem;
    unsigned char *full_time, *full_memory; /* [stages] B was set explicitly */
};

/* Whether a stage's B is another time than I + W. */
static inline int sl_library_is_full(const sl_problem *p, int stage) {
    return sl_problem_own_time(p, SL_B, stage) !=
           sl_problem_own_time(p, SL_I, stage) + sl_problem_own_time(p, SL_W, stage);
}

struct slackline_planner {
    char schedule[32];
    double time_limit; /* negative: the schedule's default */
    uint64_t seed;
    int threads, exact;
    atomic_int stop; /* written by slackline_planner_stop, from any thread; read by searches */
};

struct slackline_plan {
    sl_problem problem; /* a copy, because the plan may have its own cut */
    sl_plan plan;
};

/** The public status for an internal one; the error text is the same. */
slackline_status sl_library_status(sl_status status);

/* As SL_TRY, in a public function. */
#define SL_LIBRARY_TRY(call)                                                                                 \
    do {                                                                                                     \
        const sl_status sl_try_status_ = (call);                                                             \
        if (sl_try_status_ != SL_OK)                                                                         \
            return sl_library_status(sl_try_status_);                                                        \
    } while (0)

/* SL_EINVAL with a sentence that names `what` if it is NULL or out of bounds. */
sl_status sl_library_need(const void *pointer, const char *what);
sl_status sl_library_between(const char *what, int64_t value, int64_t least, int64_t most);
sl_status sl_library_number(const char *what, double value, double least, double most);

/** Marks the stages of a problem that has just been read or copied. */
sl_status sl_library_mark(slackline_problem *problem);

/** Ends a text that open_memstream began (`out` NULL: it failed); *length then has its length. Sets *text to
 * NULL on any failure, else writes *size if requested. */
slackline_status sl_library_close_text(FILE *out, sl_status status, char **text, const size_t *length,
                                       size_t *size);

/** The timeline of measurements, each span and transfer checked; ops in the given order, and their *work
 * (NULL: all unknown). Free with sl_timeline_free and sl_free, also on error. SL_EINVAL, SL_ENOMEM. */
sl_status sl_library_timeline(const sl_problem *problem, const slackline_measurements *from,
                              sl_timeline *timeline, double **work);

/** A plan of `order` for a copy of `problem`, with the best bound. */
slackline_status sl_library_plan_of(const sl_problem *problem, const sl_order *order, const char *name,
                                    slackline_plan **plan);
