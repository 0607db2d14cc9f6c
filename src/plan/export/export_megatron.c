/* Megatron-LM with megatron-core 0.16.1. Its two orders are code
 * (megatron/core/pipeline_parallel/schedules.py): each rank runs `warmup` forwards, then one forward and one
 * backward in turn, then the remaining backwards.
 *
 * Without interleaving, `warmup` is ranks - rank - 1 (get_pp_rank_microbatches), and another one needs a
 * change of that line. With interleaving, forwards come in groups of microbatches that run through all chunks
 * of the rank (get_schedule_table), backwards through the same in reverse, and the size of a group is a
 * setting that also determines `warmup`: 2 (ranks - rank - 1) + (chunks - 1) size. */
#include "plan/export/export_inside.h"

#include "plan/pipeline/layer_layout.h"
#include "plan/pipeline/layers.h"

#include "base/memory.h"

#include <string.h>

#define MEGATRON "Megatron-LM"

/* What one of its orders runs. */
typedef struct megatron_order {
    int ranks, chunks, microbatches;
    int group;   /* microbatches in a group; without interleaving 1 */
    int *warmup; /* [ranks] */
} megatron_order;

/* ---- its order ---- */

/* Forward or backward number `at` of a rank. */
static sl_op virtual_op(const megatron_order *m, int rank, int kind, int at) {
    int whole = m->group * m->chunks, begin = at / whole * m->group, in_group = at % whole;
    int size = m->microbatches - begin < m->group ? m->microbatches - begin : m->group;
    int chunk = in_group / size;
    if (kind == SL_B)
        chunk = m->chunks - 1 - chunk;
    return (sl_op){.stage = chunk * m->ranks + rank, .microbatch = begin + in_group % size, .kind = kind};
}

/* Op number `at` of a rank. */
static sl_op op_at(const megatron_order *m, int rank, int at) {
    int all = m->chunks * m->microbatches, warmup = m->warmup[rank], steady = 2 * (all - warmup);
    if (at < warmup)
        return virtual_op(m, rank, SL_F, at);
    at -= warmup;
    if (at < steady)
        return at % 2 ? virtual_op(m, rank, SL_B, at / 2) : virtual_op(m, rank, SL_F, warmup + at / 2);
    return virtual_op(m, rank, SL_B, all - warmup + at - steady);
}

/* SL_ENONE: the first op that differs. */
static sl_status compare(const megatron_order *m, const sl_order *order) {
    for (int rank = 0; rank < m->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            sl_op wanted = op_at(m, rank, i);
            const sl_op *op = &order->ops[rank][i];
            if (op->stage != wanted.stage || op->microbatch != wanted.microbatch || op->kind != wanted.kind)
                return sl_error(SL_ENONE,
                                MEGATRON " does not run this order: op %d of rank %d is %d%s%d, where its %s "
                                         "schedule runs %d%s%d",
                                i, rank, op->stage, sl_op_name(op->kind), op->microbatch,
                                m->chunks > 1 ? "interleaved" : "1F1B", wanted.stage, sl_op_name(wanted.kind),
                                wanted.microbatch);
        }
    return SL_OK;
}

static int sooner(int a, int b) {
    return a < b ? a : b;
}

/* ---- the plan as one of them ---- */

/* Its own warm-up, or another. A plan has never more on a rank than on the one before, which would stop both.
 */
static sl_status find_plain(const sl_order *order, megatron_order *m) {
    for (int rank = 0; rank < m->ranks; rank++) {
        int forwards = 0;
        while (forwards < order->count[rank] && order->ops[rank][forwards].kind == SL_F)
            forwards++;
        int own = sooner(m->ranks - rank - 1, m->microbatches), found = forwards == 0 ? 0 : forwards - 1;
        m->warmup[rank] = sooner(own + 1, m->microbatches) == forwards ? own : found;
    }
    return compare(m, order);
}

/* The group is the run of forwards of the first chunk with which rank 0 begins. */
static sl_status find_interleaved(const sl_order *order, megatron_order *m) {
    m->group = 0;
    for (int i = 0; i < order->count[0] && m->group < m->microbatches; i++) {
        const sl_op *op = &order->ops[0][i];
        if (op->kind == SL_F && op->stage != 0)
            break;
        m->group += op->kind == SL_F;
    }
    int rest = m->group ? m->microbatches % m->group : 0;
    if (m->ranks < 2)
        return sl_error(SL_ENONE, MEGATRON " does not interleave on one rank");
    if (m->group < m->ranks || (rest > 0 && rest < m->ranks))
        return sl_error(SL_ENONE,
                        MEGATRON " interleaves groups of at least %d microbatches, one per rank; rank 0 "
                                 "begins with %d of %d",
                        m->ranks, m->group, m->microbatches);
    for (int rank = 0; rank < m->ranks; rank++)
        m->warmup[rank] =
            sooner(2 * (m->ranks - rank - 1) + (m->chunks - 1) * m->group, m->chunks * m->microbatches);
    return compare(m, order);
}

static sl_status check_megatron(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape) {
    SL_TRY(sl_export_check(MEGATRON, p, shape));
    if (p->placement != SL_LINEAR && p->placement != SL_LOOP)
        return sl_error(SL_ENONE, MEGATRON " places stages in a line or a loop, not as %s",
                        sl_placement_name(p->placement));
    if (shape->zero > 1)
        return sl_error(SL_ENONE,
                        "the flags for " MEGATRON " have ZeRO 1 (--use-distributed-optimizer), not %d",
                        shape->zero);
    return sl_export_check_whole(MEGATRON, &plan->order);
}

