/* An iteration's time, and microbatches over replicas. Equal replicas form a group: a job of a hundred
 * thousand replicas has few. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"

#include <math.h>

/* ---- groups ---- */

static sl_status join(sl_model *m, int replica, const sl_fingerprint *like, int microbatches) {
    size_t i = m->groups && replica ? (size_t)m->of[replica - 1] : 0; /* often the same as the previous one */
    for (size_t seen = 0; seen < m->groups; seen++, i++) {
        i = i < m->groups ? i : 0;
        sl_alike *g = &m->group[i];
        if (g->microbatches == microbatches && memcmp(&g->like, like, sizeof *like) == 0) {
            g->count++;
            m->of[replica] = (int)i;
            return SL_OK;
        }
    }
    SL_TRY(sl_grow(&m->group, &m->group_room, m->groups + 1, sizeof *m->group));
    m->of[replica] = (int)m->groups;
    m->group[m->groups++] =
        (sl_alike){.like = *like, .replica = replica, .count = 1, .microbatches = microbatches};
    return SL_OK;
}

sl_status sl_model_join(sl_model *m, int replica, int microbatches) {
    sl_fingerprint like;
    SL_TRY(sl_model_look(m, replica, &like));
    return join(m, replica, &like, microbatches);
}

static void touch(sl_model *m, int process) {
    int replica = sl_job_replica(&m->job, m->position[process]);
    if (!m->is_touched[replica])
        m->touched[m->touches++] = replica;
    m->is_touched[replica] = 1;
}

sl_status sl_model_groups(sl_model *m, const int *split, const unsigned char *skip) {
    for (int i = 0; i < m->touches; i++)
        m->is_touched[m->touched[i]] = 0;
    m->touches = 0;
    m->groups = 0;
    for (int i = 0; i < m->parts; i++) {
        touch(m, m->part[i].a);
        if (m->part[i].kind == SL_PART_LINK)
            touch(m, m->part[i].b);
    }
    for (int r = 0; r < m->job.replicas; r++) {
        int microbatches = split ? split[r] : 0;
        if (skip && skip[r])
            m->of[r] = 0;
        else if (m->is_touched[r])
            SL_TRY(sl_model_join(m, r, microbatches));
        else
            SL_TRY(join(m, r, &m->based[m->base[r]], microbatches));
    }
    return SL_OK;
}

sl_status sl_model_slowest(sl_model *m, double *time) {
    *time = 0;
    for (size_t i = 0; i < m->groups; i++) {
        double each;
        SL_TRY(sl_model_ask(m, &m->group[i], m->group[i].microbatches, &each));
        *time = fmax(*time, each);
    }
    return SL_OK;
}

sl_status sl_model_time(sl_model *m, const sl_job_layout *layout, double *time) {
    sl_model_take(m, layout);
    SL_TRY(sl_model_groups(m, layout->split, NULL));
    SL_TRY(sl_model_slowest(m, time));
    return isinf(*time) ? sl_error(SL_ENONE, "a replica's share of microbatches fits no schedule") : SL_OK;
}

/* ---- dividing ---- */

static long long taken(const sl_model *m) {
    long long sum = 0;
    for (size_t i = 0; i < m->groups; i++)
        sum += (long long)m->group[i].microbatches * m->group[i].count;
    return sum;
}

/* A formula's split: each replica takes pace * (microbatches + fill). Groups that do not fit the even share
 * start with 1. */
static sl_status guess(sl_model *m, long long microbatches) {
    double replicas = 0, rate = 0, fill = m->job.ranks - 1, time;
    for (size_t i = 0; i < m->groups; i++)
        replicas += m->group[i].count;
    int share = (int)fmax(1, (double)microbatches / replicas);
    for (size_t i = 0; i < m->groups; i++) {
        SL_TRY(sl_model_ask(m, &m->group[i], share, &time));
        rate += m->group[i].count * (share + fill) / fmax(1, time);
    }
    for (size_t i = 0; i < m->groups; i++) {
        SL_TRY(sl_model_ask(m, &m->group[i], share, &time));
        double wanted =
            ((double)microbatches + replicas * fill) / rate * (share + fill) / fmax(1, time) - fill;
        m->group[i].microbatches = (int)fmin(fmax(1, isinf(time) ? 1 : wanted), (double)microbatches);
    }
    return SL_OK;
}

