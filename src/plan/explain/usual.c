#include "plan/explain/usual.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of an even count the smaller one of the two in the middle: with two replicas, the faster. */
static sl_time lower_median(sl_time *values, int count) {
    if (count == 0)
        return -1;
    qsort(values, (size_t)count, sizeof *values, sl_ascending_times);
    return values[(count - 1) / 2];
}

/* ---- medians ---- */

typedef struct usual_sample {
    size_t key;
    sl_time time;
} usual_sample;

static int by_sample(const void *one, const void *other) {
    const usual_sample *a = one, *b = other;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
                            : (a->time > b->time) - (a->time < b->time);
}

static size_t key_of(const sl_hybrid_usual *u, const sl_hybrid_node *n, int what) {
    return what == 0   ? sl_usual_worker(u, n)
           : what == 1 ? (size_t)n->kind * (size_t)u->slots + (size_t)n->slot
                       : (size_t)n->kind;
}

/* The median of each key, into median[]. `sample` has room for all nodes. */
static void fill_medians(const sl_hybrid_usual *u, int what, usual_sample *sample, sl_time *median) {
    size_t count = 0;
    for (int g = 0; g < u->graphs; g++)
        for (size_t i = 0; i < u->graph[g].nodes; i++) {
            const sl_hybrid_node *n = &u->graph[g].node[i];
            if (n->kind >= 0 && n->time >= 0)
                sample[count++] = (usual_sample){key_of(u, n, what), n->time};
        }
    qsort(sample, count, sizeof *sample, by_sample);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i; next < count && sample[next].key == sample[i].key; next++)
            continue;
        median[sample[i].key] = sample[(i + next) / 2].time;
    }
}

static sl_status fill_groups(sl_hybrid_usual *u, size_t groups) {
    sl_time *time;
    int data = u->layout->data;
    SL_TRY(sl_alloc(&time, (size_t)data, sizeof *time));
    for (size_t g = 0; g < groups; g++) {
        int count = 0;
        for (int d = 0; d < data; d++)
            if (u->of_worker[g * (size_t)data + (size_t)d] >= 0)
                time[count++] = u->of_worker[g * (size_t)data + (size_t)d];
        u->of_group[g] = lower_median(time, count);
    }
    sl_free(time);
    return SL_OK;
}

static void fill_kinds(sl_hybrid_usual *u) {
    for (int g = 0; g < u->graphs; g++)
        for (size_t i = 0; i < u->graph[g].nodes; i++) {
            const sl_hybrid_node *n = &u->graph[g].node[i];
            if (n->kind < 0)
                continue;
            u->kind_count[n->kind]++;
            u->mean[n->kind] += (double)n->time;
        }
    for (int k = 0; k < sl_traced_kind_count; k++)
        u->mean[k] /= u->kind_count[k] ? u->kind_count[k] : 1;
}

static void fill_stages(sl_hybrid_usual *u) {
    for (int k = 0; k < sl_traced_kind_count; k++)
        for (int p = 0; p < u->layout->pipeline; p++)
            for (int s = 0; s < u->slots; s++) {
                size_t group =
                    ((size_t)k * (size_t)u->layout->pipeline + (size_t)p) * (size_t)u->slots + (size_t)s;
                u->of_stage[k * u->layout->pipeline + p] +=
                    u->of_group[group] > 0 ? (double)u->of_group[group] : 0;
            }
}

static sl_status fill(sl_hybrid_usual *u, sl_hybrid_graph *graph) {
    usual_sample *sample;
    size_t nodes = 0, kinds = (size_t)sl_traced_kind_count;
    for (int g = 0; g < u->graphs; g++)
        for (size_t i = 0; i < graph[g].nodes; i++, nodes++)
            u->slots = sl_larger(u->slots, graph[g].node[i].slot + 1);
    size_t groups = kinds * (size_t)u->layout->pipeline * (size_t)u->slots,
           workers = groups * (size_t)u->layout->data;
    SL_TRY(sl_alloc(&u->of_worker, workers, sizeof *u->of_worker));
    SL_TRY(sl_alloc(&u->of_group, groups, sizeof *u->of_group));
    SL_TRY(sl_alloc(&u->of_slot, kinds * (size_t)u->slots, sizeof *u->of_slot));
    SL_TRY(sl_alloc(&u->of_kind, kinds, sizeof *u->of_kind));
    SL_TRY(sl_alloc(&u->mean, kinds, sizeof *u->mean));
    SL_TRY(sl_alloc(&u->of_stage, kinds * (size_t)u->layout->pipeline, sizeof *u->of_stage));
    SL_TRY(sl_alloc(&u->kind_count, kinds, sizeof *u->kind_count));
    SL_TRY(sl_alloc(&sample, nodes, sizeof *sample));
    memset(u->of_worker, 0xff, workers * sizeof *u->of_worker);
    fill_medians(u, 2, sample, u->of_kind);
    fill_medians(u, 0, sample, u->of_worker);
    fill_medians(u, 1, sample, u->of_slot);
    sl_free(sample);
    SL_TRY(fill_groups(u, groups));
    fill_stages(u);
    return SL_OK;
}

