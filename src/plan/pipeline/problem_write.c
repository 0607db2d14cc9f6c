/* The problem as a file that sl_problem_read reads back. */
#include "plan/pipeline/layer_layout.h"
#include "plan/pipeline/layers.h"
#include "plan/pipeline/problem.h"
#include "plan/pipeline/problem_read.h"

#include <math.h>
#include <stdio.h>

/* ms with six decimals are whole ns; %.17g gives doubles back exactly. */
static void write_ms(FILE *out, sl_time t) {
    fprintf(out, "%lld.%06lld", (long long)(t / SL_MS), (long long)(t % SL_MS));
}

static void write_times(FILE *out, const char *indent, const char *name, const sl_time *values, int count) {
    fprintf(out, "%s%s: [", indent, name);
    for (int i = 0; i < count; i++) {
        fputs(i ? ", " : "", out);
        write_ms(out, values[i]);
    }
    fprintf(out, "]\n");
}

static void write_reals(FILE *out, const char *indent, const char *name, const double *values, int count) {
    fprintf(out, "%s%s: [", indent, name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%.17g", i ? ", " : "", values[i]);
    fprintf(out, "]\n");
}

/* The file's time, before recomputation and overhead were added. */
static sl_time given_time(const sl_problem *p, int kind, int stage) {
    int again = p->recompute[stage] && (kind == SL_I || kind == SL_B);
    sl_time own = sl_problem_own_time(p, kind, stage);
    return again ? sl_later(0, own - sl_problem_own_time(p, SL_F, stage)) : own;
}

static void write_stages(const sl_problem *p, FILE *out) {
    fprintf(out, "  times_ms:\n");
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        fprintf(out, "    %s: [", sl_op_name(kind));
        for (int stage = 0; stage < p->stages; stage++) {
            fputs(stage ? ", " : "", out);
            write_ms(out, given_time(p, kind, stage));
        }
        fprintf(out, "]\n");
    }
    fprintf(out, "    FB: [");
    for (int stage = 0; stage < p->stages; stage++) {
        fputs(stage ? ", " : "", out);
        sl_time both = given_time(p, SL_F, stage) + given_time(p, SL_B, stage) - p->saved[stage];
        write_ms(out, both > 0 ? both : 0);
    }
    fprintf(out, "]\n");
}

/* The number that gives `rest` after `fixed` is subtracted, as near to their sum as possible. */
static double sum_back(double rest, double fixed) {
    double sum = rest + fixed, low = sum, high = sum;
    for (int step = 0; step < 4; step++) {
        if (low - fixed == rest)
            return low;
        if (high - fixed == rest)
            return high;
        low = nextafter(low, -INFINITY);
        high = nextafter(high, INFINITY);
    }
    return sum;
}

/* As in the file: including permanent use. */
static void write_limit(const sl_problem *p, FILE *out) {
    fprintf(out, "    limit: [");
    for (int rank = 0; rank < p->ranks; rank++)
        fprintf(out, "%s%.17g", rank ? ", " : "",
                p->layers ? p->layers->memory[rank] : sum_back(p->limit[rank], sl_problem_fixed(p, rank)));
    fprintf(out, "]\n");
}

static void write_memory(const sl_problem *p, FILE *out) {
    if (p->layers && !p->limit && !p->host_limit)
        return;
    fprintf(out, "  memory:\n");
    if (!p->layers) {
        fprintf(out, "    delta:\n      F: [");
        for (int stage = 0; stage < p->stages; stage++)
            fprintf(out, "%s%.17g", stage ? ", " : "",
                    p->delta[SL_F][stage] + (p->early[stage] - p->start[stage]));
        fprintf(out, "]\n");
        write_reals(out, "      ", "I_start", p->start, p->stages);
        for (int kind = SL_I; kind < SL_OP_KINDS; kind++)
            write_reals(out, "      ", sl_op_name(kind), p->delta[kind], p->stages);
        fprintf(out, "      input: [");
        for (int stage = 0; stage < p->stages; stage++)
            fprintf(out, "%s%.17g", stage ? ", " : "", p->recompute[stage] ? p->delta[SL_F][stage] : 0);
        fprintf(out, "]\n");
    }
    if (p->limit)
        write_limit(p, out);
    if (p->fixed && !p->layers)
        write_reals(out, "    ", "fixed", p->fixed, p->ranks);
    if (!p->host_limit)
        return;
    fprintf(out, "    host_limit: [");
    for (int rank = 0; rank < p->ranks; rank++)
        fprintf(out, "%s%d", rank ? ", " : "", (int)p->host_limit[rank]);
    fprintf(out, "]\n");
    write_times(out, "    ", "offload_ms", p->offload, p->stages);
}

static void write_booleans(const unsigned char *values, int count, FILE *out) {
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? ", " : "[", values[i] ? "true" : "false");
    fprintf(out, "]\n");
}

/* The present cut, and what recomputes in it if plans may choose that. */
static void write_cut(const sl_problem *p, FILE *out) {
    const sl_layers *l = p->layers;
    int stages = p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages;
    if (l->letter) {
        fprintf(out, "    layout: \"");
        sl_layer_layout_write(l->letter, l->first, stages, out);
        fprintf(out, "\"\n");
    } else {
        fprintf(out, "    cut: ");
        for (int stage = 0; stage < stages; stage++)
            fprintf(out, "%s%d", stage ? ", " : "[", l->first[stage + 1] - l->first[stage]);
        fprintf(out, "]\n");
    }
    if (l->recompute) {
        fprintf(out, "    recomputed: ");
        write_booleans(p->recompute, p->stages, out);
    }
}

