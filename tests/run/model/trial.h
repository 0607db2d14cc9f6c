/* A pipeline in one process: the stages of a model, activations handed on by copying, ops in a chosen order.
 */
#ifndef SL_TESTS_RUN_MODEL_TRIAL_H
#define SL_TESTS_RUN_MODEL_TRIAL_H

#include "check.h"

#include "run/model/transformer.h"
#include <math.h>

/* ---- whole ops ---- */

static const sl_op_part whole_op = {.index = 0, .count = 1};

static inline sl_status sl_model_forward(sl_model_stage *s, int microbatch, const uint16_t *tokens,
                                         const uint16_t *targets, const float *input, float *output) {
    return sl_model_forward_part(s, microbatch, whole_op, tokens, targets, input, output);
}

static inline sl_status sl_model_input_grad(sl_model_stage *s, int microbatch, const float *output_grad,
                                            float *input_grad) {
    return sl_model_input_grad_part(s, microbatch, whole_op, output_grad, input_grad);
}

static inline sl_status sl_model_weight_grad(sl_model_stage *s, int microbatch) {
    return sl_model_weight_grad_part(s, microbatch, whole_op);
}

enum { TRIAL_STAGES = 8 };

/* Orders of ops that keep W ascending. */
/* Of the devices that trials open; a program may set it. */
static int trial_threads = 1;

typedef enum trial_order {
    TRIAL_PHASES,     /* all F, all I, all W */
    TRIAL_ONE_BY_ONE, /* F, I, W of each microbatch before the next */
    TRIAL_BACKWARDS,  /* all F, I from the last microbatch to the first, then W */
    TRIAL_OVERLAP,    /* F two ahead of I, W one behind I */
    TRIAL_ORDERS
} trial_order;

typedef struct trial {
    sl_model_config config;
    int stages, microbatches;
    sl_device *device;
    sl_arena *arena[TRIAL_STAGES];
    sl_model_stage *stage[TRIAL_STAGES];
    uint16_t *tokens, *targets; /* [microbatches][batch][context] */
    float *flow;                /* [stages][microbatches] activations, then gradients, of a stage's output */
    size_t message;             /* floats */
} trial;

static inline uint64_t trial_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/** Uniform in (-1, 1). */
static inline float trial_real(uint64_t *state) {
    return (float)((double)(trial_random(state) >> 11) * 0x1p-52 - 1.0);
}

