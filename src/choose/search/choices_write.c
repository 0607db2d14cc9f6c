#include "choose/search/choices_write.h"
#include "plan/pipeline/layers.h"

#include <math.h>

#define MAX_NAMED 64 /* devices that are listed in text */

/* Where the time of an iteration goes, s, on average over ranks. */
typedef struct losses {
    double computed, recomputed, tensor, context, expert, weights, sums, bubble, update;
} losses;

/* F that I and B repeat, on average. */
static double recomputed_s(const sl_choice *c) {
    const sl_problem *p = &c->problem;
    double ns = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (p->recompute[stage])
            ns += (double)p->time[SL_F][stage] * p->microbatches / p->ranks;
    return ns / 1e9;
}

static losses losses_of(const sl_choice *c) {
    const sl_shape_parts *s = &c->parts;
    losses l = {.computed = s->computed,
                .recomputed = recomputed_s(c),
                .tensor = s->sent[SL_WORK_TENSOR],
                .context = s->sent[SL_WORK_CONTEXT],
                .expert = s->sent[SL_WORK_EXPERT],
                .weights = s->weights,
                .sums = s->summed,
                .update = s->update};
    double rest = (double)c->time / 1e9 -
                  (l.computed + l.recomputed + l.tensor + l.context + l.expert + l.weights + l.update);
    l.sums = fmax(0, fmin(l.sums, rest)); /* the others run while ranks compute */
    l.bubble = fmax(0, rest - l.sums);
    return l;
}

json_t *sl_choose_cut_json(const sl_problem *p) {
    json_t *list = json_array();
    for (int stage = 0; p->layers && stage <= p->stages; stage++)
        json_array_append_new(list, json_integer(p->layers->first[stage]));
    return list;
}

static json_t *recompute_json(const sl_problem *p) {
    json_t *list = json_array();
    for (int stage = 0; stage < p->stages; stage++)
        if (p->recompute[stage])
            json_array_append_new(list, json_integer(stage));
    return list;
}

static json_t *memory_json(const sl_choice *c) {
    json_t *list = json_array();
    for (int rank = 0; rank < c->problem.ranks; rank++)
        json_array_append_new(list, json_real(c->plan.peak_memory[rank] / 1e9));
    return list;
}

static json_t *split_json(const sl_choice *c) {
    json_t *list = json_array();
    for (int replica = 0; replica < c->shape.data; replica++)
        json_array_append_new(list, json_integer(sl_choice_microbatches(c, replica)));
    return list;
}

/* node0, or node0/3 if the host has several devices. */
static void device_name(const sl_devices *d, int device, char *name, size_t size) {
    int host = d->device[device].host, first = device, last = device;
    while (first > 0 && d->device[first - 1].host == host)
        first--;
    while (last + 1 < d->count && d->device[last + 1].host == host)
        last++;
    if (first < last)
        snprintf(name, size, "%s/%d", d->name[host], device - first);
    else
        snprintf(name, size, "%s", d->name[host]);
}

static json_t *devices_json(const sl_choice *c, const sl_devices *d) {
    json_t *list = json_array();
    char name[300];
    for (int number = 0; number < d->count; number++) {
        device_name(d, sl_choice_device(c, number), name, sizeof name);
        json_array_append_new(list, json_string(name));
    }
    return list;
}

/* The regime of messages, in `fifo` with its communicators. */
static json_t *communication_json(const sl_problem *p) {
    json_t *object = json_pack("{s:s}", "regime", sl_regime_names[p->communication]);
    if (p->communication == SL_FIFO)
        json_object_set_new(object, "communicators", json_string(sl_communicators_names[p->communicators]));
    return object;
}

/* ms by communicators, if these were chosen. */
static json_t *with_json(const sl_choices *f) {
    json_t *object = json_object();
    for (int i = 0; i <= SL_OF_KIND; i++)
        if (f->with[i] > 0)
            json_object_set_new(object, sl_communicators_names[i], json_real(sl_to_ms(f->with[i])));
    return object;
}

