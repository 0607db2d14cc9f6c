#include "base/memory.h"
#include "plan/lower/deadlock.h"
#include "plan/lower/offload.h"
#include "plan/lower/own_issues.h"

/* Position of each op on its rank: step index by kind, stage, microbatch and part; -1: not in the order. */
typedef struct op_index {
    int32_t *at[SL_OP_KINDS];
    int microbatches, parts;
} op_index;

static int32_t *index_of_part(const op_index *index, int kind, int stage, int microbatch, int part) {
    size_t op = (size_t)stage * (size_t)index->microbatches + (size_t)microbatch;
    return &index->at[kind][op * (size_t)index->parts + (size_t)part];
}

/* An op is done with its last part. */
static int32_t last_part(const op_index *index, int kind, int stage, int microbatch) {
    return *index_of_part(index, kind, stage, microbatch, index->parts - 1);
}

static int32_t first_part(const op_index *index, int kind, int stage, int microbatch) {
    return *index_of_part(index, kind, stage, microbatch, 0);
}

static void index_free(op_index *index) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(index->at[kind]);
}

static sl_status index_make(const sl_problem *p, const sl_order *order, op_index *index) {
    size_t cells = (size_t)p->stages * (size_t)p->microbatches * (size_t)p->parts;
    *index = (op_index){.microbatches = p->microbatches, .parts = p->parts};
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
            *index_of_part(index, op->kind, op->stage, op->microbatch, op->part) = i;
        }
    return SL_OK;
}

/* The step of I or B, depending on the order's choice for this stage and microbatch. */
static int32_t backward_step(const op_index *index, int stage, int microbatch) {
    int32_t step = first_part(index, SL_B, stage, microbatch);
    return step >= 0 ? step : first_part(index, SL_I, stage, microbatch);
}

/* The consumer of an op's result on another stage: F feeds F of the next, I and B feed those of the previous,
 * each with its last part. */
