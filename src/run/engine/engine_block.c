/* One block: a step, or two that are paired. */
#include "run/engine/engine_inside.h"

/* A step's input is as large as its stage's input from that side. */
static size_t input_bytes(const sl_engine *e, const sl_op *op) {
    const sl_stage *stage = &e->config.stage[op->stage];
    return op->kind == SL_F ? stage->input_bytes : stage->output_bytes;
}

sl_status sl_block_post(sl_engine *e, int32_t i) {
    for (; e->next_post < e->flow.posts && e->flow.post[e->next_post].step <= i; e->next_post++) {
        const sl_post *post = &e->flow.post[e->next_post];
        const sl_message *message = &e->program->message[post->message];
        SL_TRY(sl_transport_receive(e->config.transport, message->from, e->iteration, (uint32_t)post->message,
                                    e->received.buffer[post->buffer],
                                    input_bytes(e, &e->mine->step[message->consumer].op)));
    }
    return SL_OK;
}

static sl_status wait_for_input(sl_engine *e, const sl_step *step, sl_time *start) {
    if (step->receive < 0)
        return SL_OK;
    sl_time arrived;
    const sl_message *message = &e->program->message[step->receive];
    SL_TRY(sl_transport_wait(e->config.transport, message->from, e->iteration, (uint32_t)step->receive,
                             sl_clock_now(e->config.clock) + e->config.patience, &arrived));
    *start = arrived > *start ? arrived : *start;
    return SL_OK;
}

static const void *input_of(const sl_engine *e, int32_t i) {
    const sl_flow_end *in = &e->flow.in[i];
    if (in->kind == SL_FLOW_RECEIVED)
        return e->received.buffer[in->buffer];
    return in->kind == SL_FLOW_LOCAL ? e->local.buffer[in->buffer] : NULL;
}

static sl_status output_of(sl_engine *e, int32_t i, void **output) {
    const sl_flow_end *out = &e->flow.out[i];
    *output = out->kind == SL_FLOW_LOCAL ? e->local.buffer[out->buffer] : NULL;
    return out->kind == SL_FLOW_SENT ? sl_sends_buffer(e, i, output) : SL_OK;
}

static sl_status compute(sl_engine *e, int32_t i) {
    const sl_op *op = &e->mine->step[i].op;
    const sl_stage *stage = &e->config.stage[op->stage];
    int parts = e->program->parts;
    const void *in = input_of(e, i);
    void *out;
    SL_TRY(output_of(e, i, &out));
    switch (op->kind) {
    case SL_F:
        return stage->forward(stage->object, op, parts, in, out);
    case SL_I:
        return stage->input_grad(stage->object, op, parts, in, out);
    case SL_W:
        return stage->weight_grad(stage->object, op, parts);
    default: /* B is I and W by the same kernels (docs/design.md, rule 2) */
        SL_TRY(stage->input_grad(stage->object, op, parts, in, out));
        return stage->weight_grad(stage->object, op, parts);
    }
}

static sl_status finish(const sl_engine *e, const sl_op *op) {
    const sl_stage *stage = &e->config.stage[op->stage];
    return stage->finish ? stage->finish(stage->object) : SL_OK;
}

/* The pace of the block; 0 with *paced 0: the duration of its arithmetic. */
static sl_time pace_of(const sl_engine *e, int32_t i, int steps, int *paced) {
    const sl_op *op = &e->mine->step[i].op;
    sl_time whole = e->pace[op->kind][op->stage];
    if (steps == 1) {
        *paced = whole > 0;
        return sl_part_time(whole, e->program->parts, op->part);
    }
    const sl_op *second = &e->mine->step[i + 1].op;
    sl_time backward = e->pace[second->kind][second->stage];
    *paced = whole > 0 || backward > 0;
    return sl_pair_time(whole, backward, e->saved[op->stage], e->saved[second->stage]);
}

