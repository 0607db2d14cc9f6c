/* What profile.yaml foretells of the run that it comes from, beside what was measured in the same iterations.
 */
#ifndef SL_RUN_JOURNAL_FORECAST_H
#define SL_RUN_JOURNAL_FORECAST_H

#include "run/journal/profile.h"

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

#endif
