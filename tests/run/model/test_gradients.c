/* Gradients are the derivatives of the loss: against finite differences here, against PyTorch in
 * test_pytorch.py, for which `--write DIRECTORY CASE` leaves weights, text, loss, logits and gradients. */
#include "run/model/team.h"

#include "run/model/transformer_inside.h"

static const sl_model_config shape = {
    .layers = 4, .width = 24, .heads = 3, .context = 11, .vocabulary = 40, .batch = 2};
static const sl_model_config grouped = {.kind = SL_MODEL_LLAMA,
                                        .layers = 3,
                                        .width = 24,
                                        .heads = 6,
                                        .kv_heads = 2,
                                        .hidden = 40,
                                        .context = 11,
                                        .vocabulary = 40,
                                        .batch = 2};

typedef struct probe {
    trial *t;
    int checked;
} probe;

static double loss_of(trial *t) {
    double loss = 0;
    for (int m = 0; m < t->microbatches; m++) {
        size_t at = (size_t)m * (size_t)t->config.batch * (size_t)t->config.context;
        double one = NAN;
        for (int s = 0; s < t->stages; s++)
            assert_ok(sl_model_evaluate(t->stage[s], t->tokens + at, t->targets + at, trial_flow(t, s - 1, m),
                                        trial_flow(t, s, m), &one));
        loss += one;
    }
    return loss / t->microbatches;
}

/* (L(w + e u) - L(w - e u)) / 2e */
static double difference(trial *t, sl_parameter *p, const float *saved, const double *direction, double e) {
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->count; i++)
            p->weight[i] = (float)((double)saved[i] + (side ? -e : e) * direction[i]);
        trial_tie(t);
        loss[side] = loss_of(t);
    }
    memcpy(p->weight, saved, p->count * sizeof *saved);
    trial_tie(t);
    return (loss[0] - loss[1]) / (2 * e);
}

/* Along its own gradient the derivative of the loss is that gradient's norm. The central difference errs by c
 * e^2 + ..., which extrapolation from e and e/2 removes up to e^4; a loss of about 5 in f32 errs by some
 * 1e-6, so by 1e-6 / e. */
static void check_parameter(sl_parameter *p, void *context) {
    probe *at = context;
    const double e = 0.02, noise = 1e-6 / e * 3;
    float *saved = malloc(p->count * sizeof *saved);
    double *direction = malloc(p->count * sizeof *direction), norm = 0;
    memcpy(saved, p->weight, p->count * sizeof *saved);
    for (size_t i = 0; i < p->count; i++)
        norm += (double)p->gradient[i] * (double)p->gradient[i];
    norm = sqrt(norm);
    assert_true(norm > 10 * noise); /* else the check would prove nothing */
    for (size_t i = 0; i < p->count; i++)
        direction[i] = p->gradient[i] / norm;
    double coarse = difference(at->t, p, saved, direction, e),
           fine = difference(at->t, p, saved, direction, e / 2);
    double slope = (4 * fine - coarse) / 3, allowed = noise + fabs(fine - coarse) / 4 + 1e-3 * norm;
    if (fabs(slope - norm) > allowed)
        fail_msg("%s: gradient norm %.6f, finite difference %.6f (allowed %.2g)", p->name, norm, slope,
                 allowed);
    at->checked++;
    free(saved);
    free(direction);
}

static void check_all(const sl_model_config *config, int parameters) {
    uint64_t seed = trial_seed();
    trial t;
    trial_open(&t, config, 2, 2, seed);
    trial_blur(&t, seed + 1);
    double loss = trial_iterate(&t, TRIAL_PHASES);
    assert_near(loss, loss_of(&t), 0);
    probe at = {.t = &t};
    trial_each(&t, check_parameter, &at);
    assert_int_equal(at.checked, parameters);
    trial_close(&t);
}

static void every_parameter_has_the_gradient_of_finite_differences(void **state) {
    (void)state;
    sl_model_config tied = grouped;
    tied.tied = 1;
    check_all(&shape, 2 + 4 * 12 + 2);
    check_all(&grouped, 1 + 3 * 9 + 2);
    check_all(&tied, 1 + 3 * 9 + 1);
}

/* A model that does not know anything: uniform over the vocabulary, log 256 = 5.545; initial weights are
 * small. */
static void the_first_loss_is_that_of_a_uniform_guess(void **state) {
    (void)state;
    sl_model_config c = {.layers = 2, .width = 64, .heads = 2, .context = 32, .vocabulary = 256, .batch = 2};
    trial t;
    trial_open(&t, &c, 1, 2, 7);
    double loss = trial_iterate(&t, TRIAL_PHASES);
    assert_true(fabs(loss - log(256)) < 0.1);
    trial_close(&t);
}

/* ---- for PyTorch ---- */

enum { MICROBATCHES = 3, STAGES = 2 };

/* A case: a shape, and over how many tensor ranks it is divided. */
typedef struct reference {
    const char *name;
    sl_model_config config;
    int ranks;
} reference;