static void record_op(sl_engine *e, const sl_op *op, sl_time start, sl_time end) {
    sl_record record = {.kind = SL_RECORD_OP,
                        .op = (uint8_t)op->kind,
                        .part = (uint8_t)op->part,
                        .paired = (uint8_t)op->paired,
                        .iteration = (int32_t)e->iteration,
                        .rank = e->config.rank,
                        .peer = -1,
                        .stage = op->stage,
                        .microbatch = op->microbatch,
                        .start = start,
                        .end = end,
                        .arrive = end};
    sl_record_write(e->config.ring, e->config.ring->capacity, &record);
}

static sl_status mark_weights(const sl_engine *e, const sl_op *op, sl_time end) {
    const sl_stage *stage = &e->config.stage[op->stage];
    if ((op->kind != SL_W && op->kind != SL_B) || !stage->weights_added)
        return SL_OK;
    return stage->weights_added(stage->object, op, e->program->parts, end);
}

static sl_status make_results(sl_engine *e, int32_t i, int steps, sl_time start, sl_engine_result *result) {
    int paced;
    sl_time pace = pace_of(e, i, steps, &paced);
    if (!paced) {
        sl_time now = sl_clock_now(e->config.clock);
        start = now > start ? now : start;
    }
    for (int k = 0; k < steps; k++)
        SL_TRY(compute(e, i + k));
    for (int k = 0; k < steps; k++)
        SL_TRY(finish(e, &e->mine->step[i + k].op));
    sl_time done = sl_clock_now(e->config.clock), end = start + pace;
    if (!paced || done > end) {
        result->overruns += paced ? steps : 0;
        end = done > start ? done : start;
    }
    for (int k = 0; k < steps; k++)
        record_op(e, &e->mine->step[i + k].op, start, end);
    for (int k = 0; k < steps; k++)
        SL_TRY(mark_weights(e, &e->mine->step[i + k].op, end));
    result->ops += steps;
    result->end = end;
    sl_copier_step(&e->copier, i + steps, end);
    return sl_sends_issue(e, i, steps, end);
}

/* ---- what a stage does before its first F ---- */

static void record_update(sl_engine *e, int stage, sl_time start, sl_time end) {
    sl_record record = {.kind = SL_RECORD_OPTIMIZER,
                        .op = SL_GATHER,
                        .iteration = (int32_t)e->iteration,
                        .rank = e->config.rank,
                        .peer = -1,
                        .stage = stage,
                        .microbatch = -1,
                        .start = start,
                        .end = end,
                        .arrive = end};
    sl_record_write(e->config.ring, e->config.ring->capacity, &record);
}

/* Like a block: if ops are paced it begins when the rank is free, not when the thread has woken. */
static sl_status prepare(sl_engine *e, const sl_op *op) {
    const sl_stage *stage = &e->config.stage[op->stage];
    if (op->kind != SL_F || e->prepared[op->stage] || !stage->prepare)
        return SL_OK;
    e->prepared[op->stage] = 1;
    sl_time before = sl_clock_now(e->config.clock);
    SL_TRY(stage->prepare(stage->object));
    SL_TRY(finish(e, op));
    sl_time took = sl_clock_now(e->config.clock) - before,
            start = e->pace[SL_F][op->stage] > 0 ? e->free_at : before;
    e->free_at = start + took;
    record_update(e, op->stage, start, e->free_at);
    return SL_OK;
}

sl_status sl_block_run(sl_engine *e, int32_t i, int steps, sl_engine_result *result) {
    SL_TRY(sl_block_post(e, i));
    SL_TRY(sl_sends_reap(e));
    for (int k = 0; k < steps; k++)
        SL_TRY(prepare(e, &e->mine->step[i + k].op));
    sl_time start = e->free_at;
    for (int k = 0; k < steps; k++)
        SL_TRY(wait_for_input(e, &e->mine->step[i + k], &start));
    if (e->mine->awaited) /* a pair's is at its first step */
        SL_TRY(sl_copier_wait(&e->copier, e->mine->awaited[i], &start));
    SL_TRY(make_results(e, i, steps, start, result));
    sl_clock_sleep_until(e->config.clock, e->free_at);
    return SL_OK;
}
