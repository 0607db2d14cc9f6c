/* What a run has measured of itself, as a problem that a planner takes (profile.yaml): medians over the last
 * iterations that ran under the same conditions, because one iteration has late wake-ups in it and the first
 * one a cold machine; and the links' latency and bandwidth, which one size of messages alone cannot tell
 * apart, from the ping test. */
#pragma once

#include "plan/lower/program.h"
#include "plan/timing/timeline.h"
#include "run/journal/ping.h"

#define SL_PROFILE_WINDOW 9 /* iterations that count, the last ones */

typedef struct sl_profiler sl_profiler;

/** `ping[ranks * ranks]` (NULL: none), the size of a message in bytes, and whether op times are prescribed
 * (then one that changes is news). Copied. */
sl_status sl_profiler_open(const sl_ping_link *ping, int ranks, double message_bytes, int paced,
                           sl_profiler **profiler);
void sl_profiler_close(sl_profiler *profiler);

/** An iteration as a problem (plan/timing/profile.h), what its ops and reductions took from the first to the
 * last, its ops alone on the rank that took longest, and what it took besides (updates, norm). `conditions`
 * is any number that is equal for iterations that may be compared; another one than before, or another shape,
 * starts anew, and so does a link whose messages take 2 ms and a quarter more or less than in those before,
 * or a paced rank whose ops take 2 fifths more or less. The first iteration of a run, cold, is dropped as
 * soon as there is another. */
sl_status sl_profiler_add(sl_profiler *profiler, uint64_t conditions, const sl_problem *measured,
                          sl_time makespan, sl_time span, sl_time update);

/** Iterations that count now. */
int sl_profiler_count(const sl_profiler *profiler);
/** Medians of what was added with them. */
sl_time sl_profiler_makespan(const sl_profiler *profiler);
sl_time sl_profiler_span(const sl_profiler *profiler);
sl_time sl_profiler_update(const sl_profiler *profiler);

/** The profile. A link takes as long as the iterations' messages did; of that its occupancy is what they
 * showed, or where they showed none (nothing limits the bandwidth but the copying), what the ping test found
 * for messages of this size. SL_EINVAL: nothing was added. Free with sl_problem_free. */
sl_status sl_profiler_problem(const sl_profiler *profiler, sl_problem *problem);

/** What a program takes on a profile: makespan and highest memory of each rank, with what lies there all the
 * time. peak[ranks] may be NULL. */
sl_status sl_profile_predict(const sl_problem *problem, const sl_program *program, sl_time *makespan,
                             double *peak);

/** Op times of problem become the means of what ran, instead of the medians: where ranks share cores, an op
 * runs through or is held up for as long as others have the core, and only means add up to what the rank was
 * busy. For op times that nothing prescribes. Pairs are left out; I and W of full backwards keep their
 * proportion. */
void sl_profile_average(const sl_timeline *measured, sl_problem *problem);

/** Where only full backwards ran, I and W have not been measured. They share B's time as they did in
 * `before`; where op times are prescribed (`paced`), each takes as many times longer than in `before` as B
 * does, for there a full backward may take less than its two halves. */
void sl_profile_divide(const sl_timeline *measured, const sl_problem *before, int paced, sl_problem *problem);

/* What profile.yaml foretells of the run that it comes from, beside what was measured in the same iterations.
 */

typedef struct sl_forecast {
    char schedule[64]; /* the family's name, without what was added to it */
    int iterations;    /* that the profile comes from */
    sl_time predicted; /* makespan of the program that ran last; -1: none */
    sl_time
        planned; /* of a new plan of the profile by that schedule's name; -1: it is no family, or none fits */
    sl_time measured; /* makespan, median */
    sl_time update;   /* what came behind it, median */
} sl_forecast;

/** `program` NULL: none ran. `schedule`: as the run calls it. SL_EINVAL: nothing was measured. */
sl_status sl_forecast_make(const sl_profiler *profiler, const sl_program *program, const char *schedule,
                           sl_forecast *forecast);
