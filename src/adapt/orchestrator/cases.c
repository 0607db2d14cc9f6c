/* The slow components of this iteration, as cases of processes: a component is named by its processes, so it
 * keeps its name when they change positions. A slow component that is not measured now keeps its state. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

static sl_known_component *find_key(const sl_orchestrator *o, sl_component_key key) {
    for (size_t i = 0; i < o->numbers.keys; i++)
        if (memcmp(&o->numbers.key[i].key, &key, sizeof key) == 0)
            return &o->numbers.key[i];
    return NULL;
}

sl_status sl_cases_number(sl_orchestrator *o, sl_component_key key, int as, int *id) {
    sl_known_component *known = find_key(o, key);
    if (!known) {
        SL_TRY(sl_grow(&o->numbers.key, &o->numbers.key_room, o->numbers.keys + 1, sizeof *o->numbers.key));
        known = &o->numbers.key[o->numbers.keys++];
        *known = (sl_known_component){key, as >= 0 ? as : ++o->numbers.last_number};
    }
    *id = known->id;
    return SL_OK;
}

int sl_cases_process(const sl_orchestrator *o, int rank, int replica) {
    const int *process = &o->layout.process[sl_job_position(&o->config.job, rank, replica, 0)];
    int least = process[0];
    for (int t = 1; t < o->config.job.tensor; t++)
        least = process[t] < least ? process[t] : least;
    return least;
}

sl_case *sl_cases_by_id(const sl_orchestrator *o, int id) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].view.id == id)
            return &o->cases[i];
    return NULL;
}

sl_case *sl_cases_find(const sl_orchestrator *o, sl_component_key key) {
    const sl_known_component *known = find_key(o, key);
    return known ? sl_cases_by_id(o, known->id) : NULL;
}

int sl_cases_any_seen(const sl_orchestrator *o) {
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen)
            return 1;
    return 0;
}

sl_status sl_cases_see(sl_orchestrator *o, sl_component_key key, sl_case **found) {
    int id;
    SL_TRY(sl_cases_number(o, key, -1, &id));
    sl_case *c = sl_cases_by_id(o, id);
    if (!c && o->case_count == SL_CASES_MAX) {
        *found = NULL;
        return SL_OK;
    }
    if (!c) {
        c = &o->cases[o->case_count++];
        *c =
            (sl_case){.announced = -1, .claimed = -1, .view = {.id = id, .since = o->iteration, .stage = -1}};
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

/* Tensor ranks of a position are measured as one. Returns the one known to be slow (the first of several), or
 * one that shared a position with a slow process that has since moved. */
static int slow_process(sl_orchestrator *o, int rank, int replica) {
    const sl_job *job = &o->config.job;
    int found = -1, left = -1;
    for (int t = 0; t < job->tensor; t++) {
        int process = o->layout.process[sl_job_position(job, rank, replica, t)];
        sl_case *c = sl_cases_find(o, (sl_component_key){SL_PART_DEVICE, process, -1});
        const sl_case *shared = sl_cases_by_id(o, o->numbers.shares[process] - 1);
        if (c && found >= 0)
            c->merged = 1;
        else if (c)
            found = process;
        if (left < 0 && shared && shared->apart)
            left = process;
    }
    return found >= 0 ? found : left >= 0 ? left : sl_cases_process(o, rank, replica);
}

static sl_status see_device(sl_orchestrator *o, const sl_slow *s) {
    sl_case *c;
    int a = slow_process(o, s->rank, s->replica);
    SL_TRY(sl_cases_see(o, (sl_component_key){SL_PART_DEVICE, a, -1}, &c));
    if (!c || c->reported)
        return SL_OK;
    for (int t = 0; t < o->config.job.tensor && !c->apart; t++)
        o->numbers.shares[o->layout.process[sl_job_position(&o->config.job, s->rank, s->replica, t)]] =
            c->view.id + 1;
    c->cause = SL_CAUSE_DEVICE;
    c->replica = s->replica;
    c->rank = s->rank;
    c->from = c->to = -1;
    c->now = s->now;
    c->healthy = s->healthy;
    c->view.growth = fmax(1, s->now / s->healthy); /* the level may have recovered before the last row does */
    c->view.part = (sl_slow_part){.kind = SL_PART_DEVICE, .a = a, .b = -1, .slowdown = c->view.growth};
    return SL_OK;
}

/* The extra delay of a link direction, split into latency and transfer by the window's medians. */
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

