#include "cli/explain_print.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/draw/heat_map.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static double of_ms(sl_time t) {
    return sl_to_ms(t);
}

static double difference(const sl_what_if_iteration *i) {
    return i->traced > 0 ? (double)(i->replayed - i->traced) / (double)i->traced : 0;
}

static sl_status median_difference(const sl_what_if *w, double *median) {
    double *all;
    SL_TRY(sl_alloc(&all, (size_t)w->iterations, sizeof *all));
    for (int i = 0; i < w->iterations; i++)
        all[i] = difference(&w->iteration[i]);
    *median = sl_median_of_numbers(all, w->iterations);
    sl_free(all);
    return SL_OK;
}

static sl_time largest_offset(const sl_explained *e) {
    sl_time most = 0;
    for (int q = 0; q < e->layout.pipeline * e->layout.data; q++)
        most = sl_later(most, llabs(e->offset[q]));
    return most;
}

/* ---- text ---- */

static void print_job(const sl_explained *e, FILE *out) {
    const sl_hybrid_layout *l = &e->layout;
    const sl_what_if *w = &e->what_if;
    fprintf(out,
            "%d workers: pipeline=%d, data=%d, tensor=%d, chunks=%d (%s); %d microbatches; %d iteration%s\n",
            e->trace.workers, l->pipeline, l->data, l->tensor, l->chunks, l->source, w->microbatches,
            w->iterations, w->iterations == 1 ? "" : "s");
}

static sl_status print_replay(const sl_explained *e, FILE *out) {
    const sl_what_if *w = &e->what_if;
    double median;
    SL_TRY(median_difference(w, &median));
    fprintf(
        out,
        "traced   %10.6g ms per iteration, on average\nreplayed %10.6g ms, %+.2f%% in the median iteration\n",
        of_ms(w->mean_traced), of_ms(w->mean_replayed), 100 * median);
    fprintf(out,
            "ideal    %10.6g ms (all ops of a kind alike): as it was, the job takes %.3f times as long\n\n",
            of_ms(w->mean_ideal), w->slowdown);
    return SL_OK;
}

static void print_causes(const sl_explained *e, FILE *out) {
    for (int i = 0; i < e->causes; i++)
        fprintf(out, "%s%s\n", i == 0 ? "" : "Also: ", e->cause[i].text);
}

static void print_cost(const char *name, double cost, FILE *out) {
    fprintf(out, "  %-44s %6.1f%%\n", name, 100 * cost);
}

static void print_costs(const sl_explained *e, FILE *out) {
    const sl_what_if *w = &e->what_if;
    char name[160];
    fprintf(out, "\nWithout this cause, the time would be shorter by\n");
    for (int i = 0; i < w->kinds; i++)
        if (fabs(w->kind[i].cost) >= 0.0005) {
            snprintf(name, sizeof name, "all %s at their median", sl_traced_kinds[w->kind[i].what].name);
            print_cost(name, w->kind[i].cost, out);
        }
    for (int i = 0; e->layout.pipeline > 1 && i < e->layout.pipeline; i++)
        if (w->stage[i].cost >= 0.001) {
            snprintf(name, sizeof name, "pipeline rank %d as fast as the others", w->stage[i].what);
            print_cost(name, w->stage[i].cost, out);
        }
    if (e->layout.pipeline > 1)
        print_cost("an even cut", w->cut, out);
    for (int i = 0; e->layout.data > 1 && i < e->layout.data; i++)
        if (w->replica[i].cost >= 0.005) {
            snprintf(name, sizeof name, "replica %d as fast as the others",
                     e->layout.replica[w->replica[i].what]);
            print_cost(name, w->replica[i].cost, out);
        }
    if (w->slow_workers >= 0.001)
        print_cost("all slow workers as fast as the others", w->slow_workers, out);
    print_cost("microbatches of equal length", w->lengths, out);
    print_cost("all transfers at their median", w->all_links, out);
    print_cost("no time for transfers at all", w->no_links, out);
    print_cost("all collectives at their median", w->collectives, out);
    print_cost("no time for collectives at all", w->no_collectives, out);
}

