/* The best result with the trace known in advance. For each phase (between two changes of the slow
 * components) it considers the current state, the same with strategies added or removed, and every
 * combination of strategies made for that phase, with their costs, by dynamic programming over the phases
 * with a beam. Splits and positions come from the model, which sees the true slowdowns; plans are the best
 * known ones, including those of other rows. Any result of another row was possible too, so hindsight is
 * never worse than any of them. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

#define BEAM 12
#define LARGE 40 /* number of phases above which fewer combinations and positions are examined */
#define BEAM_OF_LARGE 4
#define BIT(strategy) (1u << SL_STRATEGY_##strategy)

/* The sets tried from a state, and from the initial one. */
static const unsigned sets[] = {0,
                                BIT(SCHEDULE),
                                BIT(DELEGATE),
                                BIT(SCHEDULE) | BIT(DELEGATE),
                                BIT(BALANCE),
                                BIT(BALANCE) | BIT(DELEGATE),
                                BIT(TOPOLOGY),
                                BIT(TOPOLOGY) | BIT(DELEGATE),
                                BIT(TOPOLOGY) | BIT(BALANCE),
                                BIT(TOPOLOGY) | BIT(BALANCE) | BIT(DELEGATE)};
enum { SETS = sizeof sets / sizeof *sets };

/* A state of the job. */
typedef struct hindsight_state {
    sl_job_layout layout;
    int *plan;  /* [replicas] plan numbers of the world */
    int *cured; /* [cures] faults left behind by restarts */
    int cures;
} hindsight_state;

/* A state at the end of a phase; the state itself is in the beam. */
typedef struct node {
    int before;         /* node; -1: the start */
    sl_time cost, each; /* paid at the phase's start; of an iteration in it */
    sl_time time;       /* at its end */
    int done;           /* iterations at its end */
    double score;       /* among the states at the end of one phase: the highest is best */
} node;

typedef struct beam {
    int node[BEAM], count;
    hindsight_state state[BEAM];
} beam;

typedef struct hindsight {
    sl_world *w;
    const sl_campaign *c;
    int64_t *edge; /* [edges] starts of phases, ascending; the first is 0 */
    size_t edges, phase;
    node *node;
    size_t nodes, node_room;
    hindsight_state home;
    beam now, next;
    hindsight_state base, fresh[SETS]; /* the result of each set in `fresh_phase` */
    int fresh_phase;
    int *fault, faults; /* lasting in the current phase */
    int *active;        /* scratch: those of them that are not cured */
    int best;           /* the node that first completes all iterations; -1 */
} hindsight;

/* ---- states ---- */

static void free_state(hindsight_state *p) {
    sl_job_layout_free(&p->layout);
    SL_FREE(p->plan, p->cured);
    *p = (hindsight_state){0};
}

static sl_status copy_ints(const int *from, int count, int **to) {
    SL_TRY(sl_alloc(to, (size_t)count, sizeof **to));
    if (count)
        memcpy(*to, from, (size_t)count * sizeof *from);
    return SL_OK;
}

static sl_status copy_state(const hindsight *h, const hindsight_state *from, hindsight_state *to) {
    *to = (hindsight_state){.cures = from->cures};
    sl_status status = sl_job_layout_copy(&h->w->job, &from->layout, &to->layout);
    SL_THEN(status, copy_ints(from->plan, h->c->replicas, &to->plan));
    SL_THEN(status, copy_ints(from->cured, from->cures, &to->cured));
    if (status != SL_OK)
        free_state(to);
    return status;
}

static int differ(const int *a, const int *b, int count) {
    return memcmp(a, b, (size_t)count * sizeof *a) != 0;
}

static int is_cured(const hindsight_state *p, int fault) {
    for (int i = 0; i < p->cures; i++)
        if (p->cured[i] == fault)
            return 1;
    return 0;
}

static int is_alike(const hindsight *h, const hindsight_state *a, const hindsight_state *b) {
    return a->layout.delegates == b->layout.delegates && a->cures == b->cures &&
           !differ(a->cured, b->cured, a->cures) && !differ(a->plan, b->plan, h->c->replicas) &&
           !differ(a->layout.split, b->layout.split, h->c->replicas) &&
           !differ(a->layout.process, b->layout.process, sl_job_processes(&h->w->job));
}

