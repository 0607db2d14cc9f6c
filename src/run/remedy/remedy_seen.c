/* From findings to incidents. */
#include "base/median.h"
#include "base/memory.h"
#include "run/remedy/remedy_inside.h"

#include <math.h>

#include <string.h>

static sl_time median_of_last(const sl_remedy *r, int count) {
    int hold = r->t->run->adaptation.hold;
    sl_time *sorted = r->took + hold;
    for (int i = 0; i < count; i++)
        sorted[i] = r->took[(r->next - 1 - i + 2 * hold) % hold];
    return sl_median(sorted, count);
}

/* As sl_decision_lately: what is much longer or shorter in two of the last three is believed. */
sl_time sl_remedy_iteration(const sl_remedy *r) {
    int hold = r->t->run->adaptation.hold;
    if (r->filled < (hold < 3 ? hold : 3))
        return 0;
    sl_time usual = median_of_last(r, r->filled), lately = r->filled > 3 ? median_of_last(r, 3) : usual;
    sl_time least = usual < lately ? usual : lately, most = usual < lately ? lately : usual;
    return most - least > least / 2 ? lately : usual;
}

static int home_at(const sl_trainer *t, int pipeline, int replica) {
    return t->home[sl_run_world_rank(t->run, (sl_seat){pipeline, replica, 0})];
}

static sl_piece *piece_of(sl_remedy *r, int id) {
    for (int i = 0; i < r->nows; i++)
        if (r->now[i].id == id)
            return &r->now[i];
    if (r->nows == SL_REMEDY_PIECES)
        return NULL;
    r->now[r->nows] = (sl_piece){.id = id, .home = {-1, -1}};
    return &r->now[r->nows++];
}

static int pair_id(const sl_trainer *t, int a, int b, int replicas) {
    int least = a < b ? a : b, most = a < b ? b : a;
    return t->world * (1 + replicas * t->world + least) + most;
}

static void name_home(const sl_trainer *t, int home, char *text, size_t size) {
    sl_seat seat = sl_run_seat(t->run, home);
    if (t->run->parallel.data > 1)
        snprintf(text, size, "rank %d of replica %d", seat.pipeline, seat.replica);
    else
        snprintf(text, size, "rank %d", seat.pipeline);
}

static void add_device(sl_trainer *t, int replica, const sl_finding *f) {
    int home = home_at(t, f->rank, replica);
    sl_piece *piece = piece_of(t->remedy, home);
    char who[36];
    if (!piece)
        return;
    piece->cause = SL_CAUSE_DEVICE;
    piece->home[0] = home;
    piece->replica = replica;
    piece->found = *f;
    name_home(t, home, who, sizeof who);
    snprintf(piece->seen, sizeof piece->seen, "device of %s: ops take %.2f times as long", who,
             (double)f->now / (double)f->healthy);
}

/* Both directions are one piece: the worse one, and what the other has grown by. */
static void add_link(sl_trainer *t, int replica, const sl_finding *f) {
    int a = home_at(t, f->from, replica), b = home_at(t, f->to, replica);
    sl_piece *piece = piece_of(t->remedy, pair_id(t, a, b, 0));
    char from[36], to[36];
    if (!piece)
        return;
    if (piece->home[0] >= 0 && piece->home[0] != a) {
        piece->back = f->now - f->healthy;
        return;
    }
    piece->cause = SL_CAUSE_LINK;
    piece->home[0] = a;
    piece->home[1] = b;
    piece->replica = replica;
    piece->found = *f;
    name_home(t, a, from, sizeof from);
    name_home(t, b, to, sizeof to);
    snprintf(piece->seen, sizeof piece->seen, "link %.30s to %.30s: %.4g ms one way, healthy %.4g", from, to,
             sl_to_ms(f->now), sl_to_ms(f->healthy));
}

/* The pair of a stage's replicas whose connection the last look at the network found slowest; with two there
 * is one. -1: the network was not looked at. */
static int slowest_pair(const sl_trainer *t, int stage, int *a, int *b) {
    int rank = sl_problem_rank(&t->problem, stage), replicas = t->run->parallel.data;
    double worst = -1;
    *a = home_at(t, rank, 0);
    *b = home_at(t, rank, 1);
    if (replicas == 2)
        return 1;
    for (int r = 0; r < replicas; r++)
        for (int s = 0; s < replicas; s++) {
            int from = home_at(t, rank, r), to = home_at(t, rank, s);
            double time = r == s ? -1 : sl_remedy_pair_time(t, from, to, 1e6);
            if (time > worst) {
                worst = time;
                *a = from;
                *b = to;
            }
        }
    return worst >= 0;
}

static void add_reduction(sl_trainer *t, const sl_finding *f) {
    int a, b;
    char from[36], to[36];
    if (!slowest_pair(t, f->stage, &a, &b))
        return;
    sl_piece *piece = piece_of(t->remedy, pair_id(t, a, b, 1));
    if (!piece || piece->home[0] >= 0)
        return;
    piece->cause = SL_CAUSE_REPLICA_LINK;
    piece->home[0] = a;
    piece->home[1] = b;
    piece->replica = -1;
    piece->found = *f;
    name_home(t, a, from, sizeof from);
    name_home(t, b, to, sizeof to);
    snprintf(piece->seen, sizeof piece->seen, "link %.30s to %.30s: sum of stage %d %.4g ms, healthy %.4g",
             from, to, f->stage, sl_to_ms(f->now), sl_to_ms(f->healthy));
}

