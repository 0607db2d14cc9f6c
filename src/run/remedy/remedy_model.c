/* What an iteration would take with other processes in other places, or with microbatches divided otherwise:
 * every replica's healthy problem, with its ops as slow as the devices that would run them and its links as
 * slow as the connections that would carry its messages, planned and replayed by the one timing model
 * (adapt/balance/pipelines.h). The present arrangement is asked in the same way, so that only the ratio
 * counts. */
#include "adapt/balance/pipelines.h"
#include "base/memory.h"
#include "run/binding/binding.h"
#include "run/remedy/remedy_inside.h"

#include <math.h>
#include <string.h>

/* ---- the cluster as it is seen ---- */

/* Tensor ranks of a place wait for each other in every op: each may be the slow one, so all count as slow. */
static void view_device(const sl_trainer *t, const sl_piece *piece) {
    const sl_cluster_view *v = &t->remedy->view;
    double slow = (double)piece->found.now / (double)piece->found.healthy;
    for (int w = 0; w < t->world; w++) {
        sl_seat seat = sl_run_seat(t->run, w);
        if (seat.pipeline == piece->found.rank && seat.replica == piece->replica)
            v->slow[t->home[w]] = slow;
    }
}

static void view_direction(const sl_trainer *t, int from, int to, sl_time latency, sl_time transfer) {
    const sl_cluster_view *v = &t->remedy->view;
    double pace = t->message_bytes > 0 ? (double)transfer / t->message_bytes : 0;
    v->latency[from * v->homes + to] = latency > 0 ? (double)latency : 0;
    v->pace[from * v->homes + to] = pace > 0 ? pace : 0;
}

static void view_link(const sl_trainer *t, const sl_piece *piece, const sl_problem *usual,
                      const sl_problem *healthy) {
    int a = piece->found.from, b = piece->found.to, ranks = usual->ranks;
    const sl_link *there = &usual->link[a * ranks + b], *back = &usual->link[b * ranks + a];
    const sl_link *before = &healthy->link[a * ranks + b], *before_back = &healthy->link[b * ranks + a];
    view_direction(t, piece->home[0], piece->home[1], there->latency - before->latency,
                   there->transfer - before->transfer);
    view_direction(t, piece->home[1], piece->home[0], back->latency - before_back->latency,
                   back->transfer - before_back->transfer);
}

/* Between replicas; neighbours in a pipeline are measured in every iteration. */
double sl_remedy_pair_time(const sl_trainer *t, int from, int to, double bytes) {
    double least = INFINITY, time = -1;
    for (int i = 0; i < t->network.links; i++) {
        const sl_network_link *link = &t->network.link[i];
        double takes = (double)link->latency + link->per_byte * bytes;
        if (!link->replicas)
            continue;
        least = fmin(least, takes);
        time = link->from == from && link->to == to ? takes : time;
    }
    return time < 0 ? -1 : time - least;
}

/* All replicas exchange their shares at once, there and back: a sum waits twice for the slowest pair's
 * latency and share (run/binding/reduce.h). What the network showed of the pair; without that all of it is
 * bandwidth.
 */
static void view_pair(const sl_trainer *t, const sl_piece *piece, int from, int to) {
    const sl_cluster_view *v = &t->remedy->view;
    double share =
        sizeof(float) * (double)sl_binding_elements(t->run, piece->found.stage) / t->run->parallel.data;
    double grown = (double)(piece->found.now - piece->found.healthy);
    double latency = sl_remedy_pair_time(t, from, to, 0), more = sl_remedy_pair_time(t, from, to, 1e6);
    if (latency < 0) {
        latency = 0;
        more = share > 0 ? grown / 2 / share * 1e6 : 0;
    }
    v->latency[from * v->homes + to] = latency;
    v->pace[from * v->homes + to] = fmax(0, (more - latency) / 1e6);
}

