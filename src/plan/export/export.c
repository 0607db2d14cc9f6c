#include "plan/export/export_inside.h"

#include "plan/pipeline/csv.h"
#include "plan/pipeline/layers.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const sl_export_shape sl_export_shape_standard = {
    .tensor = 1, .data = 1, .context = 1, .expert = 1, .microbatch_size = 1};

const sl_export sl_exports[] = {
    {"torchtitan", "keys of torchtitan as TOML, with the modules of each stage and the order",
     sl_export_torchtitan},
    {"megatron", "flags of Megatron-LM, with the layout of layers", sl_export_megatron},
    {"deepspeed", "instructions, partition and configuration of DeepSpeed as JSON", sl_export_deepspeed},
    {"primus", "the schedule table of AMD's Primus as JSON", sl_export_primus},
    {"pytorch", "the same as csv", sl_export_pytorch},
    {NULL, NULL, NULL}};

const sl_export *sl_export_find(const char *name) {
    const sl_export *known = sl_exports;
    while (known->name && strcmp(known->name, name) != 0)
        known++;
    return known->name ? known : NULL;
}

/* ---- the shape ---- */

static const struct shape_key {
    const char *name;
    size_t offset;
    int is_long;
    long long least, most;
} shape_keys[] = {{"tensor", offsetof(sl_export_shape, tensor), 0, 1, 65536},
                  {"data", offsetof(sl_export_shape, data), 0, 1, 65536},
                  {"context", offsetof(sl_export_shape, context), 0, 1, 65536},
                  {"expert", offsetof(sl_export_shape, expert), 0, 1, 65536},
                  {"zero", offsetof(sl_export_shape, zero), 0, 0, 3},
                  {"microbatch_size", offsetof(sl_export_shape, microbatch_size), 0, 1, 1000000},
                  {"sequence", offsetof(sl_export_shape, sequence), 0, 1, 1000000000},
                  {"global_batch", offsetof(sl_export_shape, global_batch), 1, 1, 1000000000000},
                  {"recompute", offsetof(sl_export_shape, recompute), 0, 0, 1},
                  {"offload", offsetof(sl_export_shape, offload), 0, 0, 1}};

enum { SHAPE_KEYS = sizeof shape_keys / sizeof shape_keys[0] };

static const struct shape_key *find_shape_key(const char *text, size_t length) {
    for (int i = 0; i < SHAPE_KEYS; i++)
        if (strlen(shape_keys[i].name) == length && strncmp(shape_keys[i].name, text, length) == 0)
            return &shape_keys[i];
    return NULL;
}

/* The one KEY=N at *text, which moves to what follows it. */
static sl_status take_shape(const char **text, sl_export_shape *shape) {
    const char *at = *text, *equals = strchr(at, '='), *end = at + strcspn(at, ",");
    const struct shape_key *key = equals && equals < end ? find_shape_key(at, (size_t)(equals - at)) : NULL;
    char *after = NULL;
    if (!key)
        return sl_error(
            SL_EINVAL,
            "the shape has '%.*s'; it must be KEY=N, with commas between, and KEY tensor, data, "
            "context, expert, zero, microbatch_size, sequence, global_batch, recompute or offload",
            (int)(end - at < 40 ? end - at : 40), at);
    long long value = equals[1] >= '0' && equals[1] <= '9' ? strtoll(equals + 1, &after, 10) : -1;
    if (after != end || value < key->least || value > key->most)
        return sl_error(SL_EINVAL, "%s of the shape must be a whole number from %lld to %lld", key->name,
                        key->least, key->most);
    if (key->is_long)
        memcpy((char *)shape + key->offset, &(int64_t){value}, sizeof(int64_t));
    else
        memcpy((char *)shape + key->offset, &(int){(int)value}, sizeof(int));
    *text = *end ? end + 1 : end;
    return SL_OK;
}

sl_status sl_export_shape_parse(const char *text, sl_export_shape *shape) {
    *shape = sl_export_shape_standard;
    do
        SL_TRY(take_shape(&text, shape));
    while (*text);
    return SL_OK;
}

int64_t sl_export_batch(const sl_problem *p, const sl_export_shape *shape) {
    return (int64_t)p->microbatches * shape->microbatch_size * shape->data;
}

int sl_export_recompute(const sl_problem *p, const sl_export_shape *shape) {
    int stages = 0;
    for (int stage = 0; stage < p->stages; stage++)
        stages += p->recompute[stage] != 0;
    return shape->recompute || stages == p->stages ? 1 : stages > 0 ? -1 : 0;
}

/* ---- what can be exported ---- */

sl_status sl_export_check(const char *framework, const sl_problem *p, const sl_export_shape *shape) {
    if (p->parts > 1)
        return sl_error(SL_ENONE, "%s has no ops in parts, and the plan has %d", framework, p->parts);
    if (shape->offload && shape->zero == 0 && shape->data > 1)
        return sl_error(SL_ENONE, "%s has the optimizer in host memory only with ZeRO 1, or one replica",
                        framework);
    if (shape->global_batch && shape->global_batch != sl_export_batch(p, shape))
        return sl_error(SL_EINVAL,
                        "a global batch of %lld sequences is not %d microbatches of %d on %d replicas",
                        (long long)shape->global_batch, p->microbatches, shape->microbatch_size, shape->data);
    return SL_OK;
}

sl_status sl_export_check_whole(const char *framework, const sl_order *order) {
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            if (op->kind != SL_F && op->kind != SL_B)
                return sl_error(SL_ENONE,
                                "%s runs backwards in one piece, but rank %d runs %d%s%d; plan with a "
                                "schedule of full backwards, such as 1f1b",
                                framework, rank, op->stage, sl_op_name(op->kind), op->microbatch);
            if (op->paired)
                return sl_error(SL_ENONE,
                                "%s does not overlap the ops of two microbatches, as rank %d does "
                                "with %dF%d",
                                framework, rank, op->stage, op->microbatch);
        }
    return SL_OK;
}

/* ---- layers ---- */

int sl_export_layers(const sl_problem *p) {
    return p->layers ? p->layers->count : p->stages;
}

int sl_export_first(const sl_problem *p, int stage) {
    return p->layers ? p->layers->first[stage] : stage;
}

char sl_export_letter(const sl_problem *p, int layer) {
    return p->layers && p->layers->letter ? p->layers->letter[layer] : 't';
}

/* ---- output ---- */

void sl_export_comment(const char *before, const char *after, const sl_problem *p, const sl_plan *plan,
                       FILE *out) {
    fprintf(out, "%sslackline: %s, %s, %d ranks, %d stages, %d microbatches, %s %.12g ms%s", before,
            plan->schedule, sl_placement_name(p->placement), p->ranks, p->stages, p->microbatches,
            sl_objective_names[plan->objective], round((double)plan->value / 1e3) / 1e3, after);
    if (!p->layers)
        fprintf(out, "%sThe problem has no layers: each stage counts as one.%s", before, after);
    else if (!p->layers->letter)
        fprintf(out, "%sThe problem's layers count as transformer layers.%s", before, after);
    int moves = 0;
    for (int rank = 0; rank < plan->program.ranks; rank++)
        moves += plan->program.rank[rank].moves;
    if (moves > 0)
        fprintf(out, "%sLost: %d moves of activations to host memory and back.%s", before, moves, after);
}

sl_status sl_export_end(FILE *out) {
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the plan cannot be written") : SL_OK;
}

sl_status sl_export_pytorch(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                            FILE *out) {
    (void)shape;
    return sl_order_write_csv(problem, &plan->order, out);
}
