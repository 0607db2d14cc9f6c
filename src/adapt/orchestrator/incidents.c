/* Slow components of all replicas as incidents of processes, and what each loses.
 *
 * A component is named by its processes, so it stays the same when they change places. All links of a process
 * that are as late as each other are its card, one incident. What an iteration loses is divided among the
 * incidents by what each would cost alone, and no more than what is slow explains, for an iteration may be
 * long for reasons that nothing can be done about. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIKE 0.25       /* delays of one card */
#define MOST_BLAMED 2.0  /* times what a component costs alone */
#define NEWS 0.2         /* a loss that is off by more is told to the ladder */
enum { ONSET = 4 };      /* rows that something slow may have taken to be seen */
#define WORTH_A_LOOK 0.1 /* share of a healthy iteration by which a sum must have grown */

static sl_known_component *find_key(const sl_orchestrator *o, sl_component_key key) {
    for (size_t i = 0; i < o->keys; i++)
        if (memcmp(&o->key[i].key, &key, sizeof key) == 0)
            return &o->key[i];
    return NULL;
}

/* A component that is not known yet gets this number; negative: one of its own. */
static sl_status number(sl_orchestrator *o, sl_component_key key, int as, int *id) {
    sl_known_component *known = find_key(o, key);
    if (!known) {
        SL_TRY(sl_grow(&o->key, &o->key_room, o->keys + 1, sizeof *o->key));
        known = &o->key[o->keys++];
        *known = (sl_known_component){key, as >= 0 ? as : o->next_number++};
    }
    *id = known->id;
    return SL_OK;
}

sl_status sl_incidents_number(sl_orchestrator *o, sl_component_key key, int *id) {
    return number(o, key, -1, id);
}

int sl_incidents_process(const sl_orchestrator *o, int rank, int replica) {
    const int *place = &o->layout.process[sl_job_position(&o->config.job, rank, replica, 0)];
    int least = place[0];
    for (int t = 1; t < o->config.job.tensor; t++)
        least = place[t] < least ? place[t] : least;
    return least;
}

static sl_case *case_of(sl_orchestrator *o, int id) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].view.id == id)
            return &o->cases[i];
    return NULL;
}

/* The case of a component, seen in this iteration; NULL: there are too many. */
static sl_status see(sl_orchestrator *o, sl_component_key key, sl_case **found) {
    int id;
    SL_TRY(sl_incidents_number(o, key, &id));
    sl_case *c = case_of(o, id);
    if (!c && o->case_count == SL_CASES_MOST) {
        *found = NULL;
        return SL_OK;
    }
    if (!c) {
        c = &o->cases[o->case_count++];
        *c = (sl_case){.told = -1, .claimed = -1, .view = {.id = id, .since = o->iteration, .stage = -1}};
    }
    int first = !c->seen;
    c->seen = 1;
    c->merged = 0;
    if (first)
        c->back = 0;
    *found = c;
    return SL_OK;
}

/* ---- components of this iteration ---- */

/* Tensor ranks of a place are measured as one: who is known to be slow there is named; of several the first
 * goes on. */
static int slow_process(sl_orchestrator *o, int rank, int replica) {
    const sl_job *job = &o->config.job;
    int found = -1;
    for (int t = 0; t < job->tensor; t++) {
        int process = o->layout.process[sl_job_position(job, rank, replica, t)];
        const sl_known_component *known = find_key(o, (sl_component_key){SL_PART_DEVICE, process, -1});
        sl_case *c = known ? case_of(o, known->id) : NULL;
        if (c && found >= 0)
            c->merged = 1;
        else if (c)
            found = process;
    }
    return found >= 0 ? found : sl_incidents_process(o, rank, replica);
}

static sl_status see_device(sl_orchestrator *o, const sl_slow *s) {
    sl_case *c;
    int a = slow_process(o, s->rank, s->replica);
    SL_TRY(see(o, (sl_component_key){SL_PART_DEVICE, a, -1}, &c));
    if (!c || c->reported)
        return SL_OK;
    c->cause = SL_CAUSE_DEVICE;
    c->replica = s->replica;
    c->rank = s->rank;
    c->from = c->to = -1;
    c->now = s->now;
    c->healthy = s->healthy;
    c->view.part = (sl_slow_part){.kind = SL_PART_DEVICE, .a = a, .b = -1, .slowdown = s->now / s->healthy};
    c->view.growth = s->now / s->healthy;
    return SL_OK;
}

/* What a direction of a link takes more: its latency and its transfer as the window's medians tell them
 * apart. */
static sl_status see_direction(sl_orchestrator *o, int replica, int from, int to, double grown,
                               double *latency, double *pace) {
    const sl_problem *healthy = sl_healthy_of(o, replica);
    sl_problem usual;
    int window = o->series.rows - o->series.since < 3 ? o->series.rows - o->series.since : 3;
    SL_TRY(sl_history_typical(&o->series, replica, window, &usual));
    const sl_link *now = &usual.link[from * usual.ranks + to], *was = &healthy->link[from * usual.ranks + to];
    double later = fmax(0, (double)(now->latency - was->latency)),
           busy = fmax(0, (double)(now->transfer - was->transfer));
    sl_problem_free(&usual);
    double sum = later + busy;
    *latency = sum > 0 ? grown * later / sum : grown;
    *pace = sum > 0 && o->config.job.message > 0 ? grown * busy / sum / o->config.job.message : 0;
    if (o->config.job.message <= 0)
        *latency = grown;
    return SL_OK;
}

