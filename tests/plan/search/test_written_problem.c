/* A problem with layers that was planned, written and read again is the same problem: the plan's order takes
 * the same time in it. SL_SEED gives other problems. */
#include "check.h"

#include "plan/pipeline/layers.h"
#include "plan/search/plan.h"

#include <stdlib.h>
#include <string.h>

static unsigned random_state;

static int draw(int n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (unsigned)n);
}

static void print_list(FILE *out, const char *name, int count, double least, double most) {
    fprintf(out, "%s: [", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%.6f", i ? ", " : "", least + (most - least) * draw(1000) / 999);
    fprintf(out, "]");
}

/* Uneven layers and ranks, links, and often a limit that makes stages recompute. */
static char *draw_text(void) {
    static const char *const placements[] = {"linear", "loop", "wave", "bidirectional"},
                             *const recompute[] = {"auto", "true", "false"};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    int ranks = 2 + draw(3), placement = draw(4), stages = placement ? 2 * ranks : ranks;
    int layers = stages + draw(8);
    fprintf(out, "pipeline:\n  ranks: %d\n  microbatches: %d\n  placement: %s\n  layers:\n    count: %d\n",
            ranks, 2 + draw(6), placements[placement], layers);
    print_list(out, "    times_ms: {F", layers, 1, 9);
    print_list(out, ", I", layers, 1, 9);
    print_list(out, ", W", layers, 1, 9);
    fprintf(out, "}\n    delta: {F: 10, W: -10, input: 1");
    print_list(out, ", I_start", layers, 0, 3);
    fprintf(out, ", I: -1, B: -11}\n");
    print_list(out, "    weights", layers, 0, 5);
    print_list(out, "\n    speed", ranks, 0.5, 2);
    if (draw(2))
        print_list(out, "\n    reduce_ms", layers, 0, 2);
    fprintf(out, "\n  memory: {limit: %d}\n  recompute: %s\n", (layers / ranks + 1) * (15 + draw(30)) + 10,
            recompute[draw(3)]);
    fprintf(
        out,
        "  links: {default: {latency_ms: %d, transfer_ms: 0.5}}\n  overhead_ms: {op: 0.1, message: 0.05}\n",
        draw(5));
    fclose(out);
    return text;
}

static void read_text(const char *text, sl_problem *problem) {
    sl_document document;
    *problem = (sl_problem){0};
    if (sl_document_parse("p.yaml", text, &document) != SL_OK || sl_problem_read(&document, problem) != SL_OK)
        fail_msg("%s of\n%s", sl_error_text(), text);
    sl_document_close(&document);
}

static char *write_text(const sl_problem *problem) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_ok(sl_problem_write(problem, out));
    fclose(out);
    return text;
}

static void compare(const sl_problem *p, const sl_plan *plan, const char *text) {
    sl_problem q;
    sl_plan again;
    read_text(text, &q);
    assert_memory_equal(q.layers->first, p->layers->first, ((size_t)p->stages + 1) * sizeof(int));
    assert_memory_equal(q.recompute, p->recompute, (size_t)p->stages);
    assert_ok(sl_plan_of_order(&q, &plan->order, "file", &again));
    assert_int_equal(again.makespan, plan->makespan);
    assert_int_equal(again.memory_ok, plan->memory_ok);
    for (int rank = 0; rank < p->ranks; rank++)
        assert_near(again.peak_memory[rank], plan->peak_memory[rank], 1e-9);
    char *same = write_text(&q);
    assert_string_equal(same, text);
    free(same);
    sl_plan_free(&again);
    sl_problem_free(&q);
}

static void a_planned_problem_is_written_with_its_cut(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    const sl_plan_options options = {.schedule = "auto", .time_limit = 0.02, .seed = 1, .threads = 1};
    random_state = given ? (unsigned)atoi(given) : 26u;
    printf("seed %u\n", random_state);
    int planned = 0, uneven = 0, recomputing = 0;
    for (int round = 0; round < 60; round++) {
        sl_problem p, fresh;
        sl_plan plan = {0};
        char *text = draw_text();
        read_text(text, &p);
        read_text(text, &fresh);
        sl_status status = sl_plan_problem(&p, &options, &plan);
        if (status == SL_OK) {
            char *written = write_text(&p);
            compare(&p, &plan, written);
            planned++;
            uneven += memcmp(p.layers->first, fresh.layers->first, ((size_t)p.stages + 1) * sizeof(int)) != 0;
            recomputing += memcmp(p.recompute, fresh.recompute, (size_t)p.stages) != 0;
            free(written);
        } else {
            assert_int_equal(status, SL_ENONE); /* the limit */
        }
        sl_plan_free(&plan);
        sl_problem_free(&p);
        sl_problem_free(&fresh);
        free(text);
    }
    printf("%d planned, %d with another cut, %d with other stages that recompute\n", planned, uneven,
           recomputing);
    assert_true(planned >= 20 && uneven >= 5 && recomputing >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_planned_problem_is_written_with_its_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
