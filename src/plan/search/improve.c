#include "plan/search/improve.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "plan/lower/offload.h"
#include "plan/timing/objective.h"

#include <math.h>

typedef struct annealer {
    const sl_problem *problem;
    sl_program program; /* the current order; steps, producers and consumers follow every swap */
    sl_replayer *replayer;
    sl_evaluator evaluator;
    sl_order *best;
    double *room;    /* [ranks] limit, host memory included; NULL: no limit */
    double **memory; /* [ranks][steps + 1] in use before each step, all earlier ones ended */
    int32_t *pairs;  /* candidates: rank and position of critical neighbors */
    int pair_count;
    int32_t *blocks; /* rank, first and last step of every run of critical ops without a gap */
    int block_count;
    int32_t *done; /* shifts made by a move: rank, from, to */
    int done_count;
    int64_t ops; /* of the program */
    sl_time current, found;
    uint64_t random;
    double temperature;
} annealer;

static uint64_t draw(annealer *a) {
    return sl_random_mix(a->random += SL_RANDOM_STEP);
}

static int draw_below(annealer *a, int limit) {
    return (int)(draw(a) % (uint64_t)limit);
}

/* ---- swapping two neighbors ---- */

static int feeds(const sl_problem *p, const sl_op *a, const sl_op *b) {
    if (a->microbatch != b->microbatch)
        return 0;
    if (a->stage == b->stage)
        return 1; /* F before I before W, and parts in order */
    if (a->kind == SL_F)
        return b->kind == SL_F && sl_problem_next(p, a->stage) == b->stage;
    return a->kind != SL_W && (b->kind == SL_I || b->kind == SL_B) &&
           sl_problem_previous(p, a->stage) == b->stage;
}

static double steps_memory(const sl_problem *p, const sl_op *op) {
    return sl_problem_start_memory(p, op) + sl_problem_end_memory(p, op);
}

static int within_limit(const annealer *a, int rank, double before, const sl_op *op) {
    double limit = a->room[rank], peak = before + sl_problem_start_memory(a->problem, op);
    double after = before + steps_memory(a->problem, op);
    return (peak > after ? peak : after) <= limit + 1e-9 * limit;
}

/* Whether both add to the weight gradients of one stage, which requires ascending microbatches. */
static int accumulate(const sl_op *a, const sl_op *b) {
    return (a->kind == SL_W || a->kind == SL_B) && (b->kind == SL_W || b->kind == SL_B);
}

/* Whether steps i and i + 1 of the rank may be swapped. Ops of one kind and stage stay in ascending
 * microbatches: other orders are not better (plan/bound/relaxation.h). */
static int may_swap(const annealer *a, int rank, int i) {
    const sl_step *step = a->program.rank[rank].step;
    const sl_op *first = &step[i].op, *second = &step[i + 1].op;
    if (first->paired || second->paired || (i > 0 && step[i - 1].op.paired))
        return 0;
    if (first->stage == second->stage && (first->kind == second->kind || accumulate(first, second)))
        return 0;
    if (feeds(a->problem, first, second))
        return 0;
    if (!a->problem->limit)
        return 1;
    double before = a->memory[rank][i];
    return within_limit(a, rank, before, second) &&
           within_limit(a, rank, before + steps_memory(a->problem, second), first);
}

static void settle(annealer *a, int rank, int i) {
    const sl_step *step = &a->program.rank[rank].step[i];
    if (step->receive >= 0)
        a->program.message[step->receive].consumer = i;
    if (step->send >= 0)
        a->program.message[step->send].producer = i;
}

static void swap(annealer *a, int rank, int i) {
    sl_step *step = a->program.rank[rank].step, kept = step[i];
    step[i] = step[i + 1];
    step[i + 1] = kept;
    settle(a, rank, i);
    settle(a, rank, i + 1);
    if (a->memory)
        a->memory[rank][i + 1] = a->memory[rank][i] + steps_memory(a->problem, &step[i].op);
}

/* Moves step i of the rank to position j by swaps, as far as allowed; returns its new position. */
static int carry(annealer *a, int rank, int i, int j) {
    while (i < j && may_swap(a, rank, i))
        swap(a, rank, i++);
    while (i > j && may_swap(a, rank, i - 1))
        swap(a, rank, --i);
    return i;
}