static void print_slowest(const sl_explained *e, FILE *out) {
    const sl_what_if *w = &e->what_if;
    char name[160];
    fprintf(out, "\nSlowest workers (cost; computation relative to the median worker)\n");
    for (int i = 0; i < w->workers && i < 5; i++)
        fprintf(out, "  %-44s %6.1f%%  %5.2f\n",
                sl_hybrid_position_name(&e->trace, &e->layout, w->worker[i].what, name, sizeof name),
                100 * w->worker[i].cost, w->slowness[w->worker[i].what]);
}

static sl_heat_map heat_map_of(const sl_explained *e) {
    double most = 1.1;
    for (int q = 0; q < e->layout.pipeline * e->layout.data; q++)
        most = fmax(most, e->what_if.heat[q]);
    return (sl_heat_map){.title = "Slowdown of the job by each worker, if all others were alike",
                         .row_name = "pipeline rank",
                         .column_name = "replica",
                         .rows = e->layout.pipeline,
                         .columns = e->layout.data,
                         .column_number = e->layout.replica,
                         .value = e->what_if.heat,
                         .least = 1,
                         .most = most,
                         .digits = "%.2f"};
}

static void print_iterations(const sl_explained *e, FILE *out) {
    const sl_what_if *w = &e->what_if;
    int most = 12;
    fprintf(out, "\n  iteration    traced ms  replayed ms  difference\n");
    for (int i = 0; i < w->iterations && i < most; i++)
        fprintf(out, "%11lld  %11.6g  %11.6g    %+7.2f%%\n", (long long)w->iteration[i].step,
                of_ms(w->iteration[i].traced), of_ms(w->iteration[i].replayed),
                100 * difference(&w->iteration[i]));
    if (w->iterations > most)
        fprintf(out, "  and %d more (--format json has all)\n", w->iterations - most);
}

static void print_trace_notes(const sl_explained *e, FILE *out) {
    const sl_hybrid_trace *t = &e->trace;
    if (t->repaired)
        fprintf(out,
                "%zu events had no duration: each ends at the next event of its stream, at most after its "
                "kind's median\n",
                t->repaired);
    if (t->negative)
        fprintf(out, "%zu events had a negative duration: they count as zero\n", t->negative);
    if (t->dropped)
        fprintf(out, "%zu events could not be used and were left out\n", t->dropped);
    if (t->unknown)
        fprintf(out, "%zu events of other names were left out%s%s\n", t->unknown,
                t->unknown_names[0] ? ": " : "", t->unknown_names);
}

static void print_notes(const sl_explained *e, FILE *out) {
    const sl_what_if *w = &e->what_if;
    fputc('\n', out);
    for (int i = 0; i < w->skips && i < 5; i++)
        fprintf(out, "iteration %lld was left out: %s\n", (long long)w->skipped[i].step, w->skipped[i].why);
    if (w->skips > 5)
        fprintf(out, "%d more iterations were left out\n", w->skips - 5);
    if (e->layout.missing[0])
        fprintf(out, "missing workers: %s; %d replica%s left out\n", e->layout.missing, e->layout.left_out,
                e->layout.left_out == 1 ? " was" : "s were");
    if (w->examined < w->iterations)
        fprintf(out, "costs are of %d iterations, evenly chosen\n", w->examined);
    if (largest_offset(e) >= 1000)
        fprintf(out, "clocks were up to %.4g ms apart; corrected\n", of_ms(largest_offset(e)));
    print_trace_notes(e, out);
    if (w->left_out)
        fprintf(out, "%d events that overlap computation were left out\n", w->left_out);
    if (w->unknown)
        fprintf(out, "%d transfers and collectives without times take the median\n", w->unknown);
}

