#include "run/engine/engine.h"
#include "base/memory.h"

/* Places of the inorder regime towards one peer: a queue of messages handed over and not yet reaped. */
typedef struct places {
    int32_t *message; /* ring of `capacity` message indices */
    int first, count;
} places;

struct sl_engine {
    sl_engine_config config;
    sl_time pace[SL_OP_KINDS];
    const sl_program *program;
    const sl_rank_program *mine;
    /* One buffer a message of this rank, in and out, carved from one block: the transport may hold any of
     * them until the iteration's end. buffer[message index] is NULL for messages of other ranks. */
    void **buffer;
    size_t buffers;
    char *block;
    size_t block_bytes;
    places send[2]; /* to the next (0) and the previous (1) stage's rank */
};

sl_status sl_engine_open(const sl_engine_config *config, sl_engine **engine) {
    SL_TRY(sl_alloc(engine, 1, sizeof **engine));
    (*engine)->config = *config;
    return SL_OK;
}

void sl_engine_close(sl_engine *engine) {
    if (!engine)
        return;
    sl_free(engine->buffer);
    sl_free(engine->block);
    sl_free(engine->send[0].message);
    sl_free(engine->send[1].message);
    sl_free(engine);
}

void sl_engine_pace(sl_engine *engine, const sl_time *pace) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        engine->pace[kind] = pace[kind];
}

/* Bytes of a message: activations are as large as the stage's output towards the next one, gradients as its
 * input towards the previous one; both ends agree because adjacent stages do. */
static size_t message_bytes(const sl_engine *engine, const sl_message *message) {
    int next = (message->op.kind == SL_F) == (message->from == engine->config.rank);
    return next ? engine->config.stage.output_bytes : engine->config.stage.input_bytes;
}

static int is_mine(const sl_engine *engine, const sl_message *message) {
    return message->from == engine->config.rank || message->to == engine->config.rank;
}

static sl_status check_program(const sl_engine *engine, const sl_rank_program *mine) {
    int last = -1;
    for (int i = 0; i < mine->steps; i++) {
        const sl_op *op = &mine->step[i].op;
        if (op->stage != mine->step[0].op.stage)
            return sl_error(SL_EINVAL, "rank %d holds stages %d and %d; the engine runs one stage a rank",
                            engine->config.rank, mine->step[0].op.stage, op->stage);
        if (op->kind != SL_W && op->kind != SL_B)
            continue;
        if (op->microbatch <= last)
            return sl_error(
                SL_EINVAL,
                "rank %d adds weight gradients of microbatch %d after %d; bit-identical sums need them "
                "in ascending order",
                engine->config.rank, op->microbatch, last);
        last = op->microbatch;
    }
    return SL_OK;
}

static sl_status make_buffers(sl_engine *engine, const sl_program *program) {
    size_t bytes = 0;
    for (int m = 0; m < program->messages; m++)
        if (is_mine(engine, &program->message[m]))
            bytes += (message_bytes(engine, &program->message[m]) + 63) & ~(size_t)63;
    SL_TRY(sl_grow(&engine->block, &engine->block_bytes, bytes, 1));
    SL_TRY(sl_grow(&engine->buffer, &engine->buffers, (size_t)program->messages, sizeof *engine->buffer));
    size_t used = 0;
    for (int m = 0; m < program->messages; m++) {
        engine->buffer[m] = NULL;
        if (is_mine(engine, &program->message[m])) {
            engine->buffer[m] = engine->block + used;
            used += (message_bytes(engine, &program->message[m]) + 63) & ~(size_t)63;
        }
    }
    return SL_OK;
}

sl_status sl_engine_swap(sl_engine *engine, const sl_program *program) {
    if (engine->config.rank >= program->ranks)
        return sl_error(SL_EINVAL, "a program of %d ranks on rank %d", program->ranks, engine->config.rank);
    const sl_rank_program *mine = &program->rank[engine->config.rank];
    SL_TRY(check_program(engine, mine));
    SL_TRY(make_buffers(engine, program));
    for (int side = 0; side < 2; side++) {
        sl_free(engine->send[side].message);
        engine->send[side] = (places){0};
        SL_TRY(sl_alloc(&engine->send[side].message, (size_t)mine->queued[side] + 1, sizeof(int32_t)));
    }
    engine->program = program;
    engine->mine = mine;
    return SL_OK;
}

static void record_op(sl_engine *engine, uint32_t iteration, const sl_op *op, sl_time start, sl_time end) {
    sl_record record = {.kind = SL_RECORD_OP,
                        .op = (uint16_t)op->kind,
                        .iteration = (int32_t)iteration,
                        .rank = engine->config.rank,
                        .peer = -1,
                        .stage = op->stage,
                        .microbatch = op->microbatch,
                        .start = start,
                        .end = end,
                        .arrive = end};
    sl_record_write(engine->config.ring, &record);
}

