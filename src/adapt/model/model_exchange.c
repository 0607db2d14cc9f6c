/* Positions found by exchanging two at a time, as long as an iteration becomes shorter: each process affected
 * by a slow component with any other of the excerpt, the best first. A quick rule replaces all schedules. The
 * search of adapt/topology/topology.h gives all replicas the same number of microbatches and misses such
 * positions; this one finds only what single exchanges lead to. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"

#include <math.h>

typedef struct exchange_search {
    sl_model *m;
    sl_job_layout *layout;
    const sl_excerpt *excerpt;
    int divides;
    long long microbatches; /* of all */
    sl_alike *other;        /* groups of the replicas outside the excerpt */
    size_t others;
    int *position; /* [positions] of the excerpt */
    int positions;
} exchange_search;

/* An iteration's time; if equal, the sum over replicas: of two equally slow links one is avoided first. */
typedef struct score {
    double time, sum;
} score;

static int is_less(const score *a, const score *b) {
    return a->time < b->time || (a->time == b->time && a->sum < b->sum);
}

/* The current layout, with replicas of the excerpt examined again. */
static sl_status measure(exchange_search *s, score *result) {
    sl_model *m = s->m;
    double time;
    sl_model_sums(m);
    SL_TRY(sl_grow(&m->group, &m->group_room, s->others, sizeof *m->group));
    if (s->others)
        memcpy(m->group, s->other, s->others * sizeof *m->group);
    m->groups = s->others;
    for (int i = 0; i < s->excerpt->count; i++) {
        int replica = s->excerpt->replica[i];
        SL_TRY(sl_model_join(m, replica, s->divides ? 0 : s->layout->split[replica]));
    }
    SL_TRY(s->divides ? sl_model_level(m, s->microbatches, &result->time)
                      : sl_model_slowest(m, &result->time));
    result->sum = 0;
    for (size_t i = 0; i < m->groups && !isinf(result->time); i++) {
        SL_TRY(sl_model_ask(m, &m->group[i], m->group[i].microbatches, &time));
        result->sum += m->group[i].count * time;
    }
    return SL_OK;
}

/* The best exchange; *best is its score. *found 0: none is better. */
static sl_status best_exchange(exchange_search *s, score *best, int *found) {
    const sl_model *m = s->m;
    int at[2] = {0, 0};
    *found = 0;
    for (int i = 0; i < s->positions; i++)
        for (int k = 0; k < s->positions; k++) {
            int a = s->position[i], b = s->position[k];
            score then;
            if (i == k || !m->first[m->process[a]] || (k < i && m->first[m->process[b]]) || m->allowed <= 0)
                continue;
            sl_model_swap(s->m, s->layout, a, b);
            sl_status status = measure(s, &then);
            sl_model_swap(s->m, s->layout, a, b);
            SL_TRY(status);
            if (is_less(&then, best)) {
                *best = then;
                *found = 1;
                at[0] = a;
                at[1] = b;
            }
        }
    if (*found)
        sl_model_swap(s->m, s->layout, at[0], at[1]);
    return SL_OK;
}

/* Exchanges that made no iteration shorter are dropped at the end. */
static sl_status climb(exchange_search *s) {
    size_t size = (size_t)s->m->processes * sizeof *s->layout->process;
    score best;
    double least;
    int found = 1, *kept;
    SL_TRY(sl_alloc(&kept, (size_t)s->m->processes, sizeof *kept));
    memcpy(kept, s->layout->process, size);
    sl_status status = measure(s, &best);
    for (least = best.time; status == SL_OK && found;) {
        status = best_exchange(s, &best, &found);
        if (status == SL_OK && best.time < least) {
            least = best.time;
            memcpy(kept, s->layout->process, size);
        }
    }
    memcpy(s->layout->process, kept, size);
    sl_free(kept);
    return status;
}

static sl_status list_positions(exchange_search *s) {
    const sl_job *job = &s->m->job;
    SL_TRY(sl_alloc(&s->position, (size_t)s->excerpt->count * (size_t)(job->ranks * job->tensor),
                    sizeof *s->position));
    for (int rank = 0; rank < job->ranks; rank++)
        for (int i = 0; i < s->excerpt->count; i++)
            for (int k = 0; k < job->tensor; k++)
                s->position[s->positions++] = sl_job_position(job, rank, s->excerpt->replica[i], k);
    return SL_OK;
}

/* The part outside the excerpt stays as it is. */
static sl_status set_aside(exchange_search *s) {
    sl_model *m = s->m;
    unsigned char *skip;
    SL_TRY(sl_alloc(&skip, (size_t)m->job.replicas, 1));
    for (int i = 0; i < s->excerpt->count; i++)
        skip[s->excerpt->replica[i]] = 1;
    sl_status status = sl_model_groups(m, s->divides ? NULL : s->layout->split, skip);
    sl_free(skip);
    SL_TRY(status);
    SL_TRY(sl_alloc(&s->other, m->groups, sizeof *s->other));
    if (m->groups)
        memcpy(s->other, m->group, m->groups * sizeof *s->other);
    s->others = m->groups;
    return SL_OK;
}

sl_status sl_model_exchange(sl_model *m, const sl_excerpt *excerpt, int divides, sl_job_layout *layout) {
    exchange_search s = {.m = m, .layout = layout, .excerpt = excerpt, .divides = divides};
    for (int r = 0; r < m->job.replicas; r++)
        s.microbatches += layout->split[r];
    sl_model_take(m, layout);
    sl_status status = set_aside(&s);
    SL_THEN(status, list_positions(&s));
    SL_THEN(status, climb(&s));
    SL_FREE(s.other, s.position);
    return status;
}
