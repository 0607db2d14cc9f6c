#include "run/saving/resume.h"
#include "base/text.h"
#include "run/binding/load.h"
#include "run/model/transformer.h"
#include "run/saving/identity.h"

#include <stdio.h>

void sl_resume_close(sl_resume *resume) {
    sl_checkpoint_found_free(&resume->found);
}

/* What rank 0 has found, for all. */
typedef struct resume_start {
    int32_t found, first;
    uint64_t seal; /* of its state */
    char path[4096];
} resume_start;

static void say_refusals(const sl_checkpoint_found *found) {
    for (int i = 0; i < found->refusals; i++)
        fprintf(stderr, "slackline: warning: checkpoint %s is not used: %s\n", found->refused[i].name,
                found->refused[i].why);
}

static sl_status check_found(const sl_run *run, const sl_binding *binding, const sl_checkpoint_found *found) {
    sl_checkpoint_key key[SL_CHECKPOINT_KEYS];
    int keys = sl_identity_keys(run, binding, key);
    SL_TRY(sl_checkpoint_compare(found->name, &found->state, key, keys));
    if (found->state.iteration > run->iterations)
        return sl_error(SL_EINVAL,
                        "'iterations' is %d, but %s has done %d: the run cannot continue from there",
                        run->iterations, found->name, found->state.iteration);
    return SL_OK;
}

/* Rank 0. */
static sl_status look(const sl_run *run, const char *folder, const sl_binding *binding, sl_resume *resume,
                      resume_start *found) {
    char path[3584];
    if (snprintf(path, sizeof path, "%s/checkpoints", folder) >= (int)sizeof path)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    if (!resume->asked)
        return sl_checkpoint_set_aside(path, resume->moved);
    sl_status status = sl_checkpoint_find(path, &resume->found);
    say_refusals(&resume->found);
    if (status == SL_ENONE)
        return sl_error(SL_ENONE, "%s; without --resume the run starts over", sl_error_text());
    SL_TRY(status);
    SL_TRY(sl_checkpoint_clear(path));
    if (!resume->found.found)
        return SL_OK;
    SL_TRY(check_found(run, binding, &resume->found));
    *found =
        (resume_start){.found = 1, .first = resume->found.state.iteration, .seal = resume->found.state.seal};
    snprintf(found->path, sizeof found->path, "%s", resume->found.path);
    return SL_OK;
}

sl_status sl_resume_open(const sl_run *run, const char *folder, int asked, sl_binding *binding,
                         sl_group *group, sl_resume *resume) {
    resume_start found = {0};
    *resume = (sl_resume){.asked = asked};
    if (sl_group_rank(group) == 0)
        SL_TRY(look(run, folder, binding, resume, &found));
    SL_TRY(sl_group_broadcast(group, 0, &found, sizeof found));
    resume->first = found.first;
    if (found.found)
        return sl_load_checkpoint(found.path, found.seal, sl_run_model_stages(run), binding);
    return run->model.weights ? sl_load_weights(run->model.weights, sl_run_model_stages(run), binding)
                              : SL_OK;
}

/* ---- saying it ---- */

sl_status sl_resume_report(const sl_resume *resume, sl_run_log *log) {
    const sl_checkpoint_found *found = &resume->found;
    if (resume->moved[0]) {
        printf("slackline: checkpoints of an earlier run were moved to %s; --resume continues from them\n",
               resume->moved);
        fflush(stdout);
    }
    for (int i = 0; i < found->refusals; i++)
        SL_TRY(sl_run_log_report(log, SL_EVENT_CHECKPOINT_REFUSED, resume->first, found->refused[i].name,
                                 "not used", found->refused[i].why));
    if (!resume->asked)
        return SL_OK;
    if (!found->found) {
        printf("slackline: there is no checkpoint to resume from: the run starts over\n");
        fflush(stdout);
        return sl_run_log_report(log, SL_EVENT_RESUMED, 0, "no checkpoint", "starts over", "");
    }
    printf("slackline: resumes from %s: %d of the iterations are done\n", found->name, resume->first);
    fflush(stdout);
    return sl_run_log_report(log, SL_EVENT_RESUMED, resume->first, found->name, "resumes from there", "");
}
