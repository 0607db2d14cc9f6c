#include "notice/validate/passes.h"
#include "base/memory.h"

#include <stdlib.h>

void sl_passes_free(sl_passes *passes) {
    sl_free(passes->pair);
    *passes = (sl_passes){0};
}

static int by_members(const void *left, const void *right) {
    const sl_member_pair *l = left, *r = right;
    return l->a != r->a ? (l->a > r->a) - (l->a < r->a) : (l->b > r->b) - (l->b < r->b);
}

/* Numbers the passes without gaps and puts the pairs in order. */
static sl_status settle(sl_passes *passes, int most) {
    int *name;
    SL_TRY(sl_alloc(&name, (size_t)most + 1, sizeof *name));
    for (int i = 0; i < passes->count; i++)
        name[passes->pair[i].pass] = 1;
    passes->passes = 0;
    for (int p = 0; p < most; p++)
        name[p] = name[p] ? passes->passes++ : -1;
    for (int i = 0; i < passes->count; i++)
        passes->pair[i].pass = name[passes->pair[i].pass];
    sl_free(name);
    qsort(passes->pair, (size_t)passes->count, sizeof *passes->pair, by_members);
    return SL_OK;
}

static void add(sl_passes *passes, int a, int b, int pass) {
    passes->pair[passes->count++] = (sl_member_pair){a < b ? a : b, a < b ? b : a, pass};
}

sl_status sl_passes_ring(int members, sl_passes *passes) {
    *passes = (sl_passes){0};
    SL_TRY(sl_alloc(&passes->pair, (size_t)(members > 0 ? members : 0), sizeof *passes->pair));
    for (int i = 0; i + 1 < members; i++)
        add(passes, i, i + 1, i % 2);
    if (members > 2) /* the last link of an odd ring has a neighbor in either pass */
        add(passes, members - 1, 0, members % 2 ? 2 : 1);
    return settle(passes, 3);
}

/* Of a member's three links, the one upwards has another level parity than the two downwards, and those
 * differ by their side. */
sl_status sl_passes_tree(int members, sl_passes *passes) {
    *passes = (sl_passes){0};
    SL_TRY(sl_alloc(&passes->pair, (size_t)(members > 0 ? members : 0), sizeof *passes->pair));
    for (int i = 1; i < members; i++) {
        int level = 0;
        for (int at = i; at > 0; at = (at - 1) / 2)
            level++;
        add(passes, i, (i - 1) / 2, 2 * (level % 2) + (i % 2 ? 0 : 1));
    }
    return settle(passes, 4);
}

/* ---- links that are given ---- */

typedef struct colouring {
    sl_passes *passes;
    int *at; /* [members][colors]: 1 + the pair of that color at the member; 0: none */
    int colours, used;
} colouring;

static int *slot(const colouring *c, int member, int colour) {
    return &c->at[(size_t)member * (size_t)c->colours + (size_t)colour];
}

static int free_at(const colouring *c, int member) {
    int colour = 0;
    while (*slot(c, member, colour))
        colour++;
    return colour;
}

static int free_at_both(const colouring *c, int a, int b) {
    for (int colour = 0; colour < c->used; colour++)
        if (!*slot(c, a, colour) && !*slot(c, b, colour))
            return colour;
    return -1;
}

/* The end of the path of colors first, second, first, ... from `member`. */
static int path_end(const colouring *c, int member, int first, int second) {
    for (int colour = first;; colour = colour == first ? second : first) {
        int pair = *slot(c, member, colour);
        if (!pair)
            return member;
        const sl_member_pair *p = &c->passes->pair[pair - 1];
        member = p->a == member ? p->b : p->a;
    }
}

