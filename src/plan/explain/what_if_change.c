#include "plan/explain/what_if_change.h"
#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

static int rank_of(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) / c->usual->layout->data;
}
static int replica_of(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) % c->usual->layout->data;
}
/* ---- causes taken away ---- */

static sl_time without_kind(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return n->kind == c->what ? c->usual->of_kind[n->kind] : n->time;
}

sl_time sl_what_if_expected(const sl_what_if_case *c, const sl_hybrid_node *n) {
    sl_time usual = c->usual->of_group[sl_usual_group(c->usual, n)];
    return usual < 0 ? n->time : (sl_time)((double)usual * sl_usual_length(c->usual, c->graph, n));
}

static sl_time without_worker(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return sl_hybrid_node_position(n) == c->what && sl_traced_kind_is_compute(n->kind)
               ? sl_what_if_expected(c, n)
               : n->time;
}

static sl_time without_slow_workers(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return c->slow[sl_hybrid_node_position(n)] && sl_traced_kind_is_compute(n->kind)
               ? sl_what_if_expected(c, n)
               : n->time;
}

static sl_time without_replica(const sl_what_if_case *c, const sl_hybrid_node *n) {
    if (replica_of(c, n) != c->what || sl_traced_kind_is_collective(n->kind))
        return n->time;
    return sl_what_if_expected(c, n);
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
static sl_time without_stage(const sl_what_if_case *c, const sl_hybrid_node *n) {
    const sl_hybrid_usual *u = c->usual;
    if (rank_of(c, n) != c->what || n->kind > SL_KIND_BACKWARD)
        return n->time;
    double all = elsewhere(u, n->kind, c->what, -1), its = usual_on(u, n->kind, c->what, n->slot),
           target = elsewhere(u, n->kind, c->what, n->slot);
    int is_slower = all > 0 && all < usual_on(u, n->kind, c->what, -1);
    return is_slower && target > 0 && its > 0 ? (sl_time)((double)n->time * target / its) : n->time;
}

static sl_time without_cut(const sl_what_if_case *c, const sl_hybrid_node *n) {
    const sl_hybrid_usual *u = c->usual;
    double sum = 0;
    if (n->kind > SL_KIND_BACKWARD)
        return n->time;
    for (int p = 0; p < u->layout->pipeline; p++)
        sum += u->of_stage[n->kind * u->layout->pipeline + p];
    double its = u->of_stage[n->kind * u->layout->pipeline + rank_of(c, n)];
    return its > 0 ? (sl_time)((double)n->time * sum / u->layout->pipeline / its) : n->time;
}

static sl_time without_lengths(const sl_what_if_case *c, const sl_hybrid_node *n) {
    double length = sl_usual_length(c->usual, c->graph, n);
    return length > 0 && length != 1 ? (sl_time)((double)n->time * c->usual->mean_length / length) : n->time;
}

static sl_time without_links(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return sl_what_if_is_transfer(n) ? c->usual->of_kind[n->kind] : n->time;
}

static sl_time without_link(const sl_what_if_case *c, const sl_hybrid_node *n) {
    int backward = n->kind == SL_KIND_BACKWARD_TRANSFER;
    return sl_what_if_is_transfer(n) && sl_hybrid_node_position(n) * 2 + backward == c->what
               ? c->usual->of_kind[n->kind]
               : n->time;
}

static sl_time without_collectives(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return sl_traced_kind_is_collective(n->kind)
               ? c->usual->of_slot[(size_t)n->kind * (size_t)c->usual->slots + (size_t)n->slot]
               : n->time;
}

static sl_time no_links_at_all(const sl_what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return sl_what_if_is_transfer(n) ? 0 : n->time;
}

static sl_time no_collectives_at_all(const sl_what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return sl_traced_kind_is_collective(n->kind) ? 0 : n->time;
}

/* ---- the published method ---- */

static sl_time as_it_was(const sl_what_if_case *c, const sl_hybrid_node *n) {
    (void)c;
    return n->time;
}

static int is_communication(const sl_hybrid_node *n) {
    return sl_what_if_is_transfer(n) || sl_traced_kind_is_collective(n->kind) ||
           strcmp(sl_traced_kinds[n->kind].name, "layernorm-grads-all-reduce") == 0;
}

static sl_time ideal(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return is_communication(n) ? c->usual->of_kind[n->kind] : (sl_time)c->usual->mean[n->kind];
}

static sl_time only_kind(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return n->kind == c->what ? n->time : ideal(c, n);
}
static sl_time only_stage(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return rank_of(c, n) == c->what ? n->time : ideal(c, n);
}
static sl_time only_replica(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return replica_of(c, n) == c->what ? n->time : ideal(c, n);
}
static sl_time ideal_chosen(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return c->chosen[sl_hybrid_node_position(n)] ? ideal(c, n) : n->time;
}
static sl_time ideal_stage(const sl_what_if_case *c, const sl_hybrid_node *n) {
    return rank_of(c, n) == c->what ? ideal(c, n) : n->time;
}

/* ---- all of them ---- */

static sl_time (*const changes[])(const sl_what_if_case *c, const sl_hybrid_node *n) = {
    [SL_CHANGE_AS_IT_WAS] = as_it_was,
    [SL_CHANGE_WITHOUT_KIND] = without_kind,
    [SL_CHANGE_WITHOUT_WORKER] = without_worker,
    [SL_CHANGE_WITHOUT_SLOW_WORKERS] = without_slow_workers,
    [SL_CHANGE_WITHOUT_REPLICA] = without_replica,
    [SL_CHANGE_WITHOUT_STAGE] = without_stage,
    [SL_CHANGE_WITHOUT_CUT] = without_cut,
    [SL_CHANGE_WITHOUT_LENGTHS] = without_lengths,
    [SL_CHANGE_WITHOUT_LINKS] = without_links,
    [SL_CHANGE_WITHOUT_LINK] = without_link,
    [SL_CHANGE_WITHOUT_COLLECTIVES] = without_collectives,
    [SL_CHANGE_NO_LINKS_AT_ALL] = no_links_at_all,
    [SL_CHANGE_NO_COLLECTIVES_AT_ALL] = no_collectives_at_all,
    [SL_CHANGE_IDEAL] = ideal,
    [SL_CHANGE_ONLY_KIND] = only_kind,
    [SL_CHANGE_ONLY_STAGE] = only_stage,
    [SL_CHANGE_ONLY_REPLICA] = only_replica,
    [SL_CHANGE_IDEAL_CHOSEN] = ideal_chosen,
    [SL_CHANGE_IDEAL_STAGE] = ideal_stage};

sl_time sl_what_if_time(sl_what_if_change change, const sl_what_if_case *c, const sl_hybrid_node *n) {
    return changes[change](c, n);
}