static json_t *choice_json(const sl_choice *c, const sl_devices *d) {
    const sl_shape *s = &c->shape;
    const losses l = losses_of(c);
    return json_pack(
        "{s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:i,s:i,s:o,s:i,s:s,s:s,s:o,s:s,s:o,s:s,s:o,s:o,s:f,s:f,s:f,s:f,s:o,s:"
        "f,"
        "s:{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}}",
        "tensor", s->division.tensor, "context", s->division.context, "expert", s->division.expert, "data",
        s->data, "pipeline", s->pipeline, "chunks", s->chunks, "placement", sl_placement_name(s->placement),
        "microbatch_size", s->division.size, "microbatches", c->problem.microbatches, "split", split_json(c),
        "zero", s->zero, "offload", sl_host_use_names[s->offload], "recompute",
        sl_recompute_names[s->division.recompute], "recomputed_stages", recompute_json(&c->problem),
        "neighbors", sl_neighbors_names[s->neighbors], "positions", devices_json(c, d), "schedule",
        c->plan.schedule, "communication", communication_json(&c->problem), "cut",
        sl_choose_cut_json(&c->problem), "iteration_ms", sl_to_ms(c->time), "lower_bound_ms",
        sl_to_ms(c->bound), "tokens_per_s", c->tokens_per_s, "memory_gb", c->memory / 1e9,
        "memory_gb_by_rank", memory_json(c), "host_memory_gb", c->host_memory / 1e9, "time_ms", "computed",
        1e3 * l.computed, "recomputed", 1e3 * l.recomputed, "tensor", 1e3 * l.tensor, "context",
        1e3 * l.context, "expert", 1e3 * l.expert, "weights", 1e3 * l.weights, "sums", 1e3 * l.sums, "bubble",
        1e3 * l.bubble, "update", 1e3 * l.update);
}

static double gap(const sl_choices *f) {
    return f->bound > 0 ? (double)(f->choice[0].time - f->bound) / (double)f->bound : 0;
}

