/* Choosing through the public interface. Eight equal layers of 1 ms each for F, I and W, eight sequences, and
 * four devices that can hold at most five and a half layers (18 bytes for each parameter). Without ZeRO and
 * with one stage on a rank, two pipeline ranks are best: four microbatches of 12 ms for each rank, and the
 * second one begins after one F, 4 ms: 52 ms. Four pipeline ranks take eight of 6 ms, and 3 x 2 ms: 54. */
#include "base/memory.h"
#include "library/check_library.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const char model_text[] =
    "layers:\n"
    "  - {name: block, repeat: 8, times_ms: {F: 1, I: 1, W: 1}, activations_mb: 0.001, output_mb: 0.000001,\n"
    "     input_mb: 0.000001, parameters_m: 10}\n"
    "measured: {tensor: 1, size: 1}\n"
    "batch: {sequences: 8}\n";
static const char cluster_text[] = "hosts: [\"node[0-3]\"]\n"
                                   "links:\n"
                                   "  default: {latency_ms: 0, bandwidth_gbps: 1000000}\n"
                                   "device: {tflops: 1, memory_gb_per_s: 10000000, memory_gb: 1}\n";

static slackline_chooser *make(void) {
    slackline_chooser *chooser;
    works(slackline_chooser_make(&chooser));
    works(slackline_chooser_fix(chooser, "zero", "0"));
    works(slackline_chooser_fix(chooser, "chunks", "1"));
    works(slackline_chooser_set_time_limit(chooser, 2));
    works(slackline_chooser_set_threads(chooser, 1));
    return chooser;
}

static slackline_status parse(const slackline_chooser *chooser, slackline_choices **choices) {
    return slackline_chooser_parse(chooser, "model", model_text, "cluster", cluster_text, NULL, 0, choices);
}

/* The numbers of this file leave messages, sums and updates less than 0.2 ms. */
static void is_about(int64_t time, int64_t by_hand) {
    if (time < by_hand || time > by_hand + ms / 5)
        fail_msg("%lld ns, by hand %lld", (long long)time, (long long)by_hand);
}

static void a_model_is_divided_as_by_hand(void **state) {
    (void)state;
    slackline_choices *choices;
    slackline_choices_summary s;
    slackline_arrangement a;
    slackline_chooser *chooser = make();
    works(parse(chooser, &choices));
    slackline_choices_summary_of(choices, &s);
    assert_true(s.arrangements >= 1 && s.arrangements <= 8 && s.shapes >= 2 && s.planned >= 1);
    slackline_choices_arrangement(choices, 0, &a);
    is_about(a.time_ns, 52 * ms);
    assert_true(s.bound_ns > 0 && s.bound_ns <= a.bound_ns && a.bound_ns <= a.time_ns && s.gap >= 0);
    assert_int_equal(a.pipeline, 2);
    assert_int_equal(a.data, 2);
    assert_int_equal(a.tensor * a.context * a.expert * a.chunks, 1);
    assert_int_equal(a.placement, SLACKLINE_LINEAR);
    assert_int_equal(a.stages, 2);
    assert_int_equal(a.size, 1);
    assert_int_equal(a.microbatches, 4);
    assert_int_equal(a.zero, 0);
    assert_int_equal(a.recomputed_stages, 0);
    assert_string_equal(a.recompute, "none");
    for (int stage = 0; stage <= 2; stage++)
        assert_int_equal(slackline_choices_first_layer(choices, 0, stage), 4 * stage);
    assert_int_equal(slackline_choices_recomputes(choices, 0, 1), 0);
    /* four layers' 18 bytes per parameter, and few activations */
    assert_true(a.memory >= 4 * 18e7 && a.memory < 4 * 18e7 + 1e6);
    assert_true(slackline_choices_memory(choices, 0, 0) <= a.memory);
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
}

/* The same on two hosts of speeds 1 and 1/2 with two devices each: whichever devices the replicas are on,
 * they have 8 microbatches together, and each device one rank. */
