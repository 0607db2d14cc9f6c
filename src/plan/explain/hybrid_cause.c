#include "plan/explain/hybrid_cause.h"
#include "base/text.h"
#include "plan/explain/usual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COST_MIN 0.02

const char *sl_hybrid_cause_name(sl_hybrid_cause_kind kind) {
    static const char *const names[] = {"none",    "worker", "workers", "stage",       "replica",
                                        "lengths", "link",   "links",   "collectives", "gaps"};
    return names[kind];
}

const char *sl_hybrid_position_name(const sl_hybrid_trace *t, const sl_hybrid_layout *l, int position,
                                    char *text, size_t size) {
    sl_text_format(text, size, "pipeline rank %d of replica %d (%s)", position / l->data,
                   l->replica[position % l->data], t->worker[l->worker[position]].name);
    return text;
}

typedef struct cause_list {
    const sl_hybrid_trace *trace;
    const sl_hybrid_layout *layout;
    const sl_what_if *w;
    sl_hybrid_cause *cause;
    int count;
} cause_list;

static sl_hybrid_cause *add(cause_list *c, sl_hybrid_cause_kind kind, int what, double cost) {
    if (cost < COST_MIN || c->count == SL_MAX_CAUSES)
        return NULL;
    c->cause[c->count] = (sl_hybrid_cause){.kind = kind, .what = what, .cost = cost, .weight = cost};
    return &c->cause[c->count++];
}

static double percent(double share) {
    return 100 * share;
}

static const sl_what_if_cause *largest(const sl_what_if_cause *list, int count) {
    const sl_what_if_cause *best = NULL;
    for (int i = 0; i < count; i++)
        if (!best || list[i].cost > best->cost)
            best = &list[i];
    return best;
}

/* Several slow workers, of which none costs as much by itself. Returns whether it is so. */
static int find_slow_workers(cause_list *c, double best) {
    char name[160], names[320] = "";
    int count = 0;
    for (int q = 0; q < c->layout->pipeline * c->layout->data; q++)
        count += c->w->slow[q];
    if (count < 2 || c->w->slow_workers <= 1.25 * best + 0.005)
        return 0;
    sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_WORKERS, -1, c->w->slow_workers);
    for (int i = 0, named = 0; i < c->w->workers && named < 4; i++)
        if (c->w->slow[c->w->worker[i].what]) {
            sl_text_add(
                names, sizeof names, ", ",
                sl_hybrid_position_name(c->trace, c->layout, c->w->worker[i].what, name, sizeof name));
            named++;
        }
    if (r)
        sl_text_format(
            r->text, sizeof r->text,
            "%d slow workers: as fast as the same pipeline ranks of the other replicas, together they would "
            "save %.1f%% of the time. Check their devices: %s%s.",
            count, percent(r->cost), names, count > 4 ? ", and others" : "");
    return r != NULL;
}

/* A worker, unless the whole of its replica costs clearly more than it, than a link and than all links. With
 * one replica there is nothing to compare a worker with: then it is a stage. */
static void find_workers(cause_list *c) {
    const sl_what_if *w = c->w;
    char name[160];
    const sl_what_if_cause *replica = largest(w->replica, c->layout->data);
    double best = fmax(w->workers ? w->worker[0].cost : 0, w->links ? w->link[0].cost : 0);
    if (c->layout->data == 1)
        return;
    if (find_slow_workers(c, fmax(best, replica ? replica->cost : 0)))
        return;
    if (replica && replica->cost > 1.25 * best + 0.005 && w->all_links >= 0.9 * replica->cost)
        return; /* its transfers, which are a cause of their own */
    if (replica && c->layout->pipeline > 1 && replica->cost > 1.25 * best + 0.005) {
        sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_REPLICA, replica->what, replica->cost);
        if (r)
            sl_text_format(
                r->text, sizeof r->text,
                "Replica %d is slow as a whole: as fast as the others, it would save %.1f%% of the time.",
                c->layout->replica[replica->what], percent(replica->cost));
        return;
    }
    for (int i = 0; i < w->workers && i < 3; i++) {
        sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_WORKER, w->worker[i].what, w->worker[i].cost);
        if (r)
            sl_text_format(
                r->text, sizeof r->text,
                "A slow worker, %s: as fast as the same pipeline rank of the other replicas, it would "
                "save %.1f%% of the time. Check its device.",
                sl_hybrid_position_name(c->trace, c->layout, w->worker[i].what, name, sizeof name),
                percent(w->worker[i].cost));
    }
}

