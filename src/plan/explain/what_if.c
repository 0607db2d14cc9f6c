#include "plan/explain/what_if.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/text.h"
#include "plan/explain/job_replay.h"
#include "plan/explain/usual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOWEST_WORKERS 16
#define SLOWEST_LINKS 8
#define SLOW 0.05      /* share by which a slow worker takes longer */
#define MAX_WORK 500e6 /* steps replayed for costs: about 20 s; beyond it, fewer iterations */

/* A node in a question: which time would it take? */
typedef struct what_if_case {
    const sl_hybrid_usual *usual;
    int graph;
    int what;                           /* kind, stage, replica, position, link */
    const unsigned char *slow, *chosen; /* [positions] */
} what_if_case;

typedef sl_time (*what_if_time)(const what_if_case *c, const sl_hybrid_node *n);

static int rank_of(const what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) / c->usual->layout->data;
}
static int replica_of(const what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) % c->usual->layout->data;
}
static int is_transfer(const sl_hybrid_node *n) {
    return sl_traced_kinds[n->kind].role == SL_ROLE_TRANSFER;
}

/* ---- causes taken away ---- */

static sl_time without_kind(const what_if_case *c, const sl_hybrid_node *n) {
    return n->kind == c->what ? c->usual->of_kind[n->kind] : n->time;
}

/* What it would take on a usual worker. */
static sl_time expected(const what_if_case *c, const sl_hybrid_node *n) {
    sl_time usual = c->usual->of_group[sl_usual_group(c->usual, n)];
    return usual < 0 ? n->time : (sl_time)((double)usual * sl_usual_length(c->usual, c->graph, n));
}

static sl_time without_worker(const what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) == c->what && sl_traced_kind_is_compute(n->kind) ? expected(c, n)
                                                                                       : n->time;
}

static sl_time without_slow_workers(const what_if_case *c, const sl_hybrid_node *n) {
    return c->slow[sl_hybrid_node_position(n)] && sl_traced_kind_is_compute(n->kind) ? expected(c, n)
                                                                                     : n->time;
}

static sl_time without_replica(const what_if_case *c, const sl_hybrid_node *n) {
    if (replica_of(c, n) != c->what || sl_traced_kind_is_collective(n->kind))
        return n->time;
    return expected(c, n);
}

/* The usual time of a kind on a pipeline rank: of a slot; -1: of all together. */
static double usual_on(const sl_hybrid_usual *u, int kind, int rank, int slot) {
    size_t row = (size_t)kind * (size_t)u->layout->pipeline + (size_t)rank;
    return slot < 0 ? u->of_stage[row] : (double)u->of_group[row * (size_t)u->slots + (size_t)slot];
}

/* The same on the other pipeline ranks. */
static double elsewhere(const sl_hybrid_usual *u, int kind, int rank, int slot) {
    sl_time others[1024];
    int count = 0;
    for (int p = 0; p < u->layout->pipeline && count < 1024; p++)
        if (p != rank && usual_on(u, kind, p, slot) > 0)
            others[count++] = (sl_time)usual_on(u, kind, p, slot);
    if (count == 0)
        return 0;
    qsort(others, (size_t)count, sizeof *others, sl_ascending_times);
    return (double)others[(count - 1) / 2];
}

/* A rank that is slower than others takes in each chunk what they take in it. */
static sl_time without_stage(const what_if_case *c, const sl_hybrid_node *n) {
    const sl_hybrid_usual *u = c->usual;
    if (rank_of(c, n) != c->what || n->kind > SL_KIND_BACKWARD)
        return n->time;
    double all = elsewhere(u, n->kind, c->what, -1), its = usual_on(u, n->kind, c->what, n->slot),
           target = elsewhere(u, n->kind, c->what, n->slot);
    int is_slower = all > 0 && all < usual_on(u, n->kind, c->what, -1);
    return is_slower && target > 0 && its > 0 ? (sl_time)((double)n->time * target / its) : n->time;
}

static sl_time without_cut(const what_if_case *c, const sl_hybrid_node *n) {
    const sl_hybrid_usual *u = c->usual;
    double sum = 0;
    if (n->kind > SL_KIND_BACKWARD)
        return n->time;
    for (int p = 0; p < u->layout->pipeline; p++)
        sum += u->of_stage[n->kind * u->layout->pipeline + p];
    double its = u->of_stage[n->kind * u->layout->pipeline + rank_of(c, n)];
    return its > 0 ? (sl_time)((double)n->time * sum / u->layout->pipeline / its) : n->time;
}

