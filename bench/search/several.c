/* Problems with memory limits and slow links, of one to three stages per rank: what `auto` finds after some
 * time, and its bound. A line per problem, read by several.py: number, ranks, stages, microbatches,
 * placement, limit, value and bound in ms, seconds. */
#include "base/memory.h"
#include "base/random.h"
#include "plan/search/plan.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state;

static int draw(int limit) {
    return (int)(sl_random_mix(random_state += SL_RANDOM_STEP) % (uint64_t)limit);
}

/* 4 to 12 ranks with 1 to 3 stages each (2: loop or wave), 1 to 3 microbatches per rank and a few more; ops
 * of 4 to 9 ms, even or not; links of 0 to 40 ms, all or one of them, half of them with transfer times; and
 * room for 1 to 2 times as many activations as there are stages, or, in a third of the problems, as the rank
 * has stages. */
static sl_status make(sl_problem *p) {
    int ranks = 4 + draw(9), each = 1 + draw(3), stages = ranks * each, wave = draw(2), uneven = draw(2);
    int n = ranks * (1 + draw(3)) + draw(ranks), one = draw(3) == 0, busy = draw(2), tight = draw(3) == 0;
    SL_TRY(sl_problem_make(ranks, stages, n, p));
    p->placement = each == 1 ? SL_LINEAR : each == 2 && wave ? SL_WAVE : SL_LOOP;
    const sl_time even[3] = {4 + draw(6), 4 + draw(6), 4 + draw(6)};
    for (int s = 0; s < stages; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = SL_MS * (uneven ? 4 + draw(6) : even[kind]);
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
    }
    int slow = draw(ranks);
    for (int i = 0; i < ranks; i++) {
        const sl_link link = {.latency = SL_MS * draw(41), .transfer = SL_MS * busy * draw(6)};
        int next = (i + 1) % ranks;
        if (!one || i == slow)
            p->link[i * ranks + next] = p->link[next * ranks + i] = link;
    }
    SL_TRY(sl_alloc(&p->limit, (size_t)ranks, sizeof *p->limit));
    int base = tight ? each : stages, limit = base + draw(base + 1);
    for (int rank = 0; rank < ranks; rank++)
        p->limit[rank] = limit;
    return SL_OK;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: several SEED FIRST COUNT SECONDS EXACT\n");
        return 2;
    }
    int first = atoi(argv[2]), count = atoi(argv[3]);
    for (int i = first; i < first + count; i++) {
        sl_problem p;
        sl_plan plan;
        random_state = strtoull(argv[1], NULL, 10) * 1000003 + (uint64_t)i;
        const sl_plan_options options = {
            .schedule = "auto", .time_limit = atof(argv[4]), .seed = 1, .threads = 2, .exact = atoi(argv[5])};
        sl_status status = make(&p);
        if (status == SL_OK)
            status = sl_plan_search(&p, &options, &plan);
        if (status != SL_OK) {
            fprintf(stderr, "%s\n", sl_error_text());
            return 1;
        }
        printf("%d %d %d %d %s %g %.6f %.6f %.3f\n", i, p.ranks, p.stages, p.microbatches,
               sl_placement_name(p.placement), p.limit[0], sl_to_ms(plan.value), sl_to_ms(plan.bound),
               sl_to_ms(plan.solve) / 1e3);
        fflush(stdout);
        sl_plan_free(&plan);
        sl_problem_free(&p);
    }
    return 0;
}