/* The scene of a state: with the faults that last and are not cured. */
static sl_scene scene_of(hindsight *h, const hindsight_state *p) {
    int count = 0;
    for (int i = 0; i < h->faults; i++)
        if (!is_cured(p, h->fault[i]))
            h->active[count++] = h->fault[i];
    return (sl_scene){.layout = &p->layout, .plan = p->plan, .fault = h->active, .faults = count};
}

/* The cost of changes, applied or undone. Plans are free with another split or positions, or a restart. */
static sl_time distance(const hindsight *h, const hindsight_state *from, const hindsight_state *to) {
    const sl_campaign *c = h->c;
    sl_time cost = 0;
    int cures_more = 0;
    for (int i = 0; i < to->cures; i++)
        cures_more |= !is_cured(from, to->cured[i]);
    if (cures_more) {
        cost = c->cost[SL_STRATEGY_RESTART];
        from = &h->home;
    }
    int processes = sl_job_processes(&h->w->job), replicas = c->replicas;
    int moved = differ(from->layout.process, to->layout.process, processes);
    int divided = differ(from->layout.split, to->layout.split, replicas);
    if (moved)
        cost +=
            (differ(to->layout.process, h->home.layout.process, processes) ? c->cost
                                                                           : c->undo)[SL_STRATEGY_TOPOLOGY];
    else if (divided)
        cost += (differ(to->layout.split, h->home.layout.split, replicas) ? c->cost
                                                                          : c->undo)[SL_STRATEGY_BALANCE];
    else if (differ(from->plan, to->plan, replicas))
        cost += (differ(to->plan, h->home.plan, replicas) ? c->cost : c->undo)[SL_STRATEGY_SCHEDULE];
    if (from->layout.delegates != to->layout.delegates)
        cost += (to->layout.delegates ? c->cost : c->undo)[SL_STRATEGY_DELEGATE];
    return cost;
}

/* ---- phases ---- */

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
    qsort(h->edge, count, sizeof *h->edge, sl_ascending_times);
    for (size_t i = 0; i < count; i++)
        if (!h->edges || h->edge[i] != h->edge[h->edges - 1])
            h->edge[h->edges++] = h->edge[i];
    return SL_OK;
}

static void find_faults(hindsight *h) {
    h->faults = 0;
    for (size_t i = 0; i < h->c->faults && h->c->fault[i].first <= h->edge[h->phase]; i++)
        if (h->c->fault[i].kind != SL_FAULT_STOP && h->c->fault[i].until > h->edge[h->phase])
            h->fault[h->faults++] = (int)i;
}

/* The cost of stops at the phase's start, if delegates are present or can be started. */
static sl_time stops_of(const hindsight *h, const hindsight_state *p) {
    const sl_campaign *c = h->c;
    sl_time cost = 0;
    for (size_t i = 0; i < c->faults && c->fault[i].first <= h->edge[h->phase]; i++)
        if (c->fault[i].kind == SL_FAULT_STOP && c->fault[i].first == h->edge[h->phase]) {
            sl_time with = sl_campaign_stop_cost(c, &c->fault[i], &p->layout, 1);
            sl_time without = sl_campaign_stop_cost(c, &c->fault[i], &p->layout, 0);
            cost += with < without ? with : without;
        }
    return cost;
}

/* ---- one step ---- */

/* Time and iterations at the end of the phase; a started iteration is finished. The score subtracts the
 * overshoot past the phase's end. */
