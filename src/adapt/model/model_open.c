/* Opening a model, slow components, and layouts. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"
#include "plan/family/family.h"

#include <limits.h>
#include <math.h>

#define QUICK "zb-h1" /* replaces all families while many arrangements are compared */

/* ---- layouts ---- */

static sl_status make_layout(const sl_job *job, const int *process, const int *split, sl_job_layout *layout) {
    size_t processes = (size_t)sl_job_processes(job), replicas = (size_t)job->replicas;
    sl_job_layout made = {0};
    sl_status status = sl_alloc(&made.process, processes, sizeof *made.process);
    if (status == SL_OK)
        status = sl_alloc(&made.split, replicas, sizeof *made.split);
    if (status != SL_OK) {
        sl_job_layout_free(&made);
        return status;
    }
    for (size_t i = 0; i < processes; i++)
        made.process[i] = process ? process[i] : (int)i;
    memcpy(made.split, split, replicas * sizeof *split);
    *layout = made;
    return SL_OK;
}

sl_status sl_job_layout_make(const sl_job *job, const int *split, sl_job_layout *layout) {
    return make_layout(job, NULL, split, layout);
}

sl_status sl_job_layout_copy(const sl_job *job, const sl_job_layout *from, sl_job_layout *to) {
    int delegates = from->delegates;
    SL_TRY(make_layout(job, from->process, from->split, to));
    to->delegates = delegates;
    return SL_OK;
}

void sl_job_layout_free(sl_job_layout *layout) {
    sl_free(layout->process);
    sl_free(layout->split);
    *layout = (sl_job_layout){0};
}

int sl_job_layout_position(const sl_job *job, const sl_job_layout *layout, int process) {
    int position = process; /* most are at their initial positions */
    if (layout->process[position] != process)
        for (position = 0; position < sl_job_processes(job) - 1 && layout->process[position] != process;)
            position++;
    return position;
}

/* Whether the two ranks hold neighboring stages of a pipeline. */
static int has_link(const sl_problem *problem, int a, int b) {
    for (int stage = 0; stage < problem->stages && a != b; stage++) {
        int next = sl_problem_next(problem, stage);
        int from = sl_problem_rank(problem, stage), to = next < 0 ? -1 : sl_problem_rank(problem, next);
        if ((from == a && to == b) || (from == b && to == a))
            return 1;
    }
    return 0;
}

int sl_job_layout_talk(const sl_job *job, const sl_job_layout *layout, const sl_problem *problem, int a,
                       int b) {
    int at = sl_job_layout_position(job, layout, a), to = sl_job_layout_position(job, layout, b);
    if (at % job->tensor != to % job->tensor)
        return 0;
    if (sl_job_replica(job, at) == sl_job_replica(job, to))
        return has_link(problem, sl_job_rank(job, at), sl_job_rank(job, to));
    return sl_job_rank(job, at) == sl_job_rank(job, to);
}

void sl_model_take(sl_model *m, const sl_job_layout *layout) {
    m->process = layout->process;
    m->delegated = layout->delegates > 0;
    for (int i = 0; i < m->processes; i++)
        m->position[m->process[i]] = i;
    sl_model_sums(m);
}

void sl_model_swap(sl_model *m, sl_job_layout *layout, int a, int b) {
    int kept = layout->process[a];
    layout->process[a] = layout->process[b];
    layout->process[b] = kept;
    m->position[layout->process[a]] = a;
    m->position[layout->process[b]] = b;
}

/* ---- opening ---- */

static sl_status check_job(const sl_job *job, int stages, sl_placement placement,
                           const sl_problem *const *healthy) {
    if (job->replicas < 1 || job->ranks < 1 || job->tensor < 1 ||
        (double)job->replicas * job->ranks * job->tensor > INT_MAX / 2)
        return sl_error(SL_EINVAL, "no job has %d replicas of %d ranks and %d tensor ranks", job->replicas,
                        job->ranks, job->tensor);
    if (!sl_family_find(job->schedule) && strcmp(job->schedule, "auto") != 0)
        return sl_error(SL_EINVAL, "unknown schedule '%s': give a family's name or auto", job->schedule);
    for (int r = 0; r < job->replicas; r++)
        if (healthy[r]->ranks != job->ranks || healthy[r]->stages != stages ||
            healthy[r]->placement != placement || healthy[r]->layers)
            return sl_error(SL_EINVAL, "replica %d has another shape than the job, or stages to be cut", r);
    return SL_OK;
}

/* Assigns each replica its distinct problem; repeated pointers are examined once. */
static sl_status number_bases(sl_model *m) {
    m->bases = 0;
    for (int r = 0; r < m->job.replicas; r++) {
        size_t base = 0;
        if (r && m->healthy[r] == m->healthy[r - 1]) {
            m->base[r] = m->base[r - 1];
            continue;
        }
        sl_fingerprint like = sl_model_base(m->healthy[r]);
        while (base < m->bases && memcmp(&m->based[base], &like, sizeof like) != 0)
            base++;
        SL_TRY(sl_grow(&m->based, &m->base_room, base + 1, sizeof *m->based));
        m->based[base] = like;
        m->bases += base == m->bases;
        m->base[r] = (int)base;
    }
    return SL_OK;
}

sl_status sl_model_renew(sl_model *m, const sl_problem *const *healthy) {
    SL_TRY(check_job(&m->job, m->stages, m->placement, healthy));
    memcpy(m->healthy, healthy, (size_t)m->job.replicas * sizeof(sl_problem *));
    return number_bases(m);
}

