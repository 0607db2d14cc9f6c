/* One block: a step, or two that are paired. */
#include "run/engine/engine_inside.h"

sl_status sl_block_post(sl_engine *e, int32_t i) {
    if (e->config.regime == SL_FIFO) /* the messenger posts what it reaches */
        return SL_OK;
    for (; e->next_post < e->flow->posts && e->flow->post[e->next_post].step <= i; e->next_post++) {
        const sl_post *post = &e->flow->post[e->next_post];
        const sl_message *message = &e->program->message[post->message];
        SL_TRY(sl_transport_receive(e->config.transport, message->from, e->iteration, (uint32_t)post->message,
                                    e->received.buffer[post->buffer], sl_message_bytes(e, message)));
    }
    return SL_OK;
}

static sl_status wait_for_input(sl_engine *e, const sl_step *step, sl_time patience, sl_time *start) {
    if (step->receive < 0)
        return SL_OK;
    sl_time arrived, deadline = sl_clock_now(e->config.clock) + patience;
    const sl_message *message = &e->program->message[step->receive];
    SL_TRY(e->config.regime == SL_FIFO ? sl_messenger_wait(e, step->receive, deadline, &arrived)
                                       : sl_transport_wait(e->config.transport, message->from, e->iteration,
                                                           (uint32_t)step->receive, deadline, &arrived));
    *start = arrived > *start ? arrived : *start;
    return SL_OK;
}

static const void *input_of(const sl_engine *e, int32_t i) {
    const sl_flow_end *in = &e->flow->in[i];
    if (in->kind == SL_FLOW_RECEIVED)
        return e->received.buffer[in->buffer];
    return in->kind == SL_FLOW_LOCAL ? e->local.buffer[in->buffer] : NULL;
}