/* Both directions are one case, named after the worse one. */
static sl_status see_link(sl_orchestrator *o, const sl_slow *s) {
    sl_case *c;
    int a = sl_cases_process(o, s->from, s->replica), b = sl_cases_process(o, s->to, s->replica);
    int turned = a > b, low = turned ? b : a, high = turned ? a : b;
    double grown = fmax(0, s->now - s->healthy); /* the level may have recovered before the last row does */
    SL_TRY(sl_cases_see(o, (sl_component_key){SL_PART_LINK, low, high}, &c));
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

/* Replicas exchange their shares at the same time, there and back: a sum waits twice for the slowest pair's
 * latency and share; a ring once per step. The network measurements split the growth; else all is bandwidth.
 */
static void split_growth(const sl_orchestrator *o, int stage, double grown, sl_slow_part *part) {
    const sl_job *job = &o->config.job;
    double steps = job->ring ? 2.0 * (job->replicas - 1) : 2;
    double share = job->sum ? job->sum[stage] / job->replicas : 0;
    for (int way = 0; way < 2; way++) {
        if (sl_pairs_split(o, part, way))
            continue;
        part->latency[way] = share > 0 ? 0 : grown / steps;
        part->pace[way] = share > 0 ? grown / steps / share : 0;
    }
}

static sl_status see_sum_at(sl_orchestrator *o, const sl_slow *s, sl_component_key key,
                            const sl_slow_part *part) {
    sl_case *c;
    SL_TRY(sl_cases_see(o, key, &c));
    if (!c || c->reported || (c->back && s->now - s->healthy <= c->now - c->healthy))
        return SL_OK;
    c->back = 1;
    c->cause = SL_CAUSE_REPLICA_LINK;
    c->replica = -1;
    c->rank = sl_problem_rank(sl_healthy_of(o, 0), s->stage);
    c->from = c->to = -1;
    c->now = s->now;
    c->healthy = s->healthy;
    c->view.stage = s->stage;
    c->view.growth = s->now - s->healthy;
    c->view.part = *part;
    if (part->a >= 0 && part->kind == SL_PART_LINK)
        split_growth(o, s->stage, s->now - s->healthy, &c->view.part);
    return SL_OK;
}

/* The cards that hold up a sum, *found of them. The first one takes over the sum's incident. */
static sl_status see_cards(sl_orchestrator *o, const sl_slow *s, int before, int *found) {
    int id, rank = sl_problem_rank(sl_healthy_of(o, 0), s->stage);
    sl_slow_part part;
    *found = 0;
    for (int replica = 0; replica < o->config.job.replicas; replica++) {
        int process = sl_cases_process(o, rank, replica);
        sl_component_key key = {SL_PART_CARD, process, -1};
        if (!sl_cards_known(o, process, &part))
            continue;
        const sl_case *c = sl_cases_find(o, key);
        if (++*found == 1 && before >= 0)
            SL_TRY(sl_cases_number(o, key, before, &id));
        if (!c || !c->seen || c->cause == SL_CAUSE_REPLICA_LINK) /* its links have not shown it */
            SL_TRY(see_sum_at(o, s, key, &part));
    }
    return SL_OK;
}

/* Several stages of a rank share a connection; the slow pair may be identified only later. */
static sl_status see_sum(sl_orchestrator *o, const sl_slow *s) {
    sl_slow_part part;
    int id, cards, pair[2] = {-1, -1}, rank = sl_problem_rank(sl_healthy_of(o, 0), s->stage);
    int known = sl_pairs_slowest(o, rank, pair);
    sl_component_key unnamed = {SL_KEY_SUM, -1 - rank, -1}, named = {SL_KEY_SUM, pair[0], pair[1]};
    const sl_case *before = sl_cases_find(o, unnamed);
    if (known && !before)
        before = sl_cases_find(o, named);
    SL_TRY(see_cards(o, s, before ? before->view.id : -1, &cards));
    if (cards && (!known || sl_cards_known(o, pair[0], &part) || sl_cards_known(o, pair[1], &part)))
        return SL_OK;
    if (known && before)
        SL_TRY(sl_cases_number(o, named, before->view.id, &id));
    return see_sum_at(o, s, known ? named : unnamed,
                      &(sl_slow_part){.kind = SL_PART_LINK, .a = pair[0], .b = pair[1]});
}

/* ---- unmeasured components ---- */

static int shows(const sl_orchestrator *o, const sl_case *c, const sl_row *row, int replica) {
    const sl_measured *m = row->replica[replica];
    int ranks = o->config.job.ranks, any = 0;
    if (!m)
        return 0;
    if (c->cause == SL_CAUSE_REPLICA_LINK)
        return m->summed[c->view.stage];
    if (c->cause == SL_CAUSE_LINK)
        return m->link[c->from * ranks + c->to].count > 0;
    for (int other = 0; other < ranks; other++)
        any |= m->link[c->rank * ranks + other].count > 0;
    return any;
}

/* Whether enough recent measurements exist to call a component healthy; of a sum, by one of the replicas. */
static int is_measured(const sl_orchestrator *o, const sl_case *c, const int *rows, int count) {
    int most = 0, least = o->config.hold < 3 ? o->config.hold : 3;
    if (c->cause == SL_CAUSE_DEVICE)
        return o->lately.known && o->lately.known[c->replica * o->config.job.ranks + c->rank];
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

/* If its processes no longer communicate, a link cannot be measured. */
int sl_cases_is_unused(const sl_orchestrator *o, const sl_case *c) {
    const sl_slow_part *p = &c->view.part;
    return p->kind == SL_PART_LINK && p->a >= 0 &&
           !sl_job_layout_talk(&o->config.job, &o->layout, sl_healthy_of(o, 0), p->a, p->b);
}

/* The fault may persist in the links that its processes have now: the case lasts until those are measured. */
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

void sl_cases_drop_unknown(sl_orchestrator *o) {
    int kept = 0;
    for (int i = 0; i < o->case_count; i++)
        if (o->cases[i].seen || o->cases[i].announced >= 0)
            o->cases[kept++] = o->cases[i];
    o->case_count = kept;
}

sl_status sl_cases_compare(sl_orchestrator *o) {
    int rows[SL_ROWS];
    int count = sl_history_latest(&o->series, o->series.since, o->series.rows, 2 * o->config.hold, rows);
    for (int i = 0; i < o->case_count; i++)
        o->cases[i].seen = o->cases[i].reported;
    SL_TRY(sl_compare(&o->series, rows, count, o->config.hold, &o->lately));
    int uneven = 0;
    for (size_t i = 0; i < o->lately.count; i++) {
        const sl_slow *s = &o->lately.slow[i];
        uneven |= s->kind == SL_SLOW_STAGE;
        if (s->kind == SL_SLOW_DEVICE)
            SL_TRY(see_device(o, s));
        else if (s->kind == SL_SLOW_LINK)
            SL_TRY(see_link(o, s));
    }
    o->uneven = uneven ? o->uneven + 1 : 0;
    SL_TRY(sl_cards_find(o));
    for (size_t i = 0; i < o->lately.count; i++)
        if (o->lately.slow[i].kind == SL_SLOW_SUM)
            SL_TRY(see_sum(o, &o->lately.slow[i]));
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        if (!c->seen && c->announced >= 0 && !c->merged &&
            !(sl_cases_is_unused(o, c) ? are_links_measured(o, c) : is_measured(o, c, rows, count)))
            c->seen = 1; /* nothing shows that it is healthy */
    }
    sl_cases_drop_unknown(o);
    return SL_OK;
}

/* ---- another layout ---- */

static int same_position(const sl_job *job, const sl_job_layout *layout, int a, int b) {
    return sl_job_layout_position(job, layout, a) / job->tensor ==
           sl_job_layout_position(job, layout, b) / job->tensor;
}

void sl_cases_move(sl_orchestrator *o, const sl_job_layout *next) {
    const sl_job *job = &o->config.job;
    for (int i = 0; i < o->case_count; i++) {
        sl_case *c = &o->cases[i];
        const sl_slow_part *part = &c->view.part;
        const int ends[2] = {part->a, part->b};
        if (part->a < 0)
            continue;
        for (int end = 0; end < 2; end++)
            for (int p = 0; p < o->processes && ends[end] >= 0 && !c->reported; p++)
                c->apart |=
                    same_position(job, &o->layout, ends[end], p) && !same_position(job, next, ends[end], p);
        int a = sl_job_layout_position(job, next, part->a), b = a;
        if (part->b >= 0)
            b = sl_job_layout_position(job, next, part->b);
        if (c->replica < 0 || sl_job_replica(job, a) != sl_job_replica(job, b))
            continue; /* a sum, or two that no longer communicate */
        c->replica = sl_job_replica(job, a);
        if (part->kind == SL_PART_LINK) {
            c->from = sl_job_rank(job, a);
            c->to = sl_job_rank(job, b);
        } else {
            c->rank = sl_job_rank(job, a);
        }
    }
}
