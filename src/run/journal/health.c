#include "run/journal/health.h"
#include "base/median.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    FIRST = 5,
    NAMED = 4,
    NARROW = 50
};                     /* iterations that say what is usual; links that are named; width
                          in which one is */
#define LEAST SL_MS    /* a smaller delay is never worth a word */
#define SHARE 0.05     /* of the shortest op: what a link must add */
#define SLOW_PACED 1.1 /* a rank, against its pace */
#define SLOW 1.3       /* against its own first iterations, which share cores with others */

typedef struct link {
    int a, b;
    sl_time excess; /* of this iteration */
} link;

typedef struct rank {
    sl_time usual, now; /* of all its ops of a microbatch; usual 0: not known yet */
    sl_time first[FIRST];
    int firsts;
} rank;

struct sl_health {
    sl_problem planned;
    int paced, links;
    int begin; /* the first iteration that was observed; -1: none */
    sl_time least;
    link *link;
    rank *rank;
};

static int has_link(const sl_problem *p, int a, int b) {
    for (int stage = 0; stage < p->stages; stage++) {
        int next = sl_problem_next(p, stage);
        int x = sl_problem_rank(p, stage), y = next < 0 ? x : sl_problem_rank(p, next);
        if ((x == a && y == b) || (x == b && y == a))
            return 1;
    }
    return 0;
}

/* B is measured where only B ran, I and W where they did. */
static sl_time rank_time(const sl_problem *p, int r) {
    sl_time sum = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == r)
            sum += p->time[SL_F][stage] + p->time[SL_B][stage];
    return sum;
}

static sl_time shortest_op(const sl_problem *p) {
    sl_time least = SL_TIME_NEVER;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_I; kind++)
            if (p->time[kind][stage] > 0 && p->time[kind][stage] < least)
                least = p->time[kind][stage];
    return least == SL_TIME_NEVER ? 0 : least;
}

sl_status sl_health_open(const sl_problem *planned, int paced, sl_health **health) {
    sl_health *h;
    int ranks = planned->ranks;
    SL_TRY(sl_alloc(&h, 1, sizeof *h));
    *health = h;
    h->paced = paced;
    h->begin = -1;
    SL_TRY(sl_problem_copy(planned, &h->planned));
    SL_TRY(sl_alloc(&h->rank, (size_t)ranks, sizeof *h->rank));
    SL_TRY(sl_alloc(&h->link, 2 * (size_t)planned->stages, sizeof *h->link));
    for (int a = 0; a < ranks; a++) {
        h->rank[a].usual = paced ? rank_time(planned, a) : 0;
        for (int b = a + 1; b < ranks; b++)
            if (has_link(planned, a, b))
                h->link[h->links++] = (link){.a = a, .b = b};
    }
    return SL_OK;
}

void sl_health_close(sl_health *h) {
    if (!h)
        return;
    sl_problem_free(&h->planned);
    sl_free(h->link);
    sl_free(h->rank);
    sl_free(h);
}

static sl_time excess(const sl_health *h, const sl_problem *measured, int from, int to) {
    const sl_link *now = &measured->link[from * measured->ranks + to],
                  *planned = &h->planned.link[from * measured->ranks + to];
    return now->latency + now->transfer - planned->latency - planned->transfer;
}

static void learn(rank *r, sl_time time) {
    if (r->firsts == FIRST)
        return;
    sl_time sorted[FIRST];
    r->first[r->firsts++] = time;
    memcpy(sorted, r->first, sizeof sorted);
    r->usual = sl_median(sorted, r->firsts);
}

void sl_health_observe(sl_health *h, int iteration, const sl_problem *measured) {
    sl_time share = (sl_time)(SHARE * (double)shortest_op(measured));
    h->least = share > LEAST ? share : LEAST;
    h->begin = h->begin < 0 ? iteration : h->begin;
    for (int i = 0; i < h->links; i++) {
        link *l = &h->link[i];
        sl_time there = excess(h, measured, l->a, l->b), back = excess(h, measured, l->b, l->a);
        sl_time worse = there > back ? there : back;
        l->excess = worse > l->excess ? worse : l->excess;
    }
    for (int r = 0; r < measured->ranks; r++) {
        sl_time time = rank_time(measured, r);
        h->rank[r].now = time > h->rank[r].now ? time : h->rank[r].now;
        if (!h->paced && iteration != h->begin)
            learn(&h->rank[r], time);
    }
}