static void pass(const hindsight *h, const node *from, node *to) {
    int last = h->phase + 1 == h->edges;
    int64_t left = h->c->iterations - from->done, end = last ? 0 : h->edge[h->phase + 1], count = left;
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

static sl_status add_node(hindsight *h, const node *made, int *number) {
    SL_TRY(sl_grow(&h->node, &h->node_room, h->nodes + 1, sizeof *h->node));
    *number = (int)h->nodes;
    h->node[h->nodes++] = *made;
    return SL_OK;
}

/* Keeps the best states of the phase; finished ones separately. Takes ownership of the state. */
static sl_status keep(hindsight *h, const node *made, hindsight_state *p) {
    beam *b = &h->next;
    int at = b->count, most = h->edges > LARGE ? BEAM_OF_LARGE : BEAM, number;
    if (made->done >= h->c->iterations) {
        if (h->best < 0 || made->time < h->node[h->best].time)
            SL_TRY(add_node(h, made, &h->best));
        return SL_OK;
    }
    for (int i = 0; i < b->count; i++)
        if (is_alike(h, &b->state[i], p))
            at = i;
    if (at == most)
        for (int i = at = 0; i < most; i++)
            if (h->node[b->node[i]].score < h->node[b->node[at]].score)
                at = i;
    if (at < b->count && made->score <= h->node[b->node[at]].score)
        return SL_OK;
    SL_TRY(add_node(h, made, &number));
    if (at < b->count)
        free_state(&b->state[at]);
    b->count += at == b->count;
    b->node[at] = number;
    b->state[at] = *p;
    *p = (hindsight_state){0};
    return SL_OK;
}

/* Considers `p` in this phase, after state `from` of the beam; -1: the start. Frees it. */
static sl_status offer(hindsight *h, int from, hindsight_state *p) {
    node start = {.cost = 0}, to = {.before = from < 0 ? -1 : h->now.node[from]};
    if (from >= 0)
        start = h->node[to.before];
    sl_scene scene = scene_of(h, p);
    sl_status status = sl_world_time(h->w, &scene, 0, &to.each);
    if (status == SL_OK && to.each > 0) {
        to.cost = distance(h, from < 0 ? &h->home : &h->now.state[from], p) + stops_of(h, p);
        pass(h, &start, &to);
        status = keep(h, &to, p);
    }
    free_state(p);
    return status;
}

static sl_status adapt(hindsight *h, hindsight_state *p) {
    sl_scene scene = scene_of(h, p);
    return sl_world_adapt(h->w, &scene, p->plan);
}

static sl_status move(hindsight *h, int divides, hindsight_state *p) {
    sl_job_layout moved = {0};
    double time;
    int moves;
    SL_TRY(sl_model_rearrange(h->w->model, &p->layout, divides, &moved, &time, &moves));
    sl_job_layout_free(&p->layout);
    p->layout = moved;
    return SL_OK;
}

/* Applies the strategies of a bit set to `p` now; present delegates are removed, else started. Plans come
 * with other positions and splits. */
static sl_status apply(hindsight *h, unsigned strategies, hindsight_state *p) {
    double time;
    sl_scene scene = scene_of(h, p);
    if (strategies & BIT(DELEGATE))
        p->layout.delegates = !p->layout.delegates;
    SL_TRY(sl_world_see(h->w, scene.fault, scene.faults));
    if (strategies & BIT(TOPOLOGY))
        SL_TRY(move(h, (strategies & BIT(BALANCE)) != 0, p));
    else if (strategies & BIT(BALANCE))
        SL_TRY(sl_model_divide(h->w->model, &p->layout, &time));
    return strategies & (BIT(SCHEDULE) | BIT(BALANCE) | BIT(TOPOLOGY)) ? adapt(h, p) : SL_OK;
}

/* The initial state, minus lasting faults left behind by restarts; `restarts`: and minus those slow now. */
static sl_status begin_again(hindsight *h, const hindsight_state *from, int restarts, hindsight_state *p) {
    SL_TRY(copy_state(h, &h->home, p));
    sl_free(p->cured);
    SL_TRY(sl_alloc(&p->cured, (size_t)h->faults, sizeof *p->cured));
    for (int i = 0; i < h->faults; i++)
        if (restarts || is_cured(from, h->fault[i]))
            p->cured[p->cures++] = h->fault[i];
    return SL_OK;
}

/* In a long trace, splits and positions, which are expensive to search for, are tried from the initial state
 * only, with all that costs next to nothing. */
static int is_tried(const hindsight *h, unsigned strategies, int from_home) {
    unsigned expensive = strategies & (BIT(BALANCE) | BIT(TOPOLOGY));
    if (h->edges <= LARGE || !strategies)
        return 1;
    return from_home ? (strategies & BIT(DELEGATE)) && (expensive || strategies & BIT(SCHEDULE)) : !expensive;
}

/* `base` with one of the sets applied; without plans if none fits into memory. */
static sl_status make_state(hindsight *h, const hindsight_state *base, unsigned strategies,
                            hindsight_state *p) {
    SL_TRY(copy_state(h, base, p));
    sl_status status = apply(h, strategies, p);
    if (status != SL_OK)
        free_state(p);
    return status == SL_ENONE ? SL_OK : status;
}

/* Those from the initial state are the same for all states with equal cures. */
static sl_status find_fresh(hindsight *h, hindsight_state *base) {
    if (h->fresh_phase == (int)h->phase && is_alike(h, base, &h->base))
        return SL_OK;
    h->fresh_phase = (int)h->phase;
    free_state(&h->base);
    h->base = *base;
    *base = (hindsight_state){0};
    for (size_t i = 0; i < SETS; i++) {
        free_state(&h->fresh[i]);
        if (is_tried(h, sets[i], 1))
            SL_TRY(make_state(h, &h->base, sets[i], &h->fresh[i]));
    }
    return SL_OK;
}

static sl_status offer_copy(hindsight *h, int from, const hindsight_state *made) {
    hindsight_state p;
    SL_TRY(copy_state(h, made, &p));
    return offer(h, from, &p);
}

static sl_status go_on(hindsight *h, int from) {
    hindsight_state p;
    const hindsight_state *here = from < 0 ? &h->home : &h->now.state[from];
    SL_TRY(begin_again(h, here, 1, &p));
    SL_TRY(offer(h, from, &p));
    sl_status status = begin_again(h, here, 0, &p);
    SL_THEN(status, find_fresh(h, &p));
    free_state(&p);
    SL_TRY(status);
    for (size_t i = 0; i < SETS; i++)
        if (h->fresh[i].plan)
            SL_TRY(offer_copy(h, from, &h->fresh[i]));
    for (size_t i = 0; i < SETS && !is_alike(h, here, &h->base); i++) {
        if (!is_tried(h, sets[i], 0))
            continue;
        SL_TRY(make_state(h, here, sets[i], &p));
        if (p.plan)
            SL_TRY(offer(h, from, &p));
    }
    return SL_OK;
}

static sl_status step(hindsight *h) {
    find_faults(h);
    h->next.count = 0;
    if (h->phase == 0)
        SL_TRY(go_on(h, -1));
    for (int i = 0; i < h->now.count; i++)
        SL_TRY(go_on(h, i));
    for (int i = 0; i < h->now.count; i++)
        free_state(&h->now.state[i]);
    h->now = h->next;
    h->next = (beam){.count = 0};
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
    size_t replicas = (size_t)h->c->replicas;
    int *split;
    SL_TRY(find_edges(h));
    SL_TRY(sl_alloc(&h->fault, h->c->faults, sizeof *h->fault));
    SL_TRY(sl_alloc(&h->active, h->c->faults, sizeof *h->active));
    SL_TRY(sl_alloc(&h->home.plan, replicas, sizeof *h->home.plan));
    SL_TRY(sl_alloc(&h->home.cured, 0, sizeof *h->home.cured));
    SL_TRY(sl_alloc(&split, replicas, sizeof *split));
    for (size_t d = 0; d < replicas; d++)
        split[d] = h->c->problem.microbatches;
    sl_status status = sl_job_layout_make(&h->w->job, split, &h->home.layout);
    sl_free(split);
    SL_TRY(status);
    for (; h->phase < h->edges && (h->phase == 0 || h->now.count); h->phase++)
        SL_TRY(step(h));
    return SL_OK;
}

sl_status sl_campaign_hindsight(sl_world *w, const sl_campaign_row *others, int count, sl_campaign_row *row) {
    hindsight h = {.w = w, .c = w->campaign, .fresh_phase = -1, .best = -1};
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
    for (int i = 0; i < BEAM; i++) {
        free_state(&h.now.state[i]);
        free_state(&h.next.state[i]);
    }
    for (size_t i = 0; i < SETS; i++)
        free_state(&h.fresh[i]);
    free_state(&h.base);
    free_state(&h.home);
    SL_FREE(h.edge, h.fault, h.active, h.node);
    return status;
}
