/* Random problems: what families, search and bounds reach, and what CP-SAT says. A line a problem, read by
 * run.py: ranks microbatches features family search bound seconds exact_found exact_bound exact_seconds. */
#include "base/random.h"
#include "base/clock.h"
#include "base/memory.h"
#include "plan/exact/exact.h"
#include "plan/family/family.h"
#include "plan/search/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static int draw(int limit) {
    return (int)(sl_random_mix(random_state += SL_RANDOM_STEP) % (uint64_t)limit);
}

/* Half of them with uneven times; two thirds with slow links, some of them with occupancy, some on one shared
 * wire; two thirds with a memory limit, tight or random. */
static sl_status make(int least_ranks, int most_ranks, int least_n, int most_n, sl_problem *p,
                      char *features) {
    int ranks = least_ranks + draw(most_ranks - least_ranks + 1), n = least_n + draw(most_n - least_n + 1);
    int uneven = draw(2), links = draw(3), limited = draw(3), shared = 0;
    SL_TRY(sl_problem_make(ranks, ranks, n, p));
    sl_time even[3] = {5 + draw(15), 5 + draw(15), 5 + draw(15)};
    for (int s = 0; s < ranks; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = SL_MS * (uneven ? 1 + draw(20) : even[kind]);
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
    }
    int middle = ranks > 1 ? draw(ranks - 1) : 0;
    for (int i = 0; i + 1 < ranks && links; i++)
        if (links == 1 || i == middle)
            p->link[i * ranks + i + 1] = p->link[(i + 1) * ranks + i] =
                (sl_link){.latency = SL_MS * draw(40), .transfer = SL_MS * draw(2) * draw(15)};
    if (links == 1 && draw(3) == 0 && ranks > 2) {
        shared = 1;
        SL_TRY(sl_alloc(&p->wire, (size_t)ranks * (size_t)ranks, sizeof *p->wire));
        for (int i = 0; i < ranks * ranks; i++)
            p->wire[i] = i / ranks < i % ranks ? ranks * ranks : ranks * ranks + 1;
    }
    if (limited) {
        SL_TRY(sl_alloc(&p->limit, (size_t)ranks, sizeof *p->limit));
        for (int r = 0; r < ranks; r++)
            p->limit[r] = limited == 1 ? ranks - r + draw(3) : 1 + draw(2 * ranks);
    }
    snprintf(features, 64, "%s%s%s%s", uneven ? "u" : "e", links ? "l" : "-", shared ? "s" : "-",
             limited ? "m" : "-");
    return SL_OK;
}

static sl_status best_family(const sl_problem *p, sl_time *best) {
    *best = SL_TIME_NEVER;
    for (const sl_family *family = sl_families; family->name; family++) {
        sl_plan plan;
        if (sl_plan_make(p, family->name, &plan) == SL_OK && plan.makespan < *best)
            *best = plan.makespan;
        sl_plan_free(&plan);
    }
    return SL_OK;
}

static sl_status measure(const sl_problem *p, const char *features, double seconds, double exact_seconds) {
    sl_plan plan;
    sl_exact_result exact = {0};
    sl_time family, began;
    SL_TRY(best_family(p, &family));
    sl_plan_options options = {.schedule = "optimal", .time_limit = seconds, .seed = 1};
    sl_status status = sl_plan_search(p, &options, &plan);
    if (status != SL_OK) {
        printf("# %d x %d: %s\n", p->ranks, p->microbatches, sl_error_text());
        return SL_OK;
    }
    began = sl_clock_now(sl_clock_real());
    exact.makespan = exact.bound = -SL_MS;
    if (plan.makespan == plan.bound)
        exact.makespan = exact.bound = plan.makespan;
    else if (exact_seconds > 0 &&
             sl_exact_solve(p, &plan.order, exact_seconds, 2, 1, plan.bound, NULL, &exact) != SL_OK)
        printf("# %s\n", sl_error_text());
    printf("%d %d %s %.6f %.6f %.6f %.6f %.6f %.6f %.6f\n", p->ranks, p->microbatches, features,
           family == SL_TIME_NEVER ? -1 : sl_to_ms(family), sl_to_ms(plan.makespan), sl_to_ms(plan.bound),
           sl_to_ms(plan.solve) / 1e3, sl_to_ms(exact.makespan), sl_to_ms(exact.bound),
           sl_to_ms(sl_clock_now(sl_clock_real()) - began) / 1e3);
    fflush(stdout);
    sl_order_free(&exact.order);
    sl_plan_free(&plan);
    return SL_OK;
}

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: random ROUNDS SEED MIN_RANKS MAX_RANKS MIN_N MAX_N SECONDS EXACT_SECONDS\n");
        return 2;
    }
    random_state = strtoull(argv[2], NULL, 10);
    for (int round = 0; round < atoi(argv[1]); round++) {
        sl_problem p;
        char features[64];
        sl_status status = make(atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), &p, features);
        if (status == SL_OK)
            status = measure(&p, features, atof(argv[7]), atof(argv[8]));
        sl_problem_free(&p);
        if (status != SL_OK) {
            fprintf(stderr, "%s\n", sl_error_text());
            return 1;
        }
    }
    return 0;
}
