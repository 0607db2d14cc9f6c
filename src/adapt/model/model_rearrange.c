/* Processes over positions: the topology search, slow devices gathered, and exchanges of two from the present
 * positions, the gathered ones and the initial ones. Each is timed like any layout; the best counts. */
#include "adapt/model/model_inside.h"
#include "adapt/topology/topology.h"
#include "base/memory.h"

#include <limits.h>
#include <math.h>

#define MAX_HOSTS 1024    /* of a topology search */
#define MAX_ASKED 4000000 /* by the exchanges from one layout: less than half a second */

typedef struct best {
    const sl_job_layout *from;
    int divides;
    sl_job_layout *layout;
    double time;
    int moved; /* processes that change position */
} best;

/* Keeps the layout if it is better, or as good with fewer moves. Frees it. */
static sl_status consider(sl_model *m, best *b, sl_job_layout *layout) {
    double time;
    int moved = 0;
    sl_status status = SL_OK;
    for (int i = 0; i < m->processes; i++)
        moved += layout->process[i] != b->from->process[i];
    if (moved)
        status = b->divides ? sl_model_divide(m, layout, &time) : sl_model_time(m, layout, &time);
    if (moved && status == SL_OK && (time < b->time || (time == b->time && moved < b->moved))) {
        sl_job_layout kept = *b->layout;
        *b->layout = *layout;
        *layout = kept;
        b->time = time;
        b->moved = moved;
    }
    sl_job_layout_free(layout);
    return status == SL_ENONE ? SL_OK : status;
}

/* ---- the topology search ---- */

/* Its timing assumes one stage per rank, and equal links. */
static int is_searchable(const sl_model *m, int hosts) {
    const sl_problem *p = m->healthy[0];
    const sl_link *first = &p->link[p->ranks > 1 ? 1 : 0];
    int alike = p->placement == SL_LINEAR && p->stages == p->ranks && hosts > 1 && hosts <= MAX_HOSTS;
    for (int i = 0; i < p->ranks * p->ranks; i++)
        alike &=
            !m->talks[i] || (p->link[i].latency == first->latency && p->link[i].transfer == first->transfer);
    return alike;
}

/* ns per byte of a healthy link, from messages, or from sums if there are none. */
static double healthy_pace(const sl_model *m, double steps) {
    const sl_problem *p = m->healthy[0];
    double bytes = 0, time = 0;
    if (p->ranks > 1 && m->job.message > 0)
        return (double)p->link[1].transfer / m->job.message;
    for (int stage = 0; stage < p->stages && m->job.sum; stage++) {
        bytes += steps * m->job.sum[stage] / m->job.replicas;
        time += (double)p->reduce[stage];
    }
    return bytes > 0 ? time / bytes : 0;
}

/* Hosts are the processes of the excerpt by position. A sum of fewer replicas has fewer steps of more bytes:
 * its bytes are chosen so that it takes the same time. */
static void fill_cluster(const sl_model *m, const int *host, sl_cluster *c) {
    const sl_problem *p = m->healthy[0];
    double steps = m->job.ring ? 2.0 * (m->job.replicas - 1) : 2, pace = healthy_pace(m, steps);
    double scale = sl_sum_steps(c) > 0 ? steps / m->job.replicas * c->data / sl_sum_steps(c) : 0;
    double latency = p->ranks > 1
                         ? (double)p->link[1].latency + (m->job.message > 0 ? 0 : (double)p->link[1].transfer)
                         : 0;
    c->activation = m->job.message;
    for (int stage = 0; stage < p->stages; stage++) {
        c->gradient[stage] = m->job.sum ? m->job.sum[stage] * scale : 0;
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            c->time[kind][stage] = p->time[kind][stage];
    }
    for (int from = 0; from < c->hosts; from++) {
        c->speed[from] = 1 / sl_model_slowdown(m, host[from]);
        for (int to = 0; to < c->hosts; to++) {
            double more[2] = {-latency, -pace};
            if (from != to)
                sl_model_pair(m, host[from], host[to], more);
            c->latency[from * c->hosts + to] = latency + more[0];
            c->pace[from * c->hosts + to] = pace + more[1];
        }
    }
}

/* Covers all inputs of the search that may differ for another cluster of this job. */
static sl_fingerprint fingerprint_of(const sl_cluster *c) {
    sl_fingerprint f = {{0}};
    const int shape[] = {c->tensor, c->data, c->pipeline, c->microbatches};
    for (int i = 0; i < 4; i++)
        sl_fingerprint_add(&f, (uint64_t)shape[i]);
    for (int stage = 0; stage < c->pipeline; stage++) {
        sl_fingerprint_add_real(&f, c->gradient[stage]);
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            sl_fingerprint_add(&f, (uint64_t)c->time[kind][stage]);
    }
    for (int i = 0; i < c->hosts; i++)
        sl_fingerprint_add_real(&f, c->speed[i]);
    for (int i = 0; i < c->hosts * c->hosts; i++) {
        sl_fingerprint_add_real(&f, c->latency[i]);
        sl_fingerprint_add_real(&f, c->pace[i]);
    }
    return f;
}

