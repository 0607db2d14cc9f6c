/* The additions of --jitter and --explain to a plan, and their output. */
#include "cli/plan_request.h"
#include "plan/search/attribute.h"
#include "plan/timing/jitter.h"

#include <math.h>

sl_status sl_plan_request_examine(const sl_plan_request *planning, sl_plan *plan) {
    if (planning->draws > 0)
        SL_TRY(sl_plan_add_jitter(&planning->problem, plan, planning->draws, planning->seed));
    return planning->explain ? sl_plan_add_attribution(&planning->problem, plan) : SL_OK;
}

/* ms to the microsecond. */
static double ms(double t) {
    return round(t / 1e3) / 1e3;
}

static void print_jitter(const sl_jitter *j, FILE *out) {
    fprintf(out,
            "\nmakespan under jitter, %d draws: mean %.12g ms, p10 %.12g, p50 %.12g, p90 %.12g, p99 %.12g, "
            "from %.12g to %.12g\n",
            j->draws, ms(j->mean), ms((double)j->p10), ms((double)j->p50), ms((double)j->p90),
            ms((double)j->p99), ms((double)j->least), ms((double)j->most));
}

static void print_part(const char *name, sl_time part, sl_time whole, const char *what, FILE *out) {
    fprintf(out, "  %-12s %12.12g ms %6.1f%%  %s\n", name, ms((double)part),
            whole > 0 ? 100 * (double)part / (double)whole : 0, what);
}

static void print_parts(const sl_plan *plan, const sl_attribution *a, FILE *out) {
    fprintf(out, "\nwhere the time goes\n");
    print_part("work", a->work, plan->makespan, "of a rank, on average", out);
    print_part("imbalance", a->imbalance, plan->makespan, "more on the busiest rank", out);
    print_part("fill", a->fill, plan->makespan, "left idle by the order, even on free links", out);
    print_part("collectives", a->collectives, plan->makespan, "gathers and reductions that nothing hides",
               out);
    print_part("dependency", a->dependency, plan->makespan, "waiting for delayed messages", out);
    print_part("blocking", a->blocking, plan->makespan, "ranks held by their messages", out);
}

/* Entries without cost have slack and are left out. */
static void print_costs(const sl_attribution *a, FILE *out) {
    fprintf(out, "\na millisecond more costs, in ms\n");
    for (int i = 0; i < a->links; i++)
        if (a->link[i].cost != 0)
            fprintf(out, "  link %d-%d %g\n", a->link[i].from, a->link[i].to, a->link[i].cost);
    for (int i = 0; i < a->ops; i++) {
        int first = i == 0 || a->op[i - 1].stage != a->op[i].stage,
            last = i + 1 == a->ops || a->op[i + 1].stage != a->op[i].stage;
        if (first)
            fprintf(out, "  stage %d", a->op[i].stage);
        fprintf(out, " %s %g%s", sl_op_name(a->op[i].kind), a->op[i].cost, last ? "\n" : ",");
    }
    fprintf(out, "links that are not named cost nothing\n");
}

void sl_plan_request_print_examined(const sl_plan *plan, FILE *out) {
    if (plan->jitter)
        print_jitter(plan->jitter, out);
    if (plan->attribution) {
        print_parts(plan, plan->attribution, out);
        print_costs(plan->attribution, out);
    }
}