/* ---- the flags ---- */

static sl_status write_layout(const sl_problem *p, FILE *out) {
    int layers = sl_export_layers(p), has_letters = p->layers && p->layers->letter;
    int transformers = 0, predictors = 0;
    char *letter;
    int *first = NULL;
    sl_status status;
    SL_TRY(sl_alloc(&letter, (size_t)layers + 3, 1));
    SL_TRY_GOTO(done, status, sl_alloc(&first, (size_t)p->stages + 1, sizeof *first));
    for (int stage = 0; stage <= p->stages; stage++) /* an E before the first layer, an L after the last */
        first[stage] =
            sl_export_first(p, stage) + (stage > 0 && !has_letters) + (stage == p->stages && !has_letters);
    if (has_letters)
        memcpy(letter, p->layers->letter, (size_t)layers);
    else {
        memset(letter + 1, 't', (size_t)layers);
        letter[0] = 'E';
        letter[layers + 1] = 'L';
    }
    for (int layer = 0; layer < first[p->stages]; layer++) {
        transformers += letter[layer] == 't';
        predictors += letter[layer] == 'm';
    }
    fprintf(out, "    --num-layers %d\n", transformers);
    if (predictors > 0)
        fprintf(out, "    --mtp-num-layers %d\n", predictors);
    fprintf(out, "    --pipeline-model-parallel-layout '");
    sl_layer_layout_write(letter, first, p->stages, out);
    fprintf(out, "'\n");
done:
    SL_FREE(letter, first);
    return status;
}

static void write_size(const sl_problem *p, const sl_export_shape *shape, FILE *out) {
    fprintf(out, "    --micro-batch-size %d\n    --global-batch-size %lld\n", shape->microbatch_size,
            (long long)sl_export_batch(p, shape));
    if (shape->sequence)
        fprintf(out, "    --seq-length %d\n", shape->sequence);
    int recompute = sl_export_recompute(p, shape);
    if (recompute > 0)
        fprintf(out,
                "    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n");
    else if (recompute < 0)
        fprintf(out, "    # Lost: only some stages of the plan recompute their activations.\n");
    if (shape->zero == 1 || shape->offload)
        fprintf(out, "    --use-distributed-optimizer\n");
    if (shape->offload)
        fprintf(out, "    --use-precision-aware-optimizer --optimizer-cpu-offload\n"
                     "    --optimizer-offload-fraction 1.0 --overlap-cpu-optimizer-d2h-h2d\n");
    if (shape->sequence_parallel && shape->tensor > 1)
        fprintf(out, "    --sequence-parallel\n");
}

/* A warm-up that is not its own has no flag. */
static void write_warmup(const megatron_order *m, FILE *out) {
    int differs = 0;
    for (int rank = 0; rank < m->ranks; rank++)
        differs |= m->warmup[rank] != sooner(m->ranks - rank - 1, m->microbatches);
    if (m->chunks > 1 || !differs)
        return;
    fprintf(
        out,
        "# The plan has another warm-up than the code, and there is no flag for it. In\n"
        "# forward_backward_pipelining_without_interleaving, num_warmup_microbatches must be, by rank:\n# ");
    for (int rank = 0; rank < m->ranks; rank++)
        fprintf(out, "%s%d", rank ? ", " : "", m->warmup[rank]);
    fprintf(out, "\n");
}

static sl_status write_flags(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape,
                             const megatron_order *m, FILE *out) {
    sl_export_comment("# ", "\n", p, plan, out);
    fprintf(out,
            "# Flags of Megatron-LM with megatron-core 0.16.1, for %lld ranks: . FILE, then\n"
            "# torchrun ... pretrain_gpt.py \"${slackline[@]}\" ...\n",
            (long long)p->ranks * shape->tensor * shape->context * shape->data);
    write_warmup(m, out);
    fprintf(out,
            "slackline=(\n    --tensor-model-parallel-size %d\n    --pipeline-model-parallel-size %d\n"
            "    --context-parallel-size %d\n    --expert-model-parallel-size %d\n",
            shape->tensor, p->ranks, shape->context, shape->expert);
    SL_TRY(write_layout(p, out));
    if (m->chunks > 1)
        fprintf(out, "    --microbatch-group-size-per-virtual-pipeline-stage %d\n", m->group);
    write_size(p, shape, out);
    fprintf(out, ")\n");
    return sl_export_end(out);
}

sl_status sl_export_megatron(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape,
                             FILE *out) {
    megatron_order m = {
        .ranks = p->ranks, .chunks = p->stages / p->ranks, .microbatches = p->microbatches, .group = 1};
    SL_TRY(check_megatron(p, plan, shape));
    SL_TRY(sl_alloc(&m.warmup, (size_t)p->ranks, sizeof *m.warmup));
    sl_status status = m.chunks > 1 ? find_interleaved(&plan->order, &m) : find_plain(&plan->order, &m);
    SL_THEN(status, write_flags(p, plan, shape, &m, out));
    sl_free(m.warmup);
    return status;
}
