/* Tensor ranks as threads of one process: each runs the same pipeline on its slices, and what they add up
 * meets at a barrier, in the order of ranks. */
#ifndef SL_TESTS_RUN_MODEL_TEAM_H
#define SL_TESTS_RUN_MODEL_TEAM_H

#include "run/model/trial.h"
#include <pthread.h>

enum { TEAM_MAX = 4 };

typedef struct team team;

typedef struct member {
    team *of;
    int rank;
    int sums, maxima; /* calls so far */
    float *result;
    size_t capacity;
    trial t;
} member;

typedef void team_body(member *m, void *context);

struct team {
    int size;
    pthread_barrier_t barrier;
    float *values[TEAM_MAX];
    member member[TEAM_MAX];
    sl_model_config config;
    int stages, microbatches;
    uint64_t seed;
    team_body *body;
    void *context;
};

static inline sl_status team_meet(member *m, float *values, size_t count, int is_max) {
    team *t = m->of;
    if (count > m->capacity) {
        free(m->result);
        m->result = malloc(count * sizeof *m->result);
        m->capacity = count;
    }
    t->values[m->rank] = values;
    pthread_barrier_wait(&t->barrier);
    for (size_t i = 0; i < count; i++) {
        float value = t->values[0][i];
        for (int r = 1; r < t->size; r++) {
            float other = t->values[r][i];
            value = !is_max ? value + other : other > value ? other : value;
        }
        m->result[i] = value;
    }
    pthread_barrier_wait(&t->barrier);
    memcpy(values, m->result, count * sizeof *values);
    return SL_OK;
}

static inline sl_status team_sum(void *object, float *values, size_t count) {
    ((member *)object)->sums++;
    return team_meet(object, values, count, 0);
}

static inline sl_status team_max(void *object, float *values, size_t count) {
    ((member *)object)->maxima++;
    return team_meet(object, values, count, 1);
}

static inline void *team_thread(void *object) {
    member *m = object;
    team *t = m->of;
    sl_model_config c = t->config;
    c.tensor =
        (sl_tensor_ranks){.rank = m->rank, .size = t->size, .object = m, .sum = team_sum, .max = team_max};
    trial_open(&m->t, &c, t->stages, t->microbatches, t->seed);
    t->body(m, t->context);
    trial_close(&m->t);
    free(m->result);
    return NULL;
}

/** Runs `body` once for each tensor rank, at the same time, each on a trial of its slices. */
static inline void team_run(const sl_model_config *config, int size, int stages, int microbatches,
                            uint64_t seed, team_body *body, void *context) {
    team t = {.size = size,
              .config = *config,
              .stages = stages,
              .microbatches = microbatches,
              .seed = seed,
              .body = body,
              .context = context};
    pthread_t thread[TEAM_MAX];
    pthread_barrier_init(&t.barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        t.member[r] = (member){.of = &t, .rank = r};
        pthread_create(&thread[r], NULL, team_thread, &t.member[r]);
    }
    for (int r = 0; r < size; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&t.barrier);
}

/* What an iteration gives, of the full model: elements that a tensor rank does not hold are NaN. */
typedef struct picture {
    size_t count;
    float *weight[TEAM_MAX], *gradient[TEAM_MAX];
    double loss[TEAM_MAX];
} picture;

typedef struct brush {
    float *weight, *gradient;
} brush;

static inline void team_paint(sl_parameter *p, void *context) {
    brush *b = context;
    sl_parameter_paste(p, p->weight, b->weight);
    sl_parameter_paste(p, p->gradient, b->gradient);
    b->weight += sl_parameter_full_count(p);
    b->gradient += sl_parameter_full_count(p);
}

static inline void picture_open(picture *p, const sl_model_config *config) {
    *p = (picture){.count = sl_model_count(config)};
    for (int r = 0; r < TEAM_MAX; r++) {
        p->weight[r] = malloc(p->count * sizeof(float));
        p->gradient[r] = malloc(p->count * sizeof(float));
        for (size_t i = 0; i < p->count; i++)
            p->weight[r][i] = p->gradient[r][i] = NAN;
    }
}

static inline void picture_close(picture *p) {
    for (int r = 0; r < TEAM_MAX; r++) {
        free(p->weight[r]);
        free(p->gradient[r]);
    }
}

static inline void picture_take(picture *p, trial *t, int rank) {
    brush b = {p->weight[rank], p->gradient[rank]};
    trial_each(t, team_paint, &b);
}

/** One picture of all ranks' in that of rank 0: everything is held by someone, and alike by all who hold it.
 */
static inline void picture_join(picture *p, int ranks) {
    for (size_t i = 0; i < p->count; i++) {
        for (int r = 1; r < ranks; r++) {
            float *w = &p->weight[0][i], *g = &p->gradient[0][i];
            float w2 = p->weight[r][i], g2 = p->gradient[r][i];
            if (isnan(*w)) {
                *w = w2;
                *g = g2;
            } else if (!isnan(w2)) {
                assert_memory_equal(w, &w2, sizeof w2);
                assert_memory_equal(g, &g2, sizeof g2);
            }
        }
        assert_false(isnan(p->weight[0][i]) || isnan(p->gradient[0][i]));
    }
    for (int r = 1; r < ranks; r++)
        assert_true(p->loss[r] == p->loss[0]);
}

#endif