/* Both directions are one case: the worse one names it. */
static sl_status see_link(sl_orchestrator *o, const sl_slow *s) {
    sl_case *c;
    int a = sl_incidents_process(o, s->from, s->replica), b = sl_incidents_process(o, s->to, s->replica);
    int turned = a > b, low = turned ? b : a, high = turned ? a : b;
    double grown = s->now - s->healthy;
    SL_TRY(see(o, (sl_component_key){SL_PART_LINK, low, high}, &c));
    if (!c || c->reported)
        return SL_OK;
    if (c->back == 0) {
        c->view.part = (sl_slow_part){.kind = SL_PART_LINK, .a = low, .b = high};
        c->now = 0;
    }
    c->cause = SL_CAUSE_LINK;
    c->replica = s->replica;
    c->back = 1;
    if (s->now > c->now) {
        c->rank = -1;
        c->from = s->from;
        c->to = s->to;
        c->now = s->now;
        c->healthy = s->healthy;
        c->view.growth = grown;
    }
    return see_direction(o, s->replica, s->from, s->to, grown, &c->view.part.latency[turned],
                         &c->view.part.pace[turned]);
}

/* What a message of so many bytes takes longer between two processes than on the best connection that was
 * measured; -1: it was not. */
static double pair_time(const sl_orchestrator *o, int from, int to, double bytes) {
    double least = INFINITY, time = -1;
    for (int i = 0; i < o->networks; i++) {
        const sl_network_measure *m = &o->network[i];
        double takes = m->latency + m->pace * bytes;
        if (sl_job_replica(&o->config.job, sl_job_layout_position(&o->config.job, &o->layout, m->from)) ==
            sl_job_replica(&o->config.job, sl_job_layout_position(&o->config.job, &o->layout, m->to)))
            continue;
        least = fmin(least, takes);
        time = m->from == from && m->to == to ? takes : time;
    }
    return time < 0 ? -1 : time - least;
}

/* The pair of a stage's replicas whose connection was found slowest; of two replicas there is one. */
static int slowest_pair(const sl_orchestrator *o, int rank, int *a, int *b) {
    int replicas = o->config.job.replicas;
    double worst = -1;
    *a = sl_incidents_process(o, rank, 0);
    *b = sl_incidents_process(o, rank, 1);
    if (replicas == 2)
        return 1;
    for (int i = 0; i < o->networks; i++) {
        const sl_network_measure *m = &o->network[i];
        int from = sl_job_layout_position(&o->config.job, &o->layout, m->from),
            to = sl_job_layout_position(&o->config.job, &o->layout, m->to);
        if (sl_job_rank(&o->config.job, from) != rank || sl_job_rank(&o->config.job, to) != rank)
            continue;
        double time = pair_time(o, m->from, m->to, 1e6);
        if (time > worst) {
            worst = time;
            *a = m->from;
            *b = m->to;
        }
    }
    return worst > 0;
}

/* Replicas exchange their shares at once, there and back: a sum waits twice for the slowest pair's latency
 * and share; a ring as often as it has steps. Of which the growth consists the network tells; without it all
 * of it is bandwidth. */
static void split_growth(const sl_orchestrator *o, int stage, int a, int b, double grown,
                         sl_slow_part *part) {
    const sl_job *job = &o->config.job;
    double steps = job->ring ? 2.0 * (job->replicas - 1) : 2;
    double share = job->sum ? job->sum[stage] / job->replicas : 0;
    for (int way = 0; way < 2; way++) {
        int from = way ? b : a, to = way ? a : b;
        double latency = pair_time(o, from, to, 0), more = pair_time(o, from, to, 1e6);
        if (latency < 0) {
            latency = share > 0 ? 0 : grown / steps;
            more = latency + (share > 0 ? grown / steps / share * 1e6 : 0);
        }
        part->latency[way] = latency;
        part->pace[way] = fmax(0, (more - latency) / 1e6);
    }
}

static sl_status see_sum(sl_orchestrator *o, const sl_slow *s) {
    sl_case *c;
    int id, a = -1, b = -1, rank = sl_problem_rank(sl_healthy_of(o, 0), s->stage);
    int known = slowest_pair(o, rank, &a, &b);
    int low = a < b ? a : b, high = a < b ? b : a;
    /* several stages of a rank go over the same connection; which pair's it is may be known only later */
    const sl_known_component *unnamed = find_key(o, (sl_component_key){SL_KEY_SUM, -1 - rank, -1});
    if (known && unnamed && case_of(o, unnamed->id))
        SL_TRY(number(o, (sl_component_key){SL_KEY_SUM, low, high}, unnamed->id, &id));
    SL_TRY(see(
        o, known ? (sl_component_key){SL_KEY_SUM, low, high} : (sl_component_key){SL_KEY_SUM, -1 - rank, -1},
        &c));
    if (!c || c->reported || (c->back && s->now - s->healthy <= c->now - c->healthy))
        return SL_OK;
    c->back = 1;
    c->cause = SL_CAUSE_REPLICA_LINK;
    c->replica = -1;
    c->rank = rank;
    c->from = c->to = -1;
    c->now = s->now;
    c->healthy = s->healthy;
    c->view.stage = s->stage;
    c->view.growth = s->now - s->healthy;
    c->view.part = (sl_slow_part){.kind = SL_PART_LINK, .a = known ? low : -1, .b = known ? high : -1};
    if (known)
        split_growth(o, s->stage, low, high, s->now - s->healthy, &c->view.part);
    return SL_OK;
}

