#include "run/engine/engine.h"
#include "base/memory.h"
#include "run/engine/engine_inside.h"

#include <string.h>

/* ---- opening and closing ---- */

static sl_status copy_stages(sl_engine *e, const sl_engine_config *config) {
    sl_stage *stage;
    SL_TRY(sl_alloc(&stage, (size_t)config->stages, sizeof *stage));
    e->config.stage = stage;
    for (int s = 0; s < config->stages; s++) {
        stage[s] = config->stage[s];
        if (!stage[s].forward)
            continue;
        e->bytes = stage[s].input_bytes > e->bytes ? stage[s].input_bytes : e->bytes;
        e->bytes = stage[s].output_bytes > e->bytes ? stage[s].output_bytes : e->bytes;
    }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&e->pace[kind], (size_t)config->stages, sizeof(sl_time)));
    SL_TRY(sl_alloc(&e->offload, (size_t)config->stages, sizeof(sl_time)));
    SL_TRY(sl_alloc(&e->prepared, (size_t)config->stages, 1));
    return sl_alloc(&e->saved, (size_t)config->stages, sizeof(sl_time));
}

sl_status sl_engine_open(const sl_engine_config *config, sl_engine **engine) {
    SL_TRY(sl_alloc(engine, 1, sizeof **engine));
    (*engine)->config = *config;
    (*engine)->config.stage = NULL;
    (*engine)->received.device = (*engine)->local.device = (*engine)->sent.device = config->device;
    sl_status status = copy_stages(*engine, config);
    if (status != SL_OK) {
        sl_engine_close(*engine);
        *engine = NULL;
    }
    return status;
}

void sl_engine_close(sl_engine *e) {
    if (!e)
        return;
    sl_free((void *)e->config.stage);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(e->pace[kind]);
    SL_FREE(e->saved, e->offload, e->prepared);
    sl_copier_free(&e->copier);
    sl_flow_free(&e->posted);
    sl_messenger_free(&e->messenger);
    sl_pool_free(&e->received);
    sl_pool_free(&e->local);
    sl_pool_free(&e->sent);
    SL_FREE(e->sending, e->way[0].message, e->way[1].message, e);
}

void sl_engine_pace(sl_engine *e, const sl_pace *pace) {
    for (int stage = 0; stage < e->config.stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            e->pace[kind][stage] = pace->time[kind] ? pace->time[kind][stage] : 0;
        e->offload[stage] = pace->offload ? pace->offload[stage] : 0;
        e->saved[stage] = pace->saved ? pace->saved[stage] : 0;
    }
}

void sl_engine_arrange(sl_engine *e, sl_regime regime, int queue) {
    e->config.regime = regime;
    e->config.queue = queue;
}

/* ---- programs ---- */

static sl_status check_tables(const sl_engine *e, const sl_rank_program *mine) {
    for (int i = 0; i < mine->steps; i++) {
        int stage = mine->step[i].op.stage;
        if (stage >= e->config.stages || !e->config.stage[stage].forward)
            return sl_error(SL_EINVAL, "the program gives stage %d to rank %d, which does not hold it", stage,
                            e->config.rank);
    }
    for (int m = 0; m < mine->moves; m++)
        if (!e->config.stage[mine->move[m].stage].offload || !e->config.stage[mine->move[m].stage].fetch)
            return sl_error(SL_EINVAL, "the program moves activations of stage %d, which cannot",
                            mine->move[m].stage);
    return SL_OK;
}

/* Parts split W by parameter, so each part accumulates separately. */
static sl_status check_ascending(const sl_rank_program *mine, int rank, int parts, int32_t *last) {
    for (int i = 0; i < mine->steps; i++) {
        const sl_op *op = &mine->step[i].op;
        if (op->kind != SL_W && op->kind != SL_B)
            continue;
        int32_t *before = &last[op->stage * parts + op->part];
        if (op->microbatch < *before)
            return sl_error(
                SL_EINVAL,
                "rank %d adds weight gradients of stage %d, microbatch %d after %d; bit-identical sums need "
                "them in ascending order",
                rank, op->stage, op->microbatch, *before);
        *before = op->microbatch;
    }
    return SL_OK;
}

static sl_status check_program(const sl_engine *e, const sl_program *program, const sl_rank_program *mine) {
    int32_t *last;
    SL_TRY(check_tables(e, mine));
    SL_TRY(sl_alloc(&last, (size_t)e->config.stages * (size_t)program->parts, sizeof *last));
    sl_status status = check_ascending(mine, e->config.rank, program->parts, last);
    sl_free(last);
    return status;
}

static sl_status make_ways(sl_engine *e, const sl_program *program, const sl_rank_program *mine) {
    sl_free(e->sending);
    SL_TRY(sl_alloc(&e->sending, (size_t)program->messages, sizeof *e->sending));
    for (int w = 0; w < 2; w++) {
        sl_free(e->way[w].message);
        e->way[w] = (sl_way){0};
        SL_TRY(sl_alloc(&e->way[w].message, (size_t)mine->queued[w], sizeof(int32_t)));
    }
    return SL_OK;
}