/* *host: at each position; NULL: unchanged. */
static sl_status search(sl_model *m, const sl_cluster *cluster, const int **host) {
    sl_topology found = {0};
    sl_fingerprint asked = fingerprint_of(cluster);
    if (sl_model_arrangement(m->answers, &asked, host))
        return SL_OK;
    sl_status status = sl_topology_search(
        cluster, &(sl_topology_options){.seed = m->job.seed, .effort = m->job.effort}, &found);
    int *none = NULL;
    SL_THEN(status, sl_model_arranged(m->answers, &asked, found.moved ? &found.host : &none));
    if (status == SL_OK)
        (void)sl_model_arrangement(m->answers, &asked, host);
    sl_topology_free(&found);
    return status;
}

/* Among the processes of the excerpt. */
static sl_status find_arrangement(sl_model *m, const sl_excerpt *e, int microbatches, const int *process,
                                  const int **host) {
    sl_cluster cluster;
    sl_status status;
    *host = NULL;
    SL_TRY_GOTO(done, status, sl_cluster_make(m->job.tensor, e->count, m->job.ranks, microbatches, &cluster));
    sl_free(cluster.schedule);
    cluster.schedule = NULL;
    SL_TRY_GOTO(done, status, sl_copy_text(&cluster.schedule, m->quick));
    cluster.direct = !m->job.ring;
    fill_cluster(m, process, &cluster);
    SL_TRY_GOTO(done, status, sl_cluster_check(&cluster, "the job"));
    status = search(m, &cluster, host);
done:
    sl_cluster_free(&cluster);
    return status == SL_EINVAL || status == SL_ENONE ? SL_OK : status; /* no answer */
}

/* Into layout->process. */
static sl_status ask_topology(sl_model *m, const sl_excerpt *e, sl_job_layout *layout) {
    int hosts = e->count * m->job.ranks * m->job.tensor, *process;
    const int *host;
    if (!is_searchable(m, hosts))
        return SL_OK;
    SL_TRY(sl_alloc(&process, 2 * (size_t)hosts, sizeof *process));
    int *position = process + hosts;
    for (int i = 0; i < hosts; i++) {
        int pair = i / m->job.tensor, rank = pair / e->count, replica = e->replica[pair % e->count];
        position[i] = sl_job_position(&m->job, rank, replica, i % m->job.tensor);
        process[i] = layout->process[position[i]];
    }
    sl_status status = find_arrangement(m, e, layout->split[e->replica[0]], process, &host);
    for (int i = 0; i < hosts && status == SL_OK && host; i++)
        layout->process[position[i]] = process[host[i]];
    sl_free(process);
    return status;
}

/* ---- all ---- */

typedef enum exchange_way { TOPOLOGY, GATHERED, FROM_PRESENT, FROM_GATHERED, FROM_HOME, WAYS } exchange_way;

/* If it leads nowhere, the layout stays as it was. */
static sl_status find(sl_model *m, exchange_way w, int divides, sl_job_layout *layout) {
    sl_excerpt excerpt;
    int moved = w == FROM_PRESENT;
    sl_status status;
    for (int i = 0; i < m->processes && w == FROM_HOME; i++) {
        moved |= layout->process[i] != i;
        layout->process[i] = i;
    }
    sl_model_take(m, layout);
    SL_TRY(sl_model_groups(m, layout->split, NULL));
    SL_TRY_GOTO(done, status, sl_model_excerpt(m, layout->split, &excerpt));
    if (w == TOPOLOGY)
        SL_TRY_GOTO(done, status, ask_topology(m, &excerpt, layout));
    if (w == GATHERED || w == FROM_GATHERED)
        moved = sl_model_gather(m, &excerpt, layout);
    if (w >= FROM_PRESENT && moved) {
        m->rule = m->quick;
        m->allowed = MAX_ASKED;
        status = sl_model_exchange(m, &excerpt, divides, layout);
        m->allowed = LLONG_MAX;
        m->rule = m->job.schedule;
    }
done:
    sl_free(excerpt.replica);
    return status;
}

static sl_status try_all(sl_model *m, best *b) {
    sl_status status =
        b->divides ? sl_model_divide(m, b->layout, &b->time) : sl_model_time(m, b->layout, &b->time);
    if (status == SL_ENONE)
        b->time = INFINITY;
    else
        SL_TRY(status);
    for (int w = 0; w < WAYS && m->parts; w++) {
        sl_job_layout layout;
        SL_TRY(sl_job_layout_copy(&m->job, b->from, &layout));
        status = find(m, (exchange_way)w, b->divides, &layout);
        if (status != SL_OK) {
            sl_job_layout_free(&layout);
            return status;
        }
        SL_TRY(consider(m, b, &layout));
    }
    return isinf(b->time) ? sl_error(SL_ENONE, "no layout fits the microbatches into the memory") : SL_OK;
}

sl_status sl_model_rearrange(sl_model *m, const sl_job_layout *from, int divides, sl_job_layout *to,
                             double *time, int *moved) {
    best b = {.from = from, .divides = divides, .layout = to};
    SL_TRY(sl_job_layout_copy(&m->job, from, to));
    sl_status status = try_all(m, &b);
    if (status != SL_OK)
        sl_job_layout_free(to);
    *time = b.time;
    *moved = b.moved;
    return status;
}
