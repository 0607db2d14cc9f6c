/* The best that could have been done by somebody who knew the trace: for each phase (between two changes of
 * what is slow) the best of what was there, that with one remedy more or less, and every combination of
 * remedies made for that phase, their costs included, by dynamic programming over the phases with a beam.
 * Whatever another row has reached could have been done too, so hindsight is never worse than any of them. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define BEAM 12
#define LARGE 100 /* phases from which fewer combinations and places are looked at */
#define BEAM_OF_LARGE 4
#define COMBINATIONS (1 << SL_CAMPAIGN_RESTART)

/* A place to be at the end of a phase. */
typedef struct node {
    int before; /* node; -1: the beginning */
    int phase, setup;
    sl_time cost, each; /* paid at the phase's begin; of an iteration in it */
    sl_time time;       /* at its end */
    int done;           /* iterations at its end */
    double score;       /* among places at the end of one phase: the most is best */
} node;

typedef struct hindsight {
    sl_simulation *s;
    const sl_campaign *c;
    int64_t *edge; /* [edges] where phases begin, ascending; the first is 0 */
    size_t edges;
    node *node;
    size_t nodes, node_room;
    int beam[BEAM], beams;
    int next[BEAM]; /* of the phase at hand */
    int nexts;
    int *faults; /* scratch */
    int best;    /* node that has done all iterations first; -1 */
} hindsight;

/* ---- phases ---- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static sl_status find_edges(hindsight *h) {
    const sl_campaign *c = h->c;
    size_t count = 0;
    SL_TRY(sl_alloc(&h->edge, 2 * c->faults + 1, sizeof *h->edge));
    h->edge[count++] = 0;
    for (size_t i = 0; i < c->faults; i++) {
        int64_t ends[2] = {c->fault[i].first, c->fault[i].until};
        for (int k = 0; k < 2; k++)
            if (ends[k] > 0 && ends[k] != SL_FAULT_LASTS && (c->by_time || ends[k] < c->iterations) &&
                !(k == 1 && c->fault[i].kind == SL_FAULT_STOP))
                h->edge[count++] = ends[k];
    }
    qsort(h->edge, count, sizeof *h->edge, by_value);
    for (size_t i = 0; i < count; i++)
        if (!h->edges || h->edge[i] != h->edge[h->edges - 1])
            h->edge[h->edges++] = h->edge[i];
    return SL_OK;
}

static sl_status world_of(hindsight *h, size_t phase, int *world) {
    const sl_campaign *c = h->c;
    int count = 0;
    for (size_t i = 0; i < c->faults && c->fault[i].first <= h->edge[phase]; i++)
        if (c->fault[i].kind != SL_FAULT_STOP && c->fault[i].until > h->edge[phase])
            h->faults[count++] = (int)i;
    return sl_simulation_world(h->s, h->faults, count, world);
}

/* What the stops at a phase's begin cost. */
static sl_time stops_of(const hindsight *h, size_t phase, const sl_setup *setup) {
    const sl_campaign *c = h->c;
    sl_time cost = 0;
    for (size_t i = 0; i < c->faults && c->fault[i].first <= h->edge[phase]; i++) {
        const sl_campaign_fault *f = &c->fault[i];
        if (f->kind != SL_FAULT_STOP || f->first != h->edge[phase])
            continue;
        sl_time full = f->stop >= 0 ? f->stop : c->cost[SL_CAMPAIGN_RESTART];
        sl_time over = setup->delegated ? 0 : c->cost[SL_CAMPAIGN_DELEGATE];
        cost += f->is_rail && over < full ? over : full;
    }
    return cost;
}

/* ---- one step ---- */

/* Iterations that are ahead of another place count against the time at which they were done. */
static int is_better(const node *a, const node *b) {
    if (a->score != b->score)
        return a->score > b->score;
    return a->setup < b->setup;
}

/* Time and iterations at the end of the phase; an iteration that has begun is finished. */
static void pass(const hindsight *h, const node *from, size_t phase, node *to) {
    int last = phase + 1 == h->edges;
    int64_t left = h->c->iterations - from->done, end = last ? 0 : h->edge[phase + 1], count = left;
    sl_time begin = from->time + to->cost;
    if (h->c->by_time && !last)
        count = begin < end ? (end - begin) / to->each + ((end - begin) % to->each != 0) : 0;
    else if (!last)
        count = end - from->done;
    count = count < left ? count : left;
    to->done = from->done + (int)count;
    to->time = begin + count * to->each;
    to->score = h->c->by_time ? to->done - (double)(to->time - end) / (double)to->each : -(double)to->time;
}