static int next_stage(const sl_problem *p, const sl_op *op) {
    if (op->part != p->parts - 1 || op->kind == SL_W)
        return -1;
    return op->kind == SL_F ? sl_problem_next(p, op->stage) : sl_problem_previous(p, op->stage);
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
            if (op->part > 0)
                latest(&step->after,
                       *index_of_part(index, op->kind, op->stage, op->microbatch, op->part - 1));
            else if (op->kind != SL_F)
                latest(&step->after,
                       last_part(index, op->kind == SL_W ? SL_I : SL_F, op->stage, op->microbatch));
            int stage = next_stage(p, op);
            if (stage < 0)
                continue;
            int32_t consumer = op->kind == SL_F ? first_part(index, SL_F, stage, op->microbatch)
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

/* Neighbors on the ring of ranks; with two ranks, the second is next to the first. */
static int is_next(int rank, int peer, int ranks) {
    return ranks == 2 ? peer > rank : peer == (rank + 1) % ranks;
}

sl_queue_kind sl_message_send_queue(const sl_program *program, const sl_message *message) {
    return is_next(message->from, message->to, program->ranks) ? SL_SEND_NEXT : SL_SEND_PREVIOUS;
}

static sl_queue_kind receive_queue(const sl_program *program, const sl_message *message) {
    return is_next(message->to, message->from, program->ranks) ? SL_RECEIVE_NEXT : SL_RECEIVE_PREVIOUS;
}

/* Messages are in the producers' order, so one pass fills every queue in the order in which the peer
 * sends. */
static sl_status make_queues(sl_program *program) {
    for (int m = 0; m < program->messages; m++) {
        program->rank[program->message[m].from]
            .queued[sl_message_send_queue(program, &program->message[m])]++;
        program->rank[program->message[m].to].queued[receive_queue(program, &program->message[m])]++;
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
        sl_queue_kind send = sl_message_send_queue(program, &program->message[m]),
                      receive = receive_queue(program, &program->message[m]);
        from->queue[send][from->queued[send]++] = m;
        to->queue[receive][to->queued[receive]++] = m;
    }
    return SL_OK;
}

static sl_status make_lifetimes(const op_index *index, sl_rank_program *mine) {
    int open = 0, forwards = 0, last = index->parts - 1;
    for (int i = 0; i < mine->steps; i++)
        forwards += mine->step[i].op.kind == SL_F && mine->step[i].op.part == 0;
    SL_TRY(sl_alloc(&mine->lifetime, (size_t)forwards, sizeof *mine->lifetime));
    for (int i = 0; i < mine->steps; i++) {
        const sl_op *op = &mine->step[i].op;
        if ((op->kind == SL_W || op->kind == SL_B) && op->part == last)
            open--;
        if (op->kind != SL_F || op->part != 0)
            continue;
        int32_t end = last_part(index, SL_B, op->stage, op->microbatch);
        if (end < 0)
            end = last_part(index, SL_W, op->stage, op->microbatch);
        mine->lifetime[mine->lifetimes++] =
            (sl_lifetime){.stage = op->stage, .microbatch = op->microbatch, .acquire = i, .release = end};
        open++;
        if (open > mine->buffers)
            mine->buffers = open;
    }
    return SL_OK;
}

typedef struct progress {
    int32_t *next;           /* [ranks] next step */
    unsigned char *sent;     /* [messages] */
    int32_t *stack;          /* ranks that may be able to continue */
    unsigned char *on_stack; /* [ranks] */
    int depth;
} progress;

static void push(progress *p, int32_t rank) {
    if (!p->on_stack[rank]) {
        p->on_stack[rank] = 1;
        p->stack[p->depth++] = rank;
    }
}

/* The message that keeps a rank from its step `i`, or from the step paired with it; -1: none. */
static int32_t missing(const sl_rank_program *mine, const progress *p, int32_t i) {
    int32_t first = mine->step[i].receive, second = mine->step[i].op.paired ? mine->step[i + 1].receive : -1;
    if (first >= 0 && !p->sent[first])
        return first;
    return second >= 0 && !p->sent[second] ? second : -1;
}

static void send(const sl_program *program, progress *p, int32_t index) {
    if (index < 0)
        return;
    const sl_message *message = &program->message[index];
    int32_t next = p->next[message->to];
    p->sent[index] = 1;
    if (message->consumer == next || message->consumer == next + 1)
        push(p, message->to);
}

/* Advances the sequences as far as messages allow. */
static void run_sequences(const sl_program *program, progress *p) {
    for (int32_t rank = 0; rank < program->ranks; rank++)
        push(p, rank);
    while (p->depth > 0) {
        int32_t rank = p->stack[--p->depth];
        const sl_rank_program *mine = &program->rank[rank];
        int32_t *i = &p->next[rank];
        p->on_stack[rank] = 0;
        while (*i < mine->steps && missing(mine, p, *i) < 0) {
            int paired = mine->step[*i].op.paired;
            send(program, p, mine->step[(*i)++].send);
            if (paired)
                send(program, p, mine->step[(*i)++].send);
        }
    }
}

static int reaches_ends(const sl_program *program, const progress *p) {
    for (int rank = 0; rank < program->ranks; rank++)
        if (p->next[rank] < program->rank[rank].steps)
            return 0;
    return 1;
}

static sl_status check_progress(const sl_problem *problem, const sl_program *program) {
    progress p = {0};
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&p.next, (size_t)program->ranks, sizeof *p.next));
    SL_TRY_GOTO(done, status, sl_alloc(&p.sent, (size_t)program->messages, 1));
    SL_TRY_GOTO(done, status, sl_alloc(&p.stack, (size_t)program->ranks, sizeof *p.stack));
    SL_TRY_GOTO(done, status, sl_alloc(&p.on_stack, (size_t)program->ranks, 1));
    run_sequences(program, &p);
    if (!reaches_ends(program, &p))
        status = sl_deadlock_check(&(sl_cells){.problem = problem, .program = program});
done:
    SL_FREE(p.next, p.sent, p.stack, p.on_stack);
    return status;
}

static sl_status fill(const sl_problem *problem, const sl_order *order, const op_index *index,
                      sl_program *program) {
    program->ranks = problem->ranks;
    program->stages = problem->stages;
    program->parts = problem->parts;
    SL_TRY(sl_alloc(&program->rank, (size_t)problem->ranks, sizeof *program->rank));
    SL_TRY(make_steps(problem, order, program));
    connect(problem, index, program);
    SL_TRY(make_queues(program));
    if (order->issue)
        SL_TRY(sl_program_own_issues(problem, order, program));
    for (int rank = 0; rank < problem->ranks; rank++)
        SL_TRY(make_lifetimes(index, &program->rank[rank]));
    return sl_offload_make(problem, program);
}

sl_status sl_lower_any(const sl_problem *problem, const sl_order *order, sl_program *program) {
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

sl_status sl_lower(const sl_problem *problem, const sl_order *order, sl_program *program) {
    SL_TRY(sl_lower_any(problem, order, program));
    sl_status status = check_progress(problem, program);
    if (status != SL_OK)
        sl_program_free(program);
    return status;
}

void sl_program_free(sl_program *program) {
    for (int rank = 0; program->rank && rank < program->ranks; rank++) {
        sl_rank_program *mine = &program->rank[rank];
        SL_FREE(mine->step, mine->lifetime, mine->issue);
        sl_offload_free(mine);
        for (int q = 0; q < SL_QUEUES; q++)
            sl_free(mine->queue[q]);
    }
    SL_FREE(program->rank, program->message);
    *program = (sl_program){0};
}
