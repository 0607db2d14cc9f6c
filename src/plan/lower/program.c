#include "plan/lower/program.h"
#include "base/memory.h"

#include <stdio.h>

/* Where each op stands on its rank: step index by kind, stage and microbatch; -1: not in the order. */
typedef struct op_index {
    int32_t *at[SL_OP_KINDS];
    int microbatches;
} op_index;

static int32_t *place(const op_index *index, int kind, int stage, int microbatch) {
    return &index->at[kind][(size_t)stage * (size_t)index->microbatches + (size_t)microbatch];
}

static void index_free(op_index *index) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(index->at[kind]);
}

static sl_status index_make(const sl_problem *p, const sl_order *order, op_index *index) {
    size_t cells = (size_t)p->stages * (size_t)p->microbatches;
    *index = (op_index){.microbatches = p->microbatches};
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        sl_status status = sl_alloc(&index->at[kind], cells, sizeof(int32_t));
        if (status != SL_OK) {
            index_free(index);
            return status;
        }
        for (size_t i = 0; i < cells; i++)
            index->at[kind][i] = -1;
    }
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            *place(index, op->kind, op->stage, op->microbatch) = i;
        }
    return SL_OK;
}

/* The step of I or B, whichever the order uses for this stage and microbatch. */
static int32_t backward_step(const op_index *index, int stage, int microbatch) {
    int32_t step = *place(index, SL_B, stage, microbatch);
    return step >= 0 ? step : *place(index, SL_I, stage, microbatch);
}

/* The consumer of an op's result on another stage: F feeds F of the next, I and B feed those of the previous.
 */
static int next_stage(const sl_problem *p, const sl_op *op) {
    if (op->kind == SL_F)
        return op->stage + 1 < p->stages ? op->stage + 1 : -1;
    return op->kind == SL_W ? -1 : op->stage - 1;
}

static sl_status make_steps(const sl_problem *p, const sl_order *order, sl_program *program) {
    int messages = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_rank_program *mine = &program->rank[rank];
        SL_TRY(sl_alloc(&mine->step, (size_t)order->count[rank], sizeof *mine->step));
        mine->steps = order->count[rank];
        for (int i = 0; i < mine->steps; i++) {
            const sl_op *op = &order->ops[rank][i];
            mine->step[i] = (sl_step){.op = *op, .after = -1, .receive = -1, .send = -1};
            int stage = next_stage(p, op);
            messages += stage >= 0 && sl_problem_rank(p, stage) != rank;
        }
    }
    return sl_alloc(&program->message, (size_t)messages, sizeof *program->message);
}

static void latest(int32_t *after, int32_t step) {
    if (step > *after)
        *after = step;
}

/* Messages in the producers' order, rank by rank; and the local dependencies of each step. */
static void connect(const sl_problem *p, const op_index *index, sl_program *program) {
    for (int rank = 0; rank < p->ranks; rank++)
        for (int i = 0; i < program->rank[rank].steps; i++) {
            sl_step *step = &program->rank[rank].step[i];
            const sl_op *op = &step->op;
            if (op->kind == SL_W)
                latest(&step->after, *place(index, SL_I, op->stage, op->microbatch));
            else if (op->kind != SL_F)
                latest(&step->after, *place(index, SL_F, op->stage, op->microbatch));
            int stage = next_stage(p, op);
            if (stage < 0)
                continue;
            int32_t consumer = op->kind == SL_F ? *place(index, SL_F, stage, op->microbatch)
                                                : backward_step(index, stage, op->microbatch);
            int to = sl_problem_rank(p, stage);
            sl_step *used = &program->rank[to].step[consumer];
            if (to == rank) {
                latest(&used->after, i);
                continue;
            }
            step->send = used->receive = program->messages;
            program->message[program->messages++] =
                (sl_message){.from = rank, .to = to, .op = *op, .producer = i, .consumer = consumer};
        }
}

static sl_queue send_queue(const sl_message *message) {
    return message->op.kind == SL_F ? SL_SEND_NEXT : SL_SEND_PREVIOUS;
}

/* A receive stands in the queue of the neighbour that sends: an activation comes from the previous stage. */
static sl_queue receive_queue(const sl_message *message) {
    return message->op.kind == SL_F ? SL_RECEIVE_PREVIOUS : SL_RECEIVE_NEXT;
}

/* Messages lie in the producers' order, so one pass fills every queue in the order in which the peer sends.
 */
static sl_status make_queues(sl_program *program) {
    for (int m = 0; m < program->messages; m++) {
        program->rank[program->message[m].from].queued[send_queue(&program->message[m])]++;
        program->rank[program->message[m].to].queued[receive_queue(&program->message[m])]++;
    }
    for (int rank = 0; rank < program->ranks; rank++)
        for (int q = 0; q < SL_QUEUES; q++) {
            SL_TRY(sl_alloc(&program->rank[rank].queue[q], (size_t)program->rank[rank].queued[q],
                            sizeof(int32_t)));
            program->rank[rank].queued[q] = 0;
        }
    for (int m = 0; m < program->messages; m++) {
        sl_rank_program *from = &program->rank[program->message[m].from],
                        *to = &program->rank[program->message[m].to];
        sl_queue send = send_queue(&program->message[m]), receive = receive_queue(&program->message[m]);
        from->queue[send][from->queued[send]++] = m;
        to->queue[receive][to->queued[receive]++] = m;
    }
    return SL_OK;
}