/* Waits until the oldest outstanding message of a side has arrived, records it, and frees its place. */
static sl_status reap(sl_engine *engine, uint32_t iteration, places *side, sl_time *arrived) {
    int32_t index = side->message[side->first];
    const sl_message *message = &engine->program->message[index];
    sl_sent sent;
    SL_TRY(sl_transport_wait_sent(engine->config.transport, message->to, iteration, (uint32_t)index,
                                  sl_clock_now(engine->config.clock) + engine->config.patience, &sent));
    side->first++;
    side->count--;
    sl_record record = {.kind = SL_RECORD_TRANSFER,
                        .op = (uint16_t)message->op.kind,
                        .iteration = (int32_t)iteration,
                        .rank = message->from,
                        .peer = message->to,
                        .stage = message->op.stage,
                        .microbatch = message->op.microbatch,
                        .start = sent.start,
                        .end = sent.end,
                        .arrive = sent.arrive,
                        .due = sent.due};
    sl_record_write(engine->config.ring, &record);
    if (arrived)
        *arrived = sent.arrive;
    return SL_OK;
}

/* Hands a step's result over, ready at `end`. inorder: when all places are taken the rank stands still until
 * the oldest message has arrived; *free_at is when the next op may start. */
static sl_status issue(sl_engine *engine, uint32_t iteration, int32_t index, sl_time end, sl_time *free_at) {
    const sl_message *message = &engine->program->message[index];
    places *side = &engine->send[message->op.kind == SL_F ? 0 : 1];
    *free_at = end;
    while (engine->config.regime == SL_INORDER && side->count >= engine->config.queue) {
        sl_time arrived = 0;
        SL_TRY(reap(engine, iteration, side, &arrived));
        if (arrived > *free_at)
            *free_at = arrived;
    }
    side->message[side->first + side->count++] = index;
    return sl_transport_send(engine->config.transport, message->to, iteration, (uint32_t)index,
                             engine->buffer[index], message_bytes(engine, message), *free_at);
}

static sl_status compute(sl_engine *engine, const sl_step *step) {
    const sl_stage *stage = &engine->config.stage;
    void *in = step->receive >= 0 ? engine->buffer[step->receive] : NULL;
    void *out = step->send >= 0 ? engine->buffer[step->send] : NULL;
    switch (step->op.kind) {
    case SL_F:
        return stage->forward(stage->object, &step->op, 1, in, out);
    case SL_I:
        return stage->input_grad(stage->object, &step->op, 1, in, out);
    case SL_W:
        return stage->weight_grad(stage->object, &step->op, 1);
    default: /* B is I and W by the same kernels (docs/design.md, rule 2) */
        SL_TRY(stage->input_grad(stage->object, &step->op, 1, in, out));
        return stage->weight_grad(stage->object, &step->op, 1);
    }
}

static sl_status run_step(sl_engine *engine, uint32_t iteration, const sl_step *step, sl_time *busy_until,
                          sl_engine_result *result) {
    sl_clock *clock = engine->config.clock;
    sl_time pace = engine->pace[step->op.kind], start = *busy_until;
    if (step->receive >= 0) {
        sl_time arrived;
        const sl_message *message = &engine->program->message[step->receive];
        SL_TRY(sl_transport_wait(engine->config.transport, message->from, iteration, (uint32_t)step->receive,
                                 sl_clock_now(clock) + engine->config.patience, &arrived));
        if (arrived > start)
            start = arrived;
    }
    if (pace == 0) {
        sl_time now = sl_clock_now(clock);
        start = now > start ? now : start;
    }
    SL_TRY(compute(engine, step));
    sl_time done = sl_clock_now(clock), end = start + pace;
    if (pace == 0 || done > end) {
        result->overruns += pace > 0;
        end = done > start ? done : start;
    }
    result->ops++;
    *busy_until = end;
    if (step->send >= 0)
        SL_TRY(issue(engine, iteration, step->send, end, busy_until));
    record_op(engine, iteration, &step->op, start, end);
    sl_clock_sleep_until(clock, *busy_until);
    return SL_OK;
}

static sl_status post_receives(sl_engine *engine, uint32_t iteration) {
    for (int q = SL_RECEIVE_NEXT; q <= SL_RECEIVE_PREVIOUS; q++)
        for (int i = 0; i < engine->mine->queued[q]; i++) {
            int32_t index = engine->mine->queue[q][i];
            const sl_message *message = &engine->program->message[index];
            SL_TRY(sl_transport_receive(engine->config.transport, message->from, iteration, (uint32_t)index,
                                        engine->buffer[index], message_bytes(engine, message)));
        }
    return SL_OK;
}

sl_status sl_engine_run(sl_engine *engine, uint32_t iteration, sl_time begin, sl_engine_result *result) {
    *result = (sl_engine_result){.end = begin};
    for (int side = 0; side < 2; side++)
        engine->send[side].first = engine->send[side].count = 0;
    SL_TRY(post_receives(engine, iteration));
    sl_clock_sleep_until(engine->config.clock, begin);
    sl_time busy_until = begin;
    for (int i = 0; i < engine->mine->steps; i++) {
        SL_TRY(run_step(engine, iteration, &engine->mine->step[i], &busy_until, result));
    }
    for (int side = 0; side < 2; side++)
        while (engine->send[side].count > 0)
            SL_TRY(reap(engine, iteration, &engine->send[side], NULL));
    result->end = busy_until;
    return SL_OK;
}