static void carry_back(annealer *a, int rank, int i, int j) {
    while (i < j)
        swap(a, rank, i++);
    while (i > j)
        swap(a, rank, --i);
}

/* ---- the critical path ---- */

static void add_pair(annealer *a, int rank, int i) {
    a->pairs[2 * a->pair_count] = rank;
    a->pairs[2 * a->pair_count + 1] = i;
    a->pair_count++;
}

/* Extends the block at its front. */
static void add_to_block(annealer *a, int rank, int i, int begins) {
    int32_t *block = &a->blocks[3 * a->block_count];
    if (begins) {
        block[0] = rank;
        block[1] = block[2] = i;
    } else {
        block[1] = i;
    }
}

static int last_span(const sl_timeline *t) {
    int last = 0;
    for (int i = 1; i < t->spans; i++)
        if (t->span[i].end > t->span[last].end)
            last = i;
    return last;
}

/* Whether the rank's first op begins when the iteration before has ended on the rank. */
static int follows_iteration(const sl_evaluation *e, int rank, int i, const sl_span *span) {
    return i == 0 && e->begin && e->begin[rank] == span->start;
}

/* Walks back from the op that ends the value: an op begins when the previous one on the rank has ended (then
 * the two are a candidate) or when its message has arrived; the first one of a rank perhaps when the
 * iteration before ended there, which was like this one. */
static void collect_pairs(annealer *a, const sl_evaluation *e, const int32_t *first_span) {
    const sl_timeline *t = e->timeline;
    int rank = e->rank < 0 ? t->span[last_span(t)].rank : e->rank,
        i = e->rank < 0 ? last_span(t) - first_span[rank] : a->program.rank[rank].steps - 1;
    a->pair_count = a->block_count = 0;
    add_to_block(a, rank, i, 1);
    for (int64_t walked = 0; walked < a->ops; walked++) {
        const sl_span *span = &t->span[first_span[rank] + i];
        const sl_step *step = &a->program.rank[rank].step[i];
        if (i > 0 && span[-1].end == span->start) {
            add_pair(a, rank, --i);
            add_to_block(a, rank, i, 0);
            continue;
        }
        a->block_count++;
        if (follows_iteration(e, rank, i, span)) {
            i = a->program.rank[rank].steps - 1;
            add_to_block(a, rank, i, 1);
            continue;
        }
        if (step->receive < 0)
            return;
        const sl_message *message = &a->program.message[step->receive];
        rank = message->from;
        i = message->producer;
        add_to_block(a, rank, i, 1);
    }
}

static void keep_best(annealer *a) {
    for (int rank = 0; rank < a->program.ranks; rank++)
        for (int i = 0; i < a->program.rank[rank].steps; i++)
            a->best->ops[rank][i] = a->program.rank[rank].step[i].op;
    a->found = a->current;
}

/* ---- moves ---- */

static int accepts(annealer *a, sl_time value) {
    if (value <= a->current)
        return 1;
    if (value == SL_TIME_NEVER)
        return 0;
    double chance = (double)(draw(a) >> 11) / 9007199254740992.0;
    return chance < exp(-(double)(value - a->current) / a->temperature);
}

static void remember(annealer *a, int rank, int from, int to) {
    a->done[3 * a->done_count] = rank;
    a->done[3 * a->done_count + 1] = from;
    a->done[3 * a->done_count + 2] = to;
    a->done_count += from != to;
}

/* Swaps two critical neighbors, or moves one of them past the other and further. */
static void move_critical(annealer *a) {
    int choice = draw_below(a, a->pair_count);
    int rank = a->pairs[2 * choice], i = a->pairs[2 * choice + 1], from = i, to = i + 1;
    if (draw_below(a, 3) == 0) {
        int far = 1 + draw_below(a, 12), steps = a->program.rank[rank].steps;
        from = draw_below(a, 2) ? i : i + 1;
        to = from == i ? i + far : i + 1 - far;
        to = to < 0 ? 0 : to >= steps ? steps - 1 : to;
    }
    remember(a, rank, from, carry(a, rank, from, to));
}

static void take_back(annealer *a) {
    for (int i = a->done_count - 1; i >= 0; i--)
        carry_back(a, a->done[3 * i], a->done[3 * i + 2], a->done[3 * i + 1]);
}