/* A sum that is slow may have several slow pairs; the network has shown them all. */
static void view_replica_link(const sl_trainer *t, const sl_piece *piece) {
    int rank = sl_problem_rank(&t->problem, piece->found.stage);
    for (int way = 0; way < 2; way++)
        view_pair(t, piece, piece->home[way], piece->home[1 - way]);
    for (int i = 0; i < t->network.links; i++) {
        const sl_network_link *link = &t->network.link[i];
        int from = sl_remedy_sits(t, link->from), to = sl_remedy_sits(t, link->to);
        if (link->replicas && sl_run_seat(t->run, from).pipeline == rank &&
            sl_run_seat(t->run, to).pipeline == rank)
            view_pair(t, piece, link->from, link->to);
    }
}

int sl_remedy_sits(const sl_trainer *t, int home) {
    int w = 0;
    while (t->home[w] != home)
        w++;
    return w;
}

/* Whether two processes send each other messages where they sit now. */
static int talk(const sl_trainer *t, int home, int other) {
    sl_seat a = sl_run_seat(t->run, sl_remedy_sits(t, home)),
            b = sl_run_seat(t->run, sl_remedy_sits(t, other));
    if (a.tensor != b.tensor)
        return 0;
    return a.replica == b.replica
               ? a.pipeline != b.pipeline && (sl_run_has_link(t->run, a.pipeline, b.pipeline) ||
                                              sl_run_has_link(t->run, b.pipeline, a.pipeline))
               : a.pipeline == b.pipeline;
}

sl_status sl_remedy_view(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    sl_cluster_view *v = &r->view;
    for (int h = 0; h < v->homes; h++)
        v->slow[h] = 1;
    for (int a = 0; a < v->homes; a++)
        for (int b = 0; b < v->homes; b++)
            if (talk(t, a, b) || ++r->unseen[a * v->homes + b] > SL_REMEDY_REMEMBERS) {
                v->latency[a * v->homes + b] = v->pace[a * v->homes + b] = 0;
                r->unseen[a * v->homes + b] = 0;
            }
    for (int i = 0; i < r->nows; i++) {
        const sl_piece *piece = &r->now[i];
        if (piece->cause == SL_CAUSE_DEVICE)
            view_device(t, piece);
        else if (piece->cause == SL_CAUSE_REPLICA_LINK)
            view_replica_link(t, piece);
        else {
            const sl_adaptation *a = t->replica[piece->replica].adaptation;
            sl_problem usual;
            SL_TRY(sl_adaptation_typical(a, &usual));
            view_link(t, piece, &usual, sl_adaptation_healthy(a));
            sl_problem_free(&usual);
        }
    }
    return SL_OK;
}

/* ---- an arrangement ---- */

static int home_in(const sl_trainer *t, const int *home, int rank, int replica, int tensor) {
    return home[sl_run_world_rank(t->run, (sl_seat){rank, replica, tensor})];
}

double sl_remedy_slowness(const sl_trainer *t, const int *home, int rank, int replica) {
    double slow = 1;
    for (int tensor = 0; tensor < t->run->parallel.tensor; tensor++)
        slow = fmax(slow, t->remedy->view.slow[home_in(t, home, rank, replica, tensor)]);
    return slow;
}

static void slow_ops(const sl_trainer *t, const int *home, int replica, sl_problem *p) {
    for (int stage = 0; stage < p->stages; stage++) {
        double slow = sl_remedy_slowness(t, home, sl_problem_rank(p, stage), replica);
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = (sl_time)((double)p->time[kind][stage] * slow);
    }
}

/* The tensor ranks' messages go side by side: the slowest connection holds all of them up. */
static void slow_link(const sl_trainer *t, const int *home, int replica, int from, int to, sl_link *link) {
    const sl_cluster_view *v = &t->remedy->view;
    double latency = 0, pace = 0;
    for (int k = 0; k < t->run->parallel.tensor; k++) {
        int pair = home_in(t, home, from, replica, k) * v->homes + home_in(t, home, to, replica, k);
        latency = fmax(latency, v->latency[pair]);
        pace = fmax(pace, v->pace[pair]);
    }
    link->latency += (sl_time)latency;
    link->transfer += (sl_time)(pace * t->message_bytes);
}

