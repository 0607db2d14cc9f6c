#include "run/journal/forecast.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

#include <string.h>

static sl_status foretell(const sl_problem *profile, const sl_program *program, sl_forecast *f) {
    sl_plan plan = {0};
    if (program)
        SL_TRY(sl_profile_predict(profile, program, &f->predicted, NULL));
    if (!sl_family_find(f->schedule))
        return SL_OK;
    sl_status status = sl_plan_make(profile, f->schedule, &plan);
    if (status == SL_OK)
        f->planned = plan.makespan;
    sl_plan_free(&plan);
    return status == SL_ENONE || status == SL_EINVAL ? SL_OK : status;
}

sl_status sl_forecast_make(const sl_profiler *profiler, const sl_program *program, const char *schedule,
                           sl_forecast *f) {
    sl_problem profile;
    SL_TRY(sl_profiler_problem(profiler, &profile));
    *f = (sl_forecast){.predicted = -1,
                       .planned = -1,
                       .iterations = sl_profiler_count(profiler),
                       .measured = sl_profiler_makespan(profiler),
                       .update = sl_profiler_update(profiler)};
    snprintf(f->schedule, sizeof f->schedule, "%.*s", (int)strcspn(schedule, " "), schedule);
    sl_status status = foretell(&profile, program, f);
    sl_problem_free(&profile);
    return status;
}
