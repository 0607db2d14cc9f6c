#include "notice/detect/pairs.h"
#include "base/memory.h"

#include <math.h>

#define SHADOW 0.2 /* of a pair's waiting that may stay unexplained in a shadow */
#define ALIKE 0.8  /* of what the best pair explains: another that explains this much is its rival */

static sl_call_pair *pair_of(sl_call_pairs *all, int a, int b) {
    int low = a < b ? a : b, high = a < b ? b : a;
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].a == low && all->at[i].b == high)
            return &all->at[i];
    all->at[all->count] = (sl_call_pair){.a = low, .b = high, .rival = -1, .first = -1};
    return &all->at[all->count++];
}

sl_status sl_call_pairs_find(const sl_call_comparison *c, sl_call_pairs *all) {
    SL_TRY(sl_alloc(&all->at, c->now->groups, sizeof *all->at));
    SL_TRY(sl_alloc(&all->next, c->now->groups, sizeof *all->next));
    for (size_t g = 0; g < c->now->groups; g++) {
        const sl_call_group *group = &c->now->group[g];
        const sl_call_measure *m = &c->group[g];
        if (group->size != 2 || !m->known || group->member[0] == group->member[1])
            continue;
        sl_call_pair *p = pair_of(all, group->member[0], group->member[1]);
        int there = !group->message || group->member[0] == p->a,
            back = !group->message || group->member[0] == p->b;
        all->next[g] = p->first;
        p->first = (long)g;
        p->measured[0] |= there;
        p->measured[1] |= back;
        if (!m->slow)
            continue;
        p->slow[0] |= there;
        p->slow[1] |= back;
        p->there += there ? m->excess : 0;
        p->back += back ? m->excess : 0;
        if (m->excess > p->worst.excess)
            p->worst = *m;
    }
    return SL_OK;
}

void sl_call_pairs_free(sl_call_pairs *all) {
    SL_FREE(all->at, all->next);
    *all = (sl_call_pairs){0};
}

int sl_call_pair_is_slow(const sl_call_pair *p) {
    return (p->slow[0] || p->slow[1]) && !p->taken;
}

double sl_call_pair_excess(const sl_call_pair *p) {
    return p->there > p->back ? p->there : p->back;
}

/* ---- the cover ---- */

typedef struct cover {
    const sl_call_comparison *c;
    sl_call_pairs *all;
    double *slow;   /* [waits] ns that the wait was longer than expected */
    int *explained; /* [waits] */
    int *mark;      /* [waits] the last mark that was put there; each wait counts once */
    int marks;
} cover;

/* Marks the waits of a pair: all in which its messages took part, or only those that ended with receiving
 * one. Returns the slow time of those that did not have the mark yet, are not explained and carried mark
 * `among` (0: any). */
static double put_mark(cover *v, const sl_call_pair *p, int receiving, int among, int mark) {
    double sum = 0;
    for (long g = p->first; g >= 0; g = v->all->next[g])
        for (size_t i = 0; i < v->c->now->group[g].waits; i++) {
            const sl_call_wait *both = &v->c->now->group[g].wait[i];
            int32_t wait[2] = {both->received, both->sent};
            for (int end = 0; end < (receiving ? 1 : 2); end++) {
                int *at = &v->mark[wait[end]];
                if (*at != mark && !v->explained[wait[end]] && (among == 0 || *at == among))
                    sum += v->slow[wait[end]];
                *at = mark;
            }
        }
    return sum;
}

static double mark_waits(cover *v, const sl_call_pair *p, int receiving, int among) {
    return put_mark(v, p, receiving, among, ++v->marks);
}

static void explain(cover *v, const sl_call_pair *p) {
    for (long g = p->first; g >= 0; g = v->all->next[g])
        for (size_t i = 0; i < v->c->now->group[g].waits; i++) {
            v->explained[v->c->now->group[g].wait[i].received] = 1;
            v->explained[v->c->now->group[g].wait[i].sent] = 1;
        }
}

/* Another that would explain nearly all that the best pair does; -1: none. */
static int rival_of(cover *v, const sl_call_pair *best, double explains) {
    for (size_t i = 0; i < v->all->count; i++) {
        const sl_call_pair *p = &v->all->at[i];
        if (p == best || !sl_call_pair_is_slow(p))
            continue;
        mark_waits(v, best, 0, 0);
        if (mark_waits(v, p, 0, v->marks) >= ALIKE * explains)
            return (int)i;
    }
    return -1;
}

