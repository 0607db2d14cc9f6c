/* Slow groups of more than two ranks: what is common to them. */
#include "base/memory.h"
#include "notice/detect/call_verdict.h"

#include <stdio.h>
#include <string.h>

#define MS 1e6

/* Whether a larger group is slow because of an existing suspect. */
static int holds_suspect(const sl_call_group *g, const sl_call_verdict *v) {
    for (size_t i = 0; i < v->count; i++) {
        const sl_suspect *s = &v->suspect[i];
        if (s->component == SL_COMPONENT_LINK && sl_call_group_has(g, s->from) && sl_call_group_has(g, s->to))
            return 1;
        if (s->rank >= 0 && sl_call_group_has(g, s->rank))
            return 1;
    }
    return 0;
}

static sl_status say_group(const sl_call_comparison *c, size_t at, sl_call_verdict *v) {
    const sl_call_group *g = &c->now->group[at];
    const sl_call_measure *m = &c->group[at];
    sl_suspect s = sl_call_suspect(SL_COMPONENT_GROUP, -1, m);
    s.group = g->communicator;
    size_t used = (size_t)snprintf(s.why, sizeof s.why, "%s of %.3g ms takes %.3g ms among ranks",
                                   sl_call_name(g->call), s.expected, s.measured);
    for (int i = 0; i < g->size && i < 16 && used < sizeof s.why; i++)
        used += (size_t)snprintf(s.why + used, sizeof s.why - used, " %d", g->member[i]);
    return sl_call_verdict_add(v, s, m->excess);
}

/* The members that all slow groups have in common; how many. */
static int in_common(const sl_call_comparison *c, const int *left, int *members) {
    int count = 0;
    for (int r = 0; r < c->now->ranks; r++) {
        int in = 1;
        for (size_t g = 0; g < c->now->groups; g++)
            in &= !left[g] || sl_call_group_has(&c->now->group[g], r);
        if (in)
            members[count++] = r;
    }
    return count;
}

static int same_members(const sl_call_group *a, const sl_call_group *b) {
    return a->size == b->size && memcmp(a->member, b->member, (size_t)a->size * sizeof *a->member) == 0;
}

sl_status sl_call_verdict_groups(const sl_call_comparison *c, const int *explained, sl_call_verdict *v) {
    size_t worst = 0, many = 0;
    int *left, *members = NULL, different = 0;
    SL_TRY(sl_alloc(&left, c->now->groups, sizeof *left));
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&members, (size_t)c->now->ranks, sizeof *members));
    for (size_t g = 0; g < c->now->groups; g++) {
        const sl_call_group *group = &c->now->group[g];
        left[g] = c->group[g].slow && group->size > 2 && !explained[g] && !holds_suspect(group, v);
        if (!left[g])
            continue;
        different |= many > 0 && !same_members(group, &c->now->group[worst]);
        worst = many++ == 0 || c->group[g].excess > c->group[worst].excess ? g : worst;
    }
    const double excess = many ? c->group[worst].excess : 0, least = sl_call_named_from(v, excess);
    int common = many && different ? in_common(c, left, members) : 0;
    if (excess < least) {
        status = SL_OK; /* a shadow of what was found */
    } else if (common == 1) {
        sl_suspect s = sl_call_suspect(SL_COMPONENT_HOST, members[0], &c->group[worst]);
        snprintf(s.why, sizeof s.why, "it is common to %zu slow groups, and computes as before", many);
        status = sl_call_verdict_add(v, s, excess);
    } else if (common == 2) {
        sl_suspect s = {.component = SL_COMPONENT_LINK,
                        .rank = -1,
                        .from = members[0],
                        .to = members[1],
                        .both = 1,
                        .measured = c->group[worst].now / MS,
                        .expected = c->group[worst].expected / MS};
        snprintf(s.why, sizeof s.why, "it is common to %zu slow groups", many);
        status = sl_call_verdict_add(v, s, excess);
    } else {
        for (size_t g = 0; g < c->now->groups && status == SL_OK; g++) {
            int again = 0; /* the same members, slow in another call that costs more */
            for (size_t h = 0; h < c->now->groups && left[g]; h++)
                again |= h != g && left[h] && same_members(&c->now->group[g], &c->now->group[h]) &&
                         (c->group[h].excess > c->group[g].excess ||
                          (c->group[h].excess == c->group[g].excess && h < g));
            if (left[g] && !again && c->group[g].excess >= least)
                status = say_group(c, g, v);
        }
    }
done:
    SL_FREE(left, members);
    return status;
}