static void find_stages(cause_list *c) {
    const sl_what_if_cause *stage = largest(c->w->stage, c->layout->pipeline);
    if (c->layout->pipeline < 2 || !stage || stage->cost < COST_MIN)
        return;
    sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_STAGE, stage->what, stage->cost);
    if (!r)
        return;
    if (c->layout->data > 1) /* what can be had by moving layers; the rest would be less work */
        r->weight = fmin(stage->cost, c->w->cut);
    sl_text_format(
        r->text, sizeof r->text,
        "An uneven cut: pipeline rank %d takes longer%s. As fast as the others, it would save %.1f%% of "
        "the time; with an even cut of the layers, %.1f%%.",
        stage->what,
        c->layout->data == 1 ? " (or its device does: with one replica, they cannot be distinguished)"
                             : " in all replicas",
        percent(stage->cost), percent(c->w->cut));
}

static void find_lengths(cause_list *c) {
    const sl_what_if *w = c->w;
    if (w->together < SL_TOGETHER)
        return;
    sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_LENGTHS, -1, w->lengths);
    if (r)
        sl_text_format(
            r->text, sizeof r->text,
            "Lengths of microbatches: their forward and backward times vary together (correlation %.2f, "
            "deviation %.0f%%). Equal lengths would save %.1f%% of the time: balance the sequences.",
            w->together, percent(w->length_variation), percent(w->lengths));
}

static void find_network(cause_list *c) {
    const sl_what_if *w = c->w;
    char name[160];
    if (w->links && w->link[0].cost >= COST_MIN && w->link[0].cost >= 0.6 * w->all_links) {
        sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_LINK, w->link[0].what, w->link[0].cost);
        if (r)
            sl_text_format(
                r->text, sizeof r->text,
                "The network: %s arrive slowly at %s. At the usual speed, %.1f%% of the time would be saved.",
                w->link[0].what % 2 ? "gradients" : "activations",
                sl_hybrid_position_name(c->trace, c->layout, w->link[0].what / 2, name, sizeof name),
                percent(w->link[0].cost));
    } else {
        sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_LINKS, -1, w->all_links);
        if (r)
            sl_text_format(
                r->text, sizeof r->text,
                "The network between pipeline ranks: with all transfers at their median, %.1f%% of the "
                "time would be saved.",
                percent(w->all_links));
    }
    sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_COLLECTIVES, -1, w->collectives);
    for (int i = 0; r && i < w->kinds; i++)
        if (sl_traced_kind_is_collective(w->kind[i].what)) { /* by cost */
            r->what = w->kind[i].what;
            sl_text_format(r->text, sizeof r->text,
                           "The network of collectives: with all at their median, %.1f%% of the time would "
                           "be saved (mostly %s).",
                           percent(w->collectives), sl_traced_kinds[r->what].name);
            break;
        }
}

static void find_gaps(cause_list *c) {
    char name[160];
    int worst = 0;
    sl_hybrid_cause *r = add(c, SL_HYBRID_CAUSE_GAPS, -1, c->w->gaps);
    if (!r)
        return;
    for (int q = 0; q < c->layout->pipeline * c->layout->data; q++)
        worst = c->w->gap[q] > c->w->gap[worst] ? q : worst;
    r->what = worst;
    sl_text_format(
        r->text, sizeof r->text,
        "Gaps in which nothing was recorded (the host, data, or events that are missing) take %.1f%% of "
        "the time; most are on %s, %.1f%%.",
        percent(c->w->gaps), sl_hybrid_position_name(c->trace, c->layout, worst, name, sizeof name),
        percent(c->w->gap[worst]));
}

static int most_expensive(const void *one, const void *other) {
    const sl_hybrid_cause *a = one, *b = other;
    return a->weight != b->weight ? (a->weight < b->weight) - (a->weight > b->weight)
                                  : (int)a->kind - (int)b->kind;
}

int sl_hybrid_causes(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout, const sl_what_if *w,
                     sl_hybrid_cause cause[SL_MAX_CAUSES]) {
    cause_list c = {trace, layout, w, cause, 0};
    find_workers(&c);
    find_stages(&c);
    find_lengths(&c);
    find_network(&c);
    find_gaps(&c);
    qsort(cause, (size_t)c.count, sizeof *cause, most_expensive);
    while (c.count > 1 && cause[c.count - 1].weight < cause[0].weight / 3)
        c.count--;
    if (c.count == 0) {
        cause[c.count++] = (sl_hybrid_cause){.kind = SL_HYBRID_CAUSE_NONE, .what = -1};
        sl_text_format(cause->text, sizeof cause->text, "No cause costs more than %.0f%% of the time.",
                       percent(COST_MIN));
    }
    return c.count;
}