static sl_status hold_buffers(sl_engine *e, const sl_flow *flow) {
    SL_TRY(sl_pool_hold(&e->received, flow->receive_buffers, e->bytes));
    return sl_pool_hold(&e->local, flow->local_buffers, e->bytes);
}

sl_status sl_engine_swap(sl_engine *e, const sl_program *program, const int32_t *post) {
    if (e->config.rank >= program->ranks)
        return sl_error(SL_EINVAL, "a program of %d ranks on rank %d", program->ranks, e->config.rank);
    const sl_rank_program *mine = &program->rank[e->config.rank];
    if (!e->config.transport && mine->queued[0] + mine->queued[1] + mine->queued[2] + mine->queued[3] > 0)
        return sl_error(SL_EINVAL, "the program has messages, but rank %d no transport", e->config.rank);
    SL_TRY(check_program(e, program, mine));
    e->mine = NULL; /* until all of the new one is there */
    e->messenger.planned = 0;
    sl_flow_free(&e->posted);
    SL_TRY(sl_flow_make(program, e->config.rank, post, &e->posted));
    SL_TRY(hold_buffers(e, &e->posted));
    SL_TRY(make_ways(e, program, mine));
    e->program = program;
    e->mine = mine;
    return SL_OK;
}

/* The messenger reads the addresses of send buffers while the rank adds some: their table never moves. */
sl_status sl_engine_issue(sl_engine *e, const sl_problem *problem, const sl_issuer *issuer) {
    e->messenger.planned = 0;
    SL_TRY(sl_messenger_plan(e, problem, issuer));
    SL_TRY(hold_buffers(e, &e->messenger.flow));
    SL_TRY(sl_pool_reserve(&e->sent, e->mine->queued[SL_SEND_NEXT] + e->mine->queued[SL_SEND_PREVIOUS]));
    e->messenger.planned = 1;
    return SL_OK;
}

/* ---- running ---- */

static sl_status run_blocks(sl_engine *e, sl_time begin, sl_engine_result *result) {
    SL_TRY(sl_block_post(e, 0));
    sl_clock_sleep_until(e->config.clock, begin);
    for (int32_t i = 0, steps; i < e->mine->steps; i += steps) {
        steps = 1 + e->mine->step[i].op.paired;
        SL_TRY(sl_block_run(e, i, steps, result));
    }
    return sl_block_finish(e, result);
}

/* By this thread: a ring has one writer. */
static void record_moves(sl_engine *e, sl_engine_result *result) {
    for (int32_t m = 0; m < e->mine->moves; m++) {
        const sl_move *move = &e->mine->move[m];
        sl_record record = {.kind = SL_RECORD_MOVE,
                            .op = (uint8_t)move->kind,
                            .part = (uint8_t)move->half,
                            .iteration = (int32_t)e->iteration,
                            .rank = e->config.rank,
                            .peer = -1,
                            .stage = move->stage,
                            .microbatch = move->microbatch,
                            .start = e->copier.begun[m],
                            .end = e->copier.done[m],
                            .arrive = e->copier.done[m]};
        sl_record_write(e->config.ring, e->config.ring->capacity, &record);
    }
    result->moves = e->mine->moves;
    result->overruns += e->copier.overruns;
}

sl_status sl_engine_run(sl_engine *e, uint32_t iteration, sl_time begin, sl_engine_result *result) {
    const int fifo = e->config.regime == SL_FIFO;
    if (fifo && !e->messenger.planned)
        return sl_error(SL_EINVAL, "rank %d has no order of messages for regime fifo", e->config.rank);
    e->flow = fifo ? &e->messenger.flow : &e->posted;
    *result = (sl_engine_result){
        .end = begin, .receive_buffers = e->flow->receive_buffers, .local_buffers = e->flow->local_buffers};
    e->iteration = iteration;
    e->next_post = 0;
    e->queued.steps = 0;
    memset(e->prepared, 0, (size_t)e->config.stages);
    e->free_at = begin;
    for (int w = 0; w < 2; w++)
        e->way[w].first = e->way[w].count = 0;
    SL_TRY(sl_copier_begin(&e->copier, e->mine, e->config.stage, e->offload, e->config.clock, begin));
    sl_status status = fifo ? sl_messenger_begin(e, begin) : SL_OK;
    SL_THEN(status, run_blocks(e, begin, result));
    sl_status moved = sl_copier_end(&e->copier);
    SL_THEN(status, moved);
    if (status == SL_OK)
        record_moves(e, result);
    SL_THEN(status, sl_sends_finish(e));
    sl_messenger_end_iteration(e);
    SL_TRY(status);
    result->send_buffers = e->sent.count;
    return SL_OK;
}
