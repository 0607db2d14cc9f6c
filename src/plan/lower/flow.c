#include "plan/lower/flow.h"
#include "base/memory.h"

/* The begin and end of a rank's ops: steps of the first and last part by direction (0: F, 1: I or B), stage
 * and microbatch; -1: not of this rank. */
typedef struct op_steps {
    int stages, microbatches;
    int32_t *first[2], *last[2];
} op_steps;

typedef struct maker {
    const sl_program *program;
    const sl_rank_program *rank;
    op_steps at;
    int32_t *begins; /* [steps + 1] first post of each step */
    int32_t *idle;   /* free buffers, a stack */
    int idles;
    sl_flow *flow;
} maker;

static int direction(const sl_op *op) {
    return op->kind == SL_F ? 0 : 1;
}

static int32_t cell(const op_steps *at, int stage, int microbatch) {
    return (int32_t)(stage * at->microbatches + microbatch);
}

/* ---- positions of ops ---- */

static sl_status find_ops(maker *m) {
    const sl_rank_program *rank = m->rank;
    op_steps *at = &m->at;
    for (int i = 0; i < rank->steps; i++) {
        const sl_op *op = &rank->step[i].op;
        at->stages = op->stage >= at->stages ? op->stage + 1 : at->stages;
        at->microbatches = op->microbatch >= at->microbatches ? op->microbatch + 1 : at->microbatches;
    }
    size_t cells = (size_t)at->stages * (size_t)at->microbatches;
    for (int d = 0; d < 2; d++) {
        SL_TRY(sl_alloc(&at->first[d], cells, sizeof(int32_t)));
        SL_TRY(sl_alloc(&at->last[d], cells, sizeof(int32_t)));
        for (size_t c = 0; c < cells; c++)
            at->first[d][c] = at->last[d][c] = -1;
    }
    for (int i = 0; i < rank->steps; i++) {
        const sl_op *op = &rank->step[i].op;
        if (op->kind == SL_W)
            continue;
        int32_t c = cell(at, op->stage, op->microbatch);
        if (op->part == 0)
            at->first[direction(op)][c] = i;
        at->last[direction(op)][c] = i; /* parts come in ascending order */
    }
    return SL_OK;
}

/* ---- flows ---- */

static void connect(maker *m, sl_flow_end *ends, const sl_op *op, sl_flow_kind kind, int32_t message) {
    int32_t c = cell(&m->at, op->stage, op->microbatch), last = m->at.last[direction(op)][c];
    for (int32_t i = m->at.first[direction(op)][c]; i <= last; i++) {
        const sl_op *part = &m->rank->step[i].op;
        if (part->kind == op->kind && part->stage == op->stage && part->microbatch == op->microbatch)
            ends[i] =
                (sl_flow_end){.kind = (int32_t)kind, .buffer = -1, .message = message, .last = i == last};
    }
}

/* The stage of this rank that takes an op's result without a message; -1: none. Its op of the same microbatch
 * is on this rank if and only if the microbatch continues here. */
static int local_stage(const maker *m, const sl_op *op) {
    int stage = op->kind == SL_F ? op->stage + 1 : op->stage - 1;
    if (stage < 0 || stage >= m->at.stages)
        return -1;
    return m->at.first[direction(op)][cell(&m->at, stage, op->microbatch)] >= 0 ? stage : -1;
}

static void connect_all(maker *m) {
    for (int i = 0; i < m->rank->steps; i++) {
        const sl_step *step = &m->rank->step[i];
        const sl_op *op = &step->op;
        if (step->receive >= 0)
            connect(m, m->flow->in, op, SL_FLOW_RECEIVED, step->receive);
        if (step->send >= 0)
            connect(m, m->flow->out, op, SL_FLOW_SENT, step->send);
        if (op->kind == SL_W || op->part != m->program->parts - 1 || step->send >= 0)
            continue;
        int stage = local_stage(m, op);
        if (stage < 0)
            continue;
        int32_t user = m->at.first[direction(op)][cell(&m->at, stage, op->microbatch)];
        connect(m, m->flow->out, op, SL_FLOW_LOCAL, -1);
        connect(m, m->flow->in, &m->rank->step[user].op, SL_FLOW_LOCAL, -1);
    }
}

/* ---- posts, sorted by step; the rest of the order is the queues' ---- */

