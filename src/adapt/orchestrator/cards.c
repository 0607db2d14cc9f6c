/* All links of a process that are as late as each other are its card, one incident, if what it sums with
 * other replicas is late, too, and no link of them could be another card's as well. */
#include "adapt/orchestrator/orchestrator_inside.h"

#include <math.h>

#define ALIKE 0.25 /* delays of one card */

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
    SL_TRY(sl_cases_number(o, (sl_component_key){SL_PART_CARD, process, -1}, kept.view.id, &id));
    SL_TRY(sl_cases_see(o, (sl_component_key){SL_PART_CARD, process, -1}, &card));
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
    const sl_case *c = sl_cases_find(o, (sl_component_key){SL_PART_CARD, process, -1});
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
sl_status sl_cards_find(sl_orchestrator *o) {
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