static void devices_messages_and_host_memory_are_known(void **state) {
    (void)state;
    static const char mixed[] = "hosts: [{name: fast, devices: 2}, {name: slow, devices: 2, speed: 0.5}]\n"
                                "links:\n"
                                "  default: {latency_ms: 0, bandwidth_gbps: 1000000}\n"
                                "  inside: {latency_ms: 0, bandwidth_gbps: 1000000}\n"
                                "communication: fifo\n"
                                "device: {tflops: 1, memory_gb_per_s: 10000000, memory_gb: 1, "
                                "host_memory_gb: 1, host_gb_per_s: 1000}\n";
    slackline_choices *choices;
    const char *communicators;
    int seen = 0;
    slackline_chooser *chooser = make();
    works(slackline_chooser_fix(chooser, "data", "2"));
    works(slackline_chooser_fix(chooser, "pipeline", "2"));
    works(slackline_chooser_fix(chooser, "size", "1"));
    works(slackline_chooser_fix(chooser, "neighbors", "stages"));
    works(slackline_chooser_fix(chooser, "offload", "activations"));
    works(slackline_chooser_fix(chooser, "split", "uneven"));
    works(slackline_chooser_parse(chooser, "model", model_text, "cluster", mixed, NULL, 0, &choices));
    int one = slackline_choices_microbatches(choices, 0, 0),
        other = slackline_choices_microbatches(choices, 0, 1);
    assert_true(one >= 1 && other >= 1 && one + other == 8);
    assert_int_equal(slackline_choices_microbatches(choices, 0, 2), 0);
    assert_string_equal(slackline_choices_offload(choices, 0), "activations");
    assert_true(slackline_choices_host_memory(choices, 0) <= 1e9);
    for (int rank = 0; rank < 4; rank++)
        seen |= 1 << slackline_choices_device(choices, 0, rank);
    assert_int_equal(seen, 15);
    assert_int_equal(slackline_choices_device(choices, 0, 4), -1);
    assert_string_equal(slackline_choices_communication(choices, 0, &communicators), "fifo");
    assert_non_null(communicators);
    assert_null(slackline_choices_communication(choices, 32, &communicators));
    assert_null(communicators);
    assert_null(slackline_choices_offload(choices, 32));
    assert_true(slackline_choices_host_memory(choices, 32) <= 0);
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
}

static void an_arrangement_is_a_problem_and_its_plan(void **state) {
    (void)state;
    slackline_choices *choices;
    slackline_arrangement a;
    slackline_problem *problem;
    slackline_plan *plan, *again;
    slackline_summary first, second;
    char *csv;
    size_t size;
    slackline_chooser *chooser = make();
    works(parse(chooser, &choices));
    slackline_chooser_free(chooser); /* the choices need it no longer */
    slackline_choices_arrangement(choices, 0, &a);
    works(slackline_choices_problem(choices, 0, &problem));
    works(slackline_choices_plan(choices, 0, &plan));
    slackline_plan_summary(plan, &first);
    assert_string_equal(first.schedule, a.schedule);
    slackline_choices_free(choices); /* and these do not need the choices */
    assert_int_equal(slackline_problem_ranks(problem), 2);
    assert_int_equal(slackline_problem_microbatches(problem), 4);
    is_about(first.makespan_ns, 52 * ms);
    assert_true(first.makespan_ns <= a.time_ns && first.bound_ns <= first.makespan_ns && first.memory_ok);
    works(slackline_plan_write(plan, "csv", &csv, &size));
    works(slackline_simulate_csv_text(problem, "order", csv, size, &again));
    slackline_plan_summary(again, &second);
    assert_int_equal(second.makespan_ns, first.makespan_ns);
    slackline_free(csv);
    slackline_plan_free(again);
    slackline_plan_free(plan);
    slackline_problem_free(problem);
}

static void fixed_values_and_changes_hold(void **state) {
    (void)state;
    static const char *const half[] = {"batch.sequences=4"};
    slackline_choices *choices;
    slackline_arrangement a;
    slackline_chooser *chooser = make();
    works(slackline_chooser_fix(chooser, "pipeline", "4"));
    works(slackline_chooser_fix(chooser, "size", "1"));
    works(slackline_chooser_allow(chooser, "1f1b"));
    works(slackline_chooser_allow(chooser, "1f1b"));
    works(slackline_chooser_set_most(chooser, 1));
    slackline_chooser_set_seed(chooser, 7);
    works(parse(chooser, &choices));
    slackline_choices_arrangement(choices, 0, &a);
    assert_string_equal(a.schedule, "1f1b");
    is_about(a.time_ns, (8 + 3) * 6 * ms); /* (M + R - 1) (F + B) */
    slackline_choices_free(choices);
    works(slackline_chooser_parse(chooser, "model", model_text, "cluster", cluster_text, half, 1, &choices));
    slackline_choices_arrangement(choices, 0, &a);
    is_about(a.time_ns, (4 + 3) * 6 * ms);
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
}

