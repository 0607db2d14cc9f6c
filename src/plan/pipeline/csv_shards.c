/* UNSHARD, RESHARD and REDUCE_GRAD cells: they are not ops of a schedule, but if they are wrong, PyTorch
 * fails or computes wrong gradients (it divides the gradients in REDUCE_GRAD). */
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <stdio.h>

/* State of one stage during the walk through its rank's row. */
typedef struct shard_stage {
    unsigned char used;      /* it has an UNSHARD somewhere in the row */
    unsigned char unsharded; /* now */
    unsigned char reduced;
    int last; /* position + 1 of its last W or B */
} shard_stage;

static const char *const names[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};

static const char *check_shard(const sl_csv_shard *shard, shard_stage *stage) {
    switch (shard->kind) {
    case SL_CSV_UNSHARD:
        if (stage->unsharded)
            return "the stage is unsharded already";
        stage->unsharded = 1;
        return NULL;
    case SL_CSV_RESHARD:
        if (stage->used && !stage->unsharded)
            return "the stage is not unsharded";
        stage->unsharded = 0;
        return NULL;
    case SL_CSV_REDUCE_GRAD:
        if (stage->reduced)
            return "is duplicated";
        if (shard->before < stage->last)
            return "precedes the stage's last W or B";
        stage->reduced = 1;
        return NULL;
    }
    return NULL;
}

static sl_status check_op(const sl_csv_reader *r, int rank, int position, const shard_stage *stages) {
    const sl_op *op = &r->order->ops[rank][position];
    const shard_stage *stage = &stages[op->stage];
    if (!stage->used || stage->unsharded)
        return SL_OK;
    char text[64];
    snprintf(text, sizeof text, "%d%s%d", op->stage, sl_op_name(op->kind), op->microbatch);
    sl_csv_cell cell = {
        .file = r->file, .line = r->row[rank].line, .column = r->row[rank].column[position], .text = text};
    return sl_csv_refuse(&cell, "the stage is not unsharded here");
}

static sl_status check_row(const sl_csv_reader *r, int rank, shard_stage *stages) {
    const sl_csv_row *row = &r->row[rank];
    for (size_t i = 0; i < row->shards; i++)
        stages[row->shard[i].stage].used |= row->shard[i].kind == SL_CSV_UNSHARD;
    for (int i = 0; i < r->order->count[rank]; i++) {
        const sl_op *op = &r->order->ops[rank][i];
        if (op->kind == SL_W || op->kind == SL_B)
            stages[op->stage].last = i + 1;
    }
    int position = 0;
    for (size_t i = 0; i <= row->shards; i++) {
        int end = i < row->shards ? row->shard[i].before : r->order->count[rank];
        for (; position < end; position++)
            SL_TRY(check_op(r, rank, position, stages));
        if (i == row->shards)
            break;
        const sl_csv_shard *shard = &row->shard[i];
        const char *wrong = check_shard(shard, &stages[shard->stage]);
        char text[64];
        snprintf(text, sizeof text, "%d%s", shard->stage, names[shard->kind]);
        sl_csv_cell cell = {.file = r->file, .line = shard->line, .column = shard->column, .text = text};
        if (wrong)
            return sl_csv_refuse(&cell, wrong);
    }
    return SL_OK;
}

sl_status sl_csv_check_shards(const sl_csv_reader *r) {
    shard_stage *stages;
    SL_TRY(sl_alloc(&stages, (size_t)r->problem->stages, sizeof *stages));
    sl_status status = SL_OK;
    for (int rank = 0; rank < r->problem->ranks && status == SL_OK; rank++)
        status = check_row(r, rank, stages);
    sl_free(stages);
    return status;
}