static sl_time without_lengths(const what_if_case *c, const sl_hybrid_node *n) {
    double length = sl_usual_length(c->usual, c->graph, n);
    return length > 0 && length != 1 ? (sl_time)((double)n->time * c->usual->mean_length / length) : n->time;
}

static sl_time without_links(const what_if_case *c, const sl_hybrid_node *n) {
    return is_transfer(n) ? c->usual->of_kind[n->kind] : n->time;
}

static sl_time without_link(const what_if_case *c, const sl_hybrid_node *n) {
    int backward = n->kind == SL_KIND_BACKWARD_TRANSFER;
    return is_transfer(n) && sl_hybrid_node_position(n) * 2 + backward == c->what ? c->usual->of_kind[n->kind]
                                                                                  : n->time;
}

static sl_time without_collectives(const what_if_case *c, const sl_hybrid_node *n) {
    return sl_traced_kind_is_collective(n->kind)
               ? c->usual->of_slot[(size_t)n->kind * (size_t)c->usual->slots + (size_t)n->slot]
               : n->time;
}

static sl_time no_links_at_all(const what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return is_transfer(n) ? 0 : n->time;
}

static sl_time no_collectives_at_all(const what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return sl_traced_kind_is_collective(n->kind) ? 0 : n->time;
}

/* ---- the published method ---- */

static sl_time as_it_was(const what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return n->time;
}

static int is_communication(const sl_hybrid_node *n) {
    return is_transfer(n) || sl_traced_kind_is_collective(n->kind) ||
           strcmp(sl_traced_kinds[n->kind].name, "layernorm-grads-all-reduce") == 0;
}

static sl_time ideal(const what_if_case *c, const sl_hybrid_node *n) {
    return is_communication(n) ? c->usual->of_kind[n->kind] : (sl_time)c->usual->mean[n->kind];
}

static sl_time only_kind(const what_if_case *c, const sl_hybrid_node *n) {
    return n->kind == c->what ? n->time : ideal(c, n);
}
static sl_time only_stage(const what_if_case *c, const sl_hybrid_node *n) {
    return rank_of(c, n) == c->what ? n->time : ideal(c, n);
}
static sl_time only_replica(const what_if_case *c, const sl_hybrid_node *n) {
    return replica_of(c, n) == c->what ? n->time : ideal(c, n);
}
static sl_time ideal_chosen(const what_if_case *c, const sl_hybrid_node *n) {
    return c->chosen[sl_hybrid_node_position(n)] ? ideal(c, n) : n->time;
}
static sl_time ideal_stage(const what_if_case *c, const sl_hybrid_node *n) {
    return rank_of(c, n) == c->what ? ideal(c, n) : n->time;
}

/* ---- replays ---- */

/* A question, and the sum of its answers over the iterations. */
typedef struct what_if_question {
    what_if_time time;
    int what;
    double sum; /* ns */
} what_if_question;

typedef struct what_if_work {
    sl_what_if *result;
    const sl_hybrid_layout *layout;
    sl_hybrid_graph *graph; /* complete iterations */
    int graphs;
    sl_hybrid_usual usual;
    what_if_question *question;
    size_t questions, room;
    int positions;
    int *suspect, *slow_link; /* positions; links */
    unsigned char *chosen;    /* [positions] */
} what_if_work;

static sl_status ask(what_if_work *w, what_if_time time, int what, size_t *number) {
    SL_TRY(sl_grow(&w->question, &w->room, w->questions + 1, sizeof *w->question));
    w->question[w->questions] = (what_if_question){.time = time, .what = what};
    *number = w->questions++;
    return SL_OK;
}

static sl_time answer(const what_if_work *w, int graph, sl_hybrid_replay *replay, what_if_time of, int what,
                      sl_time *time) {
    const sl_hybrid_graph *g = &w->graph[graph];
    what_if_case c = {&w->usual, graph, what, w->result->slow, w->chosen};
    for (size_t i = 0; i < g->nodes; i++)
        time[i] = g->node[i].kind < 0 ? 0 : of(&c, &g->node[i]);
    return sl_hybrid_replay_run(replay, time);
}