static void slow_links(const sl_trainer *t, const int *home, int replica, sl_problem *p) {
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++)
            if (from != to)
                slow_link(t, home, replica, from, to, &p->link[from * p->ranks + to]);
}

/* The slowest pair of the stage's replicas holds the sum up. */
static double sum_growth(const sl_trainer *t, const int *home, int stage, int rank) {
    const sl_cluster_view *v = &t->remedy->view;
    int d = t->run->parallel.data;
    double bytes = sizeof(float) * (double)sl_binding_elements(t->run, stage), most = 0;
    for (int k = 0; k < t->run->parallel.tensor; k++)
        for (int a = 0; a < d; a++)
            for (int b = 0; b < d; b++) {
                int pair = home_in(t, home, rank, a, k) * v->homes + home_in(t, home, rank, b, k);
                if (a != b)
                    most = fmax(most, 2 * (v->latency[pair] + v->pace[pair] * bytes / d));
            }
    return most;
}

static void slow_sums(const sl_trainer *t, const int *home, sl_problem *p) {
    for (int stage = 0; stage < p->stages && t->run->parallel.data > 1; stage++)
        p->reduce[stage] += (sl_time)sum_growth(t, home, stage, sl_problem_rank(p, stage));
}

static sl_status make_replica(const sl_trainer *t, const int *home, int replica, sl_problem *p) {
    SL_TRY(sl_problem_copy(sl_adaptation_healthy(t->replica[replica].adaptation), p));
    if (t->delegates)
        p->communication = SL_DECOUPLED;
    slow_ops(t, home, replica, p);
    slow_links(t, home, replica, p);
    slow_sums(t, home, p);
    return SL_OK;
}

sl_status sl_remedy_problems(const sl_trainer *t, const int *home, const int *split, sl_problem *problem) {
    for (int r = 0; r < t->run->parallel.data; r++) {
        SL_TRY(make_replica(t, home, r, &problem[r]));
        problem[r].microbatches = split[r];
    }
    return SL_OK;
}

static const char *schedule_of(const sl_trainer *t) {
    const char *name = t->run->schedule;
    return strcmp(t->replica[0].plan.schedule, "file") == 0 ? "auto" : name;
}

static sl_status ask(const sl_trainer *t, sl_pipelines *pipelines, int *split, int find, double *time) {
    int replicas = t->run->parallel.data;
    sl_time *each;
    SL_TRY(sl_alloc(&each, (size_t)replicas, sizeof *each));
    sl_status status = SL_OK;
    if (find)
        status = sl_pipelines_balance(pipelines, t->run->batch.microbatches, NULL, split, each);
    for (int r = 0; r < replicas && status == SL_OK && !find; r++)
        status = sl_pipelines_planned(pipelines, r, split[r], &each[r]);
    *time = 0;
    for (int r = 0; r < replicas && status == SL_OK; r++)
        *time = fmax(*time, (double)each[r]);
    sl_free(each);
    return status;
}

sl_status sl_remedy_model(sl_trainer *t, const int *home, int *split, int find, double *time) {
    sl_pipelines *pipelines = NULL;
    sl_problem *problem;
    int replicas = t->run->parallel.data, most = t->run->batch.microbatches - replicas + 1;
    SL_TRY(sl_alloc(&problem, (size_t)replicas, sizeof *problem));
    sl_status status = sl_pipelines_open(schedule_of(t), most, &pipelines);
    for (int r = 0; r < replicas && status == SL_OK; r++) {
        status = make_replica(t, home, r, &problem[r]);
        if (status == SL_OK)
            status = sl_pipelines_add(pipelines, &problem[r], 0);
    }
    if (status == SL_OK)
        status = ask(t, pipelines, split, find, time);
    sl_pipelines_close(pipelines);
    for (int r = 0; r < replicas; r++)
        sl_problem_free(&problem[r]);
    sl_free(problem);
    return status;
}
