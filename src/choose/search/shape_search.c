#include "choose/search/shape_search.h"
#include "base/memory.h"
#include "base/signals.h"
#include "choose/search/candidates.h"
#include "choose/search/shape_arrange.h"
#include "choose/search/shape_split.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 8
#define ROUNDS 3 /* of microbatches per rank in an estimate */
/* Shares of the time, after which each step ends. */
#define ESTIMATING_PLAIN 0.2 /* if shapes with something in host memory follow */
#define ESTIMATING 0.4
#define PLANNING 0.7
#define RESTING 0.85
#define SEARCHING 0.9 /* then: other devices, and other communicators, for the best */
#define ARRANGING 0.96
#define BETTER 0.995 /* an estimate that is planned at once, times the best plan */
#define CLOSE 1.02   /* estimates of shapes that are searched, times the least */
#define SMALLER 0.97 /* memory of shapes that need less, times the smallest */
#define FRONT 64     /* choices kept while searching */

typedef struct shape_search {
    sl_shape_planning planning;
    const sl_choose_options *options;
    sl_position_table positions;
    sl_candidate *candidate; /* by turn and guess */
    size_t candidates;
    sl_time begin;
    sl_choices *found;
    /* shared by threads */
    pthread_mutex_t lock; /* for what follows, and `found` */
    size_t next;
    double best;       /* ns: the shortest planned */
    int cut_short;     /* not every shape has a bound */
    atomic_int failed; /* without the lock */
} shape_search;

static sl_limit until(const shape_search *s, double share) {
    return (sl_limit){s->begin + sl_from_ms(share * s->options->time_limit * 1e3), s->options->stop};
}

static int is_over(const shape_search *s, double share) {
    const sl_limit limit = until(s, share);
    return sl_limit_is_over(&limit);
}

/* ---- estimates ---- */

static int few_microbatches(const sl_shape *shape) {
    int few = ROUNDS * shape->pipeline;
    return shape->microbatches < few ? shape->microbatches : few;
}

/* A plan for few microbatches, by families only; each further one takes the busiest rank's work. */
static sl_status estimate(shape_search *s, sl_candidate *c) {
    sl_problem p;
    sl_shape_parts parts;
    sl_plan plan = {0};
    int few = few_microbatches(&c->shape);
    sl_status status = sl_shape_problem_of(&s->planning, &c->shape, few, &p, &parts);
    SL_THEN(status, sl_shape_plan_quickly(&s->planning, &p, &plan));
    if (status == SL_OK) {
        c->estimate = (double)plan.value + (c->shape.microbatches - few) * sl_shape_busiest(&p) +
                      sl_shape_besides(&p, &parts);
        c->memory = sl_shape_memory(&p, &plan);
    }
    sl_plan_free(&plan);
    sl_problem_free(&p);
    return status == SL_ENONE ? SL_OK : status;
}

/* ---- plans ---- */

static int is_same_shape(const sl_shape *a, const sl_shape *b) {
    return memcmp(&a->division, &b->division, sizeof a->division) == 0 && a->data == b->data &&
           a->pipeline == b->pipeline && a->chunks == b->chunks && a->placement == b->placement &&
           a->zero == b->zero && a->again == b->again && a->neighbors == b->neighbors &&
           a->offload == b->offload && a->uneven == b->uneven;
}

/* As short and as small, but more is in host memory: nothing is put there without need. */
static int hosts_more(const sl_choice *a, const sl_choice *b) {
    return a->time == b->time && a->memory <= b->memory && a->memory >= b->memory &&
           a->shape.offload > b->shape.offload;
}

/* Takes ownership: onto the front, unless another choice is at least as short and small. */
static sl_status add_choice(shape_search *s, sl_choice *made) {
    sl_choices *f = s->found;
    f->planned++;
    int kept = 0, dominated = 0;
    for (int i = 0; i < f->count; i++)
        dominated |= f->choice[i].time <= made->time && f->choice[i].memory <= made->memory &&
                     !is_same_shape(&f->choice[i].shape, &made->shape) && !hosts_more(&f->choice[i], made);
    for (int i = 0; i < f->count; i++) {
        sl_choice *other = &f->choice[i];
        int same = is_same_shape(&other->shape, &made->shape);
        if (same && other->time <= made->time)
            dominated = 1;
        if (!dominated && (same || (made->time <= other->time && made->memory <= other->memory)))
            sl_choice_free(other);
        else
            f->choice[kept++] = *other;
    }
    f->count = kept;
    if (f->count == FRONT && made->time < f->choice[FRONT - 1].time)
        sl_choice_free(&f->choice[--f->count]);
    if (dominated || f->count == FRONT) {
        sl_choice_free(made);
        return SL_OK;
    }
    int at = f->count;
    while (at > 0 && f->choice[at - 1].time > made->time) {
        f->choice[at] = f->choice[at - 1];
        at--;
    }
    f->choice[at] = *made;
    f->count++;
    s->best = fmin(s->best, (double)made->time);
    return SL_OK;
}