/* Answers the questions from `first` on, in the examined iterations. */
static sl_status answer_all(what_if_work *w, size_t first) {
    sl_hybrid_replay *replay;
    sl_time *time;
    for (int i = 0; i < w->result->examined; i++) {
        int graph = (int)((int64_t)i * w->graphs / w->result->examined);
        SL_TRY(sl_hybrid_replay_open(&w->graph[graph], &replay));
        sl_status status = sl_alloc(&time, w->graph[graph].nodes, sizeof *time);
        for (size_t q = first; status == SL_OK && q < w->questions; q++)
            w->question[q].sum +=
                (double)answer(w, graph, replay, w->question[q].time, w->question[q].what, time);
        if (status == SL_OK)
            sl_free(time);
        sl_hybrid_replay_close(replay);
        SL_TRY(status);
    }
    return SL_OK;
}

/* ---- suspects ---- */

typedef struct what_if_excess {
    double time;
    int what;
} what_if_excess;

static int by_excess(const void *one, const void *other) {
    const what_if_excess *a = one, *b = other;
    return a->time != b->time ? (a->time < b->time) - (a->time > b->time) : a->what - b->what;
}

/* Time that workers, and links, took beyond the usual: the largest are examined each by itself. */
static sl_status find_suspects(what_if_work *w) {
    what_if_excess *worker, *link;
    double *due;
    size_t positions = (size_t)w->positions;
    sl_what_if *r = w->result;
    sl_status status;
    SL_TRY(sl_alloc(&due, positions, sizeof *due));
    SL_TRY_GOTO(free_due, status, sl_alloc(&worker, 3 * positions, sizeof *worker));
    link = worker + positions;
    for (int q = 0; q < w->positions; q++)
        worker[q].what = q;
    for (int i = 0; i < 2 * w->positions; i++)
        link[i].what = i;
    for (int g = 0; g < w->graphs; g++)
        for (size_t i = 0; i < w->graph[g].nodes; i++) {
            const sl_hybrid_node *n = &w->graph[g].node[i];
            what_if_case c = {&w->usual, g, 0, NULL, NULL};
            if (n->kind < 0)
                continue;
            int q = sl_hybrid_node_position(n);
            if (sl_traced_kind_is_compute(n->kind)) {
                worker[q].time += (double)(n->time - expected(&c, n));
                due[q] += (double)expected(&c, n);
            } else if (is_transfer(n))
                link[2 * q + (n->kind == SL_KIND_BACKWARD_TRANSFER)].time +=
                    (double)(n->time - w->usual.of_kind[n->kind]);
        }
    for (int q = 0; q < w->positions; q++)
        r->slow[q] = worker[q].time > SLOW * due[q];
    qsort(worker, positions, sizeof *worker, by_excess);
    qsort(link, 2 * positions, sizeof *link, by_excess);
    r->workers = sl_smaller(SLOWEST_WORKERS, w->positions);
    r->links = w->layout->pipeline * w->layout->chunks > 1 ? sl_smaller(SLOWEST_LINKS, 2 * w->positions) : 0;
    SL_TRY_GOTO(free_worker, status, sl_alloc(&w->suspect, (size_t)r->workers, sizeof *w->suspect));
    SL_TRY_GOTO(free_worker, status, sl_alloc(&w->slow_link, (size_t)r->links, sizeof *w->slow_link));
    for (int i = 0; i < r->workers; i++)
        w->suspect[i] = worker[i].what;
    for (int i = 0; i < r->links; i++)
        w->slow_link[i] = link[i].what;
free_worker:
    sl_free(worker);
free_due:
    sl_free(due);
    return status;
}

/* ---- all questions ---- */

/* Questions of a list of causes: their costs, and, if `only` is not NULL, their slowdowns alone. */
typedef struct what_if_list {
    sl_what_if_cause *cause;
    int count;
    what_if_time without, only;
    size_t first;
} what_if_list;

static sl_status ask_list(what_if_work *w, what_if_list *list) {
    size_t number;
    list->first = w->questions;
    for (int i = 0; i < list->count; i++) {
        SL_TRY(ask(w, list->without, list->cause[i].what, &number));
        if (list->only)
            SL_TRY(ask(w, list->only, list->cause[i].what, &number));
    }
    return SL_OK;
}

static int by_cost(const void *one, const void *other) {
    const sl_what_if_cause *a = one, *b = other;
    return a->cost != b->cost ? (a->cost < b->cost) - (a->cost > b->cost) : a->what - b->what;
}

static void take_list(const what_if_work *w, what_if_list *list, double was, double best) {
    for (int i = 0; i < list->count; i++) {
        const what_if_question *q = &w->question[list->first + (size_t)i * (list->only ? 2 : 1)];
        list->cause[i].cost = (was - q->sum) / was;
        list->cause[i].alone = list->only && best > 0 ? q[1].sum / best : 0;
    }
}

