/* Plans of a running job: what a planner of one family, of all, and searches reach under random trouble. Read
 * by replan.py: a line per problem, `trouble memory times ranks microbatches adaptra families short long
 * bound` with makespans in ms (-1: none fits), then the ms that families, short and long search took; or,
 * with `cost`, a line per shape: `ranks microbatches ops ns_per_op plan_ms`. */
#include "plan/search/replan.h"
#include "base/memory.h"
#include "base/random.h"
#include "plan/search/improve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t random_state;

static int draw(int limit) {
    return (int)(sl_random_mix(random_state += SL_RANDOM_STEP) % (uint64_t)limit);
}

/* Of the processor, so that others on the machine are in the way as little as can be. */
static double now_ms(void) {
    return 1e3 * (double)clock() / CLOCKS_PER_SEC;
}

/* ---- problems ---- */

enum { ONE_LINK, LINKS, DEVICE, DEVICES, BOTH, TROUBLES };
static const char *const troubles[] = {"one link", "2-3 links", "one device", "two devices",
                                       "links and devices"};
enum { TIGHT, MIDDLE, WIDE, FREE, MEMORIES };
static const char *const memories[] = {"R", "1.5R", "2R", "none"};

static sl_status make(int ranks, int n, int uneven, sl_problem *p) {
    SL_TRY(sl_problem_make(ranks, ranks, n, p));
    for (int s = 0; s < ranks; s++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            p->time[kind][s] = uneven ? SL_MS * (6 + draw(9)) : 10 * SL_MS;
        p->time[SL_B][s] = p->time[SL_I][s] + p->time[SL_W][s];
    }
    return SL_OK;
}

/* 10 to 60 ms one way, a third of them one way only; a half with occupancy. */
static void slow_links(sl_problem *p, int count) {
    for (int i = 0; i < count; i++) {
        int a = draw(p->ranks - 1), down = a * p->ranks + a + 1, up = (a + 1) * p->ranks + a, ways = draw(3);
        sl_link slow = {.latency = SL_MS * (10 + draw(51)), .transfer = draw(2) ? SL_MS * draw(9) : 0};
        if (ways != 1)
            p->link[down] = slow;
        if (ways != 2)
            p->link[up] = slow;
    }
}

/* 1.2 to 2 times as long. */
static void slow_devices(sl_problem *p, int count) {
    int first = draw(p->ranks);
    for (int i = 0; i < count; i++) {
        int rank = (first + i * (1 + draw(p->ranks - 1))) % p->ranks, percent = 120 + draw(81);
        for (int kind = SL_F; kind <= SL_B; kind++)
            p->time[kind][rank] = p->time[kind][rank] * percent / 100;
    }
}

static sl_status limit(sl_problem *p, int memory) {
    if (memory == FREE)
        return SL_OK;
    SL_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
    for (int rank = 0; rank < p->ranks; rank++)
        p->limit[rank] = memory == TIGHT    ? p->ranks
                         : memory == MIDDLE ? (3 * p->ranks + 1) / 2
                                            : 2 * p->ranks;
    return SL_OK;
}

static void trouble(sl_problem *p, int kind) {
    if (kind == ONE_LINK)
        slow_links(p, 1);
    if (kind == LINKS || kind == BOTH)
        slow_links(p, 2 + draw(2));
    if (kind == DEVICE)
        slow_devices(p, 1);
    if (kind == DEVICES || kind == BOTH)
        slow_devices(p, 2);
}

/* ---- planners ---- */

static sl_status replan(const sl_problem *p, const sl_order *running, int64_t work, double *makespan,
                        double *bound, double *took) {
    sl_plan plan;
    double begin = now_ms();
    sl_status status = sl_replan(
        p, &(sl_replan_options){.schedule = "adaptra", .known = &running, .knowns = 1, .work = work}, &plan);
    *took = now_ms() - begin;
    *makespan = status == SL_OK ? sl_to_ms(plan.makespan) : -1;
    if (status == SL_OK && (status = sl_plan_prove(p, &plan)) == SL_OK && sl_to_ms(plan.bound) > *bound)
        *bound = sl_to_ms(plan.bound);
    sl_plan_free(&plan);
    return status == SL_ENONE ? SL_OK : status;
}

