/* bench_detection: what a sample costs the change-point algorithms at long run lengths, and a call the
 * tracking of the period. Prints medians over rounds; gates nothing. */
#include "base/random.h"
#include "notice/detect/change.h"
#include "notice/detect/period.h"
#include "notice/detect/run_length.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 9
#define RUN 10000
#define SAMPLES 20000

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(const char *what, double *cost) {
    qsort(cost, ROUNDS, sizeof *cost, ascending);
    printf("%-64s %8.1f ns (from %.1f to %.1f)\n", what, 1e9 * cost[ROUNDS / 2], 1e9 * cost[0],
           1e9 * cost[ROUNDS - 1]);
}

/* A level that never changes: the longest runs, and all of them possible. */
static double sample_at(int i) {
    double u = sl_random_unit(sl_random_mix((uint64_t)i)),
           v = sl_random_unit(sl_random_mix((uint64_t)i ^ SL_RANDOM_STEP));
    return 300 * (1 + 0.01 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

int main(void) {
    static double sample[RUN + SAMPLES], cost[3][ROUNDS];
    for (int i = 0; i < RUN + SAMPLES; i++)
        sample[i] = sample_at(i);
    size_t runs = 0;
    for (int round = 0; round < ROUNDS; round++) {
        sl_detector *detector;
        sl_change change;
        sl_run_lengths lengths;
        sl_period *period;
        sl_run_prior prior = {0, 0.03, 1, 1, 0.01, 0.25};
        if (sl_detector_open(SL_CHANGE_BOCD_V, &detector) != SL_OK ||
            sl_run_lengths_open(&prior, 0, &lengths) != SL_OK || sl_period_open(0, &period) != SL_OK)
            return 1;
        for (int i = 0; i < RUN; i++) {
            sl_detector_add(detector, sample[i], &change);
            sl_run_lengths_add(&lengths, (sample[i] - 300) / 3);
        }
        double begin = seconds();
        for (int i = RUN; i < RUN + SAMPLES; i++)
            sl_detector_add(detector, sample[i], &change);
        cost[0][round] = (seconds() - begin) / SAMPLES;
        begin = seconds();
        for (int i = RUN; i < RUN + SAMPLES; i++)
            sl_run_lengths_add(&lengths, (sample[i] - 300) / 3);
        cost[1][round] = (seconds() - begin) / SAMPLES;
        runs = lengths.runs;
        begin = seconds();
        for (int i = 0; i < SAMPLES; i++) { /* 100 calls an iteration, a checkpoint now and then */
            sl_symbol symbol = {.communicator = 1,
                                .bytes = i % 5000 < 20 ? 7 : 64,
                                .peer = i % 2,
                                .call = i % 100 < 96 ? (uint32_t)(i % 4) : (uint32_t)(i % 100)};
            if (sl_period_add(period, &symbol, 1000 * (int64_t)i) != SL_OK)
                return 1;
            sl_period_iteration iteration;
            while (sl_period_take(period, &iteration))
                ;
        }
        cost[2][round] = (seconds() - begin) / SAMPLES;
        sl_detector_close(detector);
        sl_run_lengths_close(&lengths);
        sl_period_close(period);
    }
    tell("a sample, bocd-v, runs of 10,000 to 30,000 (goal 1,000 ns)", cost[0]);
    char text[80];
    snprintf(text, sizeof text, "of that the recursion, with %zu runs kept", runs);
    tell(text, cost[1]);
    tell("a call, period of 100 with checkpoints", cost[2]);
    return 0;
}
