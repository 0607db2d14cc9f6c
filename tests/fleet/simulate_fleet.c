/* simulate_fleet FIRST COUNT [RANKS] [show]: runs the seeds FIRST, FIRST + 1, ... (fleet.h), each in a job of
 * 4 to 32 ranks or of RANKS, and reports those that break a promise, and what all of them decided. */
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

typedef struct totals {
    int seeds, broken, onsets, verdicts, right, abstained, wrong, slow, named, holds, closed;
    double noticed, decided, longest_noticed, longest_decided;
    int with_noticed, with_decided;
} totals;

static void add(totals *t, const fleet_plan *plan, const fleet_result *r) {
    int slow = 0;
    for (int i = 0; i < plan->faults; i++)
        slow += plan->fault[i].kind <= FLEET_SLOW_LINK;
    t->seeds++;
    t->broken += r->broken > 0;
    t->onsets += r->onsets;
    t->verdicts += r->verdicts;
    t->right += r->right;
    t->abstained += r->abstained;
    t->wrong += r->wrong > 0;
    t->slow += slow > 0;
    t->named += slow > 0 && r->named;
    t->holds += r->holds;
    t->closed += r->closed;
    if (r->noticed) {
        double noticed = (double)r->noticed / 1e9, decided = (double)r->decided / 1e9;
        t->with_noticed++;
        t->noticed += noticed;
        t->longest_noticed = noticed > t->longest_noticed ? noticed : t->longest_noticed;
        t->with_decided += decided > 0;
        t->decided += decided;
        t->longest_decided = decided > t->longest_decided ? decided : t->longest_decided;
    }
}

int main(int count, char **argument) {
    if (count < 3) {
        fprintf(stderr, "simulate_fleet FIRST COUNT [RANKS] [show]\n");
        return 2;
    }
    const uint64_t first = strtoull(argument[1], NULL, 0);
    const int seeds = atoi(argument[2]), ranks = count > 3 ? atoi(argument[3]) : 0;
    const int show = count > 4;
    totals t = {0};
    for (int i = 0; i < seeds; i++) {
        const fleet_plan plan = fleet_plan_of(first + (uint64_t)i, ranks);
        fleet_result result;
        char text[600];
        double before = processor_seconds();
        fleet_plan_text(&plan, text, sizeof text);
        if (show)
            fprintf(stderr, "%s\n", text);
        fleet_run(&plan, show, &result);
        add(&t, &plan, &result);
        if (result.broken)
            printf("%s\n    %s\n", text, result.why);
        if (ranks > 64 || show)
            printf("%s: %d onsets, %d verdicts, %d right, %d of %d holds closed, noticed after %.2f s, "
                   "decided %.2f s later; "
                   "%lld iterations, %lld requests, %.1f s of processor time\n",
                   text, result.onsets, result.verdicts, result.right, result.closed, result.holds,
                   (double)result.noticed / 1e9, (double)result.decided / 1e9, (long long)result.iterations,
                   (long long)result.requests, processor_seconds() - before);
        fflush(stdout);
    }
    printf("%d seeds from %llu, %.1f s of processor time: %d break a promise (%d name a wrong culprit)\n",
           t.seeds, (unsigned long long)first, processor_seconds(), t.broken, t.wrong);
    printf("%d with something slow, %d of them with all of it named; %d onsets, %d verdicts: %d right, %d "
           "abstained; "
           "%d of %d holds closed\n",
           t.slow, t.named, t.onsets, t.verdicts, t.right, t.abstained, t.closed, t.holds);
    printf("noticed after %.2f s (longest %.2f), decided %.2f s later (longest %.2f)\n",
           t.with_noticed ? t.noticed / t.with_noticed : 0, t.longest_noticed,
           t.with_decided ? t.decided / t.with_decided : 0, t.longest_decided);
    return t.broken > 0;
}