/* ---- cards ---- */

static int touches(const sl_case *c, int process) {
    return c->seen && !c->reported && c->view.part.kind == SL_PART_LINK &&
           (c->view.part.a == process || c->view.part.b == process);
}

static double delay_of(const sl_slow_part *part, double bytes) {
    return fmax(part->latency[0] + part->pace[0] * bytes, part->latency[1] + part->pace[1] * bytes);
}

/* How many pairs of a place carry messages. */
static int pairs_of(const sl_problem *p, int rank) {
    int pairs = 0;
    for (int other = 0; other < p->ranks; other++) {
        int talks = 0;
        for (int stage = 0; stage < p->stages && other != rank; stage++) {
            int next = sl_problem_next(p, stage), x = sl_problem_rank(p, stage),
                y = next < 0 ? x : sl_problem_rank(p, next);
            talks |= (x == rank && y == other) || (x == other && y == rank);
        }
        pairs += talks;
    }
    return pairs;
}

/* All links of the process within its pipeline are slow and as late as each other, two at least. */
static int is_card(const sl_orchestrator *o, int process, double *least, double *most) {
    const sl_job *job = &o->config.job;
    int position = sl_job_layout_position(job, &o->layout, process), links = 0;
    *least = INFINITY;
    *most = 0;
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (!touches(c, process) || c->cause != SL_CAUSE_LINK)
            continue;
        double delay = delay_of(&c->view.part, job->message);
        links++;
        *least = fmin(*least, delay);
        *most = fmax(*most, delay);
    }
    const sl_problem *p = sl_healthy_of(o, sl_job_replica(job, position));
    return links > 1 && links == pairs_of(p, sl_job_rank(job, position)) && *least > (1 - ALIKE) * *most;
}

/* A card carries what its process sums with those of other replicas, too. */
static int sums_agree(const sl_orchestrator *o, int process) {
    int position = sl_job_layout_position(&o->config.job, &o->layout, process);
    int rank = sl_job_rank(&o->config.job, position), replica = sl_job_replica(&o->config.job, position),
        known = 0;
    const sl_problem *p = sl_healthy_of(o, replica);
    for (size_t i = 0; i < o->lately.count; i++)
        if (o->lately.slow[i].kind == SL_SLOW_SUM && sl_problem_rank(p, o->lately.slow[i].stage) == rank)
            return 1;
    for (int stage = 0; stage < p->stages && o->config.job.replicas > 1; stage++)
        for (int i = sl_history_oldest(&o->series); i < o->series.rows && sl_problem_rank(p, stage) == rank;
             i++) {
            const sl_measured *m = o->series.row[i % SL_ROWS].replica[replica];
            known |= m && m->summed[stage];
        }
    return !known;
}

static sl_status merge_card(sl_orchestrator *o, int process, double most) {
    const sl_job *job = &o->config.job;
    sl_slow_part part = {.kind = SL_PART_CARD, .a = process, .b = -1};
    sl_case *card, kept = {0};
    double excess_now = 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!touches(c, process) || c->cause != SL_CAUSE_LINK)
            continue;
        for (int way = 0; way < 2; way++) { /* the card sends [0] where it is the link's first end */
            int at = c->view.part.a == process ? way : 1 - way;
            part.latency[at] = fmax(part.latency[at], c->view.part.latency[way]);
            part.pace[at] = fmax(part.pace[at], c->view.part.pace[way]);
        }
        if (c->now > excess_now) {
            excess_now = c->now;
            kept = *c;
        }
        c->seen = 0;
        c->merged = 1; /* it is the card's */
    }
    int id; /* the costliest of its links goes on as the card */
    SL_TRY(number(o, (sl_component_key){SL_PART_CARD, process, -1}, kept.view.id, &id));
    SL_TRY(see(o, (sl_component_key){SL_PART_CARD, process, -1}, &card));
    if (!card)
        return SL_OK;
    card->merged = 0;
    card->cause = SL_CAUSE_HOST;
    card->replica = kept.replica;
    card->rank = sl_job_rank(job, sl_job_layout_position(job, &o->layout, process));
    card->from = card->to = -1;
    card->now = kept.now;
    card->healthy = kept.healthy;
    card->view.part = part;
    card->view.growth = most;
    return SL_OK;
}

static int is_card_already(sl_orchestrator *o, int process) {
    const sl_known_component *known = find_key(o, (sl_component_key){SL_PART_CARD, process, -1});
    const sl_case *c = known ? case_of(o, known->id) : NULL;
    return c && c->view.part.kind == SL_PART_CARD && c->told >= 0;
}

/* A link that the cards of both its ends would explain tells of neither. */
static int shares_a_link(const sl_orchestrator *o, int process) {
    double least, most;
    for (int i = 0; i < o->case_count; i++) {
        const sl_slow_part *part = &o->cases[i].view.part;
        if (touches(&o->cases[i], process) && o->cases[i].cause == SL_CAUSE_LINK &&
            is_card(o, part->a == process ? part->b : part->a, &least, &most))
            return 1;
    }
    return 0;
}