/* The moves that can shorten the path: another op at the front or rear of a block. (Blocks are listed latest
 * first; the front of the path's first and the rear of its last have no effect.) */
static void move_block(annealer *a) {
    int choice = draw_below(a, a->block_count), rear = draw_below(a, 2);
    const int32_t *block = &a->blocks[3 * choice];
    if (choice == 0 && rear && a->block_count > 1)
        rear = 0;
    if (choice == a->block_count - 1 && a->block_count > 1)
        rear = 1;
    int rank = block[0], first = block[1], last = block[2], far = last - first;
    if (far == 0)
        return;
    far = draw_below(a, 3) == 0 ? 1 + draw_below(a, far < 12 ? far : 12) : 1;
    int from, to, border = rear ? last : first;
    if (draw_below(a, 2)) { /* another op moves to the border */
        from = rear ? last - far : first + far;
        to = border;
    } else { /* the op at the border moves inside */
        from = border;
        to = rear ? last - far : first + far;
    }
    int came = carry(a, rank, from, to);
    remember(a, rank, from, came);
    if (to == border && came != to) {
        carry_back(a, rank, came, from);
        a->done_count = 0;
    }
}

/* One forward more, or fewer, before the first backward: on one rank, or also on all ranks before it, which
 * keeps the slack of the links between them. */
static void move_warmup(annealer *a) {
    int last = draw_below(a, a->program.ranks), more = draw_below(a, 2);
    for (int rank = draw_below(a, 2) ? 0 : last; rank <= last; rank++) {
        const sl_rank_program *mine = &a->program.rank[rank];
        int first = 0;
        while (first < mine->steps &&
               (mine->step[first].op.kind == SL_F || mine->step[first].op.kind == SL_W))
            first++;
        int to = more ? first + 1 : first - 1;
        while (more && to < mine->steps && mine->step[to].op.kind != SL_F)
            to++;
        if (to >= 0 && to < mine->steps && first < mine->steps)
            remember(a, rank, first, carry(a, rank, first, to));
    }
}

/* Recomputes the moves to host memory of ranks whose order has changed; 0 if one exceeds its limit. */
static int derive_moves(annealer *a) {
    int fits = 1;
    for (int i = 0; i < a->done_count && sl_problem_offloads(a->problem); i++)
        fits &= sl_offload_rank(a->problem, &a->program, a->done[3 * i]);
    return fits;
}

/* In replayed ops: the cost of a try, and the interval between checks of temperature and limit. */
enum { TRY = 4, TRIES = 40, LOOK = 5000 };
/* Iterations after which repeated ranks hardly move against each other any more. */
enum { SETTLE = 10 };

/* Draws until a move has an effect, with a limit of tries. Returns the cost. */
static int64_t draw_move(annealer *a) {
    int tries = 0;
    for (a->done_count = 0; a->done_count == 0 && tries < TRIES; tries++)
        if (draw_below(a, 32) == 0)
            move_warmup(a);
        else if (draw_below(a, 16) == 0)
            move_critical(a);
        else
            move_block(a);
    return tries * TRY;
}

/* Returns the cost. */
static int64_t move(annealer *a, const int32_t *first_span) {
    sl_evaluation now = {.value = SL_TIME_NEVER};
    int64_t cost = draw_move(a);
    if (a->done_count == 0)
        return cost;
    if (derive_moves(a))
        sl_evaluator_run(&a->evaluator, &now);
    if (accepts(a, now.value)) {
        a->current = now.value;
        sl_evaluator_keep(&a->evaluator);
        collect_pairs(a, &now, first_span);
        if (now.value < a->found)
            keep_best(a);
    } else {
        take_back(a);
        derive_moves(a);
    }
    return cost + (a->evaluator.instant ? 2 : 1) * a->ops;
}

static void anneal(annealer *a, const sl_improve_options *options, const int32_t *first_span, double hottest,
                   double coldest, int64_t *work) {
    int64_t look = 0; /* next check of the limit */
    for (*work = 0; *work < options->work && a->found > options->target && a->pair_count > 0;) {
        if (*work >= look) {
            double share = (double)*work / (double)options->work;
            a->temperature = hottest * pow(coldest / hottest, share);
            if (sl_limit_is_over(&options->until))
                return;
            look = *work + 8 * a->ops + LOOK;
        }
        *work += move(a, first_span);
    }
}