/* Keeps the best BEAM nodes of the phase, one a setup; finished ones apart. */
static sl_status offer(hindsight *h, const node *made) {
    int place = h->nexts, beam = h->edges > LARGE ? BEAM_OF_LARGE : BEAM;
    if (made->done >= h->c->iterations) {
        if (h->best >= 0 && h->node[h->best].time <= made->time)
            return SL_OK;
        SL_TRY(sl_grow(&h->node, &h->node_room, h->nodes + 1, sizeof *h->node));
        h->node[h->nodes] = *made;
        h->best = (int)h->nodes++;
        return SL_OK;
    }
    for (int i = 0; i < h->nexts; i++)
        if (h->node[h->next[i]].setup == made->setup)
            place = i;
    if (place == h->nexts && h->nexts == beam) {
        place = 0;
        for (int i = 1; i < beam; i++)
            if (is_better(&h->node[h->next[place]], &h->node[h->next[i]]))
                place = i;
    }
    if (place < h->nexts) {
        if (is_better(made, &h->node[h->next[place]]))
            h->node[h->next[place]] = *made;
        return SL_OK;
    }
    SL_TRY(sl_grow(&h->node, &h->node_room, h->nodes + 1, sizeof *h->node));
    h->node[h->nodes] = *made;
    h->next[h->nexts++] = (int)h->nodes++;
    return SL_OK;
}

static sl_status try_setup(hindsight *h, int before, size_t phase, int world, int setup) {
    node from = {.setup = 0}, to = {.before = before, .phase = (int)phase, .setup = setup};
    if (before >= 0)
        from = h->node[before];
    SL_TRY(sl_simulation_time(h->s, setup, world, &to.each));
    if (to.each == SL_TIME_NEVER || to.each < 1)
        return SL_OK;
    to.cost = sl_setup_distance(h->s, from.setup, setup) + stops_of(h, phase, &h->s->setup[setup]);
    pass(h, &from, phase, &to);
    return offer(h, &to);
}

/* As at first, but for what earlier restarts have left behind and lasts. */
static sl_status beginning(hindsight *h, int setup, int world, int *first) {
    sl_setup plain = {0};
    const sl_setup *from = &h->s->setup[setup];
    int left;
    size_t size;
    *first = 0;
    if (!from->cures)
        return SL_OK;
    SL_TRY(sl_simulation_active(h->s, &plain, world, &left));
    (void)sl_keys_at(&h->s->world_keys, world, &size);
    SL_TRY(sl_alloc(&plain.cured, (size_t)left + 1, sizeof *plain.cured));
    for (int i = 0; i < left; i++)
        for (int k = 0; k < from->cures; k++)
            if (from->cured[k] == h->s->active[i])
                plain.cured[plain.cures++] = h->s->active[i];
    return sl_simulation_keep(h->s, &plain, first);
}

static sl_status combine(hindsight *h, int first, int world, unsigned remedies, int *setup) {
    static const sl_campaign_remedy order[] = {SL_CAMPAIGN_DELEGATE, SL_CAMPAIGN_TOPOLOGY,
                                               SL_CAMPAIGN_BALANCE, SL_CAMPAIGN_ADAPT};
    sl_time cost;
    *setup = first;
    for (int i = 0; i < 4; i++)
        if (remedies & 1u << order[i])
            SL_TRY(sl_simulation_apply(h->s, *setup, world, order[i], 3, setup, &cost));
    return SL_OK;
}

/* What is there stays, and one remedy is applied to it (again), or taken back. */
static sl_status go_on(hindsight *h, int before, int setup, size_t phase, int world) {
    int next;
    sl_time cost;
    for (int remedy = 0; remedy < SL_CAMPAIGN_REMEDIES; remedy++) {
        if (h->edges > LARGE && remedy == SL_CAMPAIGN_TOPOLOGY)
            continue; /* searched from the beginning only: a search for every place is dear */
        SL_TRY(sl_simulation_apply(h->s, setup, world, (sl_campaign_remedy)remedy, 3, &next, &cost));
        SL_TRY(try_setup(h, before, phase, world, next));
        if (remedy == SL_CAMPAIGN_RESTART || setup == 0)
            continue;
        SL_TRY(sl_simulation_undo(h->s, setup, world, (sl_campaign_remedy)remedy, &next));
        SL_TRY(try_setup(h, before, phase, world, next));
    }
    return SL_OK;
}