/* ---- words ---- */

typedef struct words {
    char *text;
    size_t size, used; /* with the end */
    size_t width;
    int full;
} words;

/* All of it or nothing. */
static void add(words *w, const char *piece) {
    size_t length = strlen(piece);
    if (w->full || w->used + length >= w->size || w->used + length > w->width) {
        w->full = 1;
        return;
    }
    memcpy(w->text + w->used, piece, length + 1);
    w->used += length;
}

static int is_slow(const sl_health *h, const rank *r) {
    return r->usual > 0 && (double)r->now > (h->paced ? SLOW_PACED : SLOW) * (double)r->usual;
}

static double slowness(const rank *r) {
    return r->usual > 0 ? (double)r->now / (double)r->usual : 1;
}

static void link_words(const sl_health *h, const link *l, char *piece, size_t size, const char *before) {
    double ms = sl_to_ms(l->excess);
    if (l->excess < h->least)
        snprintf(piece, size, "%s%d-%d ok", before, l->a, l->b);
    else
        snprintf(piece, size, "%s%d-%d +%.*f ms", before, l->a, l->b, ms < 10 ? 1 : 0, ms);
}

static const link *worst_link(const sl_health *h, sl_time below, int after) {
    const link *worst = NULL;
    for (int i = 0; i < h->links; i++) {
        const link *l = &h->link[i];
        int comes = l->excess < below || (l->excess == below && i > after);
        if (comes && l->excess >= h->least && (!worst || l->excess > worst->excess))
            worst = l;
    }
    return worst;
}

static void add_links(const sl_health *h, int slow, words *w) {
    char piece[64];
    if (h->links == 0)
        return;
    int most = w->width < NARROW ? 1 : NAMED;
    if (slow == 0) {
        add(w, "links ok");
        return;
    }
    if (h->links <= most) {
        for (int i = 0; i < h->links; i++) {
            link_words(h, &h->link[i], piece, sizeof piece, i ? ", " : "links ");
            add(w, piece);
        }
        return;
    }
    const link *l = worst_link(h, SL_TIME_NEVER, -1);
    for (int named = 0; named < most && l; named++) {
        link_words(h, l, piece, sizeof piece, named ? ", " : "links ");
        add(w, piece);
        l = worst_link(h, l->excess, (int)(l - h->link));
    }
    if (most == 1 && slow == 1)
        return;
    if (most == 1)
        snprintf(piece, sizeof piece, ", %d more slow", slow - 1);
    else if (slow > most)
        snprintf(piece, sizeof piece, ", %d more slow, %d ok", slow - most, h->links - slow);
    else
        snprintf(piece, sizeof piece, ", %d ok", h->links - slow);
    add(w, piece);
}

static void add_ranks(const sl_health *h, int slow, words *w) {
    char piece[64];
    const char *before = w->used > 0 ? "; " : "";
    const rank *worst = &h->rank[0];
    for (int r = 1; r < h->planned.ranks; r++)
        if (slowness(&h->rank[r]) > slowness(worst))
            worst = &h->rank[r];
    if (slow == 0)
        snprintf(piece, sizeof piece, "%sranks ok", before);
    else if (slow == 1)
        snprintf(piece, sizeof piece, "%srank %d x%.2g", before, (int)(worst - h->rank), slowness(worst));
    else
        snprintf(piece, sizeof piece, "%srank %d x%.2g, %d more slow", before, (int)(worst - h->rank),
                 slowness(worst), slow - 1);
    add(w, piece);
}

int sl_health_words(sl_health *h, int width, char *text, size_t size) {
    words w = {.text = text, .size = size, .width = width > 0 ? (size_t)width : 0};
    int links = 0, ranks = 0;
    if (size > 0)
        text[0] = 0;
    for (int i = 0; i < h->links; i++)
        links += h->link[i].excess >= h->least;
    for (int r = 0; r < h->planned.ranks; r++)
        ranks += is_slow(h, &h->rank[r]);
    add_links(h, links, &w);
    add_ranks(h, ranks, &w);
    for (int i = 0; i < h->links; i++)
        h->link[i].excess = 0;
    for (int r = 0; r < h->planned.ranks; r++)
        h->rank[r].now = 0;
    return links + ranks > 0;
}
