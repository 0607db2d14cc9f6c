#include "adapt/ladder/ladder.h"
#include "base/memory.h"
#include "library/handles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SLACKLINE_STRATEGIES_MOST == SL_STRATEGIES_MOST && SLACKLINE_NEVER == SL_TIME_NEVER &&
                   SLACKLINE_CAUSES_ANY == SL_CAUSES_ANY && SLACKLINE_CAUSE_HOST == SL_CAUSE_HOST,
               "both interfaces count alike");
_Static_assert((int)SLACKLINE_DO_PROFILE == (int)SL_ACTION_PROFILE &&
                   (int)SLACKLINE_DO_UNDO == (int)SL_ACTION_UNDO,
               "both interfaces name actions alike");

/* A strategy of the program; the ladder's own points at it. */
typedef struct bound_strategy {
    slackline_strategy given;
    char *name;
} bound_strategy;

struct slackline_ladder {
    sl_ladder *ladder;
    int count;
    bound_strategy strategy[SL_STRATEGIES_MOST];
};

SL_PUBLIC void slackline_ladder_defaults(slackline_ladder_options *options) {
    sl_ladder_config config = sl_ladder_defaults();
    *options = (slackline_ladder_options){.at_once_ns = config.at_once,
                                          .least_gain = config.least_gain,
                                          .news = config.news,
                                          .calm_ns = config.calm,
                                          .profile_every_ns = config.profile_every};
}

/* ---- the program's functions, called with its own structs ---- */

static slackline_incident public_incident(const sl_incident *incident) {
    return (slackline_incident){.id = incident->id,
                                .cause = (unsigned)incident->cause,
                                .loss = incident->loss,
                                .seen = incident->seen};
}

static double remaining(void *user, const sl_incident *incident) {
    const slackline_strategy *s = &((bound_strategy *)user)->given;
    slackline_incident told = public_incident(incident);
    double loss = s->remaining(s->user, &told);
    return isfinite(loss) ? loss : incident->loss;
}

static double keeping(void *user, const sl_incident *incident) {
    const slackline_strategy *s = &((bound_strategy *)user)->given;
    slackline_incident told = public_incident(incident);
    double loss = s->keeping(s->user, &told);
    return isfinite(loss) ? loss : 0;
}

/* ---- making ---- */

static sl_status check(const slackline_ladder_options *o, const slackline_strategy *strategies, int count) {
    if (o->at_once_ns < 0 || o->calm_ns < 0 || o->profile_every_ns < 0)
        return sl_error(SL_EINVAL, "at_once, calm and profile_every cannot be negative");
    if (!(o->least_gain >= 0 && o->least_gain <= 1))
        return sl_error(SL_EINVAL, "least_gain must be from 0 to 1, got %g", o->least_gain);
    if (!(o->news >= 0 && o->news <= 1e6))
        return sl_error(SL_EINVAL, "news must be from 0 to 1e6, got %g", o->news);
    if (count < 0 || count > SL_STRATEGIES_MOST)
        return sl_error(SL_EINVAL, "a ladder of %d strategies; at most %d", count, SL_STRATEGIES_MOST);
    for (int s = 0; s < count; s++) {
        if (!strategies[s].name || !strategies[s].remaining)
            return sl_error(SL_EINVAL, "strategy %d has no name or says not what would remain", s);
        if (strategies[s].causes & ~SL_CAUSES_ANY)
            return sl_error(SL_EINVAL, "strategy '%s' answers a cause that there is not", strategies[s].name);
    }
    return SL_OK;
}

static sl_status open(const slackline_ladder_options *o, const slackline_strategy *strategies, int count,
                      slackline_ladder *l) {
    sl_ladder_config config = {.at_once = o->at_once_ns,
                               .least_gain = o->least_gain,
                               .news = o->news,
                               .calm = o->calm_ns,
                               .profile_every = o->profile_every_ns};
    sl_strategy own[SL_STRATEGIES_MOST];
    for (int s = 0; s < count; s++) {
        bound_strategy *b = &l->strategy[s];
        SL_TRY(sl_copy_text(&b->name, strategies[s].name));
        l->count = s + 1;
        b->given = strategies[s];
        b->given.name = b->name;
        own[s] = (sl_strategy){.name = b->name,
                               .causes = b->given.causes,
                               .cost = b->given.cost_ns,
                               .undo_cost = b->given.undo_cost_ns,
                               .replaces = b->given.replaces,
                               .remaining = remaining,
                               .keeping = b->given.keeping ? keeping : NULL,
                               .user = b};
    }
    return sl_ladder_open(&config, own, count, &l->ladder);
}

SL_PUBLIC slackline_status slackline_ladder_make(const slackline_ladder_options *options,
                                                 const slackline_strategy *strategies, int count,
                                                 slackline_ladder **ladder) {
    slackline_ladder_options standard;
    slackline_ladder *made = NULL;
    *ladder = NULL;
    slackline_ladder_defaults(&standard);
    options = options ? options : &standard;
    sl_status status = check(options, strategies, count);
    if (status == SL_OK)
        status = sl_alloc(&made, 1, sizeof *made);
    if (status == SL_OK)
        status = open(options, strategies, count, made);
    if (status == SL_OK)
        *ladder = made;
    else
        slackline_ladder_free(made);
    return sl_library_status(status);
}