static void files_are_read(void **state) {
    (void)state;
    char model[] = "/tmp/slackline-model-XXXXXX", cluster[] = "/tmp/slackline-cluster-XXXXXX";
    slackline_choices *choices;
    slackline_arrangement a;
    slackline_chooser *chooser = make();
    int first = mkstemp(model), second = mkstemp(cluster);
    assert_true(first >= 0 && second >= 0);
    assert_true(write(first, model_text, strlen(model_text)) > 0);
    assert_true(write(second, cluster_text, strlen(cluster_text)) > 0);
    close(first);
    close(second);
    works(slackline_chooser_read(chooser, model, cluster, NULL, 0, &choices));
    slackline_choices_arrangement(choices, 0, &a);
    is_about(a.time_ns, 52 * ms);
    slackline_choices_free(choices);
    refuses(slackline_chooser_read(chooser, cluster, model, NULL, 0, &choices), cluster);
    refuses(slackline_chooser_read(chooser, "/nowhere", cluster, NULL, 0, &choices), "/nowhere");
    assert_null(choices);
    refuses(slackline_chooser_read(chooser, model, "/nowhere", NULL, 0, &choices), "/nowhere");
    unlink(model);
    unlink(cluster);
    slackline_chooser_free(chooser);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    static const char *const none[] = {"batch.sequences=0"};
    slackline_choices *choices;
    slackline_problem *problem;
    slackline_plan *plan;
    slackline_arrangement a;
    char *text;
    slackline_chooser *chooser = make();
    refuses(slackline_chooser_fix(chooser, "tensor", "0"), "fix tensor takes a whole number from 1, got '0'");
    refuses(slackline_chooser_fix(chooser, "placement", "ring"), "linear, loop, wave, got 'ring'");
    refuses(slackline_chooser_fix(chooser, "color", "red"), "got 'color'");
    refuses(slackline_chooser_fix(chooser, NULL, "8"), "NULL");
    refuses(slackline_chooser_fix(chooser, "tensor", NULL), "NULL");
    refuses(slackline_chooser_allow(chooser, "paln"), "'paln'");
    refuses(slackline_chooser_set_time_limit(chooser, -1), "a time limit");
    refuses(slackline_chooser_set_most(chooser, 33), "from 1 to 32, got 33");
    refuses(slackline_chooser_set_threads(chooser, -1), "threads");
    refuses(
        slackline_chooser_parse(chooser, "mine", "layers: 3\n", "cluster", cluster_text, NULL, 0, &choices),
        "mine:1");
    assert_null(choices);
    refuses(slackline_chooser_parse(chooser, "model", model_text, "yours", "hosts: []\n", NULL, 0, &choices),
            "yours");
    refuses(slackline_chooser_parse(chooser, "model", model_text, "cluster", cluster_text, none, 1, &choices),
            "sequences");
    works(slackline_chooser_fix(chooser, "data", "3"));
    assert_int_equal(parse(chooser, &choices), SLACKLINE_NO_ANSWER);
    assert_says(slackline_error(), "no shape divides 8 sequences of 8 layers over 4 devices");
    works(slackline_chooser_fix(chooser, "data", "4")); /* all layers on each device */
    assert_int_equal(parse(chooser, &choices), SLACKLINE_NO_ANSWER);
    assert_null(choices);
    works(slackline_chooser_fix(chooser, "data", "2"));
    works(parse(chooser, &choices));
    refuses(slackline_choices_problem(choices, -1, &problem), "the index of an arrangement");
    assert_null(problem);
    refuses(slackline_choices_plan(choices, 32, &plan), "the index of an arrangement");
    assert_null(plan);
    slackline_choices_arrangement(choices, 32, &a);
    assert_true(a.pipeline == 0 && a.schedule == NULL);
    assert_int_equal(slackline_choices_first_layer(choices, 0, 3), -1);
    assert_int_equal(slackline_choices_first_layer(choices, 32, 0), -1);
    assert_true(slackline_choices_memory(choices, 0, 2) == 0);
    refuses(slackline_choices_write(choices, "svg", &text, NULL), "unknown format of choices 'svg'");
    assert_null(text);
    slackline_choices_free(choices);
    slackline_choices_free(NULL);
    slackline_chooser_free(chooser);
    slackline_chooser_free(NULL);
}

static void choices_are_texts(void **state) {
    (void)state;
    slackline_choices *choices;
    char *text;
    size_t size;
    slackline_chooser *chooser = make();
    works(parse(chooser, &choices));
    works(slackline_choices_write(choices, "text", &text, &size));
    assert_int_equal(strlen(text), size);
    assert_says(text, "8 layers, 8 sequences");
    assert_says(text, "layers of its stages: 4, 4");
    slackline_free(text);
    works(slackline_choices_write(choices, "json", &text, NULL));
    assert_says(text, "{\"format\":\"slackline-choices-1\"");
    assert_says(text, "\"cut\":[0,4,8]");
    slackline_free(text);
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
}

static void *stop_soon(void *chooser) {
    usleep(50000);
    slackline_chooser_stop(chooser);
    return NULL;
}