/* Those that are cards already come first. */
static sl_status find_cards(sl_orchestrator *o) {
    double least, most;
    for (int already = 1; already >= 0; already--)
        for (int i = 0, count = o->case_count; i < count; i++)
            for (int end = 0; end < 2; end++) {
                const sl_slow_part *part = &o->cases[i].view.part;
                int process = end ? part->b : part->a;
                if (!o->cases[i].seen || o->cases[i].cause != SL_CAUSE_LINK || process < 0 ||
                    !touches(&o->cases[i], process) || !is_card(o, process, &least, &most))
                    continue;
                if (already ? is_card_already(o, process)
                            : sums_agree(o, process) && !shares_a_link(o, process))
                    SL_TRY(merge_card(o, process, most));
            }
    return SL_OK;
}

/* ---- words ---- */

static void name_process(const sl_orchestrator *o, int process, char *text, size_t size) {
    if (o->config.job.replicas > 1)
        snprintf(text, size, "rank %d of replica %d", sl_job_rank(&o->config.job, process),
                 sl_job_replica(&o->config.job, process));
    else
        snprintf(text, size, "rank %d", sl_job_rank(&o->config.job, process));
}

void sl_incident_name(const sl_orchestrator *o, const sl_case *c, char *text, size_t size) {
    const sl_slow_part *part = &c->view.part;
    char a[36], b[36];
    if (part->a < 0) {
        snprintf(text, size, "sum of stage %d", c->view.stage);
        return;
    }
    name_process(o, part->a, a, sizeof a);
    if (part->kind == SL_PART_DEVICE)
        snprintf(text, size, "device of %s", a);
    else if (part->kind == SL_PART_CARD)
        snprintf(text, size, "card of %s", a);
    else {
        int there = part->latency[0] > 0 || part->pace[0] > 0,
            back = part->latency[1] > 0 || part->pace[1] > 0;
        name_process(o, part->b, b, sizeof b);
        snprintf(text, size, "link %s to %s", back && !there ? b : a, back && !there ? a : b);
    }
}

static void describe(const sl_orchestrator *o, sl_case *c) {
    char name[80];
    if (c->reported)
        return;
    sl_incident_name(o, c, name, sizeof name);
    if (c->view.part.kind == SL_PART_DEVICE)
        sl_text_format(c->view.seen, sizeof c->view.seen, "%s: ops take %.2f times as long", name,
                       c->view.growth);
    else if (c->cause == SL_CAUSE_REPLICA_LINK)
        sl_text_format(c->view.seen, sizeof c->view.seen, "%s: sum of stage %d %.4g ms, healthy %.4g", name,
                       c->view.stage, c->now / SL_MS, c->healthy / SL_MS);
    else
        sl_text_format(c->view.seen, sizeof c->view.seen, "%s: %.4g ms one way, healthy %.4g", name,
                       c->now / SL_MS, c->healthy / SL_MS);
}

/* ---- what the model sees ---- */

static sl_status remember(sl_orchestrator *o, const sl_slow_part *part) {
    for (size_t i = 0; i < o->memories; i++)
        if (o->memory[i].part.kind == part->kind && o->memory[i].part.a == part->a &&
            o->memory[i].part.b == part->b) {
            o->memory[i].part = *part;
            o->memory[i].left = SL_REMEMBERED;
            return SL_OK;
        }
    if (o->memories == SL_CASES_MOST)
        return SL_OK;
    SL_TRY(sl_grow(&o->memory, &o->memory_room, o->memories + 1, sizeof *o->memory));
    o->memory[o->memories].part = *part;
    o->memory[o->memories++].left = SL_REMEMBERED;
    return SL_OK;
}

/* A connection that nobody uses any more is over, but it is remembered for a while, so that the next layout
 * does not use it again. */
static sl_status remember_unused(sl_orchestrator *o) {
    const sl_problem *p = sl_healthy_of(o, 0);
    for (int i = 0; i < o->case_count; i++) {
        const sl_slow_part *part = &o->cases[i].view.part;
        if (o->cases[i].seen && part->kind == SL_PART_LINK && part->a >= 0)
            SL_TRY(remember(o, part));
    }
    size_t kept = 0;
    for (size_t i = 0; i < o->memories; i++) {
        const sl_slow_part *part = &o->memory[i].part;
        int used = sl_job_layout_talk(&o->config.job, &o->layout, p, part->a, part->b), seen = 0;
        for (int k = 0; k < o->case_count; k++)
            seen |= o->cases[k].seen && o->cases[k].view.part.kind == SL_PART_LINK &&
                    o->cases[k].view.part.a == part->a && o->cases[k].view.part.b == part->b;
        if (seen || (!used && --o->memory[i].left > 0))
            o->memory[kept++] = o->memory[i];
    }
    o->memories = kept;
    return SL_OK;
}

static sl_status show_model(sl_orchestrator *o) {
    int parts = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen && o->cases[i].view.part.a >= 0)
            o->part[parts++] = o->cases[i].view.part;
    for (size_t i = 0; i < o->memories; i++) {
        int seen = 0;
        for (int k = 0; k < parts; k++)
            seen |= o->part[k].kind == SL_PART_LINK && o->part[k].a == o->memory[i].part.a &&
                    o->part[k].b == o->memory[i].part.b;
        if (!seen)
            o->part[parts++] = o->memory[i].part;
    }
    return sl_model_see(o->model, o->part, parts);
}

/* ---- losses ---- */