static sl_status make_causes(what_if_work *w) {
    sl_what_if *r = w->result;
    SL_TRY(sl_alloc(&r->kind, (size_t)sl_traced_kind_count, sizeof *r->kind));
    SL_TRY(sl_alloc(&r->stage, (size_t)w->layout->pipeline, sizeof *r->stage));
    SL_TRY(sl_alloc(&r->replica, (size_t)w->layout->data, sizeof *r->replica));
    SL_TRY(sl_alloc(&r->worker, (size_t)r->workers, sizeof *r->worker));
    SL_TRY(sl_alloc(&r->link, (size_t)r->links, sizeof *r->link));
    for (int i = 0; i < sl_traced_kind_count; i++)
        if (w->usual.kind_count[i])
            r->kind[r->kinds++].what = i;
    for (int i = 0; i < w->layout->pipeline; i++)
        r->stage[i].what = i;
    for (int i = 0; i < w->layout->data; i++)
        r->replica[i].what = i;
    for (int i = 0; i < r->workers; i++)
        r->worker[i].what = w->suspect[i];
    for (int i = 0; i < r->links; i++)
        r->link[i].what = w->slow_link[i];
    return SL_OK;
}

/* The workers with the highest figures of the published method, a thirty-third of all, and what an ideal
 * performance of those, and of the last pipeline rank, would save of what can be saved. */
static sl_status ask_published(what_if_work *w, double was, double best) {
    sl_what_if *r = w->result;
    what_if_excess *heat;
    size_t workers, stage;
    SL_TRY(sl_alloc(&heat, (size_t)w->positions, sizeof *heat));
    for (int q = 0; q < w->positions; q++) {
        r->heat[q] = fmin(r->stage[q / w->layout->data].alone, r->replica[q % w->layout->data].alone);
        heat[q] = (what_if_excess){r->heat[q], q};
    }
    qsort(heat, (size_t)w->positions, sizeof *heat, by_excess);
    for (int i = 0; i < (w->positions * 3 + 99) / 100; i++)
        w->chosen[heat[i].what] = 1;
    sl_free(heat);
    SL_TRY(ask(w, ideal_chosen, 0, &workers));
    SL_TRY(ask(w, ideal_stage, w->layout->pipeline - 1, &stage));
    SL_TRY(answer_all(w, workers));
    r->slowdown = best > 0 ? was / best : 1;
    r->worker_share = was > best ? (was - w->question[workers].sum) / (was - best) : 0;
    r->last_stage_share = was > best ? (was - w->question[stage].sum) / (was - best) : 0;
    return SL_OK;
}

static sl_status examine(what_if_work *w) {
    sl_what_if *r = w->result;
    size_t base, best, single[7];
    const struct {
        what_if_time time;
        double *cost;
    } singles[] = {{without_slow_workers, &r->slow_workers},
                   {without_cut, &r->cut},
                   {without_lengths, &r->lengths},
                   {without_links, &r->all_links},
                   {without_collectives, &r->collectives},
                   {no_links_at_all, &r->no_links},
                   {no_collectives_at_all, &r->no_collectives}};
    SL_TRY(make_causes(w));
    what_if_list list[] = {{r->kind, r->kinds, without_kind, only_kind, 0},
                           {r->stage, w->layout->pipeline, without_stage, only_stage, 0},
                           {r->replica, w->layout->data, without_replica, only_replica, 0},
                           {r->worker, r->workers, without_worker, NULL, 0},
                           {r->link, r->links, without_link, NULL, 0}};
    SL_TRY(ask(w, as_it_was, 0, &base));
    SL_TRY(ask(w, ideal, 0, &best));
    for (int i = 0; i < 7; i++)
        SL_TRY(ask(w, singles[i].time, 0, &single[i]));
    for (int i = 0; i < 5; i++)
        SL_TRY(ask_list(w, &list[i]));
    SL_TRY(answer_all(w, 0));
    double was = w->question[base].sum, ideally = w->question[best].sum;
    for (int i = 0; i < 7; i++)
        *singles[i].cost = (was - w->question[single[i]].sum) / was;
    for (int i = 0; i < 5; i++)
        take_list(w, &list[i], was, ideally);
    r->mean_ideal = (sl_time)(ideally / r->examined);
    SL_TRY(ask_published(w, was, ideally));
    qsort(r->kind, (size_t)r->kinds, sizeof *r->kind, by_cost);
    qsort(r->worker, (size_t)r->workers, sizeof *r->worker, by_cost);
    qsort(r->link, (size_t)r->links, sizeof *r->link, by_cost);
    return SL_OK;
}