/* Llama 3 70B on 256 devices: no second of search proves anything. */
static void another_thread_ends_a_search(void **state) {
    (void)state;
    static const char large[] = "model: {layers: 80, width: 8192, heads: 64, kv_heads: 8, hidden: 28672, "
                                "gated: true, vocabulary: 128256, context: 8192}\nbatch: {sequences: 512}\n",
                      many[] =
                          "hosts: [{name: \"node[0-31]\", devices: 8}]\n"
                          "links:\n  default: {latency_ms: 0.01, bandwidth_gbps: 400}\n"
                          "  inside: {latency_ms: 0.003, bandwidth_gbps: 3600}\n"
                          "device: {tflops: 989, efficiency: 0.5, memory_gb_per_s: 3350, memory_gb: 80}\n";
    slackline_choices *choices;
    slackline_choices_summary s;
    pthread_t thread;
    slackline_chooser *chooser;
    works(slackline_chooser_make(&chooser));
    works(slackline_chooser_set_time_limit(chooser, 3600));
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, chooser), 0);
    slackline_status status =
        slackline_chooser_parse(chooser, "model", large, "cluster", many, NULL, 0, &choices);
    pthread_join(thread, NULL);
    if (status == SLACKLINE_OK) { /* not an hour later */
        slackline_choices_summary_of(choices, &s);
        assert_true(s.arrangements >= 1 && s.solve_ns < 600 * 1000 * ms);
    } else {
        assert_int_equal(status, SLACKLINE_NO_ANSWER);
    }
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
}

static void *choose_alone(void *chooser) {
    slackline_choices *choices;
    slackline_arrangement a = {0};
    int64_t *time = malloc(sizeof *time);
    if (parse(chooser, &choices) == SLACKLINE_OK)
        slackline_choices_arrangement(choices, 0, &a);
    slackline_choices_free(choices);
    *time = a.time_ns;
    return time;
}

static void threads_share_a_chooser(void **state) {
    (void)state;
    pthread_t thread[3];
    slackline_chooser *chooser = make();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, choose_alone, chooser), 0);
    for (int i = 0; i < 3; i++) {
        void *time;
        pthread_join(thread[i], &time);
        is_about(*(int64_t *)time, 52 * ms);
        free(time);
    }
    slackline_chooser_free(chooser);
}

static slackline_status whole_session(void) {
    slackline_chooser *chooser;
    slackline_choices *choices = NULL;
    slackline_problem *problem = NULL;
    slackline_plan *plan = NULL;
    char *text = NULL;
    slackline_status status = slackline_chooser_make(&chooser);
    if (status != SLACKLINE_OK)
        return status;
    slackline_chooser_set_time_limit(chooser, 0);
    slackline_chooser_set_threads(chooser, 1);
    status = slackline_chooser_fix(chooser, "pipeline", "2");
    if (status == SLACKLINE_OK)
        status = slackline_chooser_fix(chooser, "zero", "0");
    if (status == SLACKLINE_OK)
        status = slackline_chooser_fix(chooser, "size", "4");
    if (status == SLACKLINE_OK)
        status = slackline_chooser_fix(chooser, "chunks", "1");
    if (status == SLACKLINE_OK)
        status = slackline_chooser_allow(chooser, "1f1b");
    if (status == SLACKLINE_OK)
        status = parse(chooser, &choices);
    if (status == SLACKLINE_OK)
        status = slackline_choices_problem(choices, 0, &problem);
    if (status == SLACKLINE_OK)
        status = slackline_choices_plan(choices, 0, &plan);
    if (status == SLACKLINE_OK)
        status = slackline_choices_write(choices, "json", &text, NULL);
    slackline_free(text);
    slackline_plan_free(plan);
    slackline_problem_free(problem);
    slackline_choices_free(choices);
    slackline_chooser_free(chooser);
    return status;
}

/* Leaks are the address sanitizer's to find. */
static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    long n = 0;
    for (slackline_status status = SLACKLINE_NO_MEMORY; status != SLACKLINE_OK;
         n = n < 300 ? n + 1 : n + n / 20) {
        sl_alloc_fail_at(n);
        status = whole_session();
        sl_alloc_fail_at(-1);
        assert_true(status == SLACKLINE_OK || status == SLACKLINE_NO_MEMORY);
        assert_true(n < 100000000);
    }
    assert_true(n > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_divided_as_by_hand),
        cmocka_unit_test(devices_messages_and_host_memory_are_known),
        cmocka_unit_test(an_arrangement_is_a_problem_and_its_plan),
        cmocka_unit_test(fixed_values_and_changes_hold),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(choices_are_texts),
        cmocka_unit_test(another_thread_ends_a_search),
        cmocka_unit_test(threads_share_a_chooser),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
