/* Pairs of processes in the last network measurements: the slowest of those that sum, and the card at
 * fault. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

#include <math.h>

#define BYTES 1e6 /* message size at which pairs are compared */
#define SAME 1.25 /* of two that are about as slow the one already named is kept */
#define ALIKE 0.5 /* a card's connections reach this share of its slowest: few messages prove little */

/* As measured; links of a pipeline may also differ when nothing is slow. */
static sl_process_pair pair_of(const sl_orchestrator *o, const sl_network_measure *m) {
    const sl_job *job = &o->config.job;
    int from = sl_job_layout_position(job, &o->layout, m->from),
        to = sl_job_layout_position(job, &o->layout, m->to), replica = sl_job_replica(job, from);
    const sl_problem *p = sl_healthy_of(o, replica);
    int between = replica != sl_job_replica(job, to);
    double latency = m->latency;
    if (!between)
        latency -= (double)p->link[sl_job_rank(job, from) * p->ranks + sl_job_rank(job, to)].latency;
    return (sl_process_pair){m->from, m->to, between, latency, latency + m->pace * BYTES};
}

/* A list per process of the ends (2 * pair + side) at it. */
typedef struct ends {
    const sl_process_pair *pair;
    int *first, *next; /* end + 1; 0: none */
} ends;

static int other_of(const ends *e, int end) {
    return end % 2 ? e->pair[end / 2].from : e->pair[end / 2].to;
}

/* The worse direction of a connection. */
static double late_with(const ends *e, int process, int other) {
    double worst = 0;
    for (int end = e->first[process]; end; end = e->next[end - 1])
        if (other_of(e, end - 1) == other)
            worst = fmax(worst, e->pair[(end - 1) / 2].late);
    return worst;
}

/* Its connections are about equally late. */
static int is_card(const ends *e, int process) {
    double least = INFINITY, most = 0;
    int first = -1, several = 0;
    for (int end = e->first[process]; end; end = e->next[end - 1]) {
        int other = other_of(e, end - 1);
        double late = late_with(e, process, other);
        first = first < 0 ? other : first;
        several |= other != first;
        least = fmin(least, late);
        most = fmax(most, late);
    }
    return several && most > 0 && least > ALIKE * most;
}

static sl_status find_cards(const sl_orchestrator *o, const sl_process_pair *pair, int count,
                            unsigned char **card) {
    ends e = {.pair = pair};
    SL_TRY(sl_alloc(&e.first, (size_t)o->processes + 2 * (size_t)count, sizeof *e.first));
    e.next = e.first + o->processes;
    for (int end = 0; end < 2 * count; end++) {
        int process = end % 2 ? pair[end / 2].to : pair[end / 2].from;
        e.next[end] = e.first[process];
        e.first[process] = end + 1;
    }
    sl_status status = sl_alloc(card, (size_t)o->processes, 1);
    for (int i = 0; i < o->processes && status == SL_OK; i++)
        (*card)[i] = (unsigned char)is_card(&e, i);
    sl_free(e.first);
    return status;
}

sl_status sl_pairs_take(sl_orchestrator *o, const sl_network_measure *measure, int count) {
    double least[2] = {INFINITY, INFINITY}, latency[2] = {INFINITY, INFINITY};
    sl_process_pair *pair;
    SL_TRY(sl_alloc(&pair, (size_t)count, sizeof *pair));
    for (int i = 0; i < count; i++) {
        pair[i] = pair_of(o, &measure[i]);
        latency[pair[i].between] = fmin(latency[pair[i].between], pair[i].latency);
        least[pair[i].between] = fmin(least[pair[i].between], pair[i].late);
    }
    for (int i = 0; i < count; i++) {
        pair[i].latency -= latency[pair[i].between];
        pair[i].late -= least[pair[i].between];
    }
    unsigned char *card;
    sl_status status = find_cards(o, pair, count, &card);
    if (status != SL_OK) {
        sl_free(pair);
        return status;
    }
    SL_FREE(o->network.pair, o->network.card);
    o->network.card = card;
    o->network.pair = pair;
    o->network.pairs = count;
    return SL_OK;
}

static int is_slow_already(const sl_orchestrator *o, const sl_process_pair *p) {
    int low = p->from < p->to ? p->from : p->to;
    return sl_cases_find(o, (sl_component_key){SL_KEY_SUM, low, p->from + p->to - low}) != NULL;
}

int sl_pairs_slowest(const sl_orchestrator *o, int rank, int pair[2]) {
    const sl_job *job = &o->config.job;
    double worst = 0;
    int a = job->replicas == 2 ? sl_cases_process(o, rank, 0) : -1,
        b = job->replicas == 2 ? sl_cases_process(o, rank, 1) : -1;
    for (int i = 0; i < o->network.pairs && job->replicas > 2; i++) {
        const sl_process_pair *p = &o->network.pair[i];
        if (!p->between || !(p->late * SAME > worst) ||
            sl_job_rank(job, sl_job_layout_position(job, &o->layout, p->from)) != rank ||
            sl_job_rank(job, sl_job_layout_position(job, &o->layout, p->to)) != rank)
            continue;
        double late = p->late * (is_slow_already(o, p) ? SAME : 1);
        if (late <= worst)
            continue;
        worst = late;
        a = p->from;
        b = p->to;
    }
    pair[0] = a < b ? a : b;
    pair[1] = a < b ? b : a;
    return a >= 0;
}

int sl_pairs_card(const sl_orchestrator *o, int process) {
    return o->network.pairs && o->network.card[process];
}

/* For a card, its least late connection: a later one may have a second slow card at its other end. */
int sl_pairs_split(const sl_orchestrator *o, sl_slow_part *part, int way) {
    const sl_process_pair *least = NULL;
    for (int i = 0; i < o->network.pairs; i++) {
        const sl_process_pair *p = &o->network.pair[i];
        int mine = way ? p->to : p->from, other = way ? p->from : p->to;
        if (mine == part->a && (part->kind != SL_PART_LINK || other == part->b) && p->between &&
            (!least || p->late < least->late))
            least = p;
    }
    if (!least)
        return 0;
    part->latency[way] = least->latency;
    part->pace[way] = fmax(0, (least->late - least->latency) / BYTES);
    return 1;
}