sl_status sl_choices_write_json(const sl_choices *f, const sl_model_work *model, const sl_devices *devices,
                                FILE *out) {
    json_t *list = json_array();
    for (int i = 0; i < f->count; i++)
        json_array_append_new(list, choice_json(&f->choice[i], devices));
    json_t *all = json_pack(
        "{s:s,s:s?,s:i,s:I,s:f,s:f,s:I,s:I,s:I,s:I,s:f,s:o,s:o}", "format", "slackline-choices-1", "model",
        model->name, "devices", devices->count, "sequences", (json_int_t)model->sequences, "lower_bound_ms",
        sl_to_ms(f->bound), "gap", gap(f), "shapes", (json_int_t)f->shapes, "dismissed",
        (json_int_t)f->dismissed, "estimated", (json_int_t)f->estimated, "planned", (json_int_t)f->planned,
        "solve_ms", 1e3 * f->seconds, "communicators_ms", with_json(f), "arrangements", list);
    int written = all && json_dumpf(all, out, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0;
    fprintf(out, "\n");
    json_decref(all);
    return written ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the arrangements");
}

/* Microbatches of a replica: 12, or of the least and the most, 6-12. */
static void microbatches_text(const sl_choice *c, char *text, size_t size) {
    int least = c->shape.microbatches, most = c->shape.microbatches;
    for (int replica = 0; c->split && replica < c->shape.data; replica++) {
        least = replica == 0 || c->split[replica] < least ? c->split[replica] : least;
        most = replica == 0 || c->split[replica] > most ? c->split[replica] : most;
    }
    snprintf(text, size, least < most ? "%d-%d" : "%d", least, most);
}

static void write_row(const sl_choice *c, FILE *out) {
    const sl_shape *s = &c->shape;
    const losses l = losses_of(c);
    double whole = (double)c->time / 1e9;
    char stages[32], keeps[24] = "all", microbatches[32];
    int again = 0;
    microbatches_text(c, microbatches, sizeof microbatches);
    for (int stage = 0; stage < c->problem.stages; stage++)
        again += c->problem.recompute[stage];
    snprintf(stages, sizeof stages, s->chunks == 1 ? "%d" : "%d x %d %s", s->pipeline, s->chunks,
             sl_placement_name(s->placement));
    if (again)
        snprintf(keeps, sizeof keeps, "%d of %d stages", again, c->problem.stages);
    else
        snprintf(keeps, sizeof keeps, "%s", s->division.recompute ? "attention" : "-");
    fprintf(out,
            "%10.6g %10.0f %6.1f %6d %7d %6d %4d  %-11s %6s x %-5d %4d  %-11s %-15s %-17s %5.1f %5.1f %5.1f "
            "%5.1f\n",
            sl_to_ms(c->time), c->tokens_per_s, c->memory / 1e9, s->division.tensor, s->division.context,
            s->division.expert, s->data, stages, microbatches, s->division.size, s->zero,
            s->offload ? sl_host_use_names[s->offload] : "-", keeps, c->plan.schedule, 100 * l.bubble / whole,
            100 * (l.tensor + l.context + l.expert) / whole, 100 * (l.sums + l.weights + l.update) / whole,
            100 * l.recomputed / whole);
}

/* If they are not in the file's order. */
static void write_devices(const sl_choice *c, const sl_devices *d, FILE *out) {
    int each = d->count / c->shape.pipeline;
    char name[300];
    if (!c->device)
        return;
    if (d->count > MAX_NAMED) {
        fprintf(out, "devices in another order than in the file: --format json lists them\n");
        return;
    }
    for (int rank = 0; rank < c->shape.pipeline; rank++) {
        fprintf(out, "devices of pipeline rank %d:", rank);
        for (int i = 0; i < each; i++) {
            device_name(d, sl_choice_device(c, rank * each + i), name, sizeof name);
            fprintf(out, " %s", name);
        }
        fprintf(out, "\n");
    }
}

static void write_communication(const sl_choices *f, FILE *out) {
    const sl_problem *p = &f->choice[0].problem;
    if (p->ranks < 2)
        return;
    fprintf(out, "messages between its stages: %s", sl_regime_names[p->communication]);
    if (p->communication == SL_FIFO)
        fprintf(out, ", communicators: %s", sl_communicators_names[p->communicators]);
    for (int i = 0, shown = 0; i <= SL_OF_KIND; i++)
        if (f->with[i] > 0)
            fprintf(out, "%s %s %.6g ms", shown++ ? "," : "; with", sl_communicators_names[i],
                    sl_to_ms(f->with[i]));
    fprintf(out, "\n");
}

static void write_split(const sl_choice *c, FILE *out) {
    fprintf(out, "microbatches of its replicas:");
    for (int replica = 0, next; replica < c->shape.data; replica = next) {
        for (next = replica; next < c->shape.data && c->split[next] == c->split[replica];)
            next++;
        if (next - replica > 1)
            fprintf(out, "%s %d each for %d to %d", replica ? "," : "", c->split[replica], replica, next - 1);
        else
            fprintf(out, "%s %d for %d", replica ? "," : "", c->split[replica], replica);
    }
    fprintf(out, "\n");
}

static void write_cut(const sl_choice *c, FILE *out) {
    const sl_problem *p = &c->problem;
    fprintf(out, "layers of its stages:");
    for (int stage = 0; stage < p->stages; stage++)
        fprintf(out, "%s %d", stage ? "," : "", p->layers->first[stage + 1] - p->layers->first[stage]);
    fprintf(out, "\n");
}

void sl_choices_write_text(const sl_choices *f, const sl_model_work *model, const sl_devices *devices,
                           FILE *out) {
    fprintf(out, "%s, %d layers, %lld sequences of %d tokens, on %d devices\n",
            model->name ? model->name : "model", model->layers, model->sequences, model->context,
            devices->count);
    fprintf(out, "%lld arrangements: %lld dismissed, %lld estimated, %lld planned, in %.1f s\n", f->shapes,
            f->dismissed, f->estimated, f->planned, f->seconds);
    if (f->bound > 0)
        fprintf(out, "nothing among them takes less than %.6g ms; the best is at most %.2g%% above\n\n",
                sl_to_ms(f->bound), 100 * gap(f));
    else
        fprintf(out, "interrupted before every arrangement had a bound\n\n");
    fprintf(out, "%10s %10s %6s %6s %7s %6s %4s  %-11s %14s %4s  %-11s %-15s %-17s %5s %5s %5s %5s\n", "ms",
            "tokens/s", "GB", "tensor", "context", "expert", "data", "pipeline", "microbatches", "ZeRO",
            "offload", "recompute", "schedule", "idle%", "sent%", "sums%", "rec.%");
    for (int i = 0; i < f->count; i++)
        write_row(&f->choice[i], out);
    fprintf(out, "\nThe first: ");
    write_cut(&f->choice[0], out);
    if (f->choice[0].split)
        write_split(&f->choice[0], out);
    write_communication(f, out);
    write_devices(&f->choice[0], devices, out);
    fprintf(out,
            "idle: waiting in the pipeline; sent: messages of tensor, context and expert ranks; sums: those "
            "over replicas, "
            "and the update of weights;\nrec.: recomputation. All in percent of the iteration, on average "
            "over ranks.\n");
}