/* ---- lengths of microbatches ---- */

/* Ratios of the ops of a microbatch to the usual time of their worker. */
typedef struct usual_ratios {
    int rooms, rows; /* ops of a microbatch; microbatches of all replicas */
    double *ratio;   /* [rows][rooms] */
    int *count;      /* [rows] */
    double *part[2]; /* [rows * pipeline] mean ratio of a rank's forwards, and backwards; 0: none */
} usual_ratios;

static sl_status make_ratios(const sl_hybrid_usual *u, int microbatches, usual_ratios *r) {
    r->rooms = 2 * u->layout->pipeline * u->layout->chunks;
    r->rows = u->layout->data * microbatches;
    SL_TRY(sl_alloc(&r->ratio, (size_t)r->rooms * (size_t)r->rows, sizeof *r->ratio));
    SL_TRY(sl_alloc(&r->count, (size_t)r->rows, sizeof *r->count));
    for (int i = 0; i < 2; i++)
        SL_TRY(sl_alloc(&r->part[i], (size_t)r->rows * (size_t)u->layout->pipeline, sizeof *r->part[i]));
    return SL_OK;
}

static void free_ratios(usual_ratios *r) {
    SL_FREE(r->ratio, r->count, r->part[0], r->part[1]);
}

static double median_ratio(const usual_ratios *r, int row) {
    return r->count[row] ? sl_median_of_numbers(&r->ratio[(size_t)row * (size_t)r->rooms], r->count[row]) : 1;
}

/* Ops of known time, then the others, which are as the known ones of their microbatch. */
static void fill_ratios(const sl_hybrid_usual *u, const sl_hybrid_graph *g, usual_ratios *r) {
    for (int known = 1; known >= 0; known--)
        for (size_t i = 0; i < g->nodes; i++) {
            const sl_hybrid_node *n = &g->node[i];
            if (n->kind < 0 || n->kind > SL_KIND_BACKWARD || (n->time >= 0) != known)
                continue;
            int q = sl_hybrid_node_position(n), row = q % u->layout->data * g->microbatches + n->microbatch;
            sl_time its = u->of_worker[sl_usual_worker(u, n)];
            double ratio = !known ? median_ratio(r, row) : its > 0 ? (double)n->time / (double)its : 1;
            if (known && r->count[row] < r->rooms)
                r->ratio[(size_t)row * (size_t)r->rooms + (size_t)r->count[row]++] = ratio;
            r->part[n->kind][row * u->layout->pipeline + q / u->layout->data] += ratio / u->layout->chunks;
        }
}

typedef struct usual_sums {
    double x, y, xy;
} usual_sums;

/* Adds how a rank's forwards vary with the backwards of the other ranks (its own, if it is the only one),
 * each relative to the mean of the replica's microbatches in this iteration. */
static void correlate_rank(const usual_ratios *r, int first, int microbatches, int ranks, int p,
                           usual_sums *sums) {
    double mean[2] = {0, 0};
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int row = first; row < first + microbatches; row++) {
            double x = r->part[0][row * ranks + p], y = 0;
            if (r->count[row] == 0) /* replicas may have fewer */
                continue;
            for (int other = 0; other < ranks; other++)
                y += ranks == 1 || other != p ? r->part[1][row * ranks + other] : 0;
            if (pass == 0) {
                count++;
                mean[0] += (x - mean[0]) / count;
                mean[1] += (y - mean[1]) / count;
                continue;
            }
            sums->x += (x - mean[0]) * (x - mean[0]);
            sums->y += (y - mean[1]) * (y - mean[1]);
            sums->xy += (x - mean[0]) * (y - mean[1]);
        }
}

static void correlate(const sl_hybrid_usual *u, const usual_ratios *r, int microbatches, usual_sums *sums) {
    for (int d = 0; d < u->layout->data; d++)
        for (int p = 0; p < u->layout->pipeline; p++)
            correlate_rank(r, d * microbatches, microbatches, u->layout->pipeline, p, sums);
}

static sl_status measure(sl_hybrid_usual *u, int graph, usual_sums *sums, double *sum, double *squares,
                         double *count) {
    const sl_hybrid_graph *g = &u->graph[graph];
    usual_ratios r = {0};
    sl_status status = make_ratios(u, g->microbatches, &r);
    SL_THEN(status, sl_alloc(&u->length[graph], (size_t)r.rows, sizeof *u->length[graph]));
    if (status == SL_OK) {
        fill_ratios(u, g, &r);
        correlate(u, &r, g->microbatches, sums);
        for (int row = 0; row < r.rows; row++) {
            double length = median_ratio(&r, row);
            u->length[graph][row] = length;
            *sum += r.count[row] ? length : 0;
            *squares += r.count[row] ? length * length : 0;
            *count += r.count[row] > 0;
        }
    }
    free_ratios(&r);
    return status;
}