/* Swaps the two colors along that path. */
static void turn_over(colouring *c, int member, int first, int second) {
    int colour = first, pair = *slot(c, member, colour);
    *slot(c, member, colour) = 0;
    while (pair) {
        sl_member_pair *p = &c->passes->pair[pair - 1];
        int other = colour == first ? second : first;
        int far = p->a == member ? p->b : p->a;
        int next = *slot(c, far, other); /* has this pair's new color now; takes the old one next */
        *slot(c, far, colour) = 0;
        p->pass = other;
        *slot(c, member, other) = pair;
        *slot(c, far, other) = pair;
        member = far;
        colour = other;
        pair = next;
    }
}

static void colour_pair(colouring *c, int index) {
    sl_member_pair *p = &c->passes->pair[index];
    int colour = free_at_both(c, p->a, p->b);
    if (colour < 0) {
        int at_a = free_at(c, p->a), at_b = free_at(c, p->b);
        /* at_a is taken at b: a path of at_a, at_b from b that does not end at a can be turned over */
        if (at_a < c->used && at_b < c->used && path_end(c, p->b, at_a, at_b) != p->a) {
            turn_over(c, p->b, at_a, at_b);
            colour = at_a;
        } else {
            colour = c->used++;
        }
    }
    p->pass = colour;
    *slot(c, p->a, colour) = *slot(c, p->b, colour) = index + 1;
}

static sl_status busiest(int members, const sl_passes *passes, int *most) {
    int *links;
    SL_TRY(sl_alloc(&links, (size_t)members, sizeof *links));
    *most = 0;
    for (int i = 0; i < passes->count; i++) {
        int a = ++links[passes->pair[i].a], b = ++links[passes->pair[i].b];
        *most = a > *most ? a : *most;
        *most = b > *most ? b : *most;
    }
    sl_free(links);
    return SL_OK;
}

/* A pair finds a color among 2 * most - 1: each end has at most most - 1 other links. */
static sl_status colour_all(int members, sl_passes *passes) {
    colouring c = {.passes = passes};
    int most;
    SL_TRY(busiest(members, passes, &most));
    c.colours = 2 * most + 1;
    SL_TRY(sl_alloc(&c.at, (size_t)members * (size_t)c.colours, sizeof *c.at));
    for (int i = 0; i < passes->count; i++)
        colour_pair(&c, i);
    sl_free(c.at);
    return settle(passes, c.used);
}

sl_status sl_passes_given(int members, const sl_member_pair *pair, int count, sl_passes *passes) {
    *passes = (sl_passes){0};
    for (int i = 0; i < count; i++)
        if (pair[i].a < 0 || pair[i].b < 0 || pair[i].a >= members || pair[i].b >= members ||
            pair[i].a == pair[i].b)
            return sl_error(SL_EINVAL, "%d-%d is not a link between two of %d members", pair[i].a, pair[i].b,
                            members);
    SL_TRY(sl_alloc(&passes->pair, (size_t)count, sizeof *passes->pair));
    for (int i = 0; i < count; i++)
        add(passes, pair[i].a, pair[i].b, 0);
    qsort(passes->pair, (size_t)count, sizeof *passes->pair, by_members);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept == 0 || by_members(&passes->pair[kept - 1], &passes->pair[i]) != 0)
            passes->pair[kept++] = passes->pair[i];
    passes->count = kept;
    return colour_all(members, passes);
}

sl_status sl_passes_all(int members, sl_passes *passes) {
    *passes = (sl_passes){0};
    if (members < 2)
        return sl_alloc(&passes->pair, 0, sizeof *passes->pair);
    /* a round-robin tournament: the last member (of an even number) stays, the others go round */
    int slots = members + members % 2, rounds = slots - 1;
    SL_TRY(sl_alloc(&passes->pair, (size_t)members * (size_t)(members - 1) / 2, sizeof *passes->pair));
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < slots / 2; i++) {
            int a = i == 0 ? rounds : (round + i) % rounds, b = (round + rounds - i) % rounds;
            if (a < members && b < members)
                add(passes, a, b, round);
        }
    return settle(passes, rounds);
}
