/* How long adaptra takes to plan: the family's order alone, the whole plan with its proof (sl_plan_make), and
 * one replay of it by the timing model (sl_replayer_run), as library calls on one thread. Prints one line a
 * case: ranks microbatches limit rounds, then in ms the median and the least of each. Called by run.py. */
#include "base/clock.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"
#include "plan/timing/replay.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_ROUNDS 1001

static int compare(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return x < y ? -1 : x > y;
}

static void require(sl_status status) {
    if (status != SL_OK) {
        fprintf(stderr, "planner: %s\n", sl_error_text());
        exit(1);
    }
}

/* Uneven stages and links, so that few events fall together, and the middle link 3 ops late. */
static void make(int ranks, int microbatches, double limit, sl_problem *p) {
    require(sl_problem_make(ranks, ranks, microbatches, p));
    for (int r = 0; r < ranks; r++) {
        p->time[SL_F][r] = 10 * SL_MS + (r * 37 % 11) * SL_MS / 10;
        p->time[SL_I][r] = 11 * SL_MS + (r * 53 % 7) * SL_MS / 10;
        p->time[SL_W][r] = 9 * SL_MS + (r * 29 % 5) * SL_MS / 10;
        p->time[SL_B][r] = p->time[SL_I][r] + p->time[SL_W][r];
    }
    for (int r = 0; r + 1 < ranks; r++)
        for (int back = 0; back < 2; back++)
            p->link[back ? (r + 1) * ranks + r : r * ranks + r + 1] =
                (sl_link){.latency = r == ranks / 2 ? 30 * SL_MS : SL_MS, .transfer = SL_MS / 2};
    if (limit > 0) {
        p->limit = calloc((size_t)ranks, sizeof *p->limit);
        for (int r = 0; p->limit && r < ranks; r++)
            p->limit[r] = limit * ranks;
    }
}

static sl_time time_order(const sl_problem *p) {
    sl_order order;
    sl_time begin = sl_clock_now(sl_clock_real());
    require(sl_family_find("adaptra")->build(p, &order));
    sl_time end = sl_clock_now(sl_clock_real());
    sl_order_free(&order);
    return end - begin;
}

static sl_time time_plan(const sl_problem *p) {
    sl_plan plan;
    sl_time begin = sl_clock_now(sl_clock_real());
    require(sl_plan_make(p, "adaptra", &plan));
    sl_time end = sl_clock_now(sl_clock_real());
    sl_plan_free(&plan);
    return end - begin;
}

/* One replay: times and links into a timeline, as the search calls it again and again. */
static void time_replay(const sl_problem *p, int rounds, sl_time *took) {
    sl_plan plan;
    sl_replayer *replayer;
    const sl_timeline *timeline;
    require(sl_plan_make(p, "adaptra", &plan));
    require(sl_replayer_open(p, &plan.program, &replayer));
    sl_replayer_run(replayer, &timeline);
    for (int i = 0; i < rounds; i++) {
        sl_time begin = sl_clock_now(sl_clock_real());
        sl_replayer_run(replayer, &timeline);
        took[i] = sl_clock_now(sl_clock_real()) - begin;
    }
    sl_replayer_close(replayer);
    sl_plan_free(&plan);
}

static void print_sorted(sl_time *took, int rounds) {
    qsort(took, (size_t)rounds, sizeof *took, compare);
    printf(" %.5f %.5f", sl_to_ms(took[rounds / 2]), sl_to_ms(took[0]));
}

static void report(int ranks, int microbatches, double limit, int rounds) {
    static sl_time order[MAX_ROUNDS], plan[MAX_ROUNDS], replay[MAX_ROUNDS];
    sl_problem p;
    make(ranks, microbatches, limit, &p);
    time_plan(&p); /* the first one warms the caches */
    for (int i = 0; i < rounds; i++) {
        order[i] = time_order(&p);
        plan[i] = time_plan(&p);
    }
    time_replay(&p, rounds, replay);
    printf("%d %d %g %d", ranks, microbatches, limit * ranks, rounds);
    print_sorted(order, rounds);
    print_sorted(plan, rounds);
    print_sorted(replay, rounds);
    printf("\n");
    fflush(stdout);
    sl_problem_free(&p);
}

int main(void) {
    report(4, 12, 0, 1001);
    report(8, 32, 0, 1001);
    report(8, 32, 1.5, 1001);
    report(16, 128, 0, 101);
    report(32, 256, 0, 41);
    report(64, 512, 0, 21);
    report(64, 512, 1.5, 21);
    report(64, 1024, 0, 11);
    report(128, 2048, 0, 3);
    return 0;
}
