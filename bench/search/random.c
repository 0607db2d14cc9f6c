/* Random problems: what the families, the search and the bounds reach. See run.py. */
#include "base/clock.h"
#include "plan/search/bound.h"
#include "plan/search/improve.h"
#include "plan/search/plan.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static int draw(int limit) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)limit);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    state = argc > 3 ? (uint64_t)atoll(argv[3]) : 1;
    int most_ranks = argc > 4 ? atoi(argv[4]) : 8, most_n = argc > 5 ? atoi(argv[5]) : 16;
    int proven = 0;
    for (int round = 0; round < rounds; round++) {
        int ranks = 2 + draw(most_ranks - 1), n = 2 + draw(most_n - 1);
        sl_problem p;
        sl_problem_make(ranks, ranks, n, &p);
        int uneven = draw(2);
        sl_time base[3] = {5 + draw(15), 5 + draw(15), 5 + draw(15)};
        for (int s = 0; s < ranks; s++)
            for (int k = 0; k < 3; k++) {
                p.time[k][s] = SL_MS * (uneven ? 1 + draw(20) : base[k]);
                p.time[SL_B][s] = p.time[SL_I][s] + p.time[SL_W][s];
            }
        for (int s = 0; s < ranks; s++)
            p.time[SL_B][s] = p.time[SL_I][s] + p.time[SL_W][s];
        int links = draw(3);
        for (int i = 0; i + 1 < ranks; i++) {
            if (links && draw(links == 1 ? 1 : ranks) == 0) {
                sl_link l = {.latency = SL_MS * draw(40), .transfer = draw(2) ? SL_MS * draw(15) : 0};
                p.link[i * ranks + i + 1] = p.link[(i + 1) * ranks + i] = l;
                if (links == 2)
                    break;
            }
        }
        int limited = draw(3);
        if (limited) {
            static double limits[64];
            p.limit = malloc(sizeof(double) * (size_t)ranks);
            for (int r = 0; r < ranks; r++)
                p.limit[r] = limited == 1 ? ranks - r + draw(3) : 1 + draw(2 * ranks);
            (void)limits;
        }
        sl_plan plan;
        if (sl_plan_make(&p, "auto", &plan) != SL_OK) {
            printf("%2d x %2d: %s\n", ranks, n, sl_error_text());
            continue;
        }
        sl_time begin = sl_clock_now(sl_clock_real()), bound;
        sl_lower_bound(&p, 1, &bound);
        sl_time took = sl_clock_now(sl_clock_real()) - begin;
        sl_improve_options o = {.deadline = sl_clock_now(sl_clock_real()) + sl_from_ms(seconds * 1e3),
                                .moves = 200000,
                                .seed = 1,
                                .target = bound};
        sl_improve_result r;
        begin = sl_clock_now(sl_clock_real());
        sl_improve(&p, &o, &plan.order, &r);
        sl_time t2 = sl_clock_now(sl_clock_real()) - begin;
        proven += r.makespan == bound;
        printf("%2d x %2d %s links %d limit %d: cheap bound %.4g bound %.4g (%.2g ms) %s %.4g (+%.2f%%) search %.4g (+%.2f%%) "
               "%lld moves %.0f ms\n",
               ranks, n, uneven ? "uneven" : "even", links, limited, sl_to_ms(plan.bound), sl_to_ms(bound), sl_to_ms(took),
               plan.schedule, sl_to_ms(plan.makespan), 100.0 * (double)(plan.makespan - bound) / (double)bound,
               sl_to_ms(r.makespan), 100.0 * (double)(r.makespan - bound) / (double)bound, (long long)r.moves,
               sl_to_ms(t2));
        if (argc > 6 && r.makespan > bound) {
            char name[64];
            snprintf(name, sizeof name, "/tmp/rp/%d.yaml", round);
            FILE *out = fopen(name, "w");
            sl_problem_write(&p, out);
            fclose(out);
        }
        sl_plan_free(&plan);
    }
    printf("proven %d of %d\n", proven, rounds);
}