/* A replica whose microbatches were longer by chance is no slower one: what it usually takes, relative to the
 * others, belongs to the lengths, unless it is more than `variation` of so many lengths explains. */
static sl_status keep_chance(sl_hybrid_usual *u, double microbatches) {
    sl_time *ratio;
    int data = u->layout->data, rows = 2 * u->layout->pipeline * u->slots;
    double error = 1.25 * u->variation / sqrt(fmax(1, microbatches / data)); /* of a median */
    SL_TRY(sl_alloc(&ratio, (size_t)rows, sizeof *ratio));
    for (int d = 0; d < data; d++) {
        int count = 0;
        for (int group = 0; group < rows; group++) /* forwards and backwards come first */
            if (u->of_group[group] > 0)
                ratio[count++] =
                    (sl_time)(1e6 * (double)u->of_worker[group * data + d] / (double)u->of_group[group]);
        double factor = count ? (double)sl_median(ratio, count) / 1e6 : 1;
        for (int g = 0; g < u->graphs && fabs(factor - 1) <= 4 * error; g++)
            for (int m = 0; m < u->graph[g].microbatches; m++)
                u->length[g][d * u->graph[g].microbatches + m] *= factor;
    }
    sl_free(ratio);
    return SL_OK;
}

static void average_lengths(sl_hybrid_usual *u) {
    double sum = 0, count = 0;
    for (int g = 0; g < u->graphs; g++)
        for (int row = 0; row < u->layout->data * u->graph[g].microbatches; row++, count++)
            sum += u->length[g][row];
    u->mean_length = count > 0 ? sum / count : 1;
}

static sl_status measure_lengths(sl_hybrid_usual *u) {
    usual_sums sums = {0};
    double sum = 0, squares = 0, count = 0;
    SL_TRY(sl_alloc(&u->length, (size_t)u->graphs, sizeof *u->length));
    for (int g = 0; g < u->graphs; g++)
        SL_TRY(measure(u, g, &sums, &sum, &squares, &count));
    double mean = count > 0 ? sum / count : 1;
    u->variation = count > 0 && mean > 0 ? sqrt(fmax(0, squares / count - mean * mean)) / mean : 0;
    u->together = sums.x > 0 && sums.y > 0 ? sums.xy / sqrt(sums.x * sums.y) : 0;
    SL_TRY(keep_chance(u, count));
    average_lengths(u);
    return SL_OK;
}

double sl_usual_length(const sl_hybrid_usual *u, int graph, const sl_hybrid_node *n) {
    if (u->together < SL_TOGETHER || n->kind < 0 || n->kind > SL_KIND_BACKWARD)
        return 1;
    int row = sl_hybrid_node_position(n) % u->layout->data * u->graph[graph].microbatches + n->microbatch;
    return u->length[graph][row];
}

/* ---- unknown times ---- */

#define ABOUT 1.25 /* of what is expected: a limit below that is believed */

static sl_time estimate(const sl_hybrid_usual *u, int graph, const sl_hybrid_node *n, sl_time limit) {
    sl_time its = u->of_worker[sl_usual_worker(u, n)], usual = its >= 0 ? its : u->of_kind[n->kind];
    if (!sl_traced_kind_is_compute(n->kind))
        return u->of_kind[n->kind];
    double expected = (double)sl_later(usual, 0) * sl_usual_length(u, graph, n);
    return limit != SL_TIME_NEVER && (usual < 0 || (double)limit < ABOUT * expected) ? limit
                                                                                     : (sl_time)expected;
}

static void complete(sl_hybrid_usual *u, sl_hybrid_graph *graph) {
    for (int g = 0; g < u->graphs; g++)
        for (size_t i = 0; i < graph[g].nodes; i++) {
            sl_hybrid_node *n = &graph[g].node[i];
            if (n->kind < 0 || n->time >= 0)
                continue;
            const sl_hybrid_node *next = i + 1 < graph[g].nodes && n[1].stream == n->stream ? n + 1 : NULL;
            n->time = estimate(u, g, n, next ? sl_sooner(n->limit, next->start - n->start) : n->limit);
        }
}

sl_status sl_usual_make(const sl_hybrid_layout *layout, sl_hybrid_graph *graph, int graphs,
                        sl_hybrid_usual *u) {
    *u = (sl_hybrid_usual){.layout = layout, .graph = graph, .graphs = graphs, .mean_length = 1};
    SL_TRY(fill(u, graph));
    SL_TRY(measure_lengths(u));
    complete(u, graph);
    fill_kinds(u);
    return SL_OK;
}

void sl_usual_free(sl_hybrid_usual *u) {
    for (int i = 0; u->length && i < u->graphs; i++)
        sl_free(u->length[i]);
    SL_FREE(u->of_worker, u->of_group, u->of_slot, u->of_kind, u->mean, u->of_stage, u->kind_count,
            u->length);
    *u = (sl_hybrid_usual){0};
}