/* The replica's healthy problem with that component alone as it is. */
static void spoil(const sl_orchestrator *o, const sl_case *c, sl_problem *p) {
    const sl_slow_part *part = &c->view.part;
    double bytes = o->config.job.message;
    if (c->cause == SL_CAUSE_REPLICA_LINK)
        p->reduce[c->view.stage] += (sl_time)c->view.growth;
    for (int stage = 0; part->kind == SL_PART_DEVICE && stage < p->stages; stage++)
        for (int kind = 0; kind < SL_OP_KINDS && sl_problem_rank(p, stage) == c->rank; kind++)
            p->time[kind][stage] = (sl_time)((double)p->time[kind][stage] * part->slowdown);
    for (int other = 0; other < p->ranks && c->cause != SL_CAUSE_REPLICA_LINK && part->kind != SL_PART_DEVICE;
         other++)
        for (int way = 0; way < 2; way++) {
            int rank = c->rank, at = part->kind == SL_PART_LINK ? -1 : way;
            if (part->kind == SL_PART_LINK) {
                int low = sl_incidents_process(o, c->from, c->replica) == part->a ? c->from : c->to;
                rank = low;
                at = other == c->from + c->to - low ? way : -1;
            }
            if (at < 0 || other == rank)
                continue;
            sl_link *link = &p->link[way ? other * p->ranks + rank : rank * p->ranks + other];
            link->latency += (sl_time)part->latency[at];
            link->transfer += (sl_time)(part->pace[at] * bytes);
        }
}

static sl_status excess_of(sl_orchestrator *o, sl_case *c) {
    int replica = c->replica < 0 ? 0 : c->replica;
    const sl_problem *healthy = sl_healthy_of(o, replica);
    sl_problem spoilt;
    sl_time without, with = 0;
    SL_TRY(sl_problem_copy(healthy, &spoilt));
    spoilt.microbatches = o->layout.split[replica];
    sl_status status = sl_plans_time(o, o->side[replica].running, &spoilt, &without);
    if (status == SL_OK) {
        spoil(o, c, &spoilt);
        status = sl_plans_time(o, o->side[replica].running, &spoilt, &with);
    }
    sl_problem_free(&spoilt);
    c->excess = with > without ? (double)(with - without) : 0;
    return status;
}

double sl_incidents_believed(sl_orchestrator *o) {
    return o->believed > 0 ? o->believed : sl_history_time(&o->series);
}

/* What nothing slow explains is not blamed on what is a little slow. */
static sl_status believe(sl_orchestrator *o) {
    sl_time running;
    SL_TRY(sl_plans_running(o, &running));
    double now = fmax(sl_history_time(&o->series), sl_history_recent_time(&o->series));
    o->believed = o->healthy_time * (double)running / o->healthy_model;
    if (now > 0)
        o->believed = fmin(now, o->believed);
    return SL_OK;
}

/* None is blamed for more than twice what it costs alone, for an iteration may also be long because of what
 * was done about trouble that is over. */
static sl_status divide_loss(sl_orchestrator *o) {
    SL_TRY(believe(o));
    double now = sl_incidents_believed(o), sum = 0,
           lost = now > o->healthy_time ? 1 - o->healthy_time / now : 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!c->seen)
            continue;
        SL_TRY(excess_of(o, c));
        sum += c->excess;
    }
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        double share = sum > 0 ? fmin(lost / sum, MOST_BLAMED / now) * c->excess : 0;
        c->view.loss = !c->seen ? 0 : c->claimed >= 0 ? c->claimed : share;
        c->costly =
            c->seen && c->view.loss >= SL_ITERATION_LEAST / (1 + SL_ITERATION_LEAST) ? c->costly + 1 : 0;
    }
    return SL_OK;
}

/* ---- seeing ---- */

/* What an iteration takes when nothing is slow: as soon as what is healthy is known, in the layout and with
 * the plans of the beginning. */
static sl_status learn_healthy(sl_orchestrator *o) {
    double now = sl_history_time(&o->series);
    sl_time running;
    if (o->healthy_time > 0 || !o->series.learnt || now <= 0)
        return SL_OK;
    SL_TRY(o->config.paced ? sl_plans_healthy(o, &running) : sl_plans_running(o, &running));
    if (running <= 0)
        return SL_OK;
    o->healthy_model = (double)running;
    o->healthy_time = o->config.paced ? fmin(now, (double)running) : now;
    return SL_OK;
}

/* What was slow from the beginning is not any more: an iteration takes less when nothing is slow. */
static sl_status lower_healthy(sl_orchestrator *o) {
    sl_time healthy;
    if (o->healthy_time <= 0 || !sl_history_lower(&o->series))
        return SL_OK;
    SL_TRY(sl_plans_healthy(o, &healthy));
    double share = (double)healthy / o->healthy_model;
    if (share > 0 && share < 1) {
        o->healthy_time *= share;
        o->healthy_model *= share;
        o->series.iteration.time *= share;
        o->series.iteration.usual *= share;
    }
    return sl_incidents_renew(o);
}

/* The model has what is healthy as it is known now. */
sl_status sl_incidents_renew(sl_orchestrator *o) {
    if (o->model && o->renewed == o->series.learns)
        return SL_OK;
    o->renewed = o->series.learns;
    for (int r = 0; r < o->config.job.replicas; r++)
        o->healthy[r] = sl_healthy_of(o, r);
    return o->model ? sl_model_renew(o->model, o->healthy) : SL_OK;
}

sl_status sl_incidents_open_model(sl_orchestrator *o) {
    if (o->model)
        return SL_OK;
    SL_TRY(sl_incidents_renew(o));
    return sl_model_open(&o->config.job, o->healthy, &o->model);
}

static int has_forward(const sl_measured *m, int rank) {
    for (int stage = 0; m && stage < m->problem.stages; stage++)
        if (m->op[stage].count > 0 && (rank < 0 || sl_problem_rank(&m->problem, stage) == rank))
            return 1;
    return 0;
}