static sl_status from_place(hindsight *h, int before, int setup, size_t phase, int world) {
    int first, next;
    SL_TRY(try_setup(h, before, phase, world, setup));
    SL_TRY(go_on(h, before, setup, phase, world));
    SL_TRY(beginning(h, setup, world, &first));
    for (unsigned remedies = 0; remedies < COMBINATIONS; remedies++) {
        unsigned cheap = remedies & 3;
        if (h->edges > LARGE && cheap != 3 && remedies)
            continue; /* with all that costs next to nothing, or as at first */
        SL_TRY(combine(h, first, world, remedies, &next));
        SL_TRY(try_setup(h, before, phase, world, next));
    }
    return SL_OK;
}

static sl_status step(hindsight *h, size_t phase) {
    int world;
    SL_TRY(world_of(h, phase, &world));
    h->nexts = 0;
    if (phase == 0)
        SL_TRY(from_place(h, -1, 0, phase, world));
    for (int i = 0; i < h->beams; i++)
        SL_TRY(from_place(h, h->beam[i], h->node[h->beam[i]].setup, phase, world));
    memcpy(h->beam, h->next, sizeof h->beam);
    h->beams = h->nexts;
    return SL_OK;
}

/* ---- the way back ---- */

static sl_status trace_back(hindsight *h, sl_campaign_row *row) {
    int *way, length = 0;
    sl_status status = SL_OK;
    SL_TRY(sl_alloc(&way, h->edges + 1, sizeof *way));
    for (int i = h->best; i >= 0; i = h->node[i].before)
        way[length++] = i;
    int done = 0;
    sl_time now = 0;
    for (int i = length - 1; i >= 0 && status == SL_OK; i--) {
        const node *n = &h->node[way[i]];
        if (n->cost)
            status = sl_row_add(row, done, 0, now, n->cost);
        if (status == SL_OK && n->done > done)
            status = sl_row_add(row, done, n->done - done, now + n->cost, n->each);
        row->paid += n->cost;
        row->worst = n->each > row->worst && n->done > done ? n->each : row->worst;
        done = n->done;
        now = n->time;
    }
    row->total = h->node[h->best].time;
    sl_free(way);
    return status;
}

static sl_status copy_row(const sl_campaign_row *from, sl_campaign_row *row) {
    SL_TRY(sl_alloc(&row->stretch, from->stretches, sizeof *row->stretch));
    memcpy(row->stretch, from->stretch, from->stretches * sizeof *row->stretch);
    row->stretches = row->stretch_room = from->stretches;
    row->total = from->total;
    row->paid = from->paid;
    row->worst = from->worst;
    return SL_OK;
}

static sl_status search(hindsight *h) {
    SL_TRY(find_edges(h));
    SL_TRY(sl_alloc(&h->faults, h->c->faults + 1, sizeof *h->faults));
    for (size_t phase = 0; phase < h->edges && (phase == 0 || h->beams); phase++)
        SL_TRY(step(h, phase));
    return SL_OK;
}

sl_status sl_campaign_hindsight(sl_simulation *s, const sl_campaign_row *others, int count,
                                sl_campaign_row *row) {
    hindsight h = {.s = s, .c = s->campaign, .best = -1};
    const sl_campaign_row *least = NULL;
    snprintf(row->name, sizeof row->name, "best in hindsight");
    for (int i = 0; i < count; i++)
        if (!least || others[i].total < least->total)
            least = &others[i];
    sl_status status = search(&h);
    if (status == SL_OK && (h.best < 0 || (least && least->total < h.node[h.best].time)))
        status = least ? copy_row(least, row) : sl_error(SL_ENONE, "nothing was simulated");
    else if (status == SL_OK)
        status = trace_back(&h, row);
    sl_free(h.edge);
    sl_free(h.faults);
    sl_free(h.node);
    return status;
}