static sl_status plan_candidate(shape_search *s, sl_candidate *c, double seconds, int threads) {
    sl_choice made;
    c->planned = 1;
    sl_status status = c->shape.uneven
                           ? sl_split_plan(&s->planning, &c->shape, c->bound.time, seconds, threads, &made)
                           : sl_shape_plan(&s->planning, &c->shape, c->bound.time, seconds, threads, &made);
    if (status != SL_OK) {
        sl_choice_free(&made);
        return status == SL_ENONE ? SL_OK : status;
    }
    if (c->shape.uneven) {
        c->estimate = (double)made.time;
        c->memory = made.memory;
    }
    pthread_mutex_lock(&s->lock);
    status = add_choice(s, &made);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Whether some planned choice is at least as short and small as this shape can be. With the lock. */
static int is_dominated(const shape_search *s, const sl_candidate *c) {
    for (int i = 0; i < s->found->count; i++)
        if (s->found->choice[i].time <= c->bound.time && s->found->choice[i].memory <= c->bound.memory &&
            s->found->choice[i].shape.offload <=
                c->shape.offload) /* else it may do the same with less of the host */
            return 1;
    return 0;
}

/* The next shape of a turn whose time is not over; NULL: none. One that fits is always found. With the lock.
 */
static sl_candidate *take_next(shape_search *s) {
    while (s->next < s->candidates && !atomic_load(&s->failed)) {
        sl_candidate *c = &s->candidate[s->next];
        int hosted_follow = s->candidate[s->candidates - 1].turn != SL_TURN_PLAIN;
        double share = c->turn == SL_TURN_PLAIN && hosted_follow ? ESTIMATING_PLAIN : ESTIMATING;
        if (s->found->count == 0 || !is_over(s, share)) {
            s->next++;
            return c;
        }
        while (s->next < s->candidates && s->candidate[s->next].turn == c->turn)
            s->next++;
    }
    return NULL;
}

static sl_status estimate_some(void *object) {
    shape_search *s = object;
    sl_status status = SL_OK;
    while (status == SL_OK) {
        pthread_mutex_lock(&s->lock);
        sl_candidate *c = take_next(s);
        int dominated = c && is_dominated(s, c);
        s->found->dismissed += dominated;
        s->found->estimated += c && !dominated;
        double best = s->best;
        pthread_mutex_unlock(&s->lock);
        if (!c)
            break;
        if (dominated)
            continue;
        if (c->shape.uneven) { /* only to be shorter; no estimate is as good as its plan */
            status = (double)c->bound.time < best ? plan_candidate(s, c, 0, 1) : SL_OK;
            continue;
        }
        status = estimate(s, c);
        if (status == SL_OK && c->estimate < BETTER * best)
            status = plan_candidate(s, c, 0, 1);
    }
    return status;
}

static int thread_count(const sl_choose_options *options) {
    long count = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (int)count;
}

/* ---- the front ---- */

static int by_estimate(const void *a, const void *b) {
    const sl_candidate *x = *(sl_candidate *const *)a, *y = *(sl_candidate *const *)b;
    return x->estimate < y->estimate ? -1 : x->estimate > y->estimate;
}

/* The estimated shapes, the shortest first: *front[*count], free with sl_free. */
static sl_status sort_estimated(const shape_search *s, sl_candidate ***front, size_t *count) {
    *count = 0;
    SL_TRY(sl_alloc(front, s->candidates, sizeof **front));
    for (size_t i = 0; i < s->candidates; i++)
        if (s->candidate[i].estimate < INFINITY)
            (*front)[(*count)++] = &s->candidate[i];
    qsort(*front, *count, sizeof **front, by_estimate);
    return SL_OK;
}

/* Seconds until a share of the time is over. */
static double left(const shape_search *s, double share) {
    return fmax(0, sl_to_ms(s->begin + sl_from_ms(share * s->options->time_limit * 1e3) - sl_now()) / 1e3);
}

/* A search for each of the shortest, and a quick plan for those that need less memory than all shorter ones.
 */
static sl_status plan_front(shape_search *s, sl_candidate *const *front, size_t count) {
    double smallest = INFINITY;
    size_t most = (size_t)s->options->most;
    sl_status status = SL_OK;
    for (size_t i = 0; i < count && status == SL_OK && !(i && is_over(s, PLANNING)); i++) {
        int close = i < most && front[i]->estimate <= CLOSE * front[0]->estimate;
        if (!close && (front[i]->memory >= SMALLER * smallest || front[i]->planned))
            continue;
        smallest = fmin(smallest, front[i]->memory);
        status = plan_candidate(s, front[i], close ? left(s, PLANNING) / (double)(most - i + 1) : 0,
                                s->options->threads);
    }
    return status;
}

/* What was not planned yet and may still be shorter than the best, while there is time; an estimate may be
 * wrong. */
static sl_status plan_rest(shape_search *s, sl_candidate *const *front, size_t count) {
    sl_status status = SL_OK;
    for (size_t i = 0; i < count && status == SL_OK && !is_over(s, RESTING); i++)
        if (!front[i]->planned && (double)front[i]->bound.time < s->best)
            status = plan_candidate(s, front[i], left(s, RESTING) / (double)(count - i), s->options->threads);
    return status;
}

/* The rest of the time for the shortest. */
static sl_status search_best(shape_search *s) {
    const sl_choice *best = &s->found->choice[0];
    if (best->time <= best->bound)
        return SL_OK;
    for (size_t i = 0; i < s->candidates; i++)
        if (is_same_shape(&s->candidate[i].shape, &best->shape))
            return plan_candidate(s, &s->candidate[i], left(s, SEARCHING), s->options->threads);
    return SL_OK;
}

static sl_status plan_estimated(shape_search *s) {
    sl_candidate **front;
    size_t count;
    SL_TRY(sort_estimated(s, &front, &count));
    sl_status status = plan_front(s, front, count);
    SL_THEN(status, plan_rest(s, front, count));
    sl_free(front);
    SL_TRY(status);
    return s->found->count
               ? search_best(s)
               : sl_error(SL_ENONE, "no shape of the model has a schedule that fits into the memory of "
                                    "the devices");
}

/* A choice that became smaller may make later ones useless. */
static void drop_larger(sl_choices *f) {
    int kept = 1;
    for (int i = 1; i < f->count; i++)
        if (f->choice[i].memory < f->choice[0].memory)
            f->choice[kept++] = f->choice[i];
        else
            sl_choice_free(&f->choice[i]);
    f->count = kept;
}

/* The plan of *best with fewer communicators is taken if it is as short; what was the plan is in *plan then.
 */
static void take_fewer(const sl_shape_planning *planning, int communicators, sl_choice *best, sl_plan *plan) {
    const sl_plan before = best->plan;
    best->plan = *plan;
    *plan = before;
    best->problem.communicators = (sl_communicators)communicators;
    sl_shape_measure(planning, best);
}

/* The fewest communicators with which the first choice is as short, each with its own plan of the same cut.
 * With replicas that have different microbatches, only one of them has its problem here: they keep the most.
 */
static sl_status choose_communicators(shape_search *s) {
    sl_choice *best = &s->found->choice[0];
    const sl_devices_communication *c = &s->planning.devices->communication;
    sl_time *with = s->found->with;
    int taken = 0;
    if (c->regime != SL_FIFO || c->communicators >= 0 || best->problem.ranks < 2 || best->split)
        return SL_OK;
    with[SL_OF_KIND] = best->time;
    for (int fewer = SL_OF_PIPELINE; fewer < SL_OF_KIND && !taken; fewer++) {
        sl_problem p;
        sl_plan plan = {0};
        SL_TRY(sl_problem_copy(&best->problem, &p));
        p.communicators = (sl_communicators)fewer;
        sl_status status = sl_shape_plan_cut(&s->planning, &p, left(s, 1) / (SL_OF_KIND - fewer),
                                             s->options->threads, &plan);
        if (status == SL_OK) {
            with[fewer] = best->time - best->plan.value + plan.value;
            taken = plan.value <= best->plan.value;
        }
        if (taken)
            take_fewer(&s->planning, fewer, best, &plan);
        sl_plan_free(&plan);
        sl_problem_free(&p);
        if (status != SL_OK && status != SL_ENONE)
            return status;
    }
    for (int more = SL_OF_PAIR; more <= SL_OF_KIND; more++) /* what fewer can, more can */
        if (with[more - 1] > 0 && (with[more] == 0 || with[more] > with[more - 1]))
            with[more] = with[more - 1];
    return SL_OK;
}

/* The searched space has a bound: the least of all shapes, where planning may have raised it. */
static void bound_space(shape_search *s) {
    sl_choices *f = s->found;
    f->bound = SL_TIME_NEVER;
    for (size_t i = 0; i < s->candidates; i++) {
        sl_time mine = s->candidate[i].bound.time;
        for (int k = 0; k < f->count; k++)
            if (is_same_shape(&f->choice[k].shape, &s->candidate[i].shape))
                mine = sl_later(mine, f->choice[k].bound);
        f->bound = sl_sooner(f->bound, mine);
    }
    if (f->count)
        f->bound = sl_sooner(f->bound, f->choice[0].time);
    if (s->cut_short)
        f->bound = 0;
}

/* The shortest of all, then a selection of the rest. */
static void shorten(sl_choices *f, int most) {
    while (f->count > most) { /* drops the one that adds least: the closest to its neighbor in time */
        int least = f->count - 1;
        double closest = INFINITY;
        for (int i = 1; i < f->count; i++) {
            double step = (double)f->choice[i].time / (double)f->choice[i - 1].time;
            if (step < closest) {
                closest = step;
                least = i;
            }
        }
        sl_choice_free(&f->choice[least]);
        memmove(&f->choice[least], &f->choice[least + 1], (size_t)(f->count - 1 - least) * sizeof *f->choice);
        f->count--;
    }
}

static sl_status search(shape_search *s) {
    sl_shape *shape;
    size_t count;
    SL_TRY(sl_alloc(&s->found->choice, FRONT, sizeof *s->found->choice));
    SL_TRY(sl_shapes_list(s->planning.model, s->planning.devices, &s->options->fixed, &shape, &count));
    s->found->shapes = (long long)count;
    sl_status status = sl_alloc(&s->candidate, count, sizeof *s->candidate);
    for (size_t i = 0; i < count && status == SL_OK; i++)
        s->candidate[i].shape = shape[i];
    s->candidates = status == SL_OK ? count : 0;
    sl_free(shape);
    SL_TRY(status);
    SL_TRY(sl_candidates_bound(&s->planning, thread_count(s->options), s->candidate, &s->candidates,
                               &s->cut_short));
    s->found->dismissed += (long long)(count - s->candidates);
    SL_TRY(sl_threads_join_in(thread_count(s->options), estimate_some, s, &s->failed));
    SL_TRY(plan_estimated(s));
    if (sl_arrange_matters(s->planning.devices))
        SL_TRY(sl_arrange(&s->planning, left(s, ARRANGING), s->options->threads, &s->found->choice[0]));
    SL_TRY(choose_communicators(s));
    drop_larger(s->found);
    bound_space(s);
    shorten(s->found, s->options->most);
    return SL_OK;
}

/* What is fixed counts more than what the devices' file has. */
static sl_status fix_communication(const sl_shape_fixed *fixed, sl_devices_communication *c) {
    if (fixed->regime >= 0 && fixed->regime != (int)c->regime)
        *c = (sl_devices_communication){.given = 1, .regime = (sl_regime)fixed->regime, .communicators = -1};
    if (fixed->communicators < 0)
        return SL_OK;
    if (c->regime != SL_FIFO)
        return sl_error(SL_EINVAL, "communicators are only for regime fifo, got %s",
                        sl_regime_names[c->regime]);
    c->communicators = fixed->communicators;
    return SL_OK;
}

sl_status sl_choose(const sl_model_work *model, const sl_devices *devices, const sl_choose_options *options,
                    sl_choices *choices) {
    shape_search s = {.planning = {.model = model, .devices = devices, .options = options},
                      .options = options,
                      .positions = {.devices = devices},
                      .begin = sl_now(),
                      .found = choices,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .best = INFINITY};
    sl_devices fixed = *devices; /* the same arrays */
    *choices = (sl_choices){0};
    s.planning.positions = &s.positions;
    s.planning.devices = &fixed;
    sl_status status = fix_communication(&options->fixed, &fixed.communication);
    SL_THEN(status, search(&s));
    choices->seconds = sl_to_ms(sl_now() - s.begin) / 1e3;
    sl_position_table_free(&s.positions);
    sl_free(s.candidate);
    pthread_mutex_destroy(&s.lock);
    return status;
}

void sl_choices_free(sl_choices *choices) {
    for (int i = 0; i < choices->count; i++)
        sl_choice_free(&choices->choice[i]);
    sl_free(choices->choice);
    *choices = (sl_choices){0};
}