static void write_layers(const sl_problem *p, FILE *out) {
    const sl_layers *l = p->layers;
    fprintf(out, "  layers:\n    count: %d\n", l->count);
    write_cut(p, out);
    fprintf(out, "    times_ms:\n");
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        write_times(out, "      ", sl_op_name(kind), l->time[kind], l->count);
    fprintf(out, "    delta:\n");
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        write_reals(out, "      ", sl_op_name(kind), l->delta[kind], l->count);
    write_reals(out, "      ", "I_start", l->early, l->count);
    write_reals(out, "      ", "input", l->input, l->count);
    write_reals(out, "    ", "weights", l->weights, l->count);
    if (l->gather && l->reduce) {
        write_times(out, "    ", "reduce_ms", l->reduce, l->count);
        write_times(out, "    ", "gather_ms", l->gather, l->count);
    }
    write_reals(out, "    ", "speed", l->speed, p->ranks);
}

/* `latency` includes the percentile of the jitter, the file's latency does not; if a measurement has set a
 * smaller one, no jitter is left. */
static void write_link(const sl_problem *p, int from, int to, FILE *out) {
    const sl_link *link = &p->link[from * p->ranks + to];
    int jitters = link->latency >= sl_from_ms(sl_jitter_share(sl_to_ms(link->jitter), p->percentile));
    fprintf(out, "      - {between: [%d, %d], one_way: true, latency_ms: ", from, to);
    write_ms(out, jitters ? sl_link_least_latency(link, p->percentile) : link->latency);
    fprintf(out, ", jitter_ms: ");
    write_ms(out, jitters ? link->jitter : 0);
    if (link->bytes > 0 && link->transfer > 0) { /* bits per ns are Gbit/s */
        fprintf(out, ", bandwidth_gbps: %.17g, message_mb: %.15g}\n",
                8 * link->bytes / (double)link->transfer, link->bytes / 1e6);
        return;
    }
    fprintf(out, ", transfer_ms: ");
    write_ms(out, link->transfer);
    fprintf(out, "}\n");
}

/* One item for each pair of wires: a link is listed in the direction that got the even number. */
static void write_shared(const sl_problem *p, FILE *out) {
    int all = p->ranks * p->ranks, most = -1;
    for (int i = 0; p->wire && i < all; i++)
        most = p->wire[i] > most ? p->wire[i] : most;
    if (most < all)
        return;
    fprintf(out, "    shared:\n");
    for (int wire = all; wire <= most; wire += 2) {
        int first = 1;
        fprintf(out, "      - {name: wire%d, links: [", (wire - all) / 2);
        for (int i = 0; i < all; i++)
            if (p->wire[i] == wire) {
                fprintf(out, "%s[%d, %d]", first ? "" : ", ", i / p->ranks, i % p->ranks);
                first = 0;
            }
        fprintf(out, "]}\n");
    }
}

static void write_links(const sl_problem *p, FILE *out) {
    fprintf(out, "  links:\n    percentile: %.17g\n", p->percentile);
    int first = 1;
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++) {
            const sl_link *link = &p->link[from * p->ranks + to];
            if (from == to || (link->latency == 0 && link->transfer == 0 && link->jitter == 0))
                continue;
            if (first)
                fprintf(out, "    list:\n");
            first = 0;
            write_link(p, from, to, out);
        }
    write_shared(p, out);
}

sl_status sl_problem_write(const sl_problem *p, FILE *out) {
    fprintf(out, "pipeline:\n  ranks: %d\n  microbatches: %d\n  placement: %s\n  stages: %d\n", p->ranks,
            p->microbatches, sl_placement_name(p->placement), p->stages);
    if (p->layers)
        write_layers(p, out);
    else
        write_stages(p, out);
    write_memory(p, out);
    fprintf(out, "  recompute: ");
    if (p->layers && p->layers->recompute)
        fprintf(out, "auto\n");
    else
        write_booleans(p->recompute, p->stages, out);
    if (!p->layers || !p->layers->gather) {
        fprintf(out, "  data_parallel:\n");
        write_times(out, "    ", "reduce_ms", p->reduce, p->stages);
        write_times(out, "    ", "gather_ms", p->gather, p->stages);
    }
    write_links(p, out);
    if (p->overhead_op || p->overhead_message) {
        fprintf(out, "  overhead_ms: {op: ");
        write_ms(out, p->overhead_op);
        fprintf(out, ", message: ");
        write_ms(out, p->overhead_message);
        fprintf(out, "}\n");
    }
    fprintf(out, "  parts: %d\n", p->parts);
    sl_write_communication(p, out);
    fprintf(out, "  queue: %d\n", p->queue);
    if (p->objective != SL_MAKESPAN)
        fprintf(out, "  objective: %s\n", sl_objective_names[p->objective]);
    if (p->objective == SL_PERIOD)
        fprintf(out, "  synchronization: %s\n", sl_synchronization_names[p->synchronization]);
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the problem cannot be written") : SL_OK;
}