/* clang-format off */
static const reference references[] = {
    {"gpt2", {.layers = 4, .width = 96, .heads = 6, .context = 48, .vocabulary = 256, .batch = 2}, 1},
    {"gpt2-tensor", {.layers = 2, .width = 96, .heads = 6, .context = 48, .vocabulary = 257, .batch = 2}, 2},
    {"gpt2-50257", {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 50257, .batch = 1}, 1},
    {"llama", {.kind = SL_MODEL_LLAMA, .layers = 3, .width = 96, .heads = 6, .kv_heads = 2, .context = 48, .vocabulary = 300, .batch = 2}, 1},
    {"llama-tensor", {.kind = SL_MODEL_LLAMA, .layers = 3, .width = 96, .heads = 6, .kv_heads = 2, .context = 48, .vocabulary = 301, .batch = 2}, 2},
    {"gpt2-bf16", {.layers = 4, .width = 96, .heads = 6, .context = 48, .vocabulary = 256, .type = SL_BF16, .batch = 2}, 1},
    {"llama-bf16", {.kind = SL_MODEL_LLAMA, .layers = 3, .width = 96, .heads = 6, .kv_heads = 2, .context = 48, .vocabulary = 300, .type = SL_BF16, .batch = 2}, 1},
    {"llama-tied", {.kind = SL_MODEL_LLAMA, .layers = 2, .width = 64, .heads = 4, .context = 32, .vocabulary = 300, .tied = 1, .rope_base = 500, .norm_epsilon = 1e-3, .batch = 2}, 1},
};
/* clang-format on */

typedef struct outcome {
    picture of;
    float *logits; /* [sequences][context][vocabulary] */
    const char *directory;
    sl_model_config config;
} outcome;

static FILE *create(const char *directory, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

/* The logits again, from what F has kept of the final norm: F itself leaves their gradient. A tensor rank has
 * the columns of its tokens. */
static void take_logits(outcome *o, trial *t, int m) {
    sl_model_stage *s = t->stage[t->stages - 1];
    const sl_layout *l = &s->layout;
    const size_t rows = (size_t)l->rows, mine = (size_t)l->vocabulary, all = (size_t)o->config.vocabulary;
    float *h = s->scratch + l->h, *slice = malloc(rows * mine * sizeof *slice);
    sl_stage_norm_apply(s, sl_stage_final(s, 0), sl_stage_final(s, 1), s->kept[m].forward + l->normal, h);
    assert_ok(sl_stage_multiply(s, s->product.head[SL_PRODUCT_FORWARD], h,
                                sl_stage_head_weight(s, SL_PRODUCT_FORWARD), NULL, slice));
    for (size_t row = 0; row < rows; row++)
        memcpy(o->logits + ((size_t)m * rows + row) * all + (size_t)l->first_token, slice + row * mine,
               mine * sizeof *slice);
    free(slice);
}

static void write_name(sl_parameter *p, void *file) {
    fprintf(file, "%s %d %d\n", p->name, p->full_rows, p->full_columns);
}

static void write_text(const outcome *o, trial *t) {
    FILE *list = create(o->directory, "parameters.txt"), *text = create(o->directory, "text.u16");
    size_t tokens = (size_t)MICROBATCHES * (size_t)o->config.batch * (size_t)o->config.context;
    trial_each(t, write_name, list);
    fwrite(t->tokens, sizeof *t->tokens, tokens, text);
    fwrite(t->targets, sizeof *t->targets, tokens, text);
    if (fclose(list) || fclose(text))
        exit(1);
}

static void run_reference(member *m, void *context) {
    outcome *o = context;
    trial *t = &m->t;
    trial_blur(t, 12);
    assert_ok(sl_model_begin(t->stage[t->stages - 1], MICROBATCHES));
    assert_ok(sl_model_begin(t->stage[0], MICROBATCHES));
    for (int i = 0; i < MICROBATCHES; i++) {
        trial_forward(t, i);
        take_logits(o, t, i);
    }
    o->of.loss[m->rank] = trial_iterate(t, TRIAL_OVERLAP);
    picture_take(&o->of, t, m->rank);
    if (m->rank == 0)
        write_text(o, t);
}

static int write_array(const char *directory, const char *name, const float *values, size_t count) {
    FILE *file = create(directory, name);
    return fwrite(values, sizeof *values, count, file) != count || fclose(file);
}

static int write_reference(const char *directory, const char *name) {
    const reference *r = references;
    while (r < references + sizeof references / sizeof *references && strcmp(r->name, name) != 0)
        r++;
    if (r == references + sizeof references / sizeof *references)
        return 2;
    outcome o = {.config = sl_model_complete(&r->config), .directory = directory};
    const sl_model_config *c = &o.config;
    sl_device *device;
    assert_ok(sl_device_open_cpu(1, &device));
    int able = c->type != SL_BF16 || device->has_bf16;
    device->close(device);
    if (!able)
        return 77;
    const int sequences = c->batch * MICROBATCHES;
    const size_t logits = (size_t)sequences * (size_t)c->context * (size_t)c->vocabulary;
    o.logits = malloc(logits * sizeof *o.logits);
    picture_open(&o.of, c);
    team_run(c, r->ranks, STAGES, MICROBATCHES, 11, run_reference, &o);
    picture_join(&o.of, r->ranks);
    FILE *about = create(directory, "about.txt");
    fprintf(about, "%s %d %d %d %d %d %d %d %d %d %.17g %.17g %.17g\n", sl_architecture_of(c->kind)->name,
            c->layers, c->width, c->heads, c->kv_heads, c->hidden, c->context, c->vocabulary, sequences,
            c->tied, c->rope_base, c->norm_epsilon, o.of.loss[0]);
    int failed = fclose(about) || write_array(directory, "weights.f32", o.of.weight[0], o.of.count) ||
                 write_array(directory, "gradients.f32", o.of.gradient[0], o.of.count) ||
                 write_array(directory, "logits.f32", o.logits, logits);
    picture_close(&o.of);
    free(o.logits);
    return failed;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--write") == 0)
        return write_reference(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_has_the_gradient_of_finite_differences),
        cmocka_unit_test(the_first_loss_is_that_of_a_uniform_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
