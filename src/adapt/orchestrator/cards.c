/* If all links of a process are equally late, they become one incident, its card. Its sums with other
 * replicas must be late, too, and none of the links may be explained by another card as well. */
#include "adapt/orchestrator/orchestrator_inside.h"

#include <limits.h>
#include <math.h>

static int touches(const sl_case *c, int process) {
    return c->seen && !c->reported && c->view.part.kind == SL_PART_LINK &&
           (c->view.part.a == process || c->view.part.b == process);
}

static double delay_of(const sl_slow_part *part, double bytes) {
    return fmax(part->latency[0] + part->pace[0] * bytes, part->latency[1] + part->pace[1] * bytes);
}

/* The number of pairs of a rank that carry messages. */
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

static int is_card_already(const sl_orchestrator *o, int process) {
    const sl_case *c = sl_cases_find(o, (sl_component_key){SL_PART_CARD, process, -1});
    return c && c->card && c->announced >= 0;
}

/* The slow links of a process within its pipeline: their number, delays and streaks. */
typedef struct slow_links {
    int count, first, last;
    double least, most;
} slow_links;

static slow_links look_at_links(const sl_orchestrator *o, int process) {
    slow_links l = {.last = INT_MAX, .least = INFINITY};
    for (int i = 0; i < o->case_count; i++) {
        const sl_case *c = &o->cases[i];
        if (!touches(c, process) || c->cause != SL_CAUSE_LINK)
            continue;
        double delay = delay_of(&c->view.part, o->config.job.message);
        l.count++;
        l.first = c->streak > l.first ? c->streak : l.first;
        l.last = c->streak < l.last ? c->streak : l.last;
        l.least = fmin(l.least, delay);
        l.most = fmax(l.most, delay);
    }
    return l;
}

/* An equally late link was slow as well, and is unused since processes changed positions. */
static int has_left_another(const sl_orchestrator *o, int process, double delay) {
    for (size_t i = 0; i < o->losses.memories; i++) {
        const sl_slow_part *part = &o->losses.memory[i].part;
        double then = delay_of(part, o->config.job.message);
        if ((part->a == process || part->b == process) &&
            fmin(then, delay) > SL_AS_LATE * fmax(then, delay) &&
            !sl_job_layout_talk(&o->config.job, &o->layout, sl_healthy_of(o, 0), part->a, part->b))
            return 1;
    }
    return 0;
}

/* All of its links are slow, equally late and since about the same iteration; at least two, including one
 * that was left. */
static int is_card(const sl_orchestrator *o, int process, double *most) {
    const sl_job *job = &o->config.job;
    int position = sl_job_layout_position(job, &o->layout, process);
    slow_links l = look_at_links(o, process);
    const sl_problem *p = sl_healthy_of(o, sl_job_replica(job, position));
    *most = l.most;
    if (l.first > l.last + o->config.hold && !is_card_already(o, process))
        return 0;
    return l.count > 0 && l.count == pairs_of(p, sl_job_rank(job, position)) &&
           l.least > SL_AS_LATE * l.most && (l.count > 1 || has_left_another(o, process, l.most));
}

static int has_slow_sum(const sl_orchestrator *o, int process) {
    int position = sl_job_layout_position(&o->config.job, &o->layout, process);
    const sl_problem *p = sl_healthy_of(o, sl_job_replica(&o->config.job, position));
    for (size_t i = 0; i < o->lately.count; i++)
        if (o->lately.slow[i].kind == SL_SLOW_SUM &&
            sl_problem_rank(p, o->lately.slow[i].stage) == sl_job_rank(&o->config.job, position))
            return 1;
    return 0;
}

int sl_cards_known(const sl_orchestrator *o, int process, sl_slow_part *part) {
    if (process < 0 || (o->network.pairs && !sl_pairs_card(o, process)) || !has_slow_sum(o, process))
        return 0;
    const sl_case *c = sl_cases_find(o, (sl_component_key){SL_PART_CARD, process, -1});
    if (!o->network.pairs && is_card_already(o, process) && c->view.part.kind == SL_PART_CARD) {
        *part = c->view.part;
        return 1;
    }
    *part = (sl_slow_part){.kind = SL_PART_CARD, .a = process, .b = -1};
    return sl_pairs_card(o, process) && sl_pairs_split(o, part, 0) && sl_pairs_split(o, part, 1);
}