/* The running order is adaptra's of before the trouble. */
static sl_status measure(const sl_problem *before, const sl_problem *p, int64_t longest) {
    const int64_t work[] = {0, SL_REPLAN_WORK, longest};
    double makespan[3], took[3], bound = 0;
    sl_plan running, adaptra;
    sl_status status = sl_plan_make(before, "adaptra", &running);
    for (int i = 0; i < 3 && status == SL_OK; i++)
        status = replan(p, &running.order, work[i], &makespan[i], &bound, &took[i]);
    sl_plan_free(&running);
    SL_TRY(status);
    status = sl_plan_make(p, "adaptra", &adaptra);
    printf(" %.6f %.6f %.6f %.6f %.6f %.3f %.3f %.3f\n", status == SL_OK ? sl_to_ms(adaptra.makespan) : -1,
           makespan[0], makespan[1], makespan[2], bound, took[0], took[1], took[2]);
    fflush(stdout);
    sl_plan_free(&adaptra);
    return status == SL_ENONE ? SL_OK : status;
}

static sl_status one(int round, int64_t longest) {
    sl_problem before = {0}, p = {0};
    int kind = round % TROUBLES, memory = round / TROUBLES % MEMORIES, uneven = draw(2);
    int ranks = 4 + draw(13), n = 8 + draw(57);
    printf("%d %d %d %d %d", kind, memory, uneven, ranks, n);
    sl_status status = make(ranks, n, uneven, &before);
    if (status == SL_OK)
        status = limit(&before, memory);
    if (status == SL_OK)
        status = sl_problem_copy(&before, &p);
    if (status == SL_OK) {
        trouble(&p, kind);
        status = measure(&before, &p, longest);
    }
    sl_problem_free(&before);
    sl_problem_free(&p);
    return status;
}

/* ---- what work costs ---- */

/* Two slow links and a slow device under a tight limit, so that no bound ends the search early. */
static sl_status cost(int ranks, int n) {
    sl_problem p;
    sl_plan plan = {0};
    sl_improve_result result = {0};
    SL_TRY(make(ranks, n, 1, &p));
    slow_links(&p, 2);
    slow_devices(&p, 1);
    sl_status status = limit(&p, TIGHT);
    if (status == SL_OK)
        status = sl_plan_make(&p, "adaptra", &plan);
    sl_improve_options options = {
        .until = {.deadline = SL_TIME_NEVER}, .work = 50000000, .heat = 0.3, .seed = 1};
    double begin = now_ms();
    if (status == SL_OK)
        status = sl_improve(&p, &options, &plan.order, &result);
    double improved = now_ms() - begin;
    sl_plan_free(&plan);
    begin = now_ms();
    if (status == SL_OK)
        status = sl_replan(&p, &(sl_replan_options){.work = SL_REPLAN_WORK}, &plan);
    if (status == SL_OK)
        printf("%d %d %d %.3f %.3f\n", ranks, n, 3 * ranks * n, 1e6 * improved / (double)result.work,
               now_ms() - begin);
    sl_plan_free(&plan);
    sl_problem_free(&p);
    return status;
}

int main(int argc, char **argv) {
    static const int shapes[][2] = {{4, 12}, {8, 16}, {8, 32}, {16, 32}, {16, 64}, {32, 64}, {32, 128}};
    sl_status status = SL_OK;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: replan cost | replan PROBLEMS SEED WORK\n       replan names\n");
        return 2;
    }
    random_state = argc == 4 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc == 2 && strcmp(argv[1], "names") == 0) {
        for (int i = 0; i < TROUBLES; i++)
            printf("%s\n", troubles[i]);
        for (int i = 0; i < MEMORIES; i++)
            printf("%s\n", memories[i]);
    } else if (argc == 2) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && status == SL_OK; i++)
            status = cost(shapes[i][0], shapes[i][1]);
    } else {
        for (int i = 0; i < atoi(argv[1]) && status == SL_OK; i++)
            status = one(i, strtoll(argv[3], NULL, 10));
    }
    if (status != SL_OK)
        fprintf(stderr, "%s\n", sl_error_text());
    return status != SL_OK;
}
