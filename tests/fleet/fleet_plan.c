#include "fleet.h"

#include "base/random.h"
#include <stdio.h>
#include <string.h>

static uint64_t draw(uint64_t *random) {
    return sl_random_mix(*random += SL_RANDOM_STEP);
}

static int below(uint64_t *random, int n) {
    return (int)(draw(random) % (uint64_t)n);
}

static double between(uint64_t *random, double least, double most) {
    return least + (most - least) * sl_random_unit(draw(random));
}

static void draw_job(fleet_plan *p, uint64_t *random, int ranks) {
    static const int small[] = {4, 6, 8, 12, 16, 24, 32}, nodes[] = {1, 2, 4, 8};
    p->shape = (job_shape)below(random, JOB_SHAPES);
    p->ranks = ranks ? ranks : small[below(random, 7)];
    p->stages = below(random, 2) ? 2 : 4;
    if (p->ranks % p->stages != 0)
        p->stages = 2;
    if (ranks > 64)
        p->stages = 8;
    p->ranks -= ranks > 64 ? ranks % 8 : 0;
    p->per_node = ranks > 64 ? 8 : nodes[below(random, 4)];
    p->work = (sl_time)(between(random, 40, 150) * 1e6);
    if (ranks > 64)
        p->work *= 2;
    p->controllers = p->ranks > p->per_node && below(random, 2) ? 2 : 1;
    p->hold = below(random, 4) != 0;
    p->clocks = below(random, 3) == 0;
}

/* Slow by 1.4 to 3 times, a link by 8 to 30: it must lengthen the iteration to be noticed. */
static void draw_slow(fleet_plan *p, uint64_t *random, sl_time begin) {
    fleet_fault *f = &p->fault[p->faults++];
    *f = (fleet_fault){.rank = -1, .from = -1, .to = -1, .node = -1, .factor = between(random, 1.4, 3)};
    int kind = below(random, 5);
    f->begin = begin;
    f->end = begin + (sl_time)(between(random, 14, 24) * 1e9);
    if (kind < 2 || (kind == 2 && p->ranks <= 2 * p->per_node)) {
        f->kind = FLEET_SLOW_DEVICE;
        f->rank = below(random, p->ranks);
    } else if (kind == 2) {
        f->kind = FLEET_SLOW_HOST;
        f->node = below(random, p->ranks / p->per_node);
    } else if (p->shape == JOB_RING || p->shape == JOB_PIPELINE) {
        f->kind = FLEET_SLOW_LINK;
        f->factor = between(random, 8, 30);
        f->from = below(random, p->ranks);
        if (p->shape == JOB_RING) {
            f->to = (f->from + (below(random, 2) ? 1 : p->ranks - 1)) % p->ranks;
        } else { /* to the next stage of the same replica, or to the one before */
            int stage = f->from % p->stages;
            f->to = stage == 0                                   ? f->from + 1
                    : stage == p->stages - 1 || below(random, 2) ? f->from - 1
                                                                 : f->from + 1;
        }
    } else {
        f->kind = FLEET_SLOW_DEVICE;
        f->rank = below(random, p->ranks);
    }
}

static void draw_trouble(fleet_plan *p, uint64_t *random) {
    fleet_fault *f = &p->fault[p->faults++];
    *f = (fleet_fault){.rank = -1, .from = -1, .to = -1, .node = -1};
    f->kind = (fleet_fault_kind)(FLEET_STORE_DOWN + below(random, FLEET_FAULT_KINDS - FLEET_STORE_DOWN));
    f->begin = (sl_time)(between(random, 2, 36) * 1e9);
    f->end = f->begin + (sl_time)(between(random, 0.2, 9) * 1e9);
    f->node = below(random, (p->ranks + p->per_node - 1) / p->per_node);
    f->factor = f->kind == FLEET_STORE_LOSES   ? between(random, 0.005, 0.2)
                : f->kind == FLEET_STORE_LATE  ? between(random, 0.002, 0.9)
                : f->kind == FLEET_STORE_TWICE ? between(random, 0.05, 0.5)
                                               : 0;
    if (f->kind == FLEET_CONTROLLER_DIES)
        f->node = below(random, p->controllers);
}

fleet_plan fleet_plan_of(uint64_t seed, int ranks) {
    uint64_t random = sl_random_mix(seed + 1);
    fleet_plan p = {.seed = seed, .length = 50 * SL_SECOND};
    draw_job(&p, &random, ranks);
    int slow = below(&random, 8); /* 1 of 8: none; 2 of 8: two */
    sl_time begin = (sl_time)(between(&random, 13, 18) * 1e9);
    if (slow > 0)
        draw_slow(&p, &random, begin);
    if (slow > 5)
        draw_slow(&p, &random, begin + (below(&random, 2) ? 0 : (sl_time)(between(&random, 0, 8) * 1e9)));
    if (below(&random, 2)) /* half of the jobs */
        for (int more = 1 + below(&random, 2); more > 0; more--)
            draw_trouble(&p, &random);
    p.flukes = below(&random, 2);
    return p;
}

void fleet_plan_text(const fleet_plan *p, char *text, size_t size) {
    static const char *const name[] = {"slow device",     "slow host",     "slow link",    "store down",
                                       "store restarted", "store emptied", "store loses",  "store late",
                                       "store full",      "store twice",   "node cut off", "agent dies",
                                       "controller dies"};
    snprintf(text, size, "seed %llu: %s, %d ranks, %d per node, %d controllers, %s%s%s",
             (unsigned long long)p->seed, job_shape_name(p->shape), p->ranks, p->per_node, p->controllers,
             p->hold ? "holds" : "never held", p->clocks ? ", own clocks" : "", p->flukes ? ", flukes" : "");
    for (int i = 0; i < p->faults; i++) {
        const fleet_fault *f = &p->fault[i];
        size_t used = strlen(text);
        snprintf(text + used, size - used, "; %.1f-%.1f s %s", sl_to_ms(f->begin) / 1e3,
                 sl_to_ms(f->end) / 1e3, name[f->kind]);
        used = strlen(text);
        if (f->kind == FLEET_SLOW_DEVICE)
            snprintf(text + used, size - used, " %d x %.2f", f->rank, f->factor);
        else if (f->kind == FLEET_SLOW_LINK)
            snprintf(text + used, size - used, " %d->%d x %.1f", f->from, f->to, f->factor);
        else if (f->kind == FLEET_SLOW_HOST)
            snprintf(text + used, size - used, " %d x %.2f", f->node, f->factor);
        else if (f->factor > 0)
            snprintf(text + used, size - used, " (%.3f)", f->factor);
        else if (f->kind >= FLEET_NODE_CUT)
            snprintf(text + used, size - used, " %d", f->node);
    }
}