/* By its F, and by another's, without which nobody can tell load from a slow device: another rank's, or where
 * there is one in each replica, another replica's. */
static int is_device_measured(const sl_orchestrator *o, const sl_case *c, const sl_row *row) {
    int others = 0, ranks = o->config.job.ranks, replicas = o->config.job.replicas;
    for (int rank = 0; rank < ranks; rank++)
        others |= rank != c->rank && has_forward(row->replica[c->replica], rank);
    for (int r = 0; r < replicas && ranks == 1; r++)
        others |= (r != c->replica || replicas == 1) && has_forward(row->replica[r], -1);
    return others && has_forward(row->replica[c->replica], c->rank);
}

static int shows(const sl_orchestrator *o, const sl_case *c, const sl_row *row, int replica) {
    const sl_measured *m = row->replica[replica];
    int ranks = o->config.job.ranks, any = 0;
    if (!m)
        return 0;
    if (c->cause == SL_CAUSE_REPLICA_LINK)
        return m->summed[c->view.stage];
    if (c->cause == SL_CAUSE_DEVICE)
        return is_device_measured(o, c, row);
    if (c->cause == SL_CAUSE_LINK)
        return m->link[c->from * ranks + c->to].count > 0;
    for (int other = 0; other < ranks; other++)
        any |= m->link[c->rank * ranks + other].count > 0;
    return any;
}

/* Whether enough was measured of a component lately to say that it is well: of a sum by one of the replicas.
 */
static int is_measured(const sl_orchestrator *o, const sl_case *c) {
    int rows[SL_ROWS], most = 0, least = o->config.hold < 3 ? o->config.hold : 3;
    int count = sl_history_collect(&o->series, o->series.since, o->series.rows, 2 * o->config.hold, 0, rows);
    int first = c->replica < 0 ? 0 : c->replica,
        last = c->replica < 0 ? o->config.job.replicas - 1 : c->replica;
    for (int r = first; r <= last; r++) {
        int found = 0;
        for (int i = 0; i < count; i++)
            found += shows(o, c, &o->series.row[rows[i] % SL_ROWS], r);
        most = found > most ? found : most;
    }
    return most >= least;
}

/* Where its processes do not talk any more, nothing can be measured of a link. */
static int is_unused(const sl_orchestrator *o, const sl_case *c) {
    const sl_slow_part *p = &c->view.part;
    return p->kind == SL_PART_LINK && p->a >= 0 &&
           !sl_job_layout_talk(&o->config.job, &o->layout, sl_healthy_of(o, 0), p->a, p->b);
}

/* What was the matter with it may be with the links that its processes have now: it lasts until those were
 * measured. */
static int are_links_measured(const sl_orchestrator *o, const sl_case *c) {
    const int ends[2] = {c->view.part.a, c->view.part.b};
    int least = o->config.hold < 3 ? o->config.hold : 3;
    for (int end = 0; end < 2; end++) {
        int position = sl_job_layout_position(&o->config.job, &o->layout, ends[end]), found = 0;
        int rank = sl_job_rank(&o->config.job, position), ranks = o->config.job.ranks;
        for (int i = o->series.since; i < o->series.rows; i++) {
            const sl_measured *m =
                o->series.row[i % SL_ROWS].replica[sl_job_replica(&o->config.job, position)];
            int any = i < sl_history_oldest(&o->series) || ranks == 1;
            for (int other = 0; m && other < ranks; other++)
                any |= m->link[rank * ranks + other].count > 0;
            found += any;
        }
        if (found < least)
            return 0;
    }
    return 1;
}

static sl_status compare_lately(sl_orchestrator *o) {
    int rows[SL_ROWS];
    int count = sl_history_collect(&o->series, o->series.since, o->series.rows, 2 * o->config.hold, 0, rows);
    for (int i = 0; i < o->case_count; i++)
        o->cases[i].seen = o->cases[i].reported;
    SL_TRY(sl_compare(&o->series, rows, count, o->config.hold, &o->lately));
    for (size_t i = 0; i < o->lately.count; i++) {
        const sl_slow *s = &o->lately.slow[i];
        if (s->kind == SL_SLOW_DEVICE)
            SL_TRY(see_device(o, s));
        else if (s->kind == SL_SLOW_LINK)
            SL_TRY(see_link(o, s));
        else if (s->kind == SL_SLOW_SUM)
            SL_TRY(see_sum(o, s));
    }
    SL_TRY(find_cards(o));
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!c->seen && c->told >= 0 && !c->merged &&
            !(is_unused(o, c) ? are_links_measured(o, c) : is_measured(o, c)))
            c->seen = 1; /* nothing says that it is well */
    }
    return SL_OK;
}

/* Cases that nobody knows of and that are seen no more. */
static void drop_unknown(sl_orchestrator *o) {
    int kept = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen || o->cases[i].told >= 0)
            o->cases[kept++] = o->cases[i];
    o->case_count = kept;
}

/* The rows before the first sight of something slow may be slow already: they are no measure of health. */
static sl_status leave_out_onset(sl_orchestrator *o) {
    int oldest = sl_history_oldest(&o->series), marked = 0;
    for (int i = o->series.rows - ONSET; i < o->series.rows; i++)
        if (i >= oldest && !sl_history_row(&o->series, i)->slow)
            marked = sl_history_row(&o->series, i)->slow = 1;
    if (!marked)
        return SL_OK;
    SL_TRY(sl_history_learn(&o->series));
    return sl_incidents_renew(o);
}