/* ---- as it was ---- */

static sl_status skip(sl_what_if *r, int64_t step) {
    SL_TRY(sl_grow(&r->skipped, &r->skip_room, (size_t)r->skips + 1, sizeof *r->skipped));
    r->skipped[r->skips].step = step;
    sl_text_fit(r->skipped[r->skips++].why, sizeof r->skipped->why, sl_error_text());
    return SL_OK;
}

/* The graphs of complete steps; the others are noted. */
static sl_status make_graphs(what_if_work *w, const sl_hybrid_trace *t, const int64_t *step, int steps) {
    int *usual;
    SL_TRY(sl_alloc(&usual, (size_t)w->positions, sizeof *usual));
    sl_status status = sl_hybrid_usual_events(t, w->layout, step, steps, usual);
    for (int i = 0; status == SL_OK && i < steps; i++) {
        sl_hybrid_graph *g = &w->graph[w->graphs];
        status = sl_hybrid_graph_make(t, w->layout, step[i], usual, g);
        if (status == SL_OK) {
            w->graphs++;
            w->result->left_out += g->left_out;
            w->result->unknown += g->unknown;
            w->result->microbatches = sl_larger(w->result->microbatches, g->microbatches);
            continue;
        }
        sl_hybrid_graph_free(g);
        if (status == SL_ENONE)
            status = skip(w->result, step[i]);
    }
    sl_free(usual);
    return status;
}

/* Iterations whose ops wait for each other in a circle are noted and removed. *work: steps of a replay of the
 * others. */
static sl_status keep_sound(what_if_work *w, double *work) {
    int kept = 0;
    *work = 0;
    for (int i = 0; i < w->graphs; i++) {
        sl_hybrid_graph g = w->graph[i];
        sl_hybrid_replay *replay;
        sl_status status = sl_hybrid_replay_open(&w->graph[i], &replay);
        if (status == SL_ENONE) {
            SL_TRY(skip(w->result, g.step));
            sl_hybrid_graph_free(&w->graph[i]);
            continue;
        }
        SL_TRY(status);
        *work += (double)sl_hybrid_replay_steps(replay);
        sl_hybrid_replay_close(replay);
        w->graph[i] = (sl_hybrid_graph){0};
        w->graph[kept++] = g;
    }
    w->graphs = w->result->iterations = kept;
    return SL_OK;
}

/* The times of iterations as they were. */
static sl_status replay_all(what_if_work *w) {
    for (int i = 0; i < w->graphs; i++) {
        sl_hybrid_replay *replay;
        sl_time *time;
        SL_TRY(sl_hybrid_replay_open(&w->graph[i], &replay));
        sl_status status = sl_alloc(&time, w->graph[i].nodes, sizeof *time);
        if (status == SL_OK) {
            w->result->iteration[i] = (sl_what_if_iteration){w->graph[i].step, w->graph[i].traced,
                                                             answer(w, i, replay, as_it_was, 0, time)};
            sl_free(time);
        }
        sl_hybrid_replay_close(replay);
        SL_TRY(status);
    }
    return SL_OK;
}

static void sum_up(what_if_work *w) {
    sl_what_if *r = w->result;
    double traced = 0, replayed = 0;
    for (int i = 0; i < r->iterations; i++) {
        traced += (double)r->iteration[i].traced;
        replayed += (double)r->iteration[i].replayed;
        for (int q = 0; q < w->positions; q++)
            r->gap[q] += (double)w->graph[i].gap[q];
    }
    r->mean_traced = (sl_time)(traced / r->iterations);
    r->mean_replayed = (sl_time)(replayed / r->iterations);
    r->gaps = traced > 0 ? (traced - replayed) / traced : 0;
    for (int q = 0; q < w->positions; q++)
        r->gap[q] /= traced > 0 ? traced : 1;
}