static sl_status make_lifetimes(const op_index *index, sl_rank_program *mine) {
    int open = 0, forwards = 0;
    for (int i = 0; i < mine->steps; i++)
        forwards += mine->step[i].op.kind == SL_F;
    SL_TRY(sl_alloc(&mine->lifetime, (size_t)forwards, sizeof *mine->lifetime));
    for (int i = 0; i < mine->steps; i++) {
        const sl_op *op = &mine->step[i].op;
        if (op->kind == SL_W || op->kind == SL_B)
            open--;
        if (op->kind != SL_F)
            continue;
        int32_t end = *place(index, SL_B, op->stage, op->microbatch);
        if (end < 0)
            end = *place(index, SL_W, op->stage, op->microbatch);
        mine->lifetime[mine->lifetimes++] =
            (sl_lifetime){.stage = op->stage, .microbatch = op->microbatch, .acquire = i, .release = end};
        open++;
        if (open > mine->buffers)
            mine->buffers = open;
    }
    return SL_OK;
}

typedef struct progress {
    int32_t *next;           /* [ranks] step that comes next */
    unsigned char *sent;     /* [messages] */
    int32_t *stack;          /* ranks that may go on */
    unsigned char *on_stack; /* [ranks] */
    int depth;
} progress;

static void push(progress *p, int32_t rank) {
    if (!p->on_stack[rank]) {
        p->on_stack[rank] = 1;
        p->stack[p->depth++] = rank;
    }
}

/* Runs the sequences as far as messages allow. */
static void run_sequences(const sl_program *program, progress *p) {
    for (int32_t rank = 0; rank < program->ranks; rank++)
        push(p, rank);
    while (p->depth > 0) {
        int32_t rank = p->stack[--p->depth];
        const sl_rank_program *mine = &program->rank[rank];
        p->on_stack[rank] = 0;
        for (; p->next[rank] < mine->steps; p->next[rank]++) {
            const sl_step *step = &mine->step[p->next[rank]];
            if (step->receive >= 0 && !p->sent[step->receive])
                break;
            if (step->send < 0)
                continue;
            const sl_message *message = &program->message[step->send];
            p->sent[step->send] = 1;
            if (p->next[message->to] == message->consumer)
                push(p, message->to);
        }
    }
}

/* The op at which a rank waits, and the message that it waits for. */
static const sl_message *awaited(const sl_program *program, const progress *p, int rank, const sl_op **op) {
    const sl_step *step = &program->rank[rank].step[p->next[rank]];
    *op = &step->op;
    return &program->message[step->receive];
}

/* Names the ranks of a cycle, from `first` on: each waits for a message of the next. */
static sl_status deadlock(const sl_program *program, const progress *p, int first) {
    char text[800];
    int length = 0, rank = first;
    do {
        const sl_op *op;
        const sl_message *message = awaited(program, p, rank, &op);
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "%srank %d waits at %d%s%d for %d%s%d of rank %d", length ? ", " : "", rank,
                           op->stage, sl_op_name(op->kind), op->microbatch, message->op.stage,
                           sl_op_name(message->op.kind), message->op.microbatch, message->from);
        rank = message->from;
    } while (rank != first && length < (int)sizeof text - 200); /* a line is at most 103 characters */
    return sl_error(SL_EINVAL, "deadlock: %s%s", text, rank == first ? "" : ", and so on");
}

/* A rank that did not reach its end waits for a message whose sender waits as well: whoever follows the
 * senders for as many steps as there are ranks stands on a cycle. */
static sl_status check_ends(const sl_program *program, const progress *p) {
    const sl_op *op;
    int rank = 0;
    while (rank < program->ranks && p->next[rank] >= program->rank[rank].steps)
        rank++;
    if (rank == program->ranks)
        return SL_OK;
    for (int i = 0; i < program->ranks; i++)
        rank = awaited(program, p, rank, &op)->from;
    return deadlock(program, p, rank);
}

static sl_status check_progress(const sl_program *program) {
    progress p = {0};
    sl_status status = sl_alloc(&p.next, (size_t)program->ranks, sizeof *p.next);
    if (status == SL_OK)
        status = sl_alloc(&p.sent, (size_t)program->messages, 1);
    if (status == SL_OK)
        status = sl_alloc(&p.stack, (size_t)program->ranks, sizeof *p.stack);
    if (status == SL_OK)
        status = sl_alloc(&p.on_stack, (size_t)program->ranks, 1);
    if (status == SL_OK) {
        run_sequences(program, &p);
        status = check_ends(program, &p);
    }
    sl_free(p.next);
    sl_free(p.sent);
    sl_free(p.stack);
    sl_free(p.on_stack);
    return status;
}

static sl_status fill(const sl_problem *problem, const sl_order *order, const op_index *index,
                      sl_program *program) {
    program->ranks = problem->ranks;
    SL_TRY(sl_alloc(&program->rank, (size_t)problem->ranks, sizeof *program->rank));
    SL_TRY(make_steps(problem, order, program));
    connect(problem, index, program);
    SL_TRY(make_queues(program));
    for (int rank = 0; rank < problem->ranks; rank++)
        SL_TRY(make_lifetimes(index, &program->rank[rank]));
    return check_progress(program);
}

sl_status sl_lower(const sl_problem *problem, const sl_order *order, sl_program *program) {
    op_index index;
    *program = (sl_program){0};
    SL_TRY(sl_order_check(problem, order));
    SL_TRY(index_make(problem, order, &index));
    sl_status status = fill(problem, order, &index, program);
    index_free(&index);
    if (status != SL_OK)
        sl_program_free(program);
    return status;
}

void sl_program_free(sl_program *program) {
    for (int rank = 0; program->rank && rank < program->ranks; rank++) {
        sl_rank_program *mine = &program->rank[rank];
        sl_free(mine->step);
        sl_free(mine->lifetime);
        for (int q = 0; q < SL_QUEUES; q++)
            sl_free(mine->queue[q]);
    }
    sl_free(program->rank);
    sl_free(program->message);
    *program = (sl_program){0};
}
