/* Gradients are the derivatives of the loss: against finite differences here, against PyTorch in
 * test_pytorch.py, for which `--write DIRECTORY` leaves weights, text, loss and gradients. */
#include "run/model/trial.h"

static const sl_model_config shape = {
    .layers = 4, .width = 24, .heads = 3, .context = 11, .vocabulary = 40, .batch = 2};

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

static void every_parameter_has_the_gradient_of_finite_differences(void **state) {
    (void)state;
    uint64_t seed = trial_seed();
    trial t;
    trial_open(&t, &shape, 2, 2, seed);
    trial_blur(&t, seed + 1);
    double loss = trial_iterate(&t, TRIAL_PHASES);
    assert_near(loss, loss_of(&t), 0);
    probe at = {.t = &t};
    trial_each(&t, check_parameter, &at);
    assert_int_equal(at.checked, 2 + 4 * 12 + 2);
    trial_close(&t);
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

typedef struct writer {
    FILE *list, *weights, *gradients;
} writer;

static void write_one(sl_parameter *p, void *context) {
    writer *w = context;
    fprintf(w->list, "%s %d %d\n", p->name, p->rows, p->columns);
    fwrite(p->weight, sizeof(float), p->count, w->weights);
    fwrite(p->gradient, sizeof(float), p->count, w->gradients);
}

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

static int write_reference(const char *directory) {
    const sl_model_config c = {
        .layers = 4, .width = 96, .heads = 6, .context = 48, .vocabulary = 256, .batch = 2};
    const int microbatches = 3;
    trial t;
    trial_open(&t, &c, 2, microbatches, 11);
    trial_blur(&t, 12);
    double loss = trial_iterate(&t, TRIAL_OVERLAP);
    size_t tokens = (size_t)microbatches * (size_t)c.batch * (size_t)c.context;
    writer w = {create(directory, "parameters.txt"), create(directory, "weights.f32"),
                create(directory, "gradients.f32")};
    trial_each(&t, write_one, &w);
    FILE *text = create(directory, "text.u16"), *about = create(directory, "about.txt");
    fwrite(t.tokens, sizeof *t.tokens, tokens, text);
    fwrite(t.targets, sizeof *t.targets, tokens, text);
    fprintf(about, "%d %d %d %d %d %.17g\n", c.layers, c.width, c.heads, c.context, c.batch * microbatches,
            loss);
    FILE *files[] = {w.list, w.weights, w.gradients, text, about};
    int failed = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        failed |= fclose(files[i]);
    trial_close(&t);
    return failed ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_reference(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_has_the_gradient_of_finite_differences),
        cmocka_unit_test(the_first_loss_is_that_of_a_uniform_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