/* ---- the start ---- */

static sl_status make_memory(annealer *a) {
    if (!a->problem->limit)
        return SL_OK;
    SL_TRY(sl_alloc(&a->room, (size_t)a->program.ranks, sizeof *a->room));
    for (int rank = 0; rank < a->program.ranks; rank++)
        a->room[rank] = sl_problem_room(a->problem, rank);
    SL_TRY(sl_alloc(&a->memory, (size_t)a->program.ranks, sizeof *a->memory));
    for (int rank = 0; rank < a->program.ranks; rank++) {
        const sl_rank_program *mine = &a->program.rank[rank];
        SL_TRY(sl_alloc(&a->memory[rank], (size_t)mine->steps + 1, sizeof **a->memory));
        for (int i = 0; i < mine->steps; i++)
            a->memory[rank][i + 1] = a->memory[rank][i] + steps_memory(a->problem, &mine->step[i].op);
    }
    return SL_OK;
}

static double mean_time(const annealer *a) {
    double sum = 0;
    int64_t count = 0;
    for (int rank = 0; rank < a->program.ranks; rank++)
        for (int i = 0; i < a->program.rank[rank].steps; i++, count++)
            sum += (double)sl_problem_op_time(a->problem, &a->program.rank[rank].step[i].op);
    return count > 0 ? sum / (double)count : 0;
}

static sl_status run(annealer *a, const sl_improve_options *options, int64_t *work) {
    int32_t *first_span;
    sl_evaluation now = {0};
    int spans = 0;
    sl_status status;
    SL_TRY(sl_alloc(&first_span, (size_t)a->program.ranks, sizeof *first_span));
    for (int rank = 0; rank < a->program.ranks; rank++) {
        first_span[rank] = spans;
        spans += a->program.rank[rank].steps;
    }
    a->ops = spans;
    SL_TRY_GOTO(done, status, sl_alloc(&a->pairs, 2 * (size_t)spans + 2, sizeof *a->pairs));
    SL_TRY_GOTO(done, status, sl_alloc(&a->blocks, 3 * (size_t)spans + 3, sizeof *a->blocks));
    SL_TRY_GOTO(done, status, sl_alloc(&a->done, 3 * (size_t)a->program.ranks + 3, sizeof *a->done));
    SL_TRY_GOTO(done, status, make_memory(a));
    for (int i = 0; i < (a->evaluator.instant ? SETTLE : 1) && now.value != SL_TIME_NEVER; i++) {
        sl_evaluator_run(&a->evaluator, &now);
        if (now.value != SL_TIME_NEVER)
            sl_evaluator_keep(&a->evaluator);
    }
    a->current = a->found = now.value;
    double mean = mean_time(a);
    if (a->current != SL_TIME_NEVER && mean > 0) {
        collect_pairs(a, &now, first_span);
        anneal(a, options, first_span, mean * options->heat, mean * 0.01, work);
    }
done:
    sl_free(first_span);
    return status;
}

sl_status sl_improve(const sl_problem *problem, const sl_improve_options *options, sl_order *order,
                     sl_improve_result *result) {
    annealer a = {.problem = problem, .best = order, .random = options->seed};
    *result = (sl_improve_result){0};
    sl_order_drop_issues(order);
    SL_TRY(sl_lower(problem, order, &a.program));
    sl_status status = sl_replayer_open(problem, &a.program, &a.replayer);
    if (problem->communication == SL_FIFO)
        SL_THEN(status, sl_replayer_order_messages(a.replayer, SL_FIRST_NEEDED, NULL));
    SL_THEN(status, sl_evaluator_open(problem, a.replayer, &a.evaluator));
    SL_THEN(status, run(&a, options, &result->work));
    result->value = a.found;
    if (a.evaluator.instant) /* found by estimates */
        SL_THEN(status, sl_objective_of_order(problem, order, &result->value));
    sl_evaluator_close(&a.evaluator);
    sl_replayer_close(a.replayer);
    for (int rank = 0; a.memory && rank < a.program.ranks; rank++)
        sl_free(a.memory[rank]);
    SL_FREE(a.memory, a.room, a.pairs, a.blocks, a.done);
    sl_program_free(&a.program);
    return status;
}