static sl_status collect(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    r->nows = 0;
    for (int replica = 0; replica < t->run->parallel.data; replica++) {
        sl_finding found[SL_REMEDY_PIECES];
        int count;
        SL_TRY(sl_adaptation_findings(t->replica[replica].adaptation, found, SL_REMEDY_PIECES, &count));
        for (int i = 0; i < count; i++) {
            if (found[i].kind == SL_FINDING_DEVICE)
                add_device(t, replica, &found[i]);
            else if (found[i].kind == SL_FINDING_LINK)
                add_link(t, replica, &found[i]);
            else if (t->run->parallel.data > 1)
                add_reduction(t, &found[i]);
        }
    }
    return SL_OK;
}

/* ---- losses ---- */

/* The replica's healthy problem with that piece alone as it is now. */
static void spoil(const sl_piece *piece, const sl_problem *usual, sl_problem *p) {
    const sl_finding *f = &piece->found;
    if (piece->cause == SL_CAUSE_REPLICA_LINK)
        p->reduce[f->stage] = usual->reduce[f->stage];
    if (piece->cause == SL_CAUSE_LINK) {
        p->link[f->from * p->ranks + f->to] = usual->link[f->from * p->ranks + f->to];
        p->link[f->to * p->ranks + f->from] = usual->link[f->to * p->ranks + f->from];
    }
    for (int stage = 0; piece->cause == SL_CAUSE_DEVICE && stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(p, stage) == f->rank; kind++)
            p->time[kind][stage] = usual->time[kind][stage];
}

static sl_status excess_of(const sl_trainer *t, sl_piece *piece) {
    const sl_adaptation *a = t->replica[piece->replica < 0 ? 0 : piece->replica].adaptation;
    sl_problem spoilt, usual;
    sl_time without, with = 0;
    SL_TRY(sl_problem_copy(sl_adaptation_healthy(a), &spoilt));
    sl_status status = sl_adaptation_takes(a, &spoilt, &without);
    if (status == SL_OK)
        status = sl_adaptation_typical(a, &usual);
    if (status == SL_OK) {
        spoil(piece, &usual, &spoilt);
        sl_problem_free(&usual);
        status = sl_adaptation_takes(a, &spoilt, &with);
    }
    sl_problem_free(&spoilt);
    piece->excess = with > without ? (double)(with - without) : 0;
    return status;
}

sl_status sl_remedy_running(const sl_trainer *t, sl_time *time) {
    *time = 0;
    for (int r = 0; r < t->run->parallel.data; r++) {
        sl_problem usual;
        sl_time takes = 0;
        SL_TRY(sl_adaptation_typical(t->replica[r].adaptation, &usual));
        sl_status status = sl_adaptation_takes(t->replica[r].adaptation, &usual, &takes);
        sl_problem_free(&usual);
        SL_TRY(status);
        *time = takes > *time ? takes : *time;
    }
    return SL_OK;
}

double sl_remedy_believed(const sl_remedy *r) {
    return r->believed > 0 ? r->believed : (double)sl_remedy_iteration(r);
}

/* An iteration may be long for reasons that nothing can be done about, such as neighbours on the machine.
 * What nothing slow explains is not blamed on what is a little slow. */
static sl_status believe(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    sl_time running;
    SL_TRY(sl_remedy_running(t, &running));
    sl_time now = sl_remedy_iteration(r);
    r->believed = (double)r->healthy * (double)running / (double)r->healthy_model;
    if (now)
        r->believed = fmin((double)now, r->believed);
    return SL_OK;
}

/* What is lost is divided among the pieces by what each would cost alone; none is blamed for more than twice
 * that, for an iteration may also be long because of what was done about trouble that is over. */
static sl_status divide_loss(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    SL_TRY(believe(t));
    double now = sl_remedy_believed(r), sum = 0;
    double lost = now > (double)r->healthy ? 1 - (double)r->healthy / now : 0;
    for (int i = 0; i < r->nows; i++) {
        SL_TRY(excess_of(t, &r->now[i]));
        sum += r->now[i].excess;
    }
    for (int i = 0; i < r->nows; i++)
        r->now[i].loss = sum > 0 ? fmin(lost / sum, 2 / now) * r->now[i].excess : 0;
    return SL_OK;
}

/* What an iteration takes when nothing is slow: the first iterations, as the adaptations have learnt it. */
static sl_status learn_healthy(sl_remedy *r, int ready) {
    if (r->healthy || !ready || !sl_remedy_iteration(r))
        return SL_OK;
    SL_TRY(sl_remedy_running(r->t, &r->healthy_model));
    r->healthy = r->healthy_model > 0 ? sl_remedy_iteration(r) : 0;
    return SL_OK;
}

sl_status sl_remedy_see(sl_trainer *t, int *ready) {
    sl_remedy *r = t->remedy;
    int hold = t->run->adaptation.hold;
    r->took[r->next] = t->pending.time;
    r->next = (r->next + 1) % hold;
    r->filled += r->filled < hold;
    *ready = 1;
    for (int replica = 0; replica < t->run->parallel.data; replica++)
        *ready &= sl_adaptation_ready(t->replica[replica].adaptation);
    SL_TRY(learn_healthy(r, *ready));
    *ready &= r->healthy > 0;
    if (!*ready)
        return SL_OK;
    SL_TRY(collect(t));
    return divide_loss(t);
}