static sl_status copy_job(sl_model *m, const sl_job *job, int stages) {
    double *sum = NULL;
    char *schedule = NULL;
    m->job = *job;
    m->job.sum = NULL;
    m->job.schedule = NULL;
    SL_TRY(sl_copy_text(&schedule, job->schedule));
    m->job.schedule = m->rule = m->quick = schedule;
    if (job->sum) {
        SL_TRY(sl_alloc(&sum, (size_t)stages, sizeof *sum));
        memcpy(sum, job->sum, (size_t)stages * sizeof *sum);
        m->job.sum = sum;
    }
    return SL_OK;
}

static sl_status open_arrays(sl_model *m) {
    size_t replicas = (size_t)m->job.replicas, processes = (size_t)m->processes, ranks = (size_t)m->job.ranks;
    SL_TRY(sl_alloc(&m->healthy, replicas, sizeof *m->healthy));
    SL_TRY(sl_alloc(&m->base, replicas, sizeof *m->base));
    SL_TRY(sl_alloc(&m->talks, ranks * ranks, 1));
    SL_TRY(sl_alloc(&m->first, processes, sizeof *m->first));
    SL_TRY(sl_alloc(&m->position, processes, sizeof *m->position));
    SL_TRY(sl_alloc(&m->growth, (size_t)m->stages, sizeof *m->growth));
    SL_TRY(sl_alloc(&m->touched, replicas, sizeof *m->touched));
    SL_TRY(sl_alloc(&m->is_touched, replicas, 1));
    return sl_alloc(&m->of, replicas, sizeof *m->of);
}

static sl_status begin(sl_model *m, const sl_job *job, const sl_problem *const *healthy) {
    const sl_problem *p = healthy[0];
    m->stages = p->stages;
    m->placement = healthy[0]->placement;
    m->processes = sl_job_processes(job);
    m->allowed = LLONG_MAX;
    SL_TRY(copy_job(m, job, p->stages));
    m->answers = job->answers;
    if (!m->answers)
        SL_TRY(sl_model_answers_open(&m->answers));
    SL_TRY(open_arrays(m));
    if (strcmp(job->schedule, "auto") == 0 && sl_family_fits(sl_family_find(QUICK), p))
        m->quick = QUICK;
    for (int stage = 0; stage < p->stages; stage++) {
        int next = sl_problem_next(p, stage), from = sl_problem_rank(p, stage);
        int to = next < 0 ? from : sl_problem_rank(p, next);
        m->talks[from * p->ranks + to] = m->talks[to * p->ranks + from] = from != to;
    }
    memcpy(m->healthy, healthy, (size_t)job->replicas * sizeof(sl_problem *));
    return number_bases(m);
}

sl_status sl_model_open(const sl_job *job, const sl_problem *const *healthy, sl_model **model) {
    SL_TRY(check_job(job, healthy[0]->stages, healthy[0]->placement, healthy));
    SL_TRY(sl_alloc(model, 1, sizeof **model));
    sl_status status = begin(*model, job, healthy);
    if (status != SL_OK) {
        sl_model_close(*model);
        *model = NULL;
    }
    return status;
}

void sl_model_close(sl_model *m) {
    if (!m)
        return;
    if (!m->job.answers)
        sl_model_answers_close(m->answers);
    void *arrays[] = {(void *)m->job.schedule,
                      (void *)m->job.sum,
                      m->healthy,
                      m->base,
                      m->based,
                      m->talks,
                      m->part,
                      m->first,
                      m->next,
                      m->position,
                      m->growth,
                      m->touched,
                      m->is_touched,
                      m->excess,
                      m->group,
                      m->of,
                      m};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
}

/* ---- slow components ---- */

static int is_amount(double more) {
    return more >= 0 && isfinite(more);
}

static sl_status check_part(const sl_model *m, const sl_slow_part *p) {
    int right = p->a >= 0 && p->a < m->processes;
    if (p->kind == SL_PART_DEVICE)
        right = right && p->slowdown > 0 && isfinite(p->slowdown);
    else
        for (int way = 0; way < 2; way++)
            right = right && is_amount(p->latency[way]) && is_amount(p->pace[way]);
    if (p->kind == SL_PART_LINK)
        right = right && p->b >= 0 && p->b < m->processes && p->b != p->a;
    return right ? SL_OK : sl_error(SL_EINVAL, "no part of the job is slow like that: process %d", p->a);
}

static int ends_of(const sl_slow_part *p) {
    return p->kind == SL_PART_LINK ? 2 : 1;
}

/* Lists each process's ends in the order of the parts. */
static void list_ends(sl_model *m) {
    for (int i = m->parts - 1; i >= 0; i--)
        for (int side = ends_of(&m->part[i]) - 1; side >= 0; side--) {
            int process = side ? m->part[i].b : m->part[i].a, end = 2 * i + side;
            m->next[end] = m->first[process];
            m->first[process] = end + 1;
        }
}

sl_status sl_model_see(sl_model *m, const sl_slow_part *part, int parts) {
    sl_slow_part *copy = NULL;
    int *next = NULL;
    for (int i = 0; i < parts; i++)
        SL_TRY(check_part(m, &part[i]));
    SL_TRY(sl_alloc(&copy, (size_t)parts, sizeof *copy));
    sl_status status = sl_alloc(&next, 2 * (size_t)parts, sizeof *next);
    if (status != SL_OK) {
        sl_free(copy);
        return status;
    }
    if (parts)
        memcpy(copy, part, (size_t)parts * sizeof *copy);
    for (int i = 0; i < m->parts; i++)
        for (int side = 0; side < ends_of(&m->part[i]); side++)
            m->first[side ? m->part[i].b : m->part[i].a] = 0;
    sl_free(m->part);
    sl_free(m->next);
    m->part = copy;
    m->next = next;
    m->parts = parts;
    list_ends(m);
    return SL_OK;
}
