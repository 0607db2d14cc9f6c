#include "plan/explain/what_if.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/text.h"
#include "plan/explain/job_replay.h"
#include "plan/explain/usual.h"
#include "plan/explain/what_if_change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOWEST_WORKERS 16
#define SLOWEST_LINKS 8
#define SLOW 0.05      /* share by which a slow worker takes longer */
#define MAX_WORK 500e6 /* steps replayed for costs: about 20 s; beyond it, fewer iterations */

/* ---- replays ---- */

/* A question, and the sum of its answers over the iterations. */
typedef struct what_if_question {
    sl_what_if_change change;
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

static sl_status ask(what_if_work *w, sl_what_if_change change, int what, size_t *number) {
    SL_TRY(sl_grow(&w->question, &w->room, w->questions + 1, sizeof *w->question));
    w->question[w->questions] = (what_if_question){.change = change, .what = what};
    *number = w->questions++;
    return SL_OK;
}

static sl_time answer(const what_if_work *w, int graph, sl_hybrid_replay *replay, sl_what_if_change change,
                      int what, sl_time *time) {
    const sl_hybrid_graph *g = &w->graph[graph];
    const sl_what_if_case c = {&w->usual, graph, what, w->result->slow, w->chosen};
    for (size_t i = 0; i < g->nodes; i++)
        time[i] = g->node[i].kind < 0 ? 0 : sl_what_if_time(change, &c, &g->node[i]);
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
                (double)answer(w, graph, replay, w->question[q].change, w->question[q].what, time);
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
            const sl_what_if_case c = {&w->usual, g, 0, NULL, NULL};
            if (n->kind < 0)
                continue;
            int q = sl_hybrid_node_position(n);
            if (sl_traced_kind_is_compute(n->kind)) {
                worker[q].time += (double)(n->time - sl_what_if_expected(&c, n));
                due[q] += (double)sl_what_if_expected(&c, n);
            } else if (sl_what_if_is_transfer(n))
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

/* Questions of a list of causes: their costs, and, unless `only` is -1, their slowdowns alone. */
typedef struct what_if_list {
    sl_what_if_cause *cause;
    int count;
    sl_what_if_change without;
    int only; /* sl_what_if_change; -1: none */
    size_t first;
} what_if_list;

static sl_status ask_list(what_if_work *w, what_if_list *list) {
    size_t number;
    list->first = w->questions;
    for (int i = 0; i < list->count; i++) {
        SL_TRY(ask(w, list->without, list->cause[i].what, &number));
        if (list->only >= 0)
            SL_TRY(ask(w, (sl_what_if_change)list->only, list->cause[i].what, &number));
    }
    return SL_OK;
}

static int by_cost(const void *one, const void *other) {
    const sl_what_if_cause *a = one, *b = other;
    return a->cost != b->cost ? (a->cost < b->cost) - (a->cost > b->cost) : a->what - b->what;
}

static void take_list(const what_if_work *w, what_if_list *list, double was, double best) {
    for (int i = 0; i < list->count; i++) {
        const what_if_question *q = &w->question[list->first + (size_t)i * (list->only >= 0 ? 2 : 1)];
        list->cause[i].cost = (was - q->sum) / was;
        list->cause[i].alone = list->only >= 0 && best > 0 ? q[1].sum / best : 0;
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
    SL_TRY(ask(w, SL_CHANGE_IDEAL_CHOSEN, 0, &workers));
    SL_TRY(ask(w, SL_CHANGE_IDEAL_STAGE, w->layout->pipeline - 1, &stage));
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
        sl_what_if_change change;
        double *cost;
    } singles[] = {{SL_CHANGE_WITHOUT_SLOW_WORKERS, &r->slow_workers},
                   {SL_CHANGE_WITHOUT_CUT, &r->cut},
                   {SL_CHANGE_WITHOUT_LENGTHS, &r->lengths},
                   {SL_CHANGE_WITHOUT_LINKS, &r->all_links},
                   {SL_CHANGE_WITHOUT_COLLECTIVES, &r->collectives},
                   {SL_CHANGE_NO_LINKS_AT_ALL, &r->no_links},
                   {SL_CHANGE_NO_COLLECTIVES_AT_ALL, &r->no_collectives}};
    SL_TRY(make_causes(w));
    what_if_list list[] = {
        {r->kind, r->kinds, SL_CHANGE_WITHOUT_KIND, SL_CHANGE_ONLY_KIND, 0},
        {r->stage, w->layout->pipeline, SL_CHANGE_WITHOUT_STAGE, SL_CHANGE_ONLY_STAGE, 0},
        {r->replica, w->layout->data, SL_CHANGE_WITHOUT_REPLICA, SL_CHANGE_ONLY_REPLICA, 0},
        {r->worker, r->workers, SL_CHANGE_WITHOUT_WORKER, -1, 0},
        {r->link, r->links, SL_CHANGE_WITHOUT_LINK, -1, 0}};
    SL_TRY(ask(w, SL_CHANGE_AS_IT_WAS, 0, &base));
    SL_TRY(ask(w, SL_CHANGE_IDEAL, 0, &best));
    for (int i = 0; i < 7; i++)
        SL_TRY(ask(w, singles[i].change, 0, &single[i]));
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
            w->result->iteration[i] = (sl_what_if_iteration){
                w->graph[i].step, w->graph[i].traced, answer(w, i, replay, SL_CHANGE_AS_IT_WAS, 0, time)};
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
