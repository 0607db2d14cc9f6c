/* What is kept of a microbatch goes to host memory and comes back: the same bits, and two hard limits. */
#include "run/model/trial.h"

#include "base/memory.h"

static const sl_model_config shape = {
    .layers = 4, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .batch = 2};

static void copy_gradient(sl_parameter *p, void *context) {
    float **at = context;
    memcpy(*at, p->gradient, p->count * sizeof(float));
    *at += p->count;
}

/* All gradients of an iteration of two stages; with `hosted`, everything lies on the host whenever no op
 * needs it: 3 of 4 microbatches between F and I, and again between I and W. */
static double iterate(trial *t, sl_arena *const *host, float *gradients) {
    double loss = 0;
    for (int s = 0; s < t->stages; s++) {
        sl_model_set_host(t->stage[s], host[s]);
        assert_ok(sl_model_begin(t->stage[s], t->microbatches));
    }
    for (int op = 0; op < 3; op++)
        for (int m = 0; m < t->microbatches; m++) {
            for (int s = 0; s < t->stages && op > 0 && host[s]; s++)
                assert_ok(sl_model_fetch(t->stage[s], m));
            if (op == 0)
                trial_forward(t, m);
            else if (op == 1)
                trial_input_grad(t, m);
            else
                trial_weight_grad(t, m);
            for (int s = 0; s < t->stages && op < 2 && host[s]; s++)
                assert_ok(sl_model_offload(t->stage[s], m));
        }
    for (int m = 0; m < t->microbatches; m++)
        loss += sl_model_loss(t->stage[t->stages - 1], m);
    trial_each(t, copy_gradient, &gradients);
    return loss;
}

static void open_hosts(trial *t, int activations, sl_arena **host) {
    for (int s = 0; s < t->stages; s++) {
        sl_model_bytes b;
        assert_ok(sl_model_measure(&t->config, t->device, s, t->stages, &b));
        assert_ok(sl_arena_open(NULL, (size_t)activations * (b.forward + b.backward), &host[s]));
    }
}

static void close_hosts(trial *t, sl_arena **host) {
    for (int s = 0; s < t->stages; s++) {
        sl_model_set_host(t->stage[s], NULL);
        assert_int_equal(sl_arena_in_use(host[s]), 0);
        sl_arena_close(host[s]);
    }
}

static void moved_activations_give_the_same_bits(void **state) {
    (void)state;
    trial t;
    sl_arena *none[TRIAL_STAGES] = {NULL}, *host[TRIAL_STAGES];
    size_t count = sl_model_count(&shape);
    float *kept = calloc(count, sizeof *kept), *moved = calloc(count, sizeof *moved);
    trial_open(&t, &shape, 2, 4, trial_seed());
    open_hosts(&t, 4, host);
    double reference = iterate(&t, none, kept);
    size_t peak = sl_arena_peak(t.arena[0]);
    assert_true(iterate(&t, host, moved) == reference);
    assert_memory_equal(kept, moved, count * sizeof *kept);
    assert_true(sl_arena_peak(host[0]) > 0 && sl_arena_peak(t.arena[0]) == peak);
    close_hosts(&t, host);
    trial_close(&t);
    free(kept);
    free(moved);
}

/* A device with room for one activation of four: what is on the host does not count on the device. */
static void the_device_holds_one_microbatch_while_four_are_in_flight(void **state) {
    (void)state;
    trial t;
    sl_model_bytes b;
    sl_arena *host[TRIAL_STAGES];
    float *gradients = calloc(sl_model_count(&shape), sizeof *gradients);
    trial_open(&t, &shape, 2, 4, 1);
    open_hosts(&t, 4, host);
    iterate(&t, host, gradients);
    for (int s = 0; s < 2; s++) {
        assert_ok(sl_model_measure(&shape, t.device, s, 2, &b));
        assert_int_equal(sl_arena_peak(t.arena[s]), b.fixed + b.forward + b.backward);
        assert_int_equal(sl_arena_peak(host[s]), 4 * (b.forward + b.backward));
    }
    close_hosts(&t, host);
    trial_close(&t);
    free(gradients);
}

static void moves_out_of_turn_and_over_a_limit_are_refused(void **state) {
    (void)state;
    trial t;
    sl_arena *host[TRIAL_STAGES];
    trial_open(&t, &shape, 1, 3, 1);
    open_hosts(&t, 1, host);
    assert_ok(sl_model_begin(t.stage[0], 3));
    trial_forward(&t, 0);
    trial_forward(&t, 1);
    assert_fails(sl_model_offload(t.stage[0], 0), SL_EINVAL, "no host memory");
    sl_model_set_host(t.stage[0], host[0]);
    assert_fails(sl_model_offload(t.stage[0], 2), SL_EINVAL, "out of turn");
    assert_fails(sl_model_offload(t.stage[0], 3), SL_EINVAL, "has 3");
    assert_fails(sl_model_fetch(t.stage[0], 0), SL_EINVAL, "out of turn");
    trial_input_grad(&t, 0);
    trial_input_grad(&t, 1);
    assert_ok(sl_model_offload(t.stage[0], 0));
    assert_fails(sl_model_offload(t.stage[0], 0), SL_EINVAL, "out of turn");
    assert_fails(sl_model_offload(t.stage[0], 1), SL_ENOMEM, "of the limit"); /* the host is full */
    assert_fails(sl_model_weight_grad(t.stage[0], 0), SL_EINVAL, "is in host memory");
    assert_ok(sl_model_fetch(t.stage[0], 0));
    assert_ok(sl_model_weight_grad(t.stage[0], 0));
    assert_ok(sl_model_offload(t.stage[0], 1));
    assert_ok(sl_model_begin(t.stage[0], 3)); /* an iteration cut short frees the host as well */
    assert_int_equal(sl_arena_in_use(host[0]), 0);
    close_hosts(&t, host);
    trial_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_activations_give_the_same_bits),
        cmocka_unit_test(the_device_holds_one_microbatch_while_four_are_in_flight),
        cmocka_unit_test(moves_out_of_turn_and_over_a_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