/* Its sums and the network show it, and its links are equally late. */
static int is_card_of_sums(const sl_orchestrator *o, int process, sl_slow_part *part, double *most) {
    if (!sl_cards_known(o, process, part))
        return 0;
    slow_links l = look_at_links(o, process);
    double delay = delay_of(part, o->config.job.message);
    *most = fmax(l.most, delay);
    return l.count > 0 && fmin(l.least, delay) > SL_AS_LATE * *most;
}

/* A card also carries its process's sums with other replicas. */
static int sums_agree(const sl_orchestrator *o, int process) {
    int position = sl_job_layout_position(&o->config.job, &o->layout, process);
    int rank = sl_job_rank(&o->config.job, position), replica = sl_job_replica(&o->config.job, position),
        known = 0;
    const sl_problem *p = sl_healthy_of(o, replica);
    for (int stage = 0; stage < p->stages && o->config.job.replicas > 1; stage++)
        for (int i = sl_history_oldest(&o->series); i < o->series.rows && sl_problem_rank(p, stage) == rank;
             i++) {
            const sl_measured *m = o->series.row[i % SL_ROWS].replica[replica];
            known |= m && m->summed[stage];
        }
    return has_slow_sum(o, process) || !known;
}

static sl_status merge_card(sl_orchestrator *o, sl_slow_part part, double most) {
    const sl_job *job = &o->config.job;
    sl_case *card, kept = {0};
    int id, process = part.a;
    double excess_now = 0;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!touches(c, process) || c->cause != SL_CAUSE_LINK)
            continue;
        for (int way = 0; way < 2; way++) { /* the card sends [0] if it is the link's first end */
            int at = c->view.part.a == process ? way : 1 - way;
            part.latency[at] = fmax(part.latency[at], c->view.part.latency[way]);
            part.pace[at] = fmax(part.pace[at], c->view.part.pace[way]);
        }
        if (c->now > excess_now) {
            excess_now = c->now;
            kept = *c;
        }
        c->seen = 0;
        c->merged = 1; /* now part of the card */
    }
    /* the card takes over the number of its costliest link */
    SL_TRY(sl_cases_number(o, (sl_component_key){SL_PART_CARD, process, -1}, kept.view.id, &id));
    SL_TRY(sl_cases_see(o, (sl_component_key){SL_PART_CARD, process, -1}, &card));
    if (!card)
        return SL_OK;
    card->merged = 0;
    card->card = 1;
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

/* A link that the cards of both its ends would explain is no evidence for either. */
static int shares_a_link(const sl_orchestrator *o, int process) {
    double most;
    for (int i = 0; i < o->case_count; i++) {
        const sl_slow_part *part = &o->cases[i].view.part;
        if (touches(&o->cases[i], process) && o->cases[i].cause == SL_CAUSE_LINK &&
            is_card(o, part->a == process ? part->b : part->a, &most))
            return 1;
    }
    return 0;
}

static sl_status look_at_process(sl_orchestrator *o, int process, int already) {
    double most;
    sl_slow_part part;
    if (is_card_of_sums(o, process, &part, &most))
        return merge_card(o, part, most);
    part = (sl_slow_part){.kind = SL_PART_CARD, .a = process, .b = -1};
    if (is_card(o, process, &most) &&
        (already ? is_card_already(o, process) : sums_agree(o, process) && !shares_a_link(o, process)))
        return merge_card(o, part, most);
    return SL_OK;
}

/* Known cards come first. */
sl_status sl_cards_find(sl_orchestrator *o) {
    for (int already = 1; already >= 0; already--)
        for (int i = 0, count = o->case_count; i < count; i++)
            for (int end = 0; end < 2; end++) {
                const sl_case *c = &o->cases[i];
                int process = end ? c->view.part.b : c->view.part.a;
                if (process >= 0 && c->cause == SL_CAUSE_LINK && touches(c, process))
                    SL_TRY(look_at_process(o, process, already));
            }
    for (int i = 0; i < o->case_count; i++)
        o->cases[i].card &= !o->cases[i].seen || o->cases[i].view.part.kind == SL_PART_CARD;
    return SL_OK;
}