static sl_status output_of(sl_engine *e, int32_t i, void **output) {
    const sl_flow_end *out = &e->flow->out[i];
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

static sl_status compute_all(sl_engine *e, int32_t i, int steps) {
    for (int k = 0; k < steps; k++)
        SL_TRY(compute(e, i + k));
    return SL_OK;
}

/* The ops of a block have ended. */
static sl_status end_ops(sl_engine *e, int32_t i, int steps, sl_time start, sl_time end,
                         sl_engine_result *result) {
    for (int k = 0; k < steps; k++)
        record_op(e, &e->mine->step[i + k].op, start, end);
    for (int k = 0; k < steps; k++)
        SL_TRY(mark_weights(e, &e->mine->step[i + k].op, end));
    result->ops += steps;
    result->end = end;
    sl_copier_step(&e->copier, i + steps, end);
    return sl_sends_issue(e, i, steps, end);
}

static sl_status make_results(sl_engine *e, int32_t i, int steps, sl_time start, sl_engine_result *result) {
    int paced;
    sl_time pace = pace_of(e, i, steps, &paced);
    if (!paced) {
        sl_time now = sl_clock_now(e->config.clock);
        start = now > start ? now : start;
    }
    SL_TRY(compute_all(e, i, steps));
    for (int k = 0; k < steps; k++)
        SL_TRY(finish(e, &e->mine->step[i + k].op));
    sl_time done = sl_clock_now(e->config.clock), end = start + pace;
    if (!paced || done > end) {
        result->overruns += paced ? steps : 0;
        end = done > start ? done : start;
    }
    return end_ops(e, i, steps, start, end, result);
}

/* ---- queuing a block before the results of the one before it are handed over ---- */

static int uses_local_buffers(const sl_engine *e, int32_t i, int steps) {
    for (int k = 0; k < steps; k++)
        if (e->flow->in[i + k].kind == SL_FLOW_LOCAL || e->flow->out[i + k].kind == SL_FLOW_LOCAL)
            return 1;
    return 0;
}

/* Whether a receive that is due before step `i` has the buffer of an input of the queued block. */
static int reuses_an_input(const sl_engine *e, int32_t i) {
    for (int p = e->next_post; p < e->flow->posts && e->flow->post[p].step <= i; p++)
        for (int k = 0; k < e->queued.steps; k++) {
            const sl_flow_end *in = &e->flow->in[e->queued.step + k];
            if (in->kind == SL_FLOW_RECEIVED && in->buffer == e->flow->post[p].buffer)
                return 1;
        }
    return 0;
}

static int may_be_queued(const sl_engine *e, int32_t i, int steps) {
    int paced;
    pace_of(e, i, steps, &paced);
    return !paced && e->config.regime == SL_DECOUPLED && e->mine->moves == 0 &&
           e->config.stage[e->mine->step[i].op.stage].mark && !uses_local_buffers(e, i, steps);
}

static int must_prepare(const sl_engine *e, const sl_op *op) {
    return op->kind == SL_F && !e->prepared[op->stage] && e->config.stage[op->stage].prepare;
}

/* Queues a block whose input is there from `start` on. */
static sl_status queue(sl_engine *e, int32_t i, int steps, sl_time start, sl_queued *queued) {
    const sl_stage *stage = &e->config.stage[e->mine->step[i].op.stage];
    const sl_time now = sl_clock_now(e->config.clock);
    *queued =
        (sl_queued){.step = i, .steps = steps, .mark = !e->queued.mark, .start = now > start ? now : start};
    SL_TRY(compute_all(e, i, steps));
    return stage->mark(stage->object, queued->mark);
}

/* Whether the inputs of a block are there, without a wait. A failure is reported by the wait that follows. */
static int has_input(sl_engine *e, int32_t i, int steps, sl_time *start) {
    int count = 0;
    for (int k = 0; k < steps; k++)
        count += e->mine->step[i + k].receive >= 0;
    if (count > 1)
        return 0;
    for (int k = 0; k < steps; k++)
        if (wait_for_input(e, &e->mine->step[i + k], 0, start) != SL_OK)
            return 0;
    return 1;
}

/* *done: the block was queued after the one before it, whose results are handed over now. */
static sl_status queue_ahead(sl_engine *e, int32_t i, int steps, sl_engine_result *result, int *done) {
    sl_time start = 0;
    sl_queued next;
    *done = 0;
    for (int k = 0; k < steps; k++)
        if (must_prepare(e, &e->mine->step[i + k].op))
            return SL_OK;
    if (!may_be_queued(e, i, steps) || reuses_an_input(e, i))
        return SL_OK;
    SL_TRY(sl_block_post(e, i));
    if (!has_input(e, i, steps, &start))
        return SL_OK;
    *done = 1;
    SL_TRY(queue(e, i, steps, start, &next));
    SL_TRY(sl_block_finish(e, result));
    e->queued = next;
    return sl_sends_reap(e);
}

sl_status sl_block_finish(sl_engine *e, sl_engine_result *result) {
    const sl_queued q = e->queued;
    if (q.steps == 0)
        return SL_OK;
    const sl_stage *stage = &e->config.stage[e->mine->step[q.step].op.stage];
    SL_TRY(stage->wait(stage->object, q.mark));
    e->queued.steps = 0;
    const sl_time end = sl_clock_now(e->config.clock), start = q.start > e->free_at ? q.start : e->free_at;
    return end_ops(e, q.step, q.steps, start < end ? start : end, end, result);
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
    if (!must_prepare(e, op))
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
    int done = 0;
    if (e->queued.steps > 0)
        SL_TRY(queue_ahead(e, i, steps, result, &done));
    if (done)
        return SL_OK;
    SL_TRY(sl_block_finish(e, result));
    SL_TRY(sl_block_post(e, i));
    SL_TRY(sl_sends_reap(e));
    for (int k = 0; k < steps; k++)
        SL_TRY(prepare(e, &e->mine->step[i + k].op));
    sl_time start = e->free_at;
    for (int k = 0; k < steps; k++)
        SL_TRY(wait_for_input(e, &e->mine->step[i + k], e->config.patience, &start));
    if (may_be_queued(e, i, steps))
        return queue(e, i, steps, start, &e->queued);
    if (e->mine->awaited) /* a pair's is at its first step */
        SL_TRY(sl_copier_wait(&e->copier, e->mine->awaited[i], &start));
    SL_TRY(make_results(e, i, steps, start, result));
    sl_clock_sleep_until(e->config.clock, e->free_at);
    return SL_OK;
}