/* The mean time of each worker's computation in an iteration, over the median worker's. */
static sl_status compare_workers(what_if_work *w) {
    double *sum;
    SL_TRY(sl_alloc(&sum, (size_t)w->positions, sizeof *sum));
    for (int g = 0; g < w->graphs; g++)
        for (size_t i = 0; i < w->graph[g].nodes; i++) {
            const sl_hybrid_node *n = &w->graph[g].node[i];
            if (n->kind == SL_KIND_FORWARD || n->kind == SL_KIND_BACKWARD)
                w->result->slowness[sl_hybrid_node_position(n)] += (double)n->time;
        }
    memcpy(sum, w->result->slowness, (size_t)w->positions * sizeof *sum);
    double median = sl_median_of_numbers(sum, w->positions);
    for (int q = 0; q < w->positions; q++)
        w->result->slowness[q] = median > 0 ? w->result->slowness[q] / median : 1;
    sl_free(sum);
    return SL_OK;
}

/* ---- the steps of a trace ---- */

static int by_step(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static sl_status list_steps(const sl_hybrid_trace *t, const sl_hybrid_layout *l, int64_t **step, int *steps) {
    size_t count = 0, room = 0, kept = 0;
    *step = NULL;
    for (int q = 0; q < l->pipeline * l->data; q++) {
        const sl_hybrid_worker *w = &t->worker[l->worker[q]];
        for (size_t i = w->first; i < w->end; i++) {
            if (i > w->first && t->event[i].step == t->event[i - 1].step)
                continue;
            SL_TRY(sl_grow(step, &room, count + 1, sizeof **step));
            (*step)[count++] = t->event[i].step;
        }
    }
    qsort(*step, count, sizeof **step, by_step);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || (*step)[i] != (*step)[kept - 1])
            (*step)[kept++] = (*step)[i];
    *steps = (int)kept;
    return SL_OK;
}

static sl_status make(what_if_work *w, const sl_hybrid_trace *t, const int64_t *step, int steps) {
    sl_what_if *r = w->result;
    double work;
    SL_TRY(sl_alloc(&w->graph, (size_t)steps, sizeof *w->graph));
    SL_TRY(sl_alloc(&w->chosen, (size_t)w->positions, 1));
    SL_TRY(sl_alloc(&r->iteration, (size_t)steps, sizeof *r->iteration));
    SL_TRY(sl_alloc(&r->heat, (size_t)w->positions, sizeof *r->heat));
    SL_TRY(sl_alloc(&r->slowness, (size_t)w->positions, sizeof *r->slowness));
    SL_TRY(sl_alloc(&r->slow, (size_t)w->positions, 1));
    SL_TRY(sl_alloc(&r->gap, (size_t)w->positions, sizeof *r->gap));
    SL_TRY(make_graphs(w, t, step, steps));
    if (w->graphs == 0)
        return sl_error(SL_ENONE, "none of %d iterations is complete: in step %lld %s", steps,
                        (long long)(r->skips ? r->skipped[r->skips / 2].step : 0),
                        r->skips ? r->skipped[r->skips / 2].why : "nothing is");
    SL_TRY(keep_sound(w, &work));
    if (w->graphs == 0)
        return sl_error(SL_ENONE, "no iteration can be replayed: in step %lld %s",
                        (long long)r->skipped[0].step, r->skipped[0].why);
    SL_TRY(sl_usual_make(w->layout, w->graph, w->graphs, &w->usual));
    SL_TRY(replay_all(w));
    sum_up(w);
    SL_TRY(compare_workers(w));
    SL_TRY(find_suspects(w));
    r->together = w->usual.together;
    r->length_variation = w->usual.variation;
    double questions = 2.0 * (w->layout->pipeline + w->layout->data) + r->workers + r->links + 50;
    r->examined = work * questions <= MAX_WORK
                      ? w->graphs
                      : sl_larger(1, (int)(w->graphs * MAX_WORK / (work * questions)));
    return examine(w);
}

sl_status sl_what_if_make(const sl_hybrid_trace *t, const sl_hybrid_layout *l, sl_what_if *result) {
    *result = (sl_what_if){0};
    what_if_work w = {.result = result, .layout = l, .positions = l->pipeline * l->data};
    int64_t *step;
    int steps = 0;
    sl_status status = list_steps(t, l, &step, &steps);
    SL_THEN(status, make(&w, t, step, steps));

    sl_usual_free(&w.usual);
    for (int i = 0; w.graph && i < steps; i++)
        sl_hybrid_graph_free(&w.graph[i]);
    SL_FREE(step, w.graph, w.question, w.suspect, w.slow_link, w.chosen);
    return status;
}

void sl_what_if_free(sl_what_if *r) {
    SL_FREE(r->iteration, r->skipped, r->kind, r->stage, r->replica, r->worker, r->link, r->heat, r->slowness,
            r->slow, r->gap);
    *r = (sl_what_if){0};
}
