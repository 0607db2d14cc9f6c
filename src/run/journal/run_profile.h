/* A run's measurements of itself, as a problem for a planner (profile.yaml): medians over the last iterations
 * under the same conditions, because single iterations have late wake-ups and the first one a cold machine;
 * and the links' latency and bandwidth from the ping test, because messages of one size cannot separate the
 * two. */
#pragma once

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"
#include "run/journal/ping.h"

#define SL_PROFILE_WINDOW 9 /* the last iterations, which count */

typedef struct sl_profiler sl_profiler;

/** `ping[ranks * ranks]` (NULL: none), the size of a message in bytes, and whether op times are prescribed
 * (then a change in them is significant). Copied. */
sl_status sl_profiler_open(const sl_ping_link *ping, int ranks, double message_bytes, int paced,
                           sl_profiler **profiler);
void sl_profiler_close(sl_profiler *profiler);

/** Adds an iteration as a problem (plan/timing/profile.h), the time of its ops and reductions from the first
 * to the last, of its ops alone on the rank that took longest, and of the rest (updates, norm). `conditions`
 * is any number that is equal for comparable iterations. Another number, another shape, a link whose
 * messages take 2 ms and a quarter more or less than before, or a paced rank whose ops take two fifths more
 * or less start over. The first iteration of a run, cold, is dropped as soon as there is another. */
sl_status sl_profiler_add(sl_profiler *profiler, uint64_t conditions, const sl_problem *measured,
                          sl_time makespan, sl_time span, sl_time update);

/** Number of iterations that count now. */
int sl_profiler_count(const sl_profiler *profiler);
/** Medians of the times that were added with them. */
sl_time sl_profiler_makespan(const sl_profiler *profiler);
sl_time sl_profiler_span(const sl_profiler *profiler);
sl_time sl_profiler_update(const sl_profiler *profiler);

/** The profile. A link's time is that of the iterations' messages. Its occupancy is the part that they showed
 * or, if they showed none (only copying limits the bandwidth), the result of the ping test for messages of
 * this size. SL_EINVAL: nothing was added. Free with sl_problem_free. */
sl_status sl_profiler_problem(const sl_profiler *profiler, sl_problem *problem);

/** Predicts a program on a profile: makespan and peak memory of each rank, including permanent memory.
 * peak[ranks] may be NULL. */
sl_status sl_profile_predict(const sl_problem *problem, const sl_program *program, sl_time *makespan,
                             double *peak);

/** Sets the problem's op times to the means of the measured ones, instead of the medians: if ranks share
 * cores, an op either runs through or waits while others have the core, and only means add up to the rank's
 * busy time. For op times that are not prescribed. Pairs are excluded; I and W of full backwards keep their
 * proportion. */
void sl_profile_average(const sl_timeline *measured, sl_problem *problem);

/** If only full backwards ran, I and W have not been measured. They share B's time as they did in `before`;
 * if op times are prescribed (`paced`), each grows by the same factor over `before` as B, because a full
 * backward may then take less than its two halves. */
void sl_profile_divide(const sl_timeline *measured, const sl_problem *before, int paced, sl_problem *problem);

/* The predictions of profile.yaml for its own run, with the measurements of the same iterations. */

typedef struct sl_forecast {
    char schedule[64]; /* the family's name, without suffixes */
    int iterations;    /* the profile is based on */
    sl_time predicted; /* makespan of the program that ran last; -1: none */
    sl_time
        planned; /* of a new plan of the profile by that schedule's name; -1: not a family, or none fits */
    sl_time measured; /* makespan, median */
    sl_time update;   /* time after it, median */
} sl_forecast;

/** `program` NULL: none ran. `schedule`: as the run calls it. SL_EINVAL: nothing was measured. */
sl_status sl_forecast_make(const sl_profiler *profiler, const sl_program *program, const char *schedule,
                           sl_forecast *forecast);