/* Both directions of a link, or all of a card's. */
static void suspect_links(sl_orchestrator *o, const sl_case *c) {
    for (int other = 0; other < o->config.job.ranks && c->replica >= 0; other++)
        for (int way = 0; way < 2; way++) {
            int card = c->cause == SL_CAUSE_HOST && !c->reported,
                link = c->cause == SL_CAUSE_LINK && other == c->to;
            int mine = card ? c->rank : c->from;
            if ((card || link) && mine >= 0 && other != mine && o->series.suspected_links < SL_CASES_MOST)
                o->series.suspected_link[o->series.suspected_links++] =
                    (struct sl_suspected_link){c->replica, way ? other : mine, way ? mine : other};
        }
}

sl_status sl_incidents_see(sl_orchestrator *o, int *ready) {
    int rows = o->series.rows - o->series.since, least = o->config.hold < 3 ? o->config.hold : 3;
    *ready = 0;
    SL_TRY(learn_healthy(o));
    SL_TRY(lower_healthy(o));
    if (o->healthy_time <= 0 || rows < least)
        return SL_OK;
    SL_TRY(compare_lately(o));
    drop_unknown(o);
    SL_TRY(sl_incidents_open_model(o));
    int begins = 0;
    o->series.suspected_links = 0;
    memset(o->series.suspected, 0,
           (size_t)o->config.job.replicas * (size_t)o->config.job.ranks * sizeof *o->series.suspected);
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        c->streak = c->seen ? c->streak + 1 : 0;
        c->level = c->streak <= o->config.hold || c->view.growth < c->level ? c->view.growth : c->level;
        begins |= c->streak == 1;
        if (c->view.part.kind == SL_PART_DEVICE && !c->reported && c->seen)
            o->series.suspected[c->replica * o->config.job.ranks + c->rank] = (float)c->level;
        if (c->seen)
            suspect_links(o, c);
        describe(o, c);
    }
    if (begins)
        SL_TRY(leave_out_onset(o));
    SL_TRY(remember_unused(o));
    SL_TRY(show_model(o));
    SL_TRY(divide_loss(o));
    *ready = 1;
    return SL_OK;
}

static int same_place(const sl_job *job, const sl_job_layout *layout, int a, int b) {
    return sl_job_layout_position(job, layout, a) / job->tensor ==
           sl_job_layout_position(job, layout, b) / job->tensor;
}

void sl_incidents_move(sl_orchestrator *o, const sl_job_layout *next) {
    const sl_job *job = &o->config.job;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        const sl_slow_part *part = &c->view.part;
        const int ends[2] = {part->a, part->b};
        if (part->a < 0)
            continue;
        for (int end = 0; end < 2; end++)
            for (int p = 0; p < o->processes && ends[end] >= 0 && !c->reported; p++)
                c->apart |= same_place(job, &o->layout, ends[end], p) && !same_place(job, next, ends[end], p);
        int a = sl_job_layout_position(job, next, part->a), b = a;
        if (part->b >= 0)
            b = sl_job_layout_position(job, next, part->b);
        if (c->replica < 0 || sl_job_replica(job, a) != sl_job_replica(job, b))
            continue; /* a sum, or two that do not talk any more */
        c->replica = sl_job_replica(job, a);
        if (part->kind == SL_PART_LINK) {
            c->from = sl_job_rank(job, a);
            c->to = sl_job_rank(job, b);
        } else {
            c->rank = sl_job_rank(job, a);
        }
    }
}

/* ---- telling ---- */

/* It costs time: as measured, against what iterations took at first; or, where what runs now is better than
 * what ran then, by the model. */
static sl_status tell_begin(sl_orchestrator *o, sl_case *c) {
    sl_incident incident = {.id = c->view.id, .cause = c->cause, .loss = c->view.loss};
    double alone = c->excess / sl_incidents_believed(o);
    if (!(c->reported || alone >= SL_LOSS_LEAST) ||
        !(c->view.loss >= SL_LOSS_LEAST || alone >= SL_ITERATION_LEAST))
        return SL_OK;
    sl_text_fit(incident.seen, sizeof incident.seen, c->view.seen);
    c->told = c->view.loss;
    c->view.since = o->iteration - c->streak + 1;
    sl_events_onset(o, c);
    return sl_ladder_begins(o->ladder, o->now, &incident);
}

/* A loss that varies a little is no news; what an application brought is told once, whatever it is. */
static sl_status tell_loss(sl_orchestrator *o, sl_case *c) {
    double off = fabs(c->view.loss - c->told);
    if (sl_history_time(&o->series) <= 0) /* not wholly measured after the change */
        return SL_OK;
    if (!o->fresh && (off < SL_LOSS_LEAST || off < NEWS * fmax(c->told, c->view.loss)))
        return SL_OK;
    c->told = c->view.loss;
    return sl_ladder_changes(o->ladder, o->now, c->view.id, c->view.loss);
}

/* What must have lasted is asked for when it has, and again from time to time while it is slow. */
/* A simulation gives the same again: the same questions would have the same answers, but for plans whose
 * `dwell` is over. */