static sl_status sort_posts(maker *m, const int32_t *post) {
    const sl_rank_program *rank = m->rank;
    int posts = rank->queued[SL_RECEIVE_NEXT] + rank->queued[SL_RECEIVE_PREVIOUS];
    SL_TRY(sl_alloc(&m->begins, (size_t)rank->steps + 2, sizeof *m->begins));
    SL_TRY(sl_alloc(&m->flow->post, (size_t)posts, sizeof *m->flow->post));
    m->flow->posts = posts;
    for (int pass = 0; pass < 2; pass++) { /* counts, then positions: a counting sort */
        for (int q = SL_RECEIVE_NEXT; q <= SL_RECEIVE_PREVIOUS; q++)
            for (int i = 0; i < rank->queued[q]; i++) {
                int32_t message = rank->queue[q][i], step = post ? post[message] : 0;
                if (pass == 0)
                    m->begins[step + 2]++;
                else
                    m->flow->post[m->begins[step + 1]++] =
                        (sl_post){.step = step, .message = message, .buffer = -1};
            }
        for (int i = 0; i < rank->steps && pass == 0; i++)
            m->begins[i + 2] += m->begins[i + 1];
    }
    return SL_OK;
}

/* ---- numbers ---- */

static int32_t take(maker *m, int *buffers) {
    return m->idles > 0 ? m->idle[--m->idles] : (int32_t)(*buffers)++;
}

static void set_buffer(maker *m, sl_flow_end *ends, int32_t first, int32_t buffer) {
    const sl_op *op = &m->rank->step[first].op;
    int32_t last = m->at.last[direction(op)][cell(&m->at, op->stage, op->microbatch)];
    for (int32_t i = first; i <= last; i++) {
        const sl_op *part = &m->rank->step[i].op;
        if (part->kind == op->kind && part->stage == op->stage && part->microbatch == op->microbatch)
            ends[i].buffer = buffer;
    }
}

static void number_received(maker *m) {
    int next = 0;
    m->idles = 0;
    for (int i = 0; i < m->rank->steps; i++) {
        for (; next < m->flow->posts && m->flow->post[next].step <= i; next++) {
            sl_post *post = &m->flow->post[next];
            post->buffer = take(m, &m->flow->receive_buffers);
            set_buffer(m, m->flow->in, m->program->message[post->message].consumer, post->buffer);
        }
        const sl_flow_end *in = &m->flow->in[i];
        if (in->kind == SL_FLOW_RECEIVED && in->last)
            m->idle[m->idles++] = in->buffer;
    }
}

static void number_local(maker *m) {
    m->idles = 0;
    for (int i = 0; i < m->rank->steps; i++) {
        const sl_op *op = &m->rank->step[i].op;
        const sl_flow_end *out = &m->flow->out[i], *in = &m->flow->in[i];
        if (out->kind == SL_FLOW_LOCAL && op->part == 0) {
            int32_t buffer = take(m, &m->flow->local_buffers);
            int stage = local_stage(m, op);
            set_buffer(m, m->flow->out, i, buffer);
            set_buffer(m, m->flow->in, m->at.first[direction(op)][cell(&m->at, stage, op->microbatch)],
                       buffer);
        }
        if (in->kind == SL_FLOW_LOCAL && in->last)
            m->idle[m->idles++] = in->buffer;
    }
}

static sl_status make(maker *m, const int32_t *post) {
    size_t steps = (size_t)m->rank->steps;
    m->flow->steps = m->rank->steps;
    SL_TRY(sl_alloc(&m->flow->in, steps, sizeof *m->flow->in));
    SL_TRY(sl_alloc(&m->flow->out, steps, sizeof *m->flow->out));
    SL_TRY(sl_alloc(&m->idle, steps, sizeof *m->idle));
    for (size_t i = 0; i < steps; i++)
        m->flow->in[i] = m->flow->out[i] = (sl_flow_end){.buffer = -1, .message = -1};
    SL_TRY(find_ops(m));
    connect_all(m);
    SL_TRY(sort_posts(m, post));
    number_received(m);
    number_local(m);
    return SL_OK;
}

sl_status sl_flow_make(const sl_program *program, int rank, const int32_t *post, sl_flow *flow) {
    *flow = (sl_flow){0};
    maker m = {.program = program, .rank = &program->rank[rank], .flow = flow};
    sl_status status = make(&m, post);
    for (int d = 0; d < 2; d++) {
        SL_FREE(m.at.first[d], m.at.last[d]);
    }
    SL_FREE(m.begins, m.idle);
    return status;
}

void sl_flow_free(sl_flow *flow) {
    SL_FREE(flow->in, flow->out, flow->post);
    *flow = (sl_flow){0};
}