static inline uint64_t trial_seed(void) {
    const char *text = getenv("SL_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20240611;
    print_message("seed %llu (SL_SEED)\n", (unsigned long long)seed);
    return seed;
}

static inline void trial_fill_text(trial *t, uint64_t seed) {
    const size_t sequence = (size_t)t->config.context;
    for (size_t s = 0; s < (size_t)t->microbatches * (size_t)t->config.batch; s++) {
        uint16_t next = (uint16_t)(trial_random(&seed) % (uint64_t)t->config.vocabulary);
        for (size_t i = 0; i < sequence; i++) {
            t->tokens[s * sequence + i] = next;
            /* half of the text can be learnt */
            next = (uint16_t)((trial_random(&seed) % 2 ? next * 5u + 3u : trial_random(&seed)) %
                              (uint64_t)t->config.vocabulary);
            t->targets[s * sequence + i] = next;
        }
    }
}

static inline void trial_open(trial *t, const sl_model_config *config, int stages, int microbatches,
                              uint64_t seed) {
    *t = (trial){.config = *config, .stages = stages, .microbatches = microbatches};
    sl_model_bytes bytes = {0};
    assert_ok(sl_device_open_cpu(trial_threads, &t->device));
    for (int s = 0; s < stages; s++) {
        assert_ok(sl_model_measure(config, t->device, s, stages, &bytes));
        /* exactly what the header promises to be enough */
        assert_ok(sl_arena_open(
            t->device, bytes.fixed + (size_t)microbatches * (bytes.forward + bytes.backward), &t->arena[s]));
        assert_ok(sl_model_stage_open(config, t->device, t->arena[s], s, stages, seed, &t->stage[s]));
    }
    t->message = bytes.message / sizeof(float);
    size_t tokens = (size_t)microbatches * (size_t)config->batch * (size_t)config->context;
    t->tokens = malloc(tokens * sizeof *t->tokens);
    t->targets = malloc(tokens * sizeof *t->targets);
    t->flow = malloc((size_t)stages * (size_t)microbatches * bytes.message);
    trial_fill_text(t, seed);
}

static inline void trial_close(trial *t) {
    for (int s = 0; s < t->stages; s++) {
        sl_model_stage_close(t->stage[s]);
        assert_int_equal(sl_arena_in_use(t->arena[s]), 0);
        sl_arena_close(t->arena[s]);
    }
    t->device->close(t->device);
    free(t->tokens);
    free(t->targets);
    free(t->flow);
}

static inline float *trial_flow(trial *t, int stage, int microbatch) {
    return stage < 0 || stage == t->stages - 1
               ? NULL
               : t->flow + ((size_t)stage * (size_t)t->microbatches + (size_t)microbatch) * t->message;
}

static inline void trial_forward(trial *t, int m) {
    size_t at = (size_t)m * (size_t)t->config.batch * (size_t)t->config.context;
    for (int s = 0; s < t->stages; s++)
        assert_ok(sl_model_forward(t->stage[s], m, s == 0 ? t->tokens + at : NULL,
                                   s == t->stages - 1 ? t->targets + at : NULL, trial_flow(t, s - 1, m),
                                   trial_flow(t, s, m)));
}

static inline void trial_input_grad(trial *t, int m) {
    for (int s = t->stages - 1; s >= 0; s--)
        assert_ok(sl_model_input_grad(t->stage[s], m, trial_flow(t, s, m), trial_flow(t, s - 1, m)));
}

static inline void trial_weight_grad(trial *t, int m) {
    for (int s = 0; s < t->stages; s++)
        assert_ok(sl_model_weight_grad(t->stage[s], m));
}

/** Loss and gradients of all microbatches; the head's gradient is added to the embedding's. */
static inline double trial_iterate(trial *t, trial_order order) {
    const int n = t->microbatches;
    double loss = 0;
    for (int s = 0; s < t->stages; s++)
        assert_ok(sl_model_begin(t->stage[s], n));
    for (int i = 0; i < n + 3; i++) {
        if (i < n && order != TRIAL_OVERLAP)
            trial_forward(t, i);
        if (order == TRIAL_ONE_BY_ONE && i < n) {
            trial_input_grad(t, i);
            trial_weight_grad(t, i);
        }
        if (order == TRIAL_OVERLAP) {
            if (i < n)
                trial_forward(t, i);
            if (i >= 2 && i - 2 < n)
                trial_input_grad(t, i - 2);
            if (i >= 3)
                trial_weight_grad(t, i - 3);
        }
    }
    for (int i = 0; i < n && (order == TRIAL_PHASES || order == TRIAL_BACKWARDS); i++)
        trial_input_grad(t, order == TRIAL_PHASES ? i : n - 1 - i);
    for (int i = 0; i < n && (order == TRIAL_PHASES || order == TRIAL_BACKWARDS); i++)
        trial_weight_grad(t, i);
    for (int m = 0; m < n; m++)
        loss += sl_model_loss(t->stage[t->stages - 1], m);
    if (sl_model_head(t->stage[t->stages - 1]) && t->stages == 1)
        assert_ok(sl_model_add_own_head(t->stage[0]));
    else if (sl_model_head(t->stage[t->stages - 1]))
        assert_ok(sl_model_add_head(t->stage[0], sl_model_head(t->stage[t->stages - 1])->gradient, 0));
    return loss / n;
}

/** After weights have changed: the head's copy of the embedding, and the packed ones. */
static inline void trial_tie(trial *t) {
    sl_parameter *head = sl_model_head(t->stage[t->stages - 1]), *wte = sl_model_embedding(t->stage[0]);
    if (head && head->weight != wte->weight)
        memcpy(head->weight, wte->weight, wte->count * sizeof(float));
    for (int s = 0; s < t->stages; s++)
        assert_ok(sl_model_weights_changed(t->stage[s]));
}

typedef void trial_visit(sl_parameter *parameter, void *context);

/** Every parameter in canonical order. */
static inline void trial_each(trial *t, trial_visit *visit, void *context) {
    for (int s = 0; s < t->stages; s++) {
        int count;
        sl_parameter *list = sl_model_parameters(t->stage[s], &count);
        for (int i = 0; i < count; i++)
            visit(&list[i], context);
    }
}

static inline void trial_blur_one(sl_parameter *p, void *state) {
    size_t count = sl_parameter_full_count(p);
    float *noise = malloc(count * sizeof *noise), *mine = malloc(p->count * sizeof *mine);
    for (size_t i = 0; i < count; i++)
        noise[i] = 0.25f * trial_real(state);
    sl_parameter_cut(p, noise, mine);
    for (size_t i = 0; i < p->count; i++)
        p->weight[i] += mine[i];
    free(noise);
    free(mine);
}

/** Moves the weights away from their small beginning, so that every path of the gradient carries weight; a
 * tensor rank's slices move as those of the full tensors. */
static inline void trial_blur(trial *t, uint64_t seed) {
    trial_each(t, trial_blur_one, &seed);
    trial_tie(t);
}

#endif