static int asks_the_same(const sl_orchestrator *o) {
    const sl_history *s = &o->series;
    for (int r = 0; r < s->replicas; r++) {
        int apart = o->iteration - o->side[r].last_swap - o->config.dwell;
        if ((apart >= 0 && apart <= o->config.hold) || o->side[r].news)
            return 0;
        for (int i = s->rows - o->config.hold - 1; i < s->rows; i++)
            if (i < s->quiet || !s->row[i % SL_ROWS].replica[r] ||
                s->row[i % SL_ROWS].replica[r] != s->row[(s->rows - 1) % SL_ROWS].replica[r])
                return 0;
    }
    return 1;
}

static sl_status reconsider(sl_orchestrator *o, sl_case *c) {
    if (c->told < 0 || !c->seen || ++c->waits < o->config.hold || c->streak < o->config.hold)
        return SL_OK;
    c->waits = 0;
    if (c->streak > 2 * o->config.hold && asks_the_same(o))
        return SL_OK;
    SL_TRY(sl_ladder_reconsider(o->ladder, o->now, c->view.id));
    c->keeps |= c->streak < 2 * o->config.hold;
    return SL_OK;
}

sl_status sl_incidents_tell(sl_orchestrator *o) {
    int kept = 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (c->seen || c->told < 0) {
            o->cases[kept++] = *c;
            continue;
        }
        SL_TRY(sl_ladder_relieved(o->ladder, o->now, c->view.id));
        if (!c->merged && !c->apart && !is_unused(o, c)) /* else nothing says that it is well */
            sl_events_relief(o, c);
    }
    o->case_count = kept;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (c->seen)
            SL_TRY(c->told < 0 ? tell_begin(o, c) : tell_loss(o, c));
    }
    for (int i = 0; i < o->case_count; i++)
        SL_TRY(reconsider(o, &o->cases[i]));
    o->fresh &= sl_history_time(&o->series) <= 0;
    return SL_OK;
}

sl_status sl_incidents_keep(sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++) {
        sl_time running, best;
        if (o->cases[i].keeps && o->config.frozen) /* nobody else has asked */
            SL_TRY(sl_plans_ask(o, &running, &best));
        if (o->cases[i].keeps)
            sl_events_keep(o, &o->cases[i]);
        o->cases[i].keeps = 0;
    }
    return SL_OK;
}

/* ---- the network ---- */

int sl_incidents_wants_network(sl_orchestrator *o) {
    int wants = 0, stages = sl_healthy_of(o, 0)->stages;
    for (int stage = 0; stage < stages && o->config.job.replicas > 1 && o->config.looks; stage++) {
        double grown = 0;
        for (size_t i = 0; i < o->lately.count; i++)
            if (o->lately.slow[i].kind == SL_SLOW_SUM && o->lately.slow[i].stage == stage)
                grown = o->lately.slow[i].now - o->lately.slow[i].healthy;
        if (grown < WORTH_A_LOOK * o->healthy_time)
            grown = 0;
        if (grown > 2 * o->looked[stage] || grown <= 0) {
            wants |= grown > 0;
            o->looked[stage] = grown;
        }
    }
    return wants;
}

/* ---- from outside ---- */

sl_status sl_incidents_report(sl_orchestrator *o, const sl_orchestrator_report *r) {
    sl_case *c;
    const sl_job *job = &o->config.job;
    int most = sl_job_processes(job), two = r->part.kind == SL_PART_LINK;
    if (r->id < 0 || r->part.a < 0 || r->part.a >= most || (two && (r->part.b < 0 || r->part.b >= most)))
        return sl_error(SL_EINVAL, "a report on processes %d and %d of %d", r->part.a, r->part.b, most);
    int number;
    SL_TRY(sl_incidents_number(o, (sl_component_key){SL_KEY_REPORT, r->id, 0}, &number));
    if (r->over && !case_of(o, number))
        return sl_error(SL_EINVAL, "report %d is not open", r->id);
    SL_TRY(see(o, (sl_component_key){SL_KEY_REPORT, r->id, 0}, &c));
    if (!c)
        return SL_OK;
    int position = sl_job_layout_position(job, &o->layout, r->part.a);
    c->reported = !r->over;
    c->seen = !r->over;
    c->claimed = r->loss;
    c->replica = sl_job_replica(job, position);
    c->rank = sl_job_rank(job, position);
    c->from = c->to = -1;
    c->view.part = r->part;
    c->view.host = r->host;
    c->view.growth = r->part.slowdown;
    c->cause = r->host || r->part.kind == SL_PART_CARD ? SL_CAUSE_HOST
               : r->part.kind == SL_PART_DEVICE        ? SL_CAUSE_DEVICE
                                                       : SL_CAUSE_LINK;
    if (two) {
        int other = sl_job_layout_position(job, &o->layout, r->part.b);
        if (sl_job_replica(job, other) != c->replica)
            c->cause = SL_CAUSE_REPLICA_LINK;
        c->from = c->rank;
        c->to = sl_job_rank(job, other);
        c->rank = -1;
        c->view.stage = c->cause == SL_CAUSE_REPLICA_LINK ? c->from : -1;
    }
    sl_text_fit(c->view.seen, sizeof c->view.seen, r->seen);
    return SL_OK;
}

static int costliest_first(const void *left, const void *right) {
    const sl_incident_view *a = left, *b = right;
    return a->loss != b->loss ? (a->loss < b->loss ? 1 : -1) : (a->id > b->id) - (a->id < b->id);
}

void sl_incidents_view(sl_orchestrator *o) {
    o->views = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].told >= 0)
            o->view[o->views++] = o->cases[i].view;
    if (o->views > 1)
        qsort(o->view, (size_t)o->views, sizeof *o->view, costliest_first);
}