sl_status sl_explain_print_text(const sl_explained *e, FILE *out) {
    print_job(e, out);
    SL_TRY(print_replay(e, out));
    print_causes(e, out);
    print_costs(e, out);
    print_slowest(e, out);
    sl_heat_map map = heat_map_of(e);
    fprintf(out, "\n%s\n", map.title);
    sl_print_heat_map(&map, e->width, out);
    print_iterations(e, out);
    print_notes(e, out);
    return SL_OK;
}

sl_status sl_explain_draw(const sl_explained *e, FILE *out) {
    sl_heat_map map = heat_map_of(e);
    return sl_draw_heat_map(&map, out);
}

/* ---- JSON ---- */

static json_t *position_json(const sl_explained *e, int q) {
    return json_pack("{s:i, s:i, s:s}", "pipeline", q / e->layout.data, "replica",
                     e->layout.replica[q % e->layout.data], "worker",
                     e->trace.worker[e->layout.worker[q]].name);
}

static json_t *slow_workers_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int q = 0; q < e->layout.pipeline * e->layout.data; q++)
        if (e->what_if.slow[q])
            json_array_append_new(list, position_json(e, q));
    return list;
}

static json_t *causes_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int i = 0; i < e->causes; i++) {
        const sl_hybrid_cause *c = &e->cause[i];
        json_t *cause = json_pack("{s:s, s:f, s:s}", "cause", sl_hybrid_cause_name(c->kind), "cost", c->cost,
                                  "text", c->text);
        if (c->kind == SL_HYBRID_CAUSE_WORKER || c->kind == SL_HYBRID_CAUSE_GAPS)
            json_object_update_new(cause, position_json(e, c->what));
        else if (c->kind == SL_HYBRID_CAUSE_LINK)
            json_object_update_new(cause, position_json(e, c->what / 2));
        else if (c->kind == SL_HYBRID_CAUSE_WORKERS)
            json_object_set_new(cause, "workers", slow_workers_json(e));
        else if (c->kind == SL_HYBRID_CAUSE_STAGE)
            json_object_set_new(cause, "pipeline", json_integer(c->what));
        else if (c->kind == SL_HYBRID_CAUSE_REPLICA)
            json_object_set_new(cause, "replica", json_integer(e->layout.replica[c->what]));
        else if (c->kind == SL_HYBRID_CAUSE_COLLECTIVES && c->what >= 0)
            json_object_set_new(cause, "kind", json_string(sl_traced_kinds[c->what].name));
        if (c->kind == SL_HYBRID_CAUSE_LINK)
            json_object_set_new(cause, "direction", json_string(c->what % 2 ? "backward" : "forward"));
        json_array_append_new(list, cause);
    }
    return list;
}

static json_t *kinds_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int i = 0; i < e->what_if.kinds; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f}", "kind", sl_traced_kinds[e->what_if.kind[i].what].name, "cost",
                            e->what_if.kind[i].cost, "slowdown_alone", e->what_if.kind[i].alone));
    return list;
}

static json_t *numbered_json(const char *name, const sl_what_if_cause *cause, int count, const int *number) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:i, s:f, s:f}", name,
                                              number ? number[cause[i].what] : cause[i].what, "cost",
                                              cause[i].cost, "slowdown_alone", cause[i].alone));
    return list;
}

static json_t *workers_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int q = 0; q < e->layout.pipeline * e->layout.data; q++) {
        json_t *worker = position_json(e, q), *cost = json_null();
        for (int i = 0; i < e->what_if.workers; i++)
            if (e->what_if.worker[i].what == q)
                cost = json_real(e->what_if.worker[i].cost);
        json_object_update_new(worker,
                               json_pack("{s:o, s:f, s:f, s:f, s:f}", "cost", cost, "slowdown_alone",
                                         e->what_if.heat[q], "computation", e->what_if.slowness[q], "gaps",
                                         e->what_if.gap[q], "clock_offset_ms", of_ms(e->offset[q])));
        json_array_append_new(list, worker);
    }
    return list;
}