/* Gives one more to whichever then takes least, until all are assigned; *fits 0: they do not fit. */
static sl_status raise_min(sl_model *m, long long microbatches, int *fits) {
    for (long long sum = taken(m); sum < microbatches;) {
        sl_alike *best = NULL;
        double least = INFINITY, time;
        for (size_t i = 0; i < m->groups; i++) {
            SL_TRY(sl_model_ask(m, &m->group[i], m->group[i].microbatches + 1, &time));
            if (time < least) {
                least = time;
                best = &m->group[i];
            }
        }
        *fits = best != NULL;
        if (!best)
            return SL_OK;
        best->microbatches++;
        sum += best->count;
    }
    *fits = 1;
    return SL_OK;
}

/* Takes one from each that takes that long; *can 0: one has only one. */
static sl_status lower(sl_model *m, double than, int *can) {
    double time;
    *can = 1;
    for (size_t i = 0; i < m->groups; i++) {
        sl_alike *g = &m->group[i];
        SL_TRY(sl_model_ask(m, g, g->microbatches, &time));
        g->kept = g->microbatches;
        *can &= time < than || g->microbatches > 1;
        g->microbatches -= time >= than;
    }
    return SL_OK;
}

/* Returns the surplus, from the slowest. */
static sl_status give_back(sl_model *m, long long microbatches) {
    for (long long over = taken(m) - microbatches; over > 0;) {
        sl_alike *worst = NULL;
        double most = -1, time;
        for (size_t i = 0; i < m->groups; i++) {
            SL_TRY(sl_model_ask(m, &m->group[i], m->group[i].microbatches, &time));
            if (time > most && m->group[i].microbatches > 1) {
                most = time;
                worst = &m->group[i];
            }
        }
        if (!worst)
            return sl_error(SL_ENONE, "there are fewer microbatches than replicas");
        if (over < worst->count)
            worst->fewer = (int)over;
        else
            worst->microbatches--;
        over -= worst->count;
    }
    return SL_OK;
}

/* The minimum if no time falls with one microbatch more: any shorter split has one less in each of the
 * slowest, and so at least one more in others; the best of those is tried. */
sl_status sl_model_level(sl_model *m, long long microbatches, double *time) {
    int fits;
    SL_TRY(guess(m, microbatches));
    SL_TRY(raise_min(m, microbatches, &fits));
    *time = INFINITY;
    while (fits) {
        double then;
        SL_TRY(sl_model_slowest(m, time));
        SL_TRY(lower(m, *time, &fits));
        if (fits)
            SL_TRY(raise_min(m, microbatches, &fits));
        SL_TRY(sl_model_slowest(m, &then));
        fits = fits && (then < *time || isinf(*time));
    }
    for (size_t i = 0; i < m->groups && !isinf(*time); i++)
        m->group[i].microbatches = m->group[i].kept;
    return SL_OK;
}

/* Of equal replicas the first ones take more. */
static void write_split(sl_model *m, int *split) {
    for (int r = m->job.replicas - 1; r >= 0; r--) {
        sl_alike *g = &m->group[m->of[r]];
        split[r] = g->microbatches - (g->fewer > 0);
        g->fewer -= g->fewer > 0;
    }
}

static sl_status divide(sl_model *m, sl_job_layout *next, double *time) {
    long long microbatches = 0;
    for (int r = 0; r < m->job.replicas; r++)
        microbatches += next->split[r];
    sl_model_take(m, next);
    SL_TRY(sl_model_groups(m, NULL, NULL));
    SL_TRY(sl_model_level(m, microbatches, time));
    if (isinf(*time))
        return sl_error(SL_ENONE, "%lld microbatches fit no schedules of the replicas", microbatches);
    SL_TRY(give_back(m, microbatches));
    write_split(m, next->split);
    return sl_model_time(m, next, time);
}

/* Keeps the present split if none is better. */
sl_status sl_model_divide(sl_model *m, sl_job_layout *layout, double *time) {
    sl_job_layout next = *layout;
    double divided = INFINITY;
    size_t size = (size_t)m->job.replicas * sizeof *next.split;
    sl_status status = sl_model_time(m, layout, time);
    if (m->job.replicas == 1 || m->healthy[0]->placement == SL_BIDIRECTIONAL) /* even numbers only */
        return status;
    if (status != SL_OK && status != SL_ENONE)
        return status;
    double present = status == SL_OK ? *time : INFINITY;
    SL_TRY(sl_alloc(&next.split, (size_t)m->job.replicas, sizeof *next.split));
    memcpy(next.split, layout->split, size);
    status = divide(m, &next, &divided);
    if (status == SL_OK && divided < present)
        memcpy(layout->split, next.split, size);
    sl_free(next.split);
    if (status == SL_ENONE && !isinf(present))
        status = SL_OK;
    *time = fmin(present, divided);
    return status;
}