/* The slow time of each wait: of the slow messages that it received, the longest's. */
static void weigh(cover *v) {
    for (size_t g = 0; g < v->c->now->groups; g++) {
        const sl_call_group *group = &v->c->now->group[g];
        const sl_call_measure *m = &v->c->group[g];
        for (size_t i = 0; i < group->waits && m->slow; i++) {
            double *slow = &v->slow[group->wait[i].received];
            *slow = fmax(*slow, (double)group->wait[i].time - m->expected);
        }
    }
}

/* All slow waiting that is not explained, and how much of it the best single pair would explain. */
static double all_waiting(cover *v, double *best) {
    double sum = 0;
    for (size_t i = 0; i < v->c->now->waits; i++)
        sum += v->explained[i] ? 0 : v->slow[i];
    *best = 0;
    for (size_t i = 0; i < v->all->count; i++) {
        double explains = sl_call_pair_is_slow(&v->all->at[i]) ? mark_waits(v, &v->all->at[i], 0, 0) : 0;
        *best = explains > *best ? explains : *best;
    }
    return sum;
}

/* Whether several pairs of a rank, all slow, explain nearly all waiting together. */
static int explains_all(cover *v, int rank, double all) {
    double explains = 0;
    int pairs = 0, mark = ++v->marks;
    for (size_t i = 0; i < v->all->count; i++) {
        const sl_call_pair *p = &v->all->at[i];
        if (p->a != rank && p->b != rank)
            continue;
        if (!sl_call_pair_is_slow(p))
            return 0;
        pairs++;
        explains += put_mark(v, p, 0, 0, mark);
    }
    return pairs > 1 && explains >= ALIKE * all;
}

/* The one rank whose links explain what no single link does: then all other pairs are shadows. */
static void find_host(cover *v) {
    double best, all = all_waiting(v, &best);
    int host = -1;
    if (all <= 0 || best >= ALIKE * all)
        return;
    for (int r = 0; r < v->c->now->ranks; r++) {
        if (!explains_all(v, r, all))
            continue;
        if (host >= 0)
            return;
        host = r;
    }
    for (size_t i = 0; i < v->all->count && host >= 0; i++)
        v->all->at[i].taken |= v->all->at[i].a != host && v->all->at[i].b != host;
}

static void cover_waits(cover *v, char *kept, double *waited) {
    sl_call_pairs *all = v->all;
    weigh(v);
    for (size_t i = 0; i < all->count; i++)
        waited[i] = mark_waits(v, &all->at[i], 1, 0);
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].taken)
            explain(v, &all->at[i]);
    find_host(v);
    for (;;) {
        long best = -1;
        double most = 0;
        for (size_t i = 0; i < all->count; i++) {
            sl_call_pair *p = &all->at[i];
            if (!sl_call_pair_is_slow(p) || kept[i])
                continue;
            if (waited[i] > 0 && mark_waits(v, p, 1, 0) <= SHADOW * waited[i]) {
                p->taken = 1;
                continue;
            }
            double explains = mark_waits(v, p, 0, 0);
            best = explains > most ? (long)i : best;
            most = explains > most ? explains : most;
        }
        if (best < 0)
            return;
        all->at[best].rival = rival_of(v, &all->at[best], most);
        kept[best] = 1;
        explain(v, &all->at[best]);
    }
}

sl_status sl_call_pairs_cover(const sl_call_comparison *c, sl_call_pairs *all) {
    cover v = {.c = c, .all = all};
    char *kept = NULL;
    double *waited = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&v.slow, c->now->waits, sizeof *v.slow));
    SL_TRY_GOTO(done, status, sl_alloc(&v.explained, c->now->waits, sizeof *v.explained));
    SL_TRY_GOTO(done, status, sl_alloc(&v.mark, c->now->waits, sizeof *v.mark));
    SL_TRY_GOTO(done, status, sl_alloc(&kept, all->count, sizeof *kept));
    SL_TRY_GOTO(done, status, sl_alloc(&waited, all->count, sizeof *waited));
    cover_waits(&v, kept, waited);
done:
    SL_FREE(v.slow, v.explained, v.mark, kept, waited);
    return status;
}