static json_t *links_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int i = 0; i < e->what_if.links; i++) {
        const sl_what_if_cause *c = &e->what_if.link[i];
        json_t *link = position_json(e, c->what / 2);
        json_object_update_new(link, json_pack("{s:s, s:f}", "direction",
                                               c->what % 2 ? "backward" : "forward", "cost", c->cost));
        json_array_append_new(list, link);
    }
    return list;
}

static json_t *iterations_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int i = 0; i < e->what_if.iterations; i++) {
        const sl_what_if_iteration *it = &e->what_if.iteration[i];
        json_array_append_new(list, json_pack("{s:I, s:f, s:f, s:f}", "iteration", (json_int_t)it->step,
                                              "traced_ms", of_ms(it->traced), "replayed_ms",
                                              of_ms(it->replayed), "difference", difference(it)));
    }
    return list;
}

static json_t *skipped_json(const sl_explained *e) {
    json_t *list = json_array();
    for (int i = 0; i < e->what_if.skips; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:s}", "iteration", (json_int_t)e->what_if.skipped[i].step,
                                        "reason", e->what_if.skipped[i].why));
    return list;
}

static json_t *head_json(const sl_explained *e, double median) {
    const sl_hybrid_layout *l = &e->layout;
    const sl_what_if *w = &e->what_if;
    return json_pack("{s:s, s:i, s:{s:i, s:i, s:i, s:i, s:s}, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}",
                     "format", "slackline-explain-1", "workers_traced", e->trace.workers, "layout", "tensor",
                     l->tensor, "data", l->data + l->left_out, "pipeline", l->pipeline, "chunks", l->chunks,
                     "source", l->source, "microbatches", w->microbatches, "traced_ms", of_ms(w->mean_traced),
                     "replayed_ms", of_ms(w->mean_replayed), "median_difference", median, "ideal_ms",
                     of_ms(w->mean_ideal), "slowdown", w->slowdown, "slowest_workers_share", w->worker_share,
                     "last_stage_share", w->last_stage_share, "iterations_examined", w->examined);
}

static json_t *costs_json(const sl_what_if *w) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "slow_workers", w->slow_workers,
                     "even_cut", w->cut, "lengths", w->lengths, "links", w->all_links, "no_links",
                     w->no_links, "collectives", w->collectives, "no_collectives", w->no_collectives, "gaps",
                     w->gaps, "length_correlation", w->together, "length_deviation", w->length_variation);
}

static json_t *trace_json(const sl_explained *e) {
    const sl_hybrid_trace *t = &e->trace;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s}", "events", (json_int_t)t->events,
                     "without_duration", (json_int_t)t->repaired, "negative_duration",
                     (json_int_t)t->negative, "dropped", (json_int_t)t->dropped, "unknown_names",
                     (json_int_t)t->unknown, "overlapping", e->what_if.left_out, "without_times",
                     e->what_if.unknown, "missing_workers", e->layout.missing);
}

sl_status sl_explain_print_json(const sl_explained *e, FILE *out) {
    double median;
    SL_TRY(median_difference(&e->what_if, &median));
    json_t *report = head_json(e, median);
    json_t *rest =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "causes", causes_json(e), "costs",
                  costs_json(&e->what_if), "kinds", kinds_json(e), "stages",
                  numbered_json("pipeline", e->what_if.stage, e->layout.pipeline, NULL), "replicas",
                  numbered_json("replica", e->what_if.replica, e->layout.data, e->layout.replica), "workers",
                  workers_json(e), "links", links_json(e), "iterations", iterations_json(e), "skipped",
                  skipped_json(e), "trace", trace_json(e));
    int failed = !report || !rest || json_object_update(report, rest) != 0 ||
                 json_dumpf(report, out, JSON_COMPACT | JSON_REAL_PRECISION(10)) != 0;
    fputc('\n', out);
    json_decref(rest);
    json_decref(report);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the report") : SL_OK;
}
