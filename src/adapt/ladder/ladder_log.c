#include "adapt/ladder/ladder_inside.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A call writes an entry of its own, and then plans each incident at most once. */
sl_status sl_ladder_reserve(sl_ladder *l) {
    size_t most = 2 + (l->case_count + 1) * (size_t)l->rungs;
    return sl_grow(&l->log, &l->log_capacity, l->log_count + most, sizeof *l->log);
}

sl_status sl_ladder_note(sl_ladder *l, sl_ladder_entry_kind kind, const sl_ladder_case *c, int strategy,
                         sl_ladder_entry **entry) {
    SL_TRY(sl_grow(&l->log, &l->log_capacity, l->log_count + 1, sizeof *l->log));
    *entry = &l->log[l->log_count++];
    **entry = (sl_ladder_entry){.time = l->now, .kind = kind, .id = -1, .count = 1, .strategy = strategy};
    if (c) {
        (*entry)->id = c->incident.id;
        (*entry)->loss = c->incident.loss;
        (*entry)->lost = (sl_time)llround(c->lost);
        memcpy((*entry)->seen, c->incident.seen, sizeof(*entry)->seen);
        (*entry)->seen[sizeof(*entry)->seen - 1] = 0;
    }
    return SL_OK;
}

const sl_ladder_entry *sl_ladder_log(const sl_ladder *l, size_t *count) {
    *count = l->log_count;
    return l->log;
}

int sl_ladder_considered(const sl_ladder *l, int id, int strategy, sl_ladder_entry *entry, int *in_effect) {
    const sl_ladder_case *c = NULL;
    for (size_t i = 0; i < l->case_count && !c; i++)
        c = l->cases[i].incident.id == id ? &l->cases[i] : NULL;
    if (!c)
        return 0;
    const sl_ladder_pair *pair = &c->pair[strategy];
    *in_effect = pair->in_effect;
    *entry = (sl_ladder_entry){.time = l->now,
                               .kind = SL_LADDER_CONSIDERED,
                               .reason = pair->reason,
                               .id = id,
                               .count = 1,
                               .strategy = strategy,
                               .loss = c->incident.loss,
                               .expected = pair->expected,
                               .lost = (sl_time)llround(c->lost),
                               .cost = (sl_time)sl_ladder_price(l, strategy),
                               .trigger = isfinite(pair->trigger) ? (sl_time)pair->trigger : -1};
    memcpy(entry->seen, c->incident.seen, sizeof entry->seen);
    return 1;
}

void sl_ladder_clear_log(sl_ladder *l) {
    l->log_count = 0;
}

/* ---- sentences ---- */

static double seconds(sl_time t) {
    return (double)t / 1e9;
}

static void considered(const sl_ladder *l, const sl_ladder_entry *e, char *text, size_t size) {
    const char *name = l->rung[e->strategy].strategy.name;
    double cost = seconds(e->cost), now = 100 * e->loss, then = 100 * e->expected;
    switch (e->reason) {
    case SL_REASON_OTHER_CAUSE:
        snprintf(text, size, "  %s: not for this cause", name);
        break;
    case SL_REASON_CANNOT_HELP:
        snprintf(text, size, "  %s: no gain predicted (time lost %.1f%%, would be %.1f%%)", name, now, then);
        break;
    case SL_REASON_SKIPPED:
        snprintf(text, size,
                 "  %s: left out (time lost %.1f%%, would be %.1f%%; cost %.4g s): another is better", name,
                 now, then, cost);
        break;
    case SL_REASON_IN_EFFECT:
        snprintf(text, size, "  %s: in effect", name);
        break;
    case SL_REASON_FAILED:
        snprintf(text, size, "  %s: failed too often", name);
        break;
    case SL_REASON_AT_ONCE:
        snprintf(text, size, "  %s: now (time lost %.1f%%, would be %.1f%%; cost %.4g s)", name, now, then,
                 cost);
        break;
    default:
        snprintf(text, size,
                 "  %s: after %.4g s of lost time (time lost %.1f%%, would be %.1f%%; cost %.4g s)", name,
                 seconds(e->trigger), now, then, cost);
    }
}

static void apply_text(const sl_ladder_entry *e, const char *name, char *text, size_t size) {
    char why[96];
    if (e->reason == SL_REASON_AT_ONCE)
        snprintf(why, sizeof why, "cost %.4g s (negligible)", seconds(e->cost));
    else
        snprintf(why, sizeof why, "lost so far %.4g s, cost %.4g s", seconds(e->lost), seconds(e->cost));
    snprintf(text, size, "%s for incident %d%s: %s; time lost %.1f%%, predicted %.1f%%", name, e->id,
             e->count > 1 ? " and others" : "", why, 100 * e->loss, 100 * e->expected);
}

void sl_ladder_entry_text(const sl_ladder *l, const sl_ladder_entry *e, char *text, size_t size) {
    const char *name = e->strategy >= 0 ? l->rung[e->strategy].strategy.name : "";
    switch (e->kind) {
    case SL_LADDER_BEGAN:
        snprintf(text, size, "incident %d begins: %s%stime lost %.1f%%", e->id, e->seen,
                 e->seen[0] ? "; " : "", 100 * e->loss);
        break;
    case SL_LADDER_CHANGED:
        snprintf(text, size, "incident %d: time lost %.1f%%, was %.1f%%", e->id, 100 * e->loss,
                 100 * e->expected);
        break;
    case SL_LADDER_RELIEVED:
        snprintf(text, size, "incident %d ends: %.4g s lost in total", e->id, seconds(e->lost));
        break;
    case SL_LADDER_CONSIDERED:
        considered(l, e, text, size);
        break;
    case SL_LADDER_APPLY:
        apply_text(e, name, text, size);
        break;
    case SL_LADDER_APPLIED:
        snprintf(text, size, "%s is in effect; it took %.4g s", name, seconds(e->cost));
        break;
    case SL_LADDER_FAILED:
        snprintf(text, size, "%s failed after %.4g s", name, seconds(e->cost));
        break;
    case SL_LADDER_BROUGHT:
        snprintf(text, size, "incident %d, result of %s: time lost %.1f%% (predicted %.1f%%)", e->id, name,
                 100 * e->loss, 100 * e->expected);
        break;
    case SL_LADDER_UNDO:
        snprintf(text, size, "undo %s: keeping it has cost %.4g s, applying it again costs %.4g s", name,
                 seconds(e->lost), seconds(e->cost));
        break;
    case SL_LADDER_UNDONE:
        snprintf(text, size, "%s is undone; it took %.4g s", name, seconds(e->cost));
        break;
    case SL_LADDER_PROFILE:
        snprintf(text, size, "profile the network: the interval has passed");
        break;
    }
}