SL_PUBLIC void slackline_ladder_free(slackline_ladder *ladder) {
    if (!ladder)
        return;
    sl_ladder_close(ladder->ladder);
    for (int s = 0; s < ladder->count; s++)
        sl_free(ladder->strategy[s].name);
    sl_free(ladder);
}

/* ---- told ---- */

static sl_status begins(slackline_ladder *ladder, int64_t now, const slackline_incident *incident) {
    unsigned cause = incident->cause;
    if (cause == 0 || (cause & (cause - 1)) || cause > SL_CAUSES_ANY)
        return sl_error(SL_EINVAL, "incident %d has cause %u, which is none, or several", incident->id,
                        cause);
    sl_incident own = {.id = incident->id, .cause = (sl_cause)cause, .loss = incident->loss};
    if (incident->seen) {
        size_t length = strnlen(incident->seen, sizeof own.seen - 1);
        memcpy(own.seen, incident->seen, length);
    }
    return sl_ladder_begins(ladder->ladder, now, &own);
}

SL_PUBLIC slackline_status slackline_ladder_begins(slackline_ladder *ladder, int64_t now_ns,
                                                   const slackline_incident *incident) {
    SL_PLAIN_NUMBERS;
    return sl_library_status(begins(ladder, now_ns, incident));
}

SL_PUBLIC slackline_status slackline_ladder_changes(slackline_ladder *ladder, int64_t now_ns, int id,
                                                    double loss) {
    SL_PLAIN_NUMBERS;
    return sl_library_status(sl_ladder_changes(ladder->ladder, now_ns, id, loss));
}

SL_PUBLIC slackline_status slackline_ladder_relieved(slackline_ladder *ladder, int64_t now_ns, int id) {
    SL_PLAIN_NUMBERS;
    return sl_library_status(sl_ladder_relieved(ladder->ladder, now_ns, id));
}

SL_PUBLIC slackline_status slackline_ladder_ended(slackline_ladder *ladder, int64_t now_ns, int64_t took_ns,
                                                  int done) {
    SL_PLAIN_NUMBERS;
    return sl_library_status(sl_ladder_ended(ladder->ladder, now_ns, took_ns, done));
}

/* ---- said ---- */

SL_PUBLIC slackline_status slackline_ladder_next(slackline_ladder *ladder, int64_t now_ns,
                                                 slackline_action *action) {
    SL_PLAIN_NUMBERS;
    sl_action own;
    sl_status status = sl_ladder_next(ladder->ladder, now_ns, &own);
    *action = (slackline_action){.kind = (slackline_action_kind)own.kind,
                                 .strategy = own.strategy,
                                 .incidents = own.incidents,
                                 .count = own.count};
    return sl_library_status(status);
}

SL_PUBLIC int64_t slackline_ladder_due(const slackline_ladder *ladder) {
    return sl_ladder_due(ladder->ladder);
}

SL_PUBLIC slackline_status slackline_ladder_carry_out(const slackline_ladder *ladder,
                                                      const slackline_action *action) {
    int apply = action->kind == SLACKLINE_DO_APPLY;
    if ((!apply && action->kind != SLACKLINE_DO_UNDO) || action->strategy < 0 ||
        action->strategy >= ladder->count)
        return SLACKLINE_OK;
    const slackline_strategy *s = &ladder->strategy[action->strategy].given;
    slackline_status (*carry)(void *, const int *, int) = apply ? s->apply : s->undo;
    return carry ? carry(s->user, action->incidents, action->count) : SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_ladder_estimate(slackline_ladder *ladder, int strategy,
                                                     int64_t cost_ns) {
    if (strategy < 0 || strategy >= ladder->count)
        return sl_library_status(sl_error(SL_EINVAL, "there is no strategy %d", strategy));
    return sl_library_status(sl_ladder_estimate(ladder->ladder, strategy, cost_ns));
}

SL_PUBLIC int64_t slackline_ladder_cost(const slackline_ladder *ladder, int strategy) {
    return strategy >= 0 && strategy < ladder->count ? sl_ladder_cost(ladder->ladder, strategy) : -1;
}

SL_PUBLIC int slackline_ladder_in_effect(const slackline_ladder *ladder, int strategy) {
    return strategy >= 0 && strategy < ladder->count && sl_ladder_in_effect(ladder->ladder, strategy);
}

SL_PUBLIC slackline_status slackline_ladder_log(const slackline_ladder *ladder, char **text, size_t *size) {
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    if (!out)
        return sl_library_status(sl_error(SL_ENOMEM, "out of memory for a text"));
    sl_ladder_log_print(ladder->ladder, out);
    return sl_library_close_text(out, SL_OK, text, &length, size);
}

SL_PUBLIC void slackline_ladder_clear_log(slackline_ladder *ladder) {
    sl_ladder_clear_log(ladder->ladder);
}
