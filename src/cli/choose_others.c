#include "cli/choose_others.h"
#include "choose/search/choices_write.h"
#include "plan/lower/written.h"

#include <stdio.h>

static double gain(const sl_others *o, const sl_other *other) {
    return o->now > 0 ? 1 - (double)other->time / (double)o->now : 0;
}

static void print_json(const sl_others *o) {
    json_t *list = json_array();
    for (int i = 0; i < o->count; i++) {
        const sl_other *x = &o->other[i];
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:i,s:i,s:s,s:i,s:f,s:s,s:o,s:f,s:f}", "effort",
                                        sl_effort_names[x->effort], "means", sl_effort_means[x->effort],
                                        "what", x->what, "replicas", x->replicas, "ranks", x->problem.ranks,
                                        "placement", sl_placement_name(x->problem.placement), "microbatches",
                                        x->problem.microbatches, "microbatch_size", x->size, "schedule",
                                        x->plan.schedule, "cut", sl_choose_cut_json(&x->problem),
                                        "iteration_ms", sl_to_ms(x->time), "gain", gain(o, x)));
    }
    json_t *without = json_object();
    for (int effort = 0; effort < SL_EFFORTS; effort++)
        if (o->why[effort][0])
            json_object_set_new(without, sl_effort_names[effort], json_string(o->why[effort]));
    json_t *all = json_pack("{s:s,s:f,s:o,s:o}", "format", "slackline-others-1", "now_ms", sl_to_ms(o->now),
                            "others", list, "without", without);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(all);
}

static void print_text(const sl_others *o, int has_order) {
    printf("now: %.6g ms, %s\n\n", sl_to_ms(o->now),
           has_order ? "the running order" : "the best of all families");
    printf("%-33s %10s %8s  %s\n", "what it takes", "ms", "less", "what");
    for (int i = 0; i < o->count; i++) {
        const sl_other *x = &o->other[i];
        printf("%-33s %10.6g %7.1f%%  %s\n", sl_effort_means[x->effort], sl_to_ms(x->time), 100 * gain(o, x),
               x->what);
    }
    for (int effort = 0; effort < SL_EFFORTS; effort++)
        if (o->why[effort][0])
            printf("%-33s %10s %8s  %s\n", sl_effort_means[effort], "-", "", o->why[effort]);
}

sl_status sl_choose_others(const sl_document *profile, const sl_others_request *r) {
    sl_problem p = {0};
    sl_order order = {0};
    sl_others found = {0};
    sl_status status = sl_problem_read(profile, &p);
    if (status == SL_OK && r->order_file)
        status = sl_order_read_csv(r->order_file, &p, &order);
    SL_THEN(status, sl_others_find(&p, r->order_file ? &order : NULL, &r->options, &found));
    if (status == SL_OK && r->is_json)
        print_json(&found);
    else if (status == SL_OK)
        print_text(&found, r->order_file != NULL);
    sl_others_free(&found);
    sl_order_free(&order);
    sl_problem_free(&p);
    return status;
}
