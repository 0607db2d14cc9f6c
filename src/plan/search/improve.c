#include "base/clock.h"
#include "base/memory.h"
#include "plan/lower/offload.h"
#include "plan/search/improve_inside.h"

#include <math.h>

/* ---- the critical path ---- */

static void add_pair(sl_annealer *a, int rank, int i) {
    a->pairs[2 * a->pair_count] = rank;
    a->pairs[2 * a->pair_count + 1] = i;
    a->pair_count++;
}

/* Extends the block at its front. */
static void add_to_block(sl_annealer *a, int rank, int i, int begins) {
    int32_t *block = &a->blocks[3 * a->block_count];
    if (begins) {
        block[0] = rank;
        block[1] = block[2] = i;
    } else {
        block[1] = i;
    }
}

/* The rank that ends last. */
static int last_rank(const sl_annealer *a, const sl_timeline *t, const int32_t *first_span) {
    sl_time latest = -1;
    int last = 0;
    for (int rank = 0; rank < a->program.ranks; rank++) {
        int steps = a->program.rank[rank].steps;
        sl_time end = steps > 0 ? t->span[first_span[rank] + steps - 1].end : -1;
        if (end > latest) {
            latest = end;
            last = rank;
        }
    }
    return last;
}

/* Whether the rank's first op begins when the iteration before has ended on the rank. */
static int follows_iteration(const sl_evaluation *e, int rank, int i, const sl_span *span) {
    return i == 0 && e->begin && e->begin[rank] == span->start;
}

/* Walks back from the op that ends the value: an op begins when the previous one on the rank has ended (then
 * the two are a candidate) or when its message has arrived; the first one of a rank perhaps when the
 * iteration before ended there, which was like this one. */
static void collect_pairs(sl_annealer *a, const sl_evaluation *e, const int32_t *first_span) {
    const sl_timeline *t = e->timeline;
    int rank = e->rank < 0 ? last_rank(a, t, first_span) : e->rank, i = a->program.rank[rank].steps - 1;
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

static void keep_best(sl_annealer *a) {
    for (int rank = 0; rank < a->program.ranks; rank++)
        for (int i = 0; i < a->program.rank[rank].steps; i++)
            a->best->ops[rank][i] = a->program.rank[rank].step[i].op;
    a->found = a->current;
}

/* ---- the chain ---- */

/* The largest value that is accepted in place of the current one. */
static sl_time draw_limit(sl_annealer *a) {
    double chance = (double)((sl_annealer_draw(a) >> 11) + 1) / 9007199254740992.0; /* above 0 */
    return a->current + (sl_time)(-log(chance) * a->temperature);
}

/* Recomputes the moves to host memory of ranks whose order has changed; 0 if one exceeds its limit. */
static int derive_moves(sl_annealer *a) {
    int fits = 1;
    for (int i = 0; i < a->done_count && sl_problem_offloads(a->problem); i++)
        fits &= sl_offload_rank(a->problem, &a->program, a->done[3 * i]);
    return fits;
}

/* The steps of each rank from the first to the last that its shifts have moved; a rank's shifts follow each
 * other. */
static void report_changes(sl_annealer *a) {
    for (int i = 0; i < a->done_count;) {
        int rank = a->done[3 * i], first = INT32_MAX, last = 0;
        for (; i < a->done_count && a->done[3 * i] == rank; i++)
            for (int end = 1; end <= 2; end++) {
                int at = a->done[3 * i + end];
                first = at < first ? at : first;
                last = at > last ? at : last;
            }
        sl_evaluator_change(&a->evaluator, rank, first, last);
    }
}

/* Returns the cost. */
static int64_t move(sl_annealer *a, const int32_t *first_span) {
    sl_evaluation now = {.value = SL_TIME_NEVER};
    int64_t cost = sl_annealer_move(a);
    if (a->done_count == 0)
        return cost;
    sl_time limit = draw_limit(a);
    if (derive_moves(a)) {
        report_changes(a);
        sl_evaluator_rerun(&a->evaluator, limit, &now);
    }
    if (now.value <= limit) {
        a->current = now.value;
        sl_evaluator_keep(&a->evaluator);
        collect_pairs(a, &now, first_span);
        if (now.value < a->found)
            keep_best(a);
    } else {
        int shifts = a->done_count;
        sl_annealer_take_back(a, 0);
        sl_evaluator_undo(&a->evaluator);
        a->done_count = shifts;
        derive_moves(a);
    }
    return cost + sl_evaluator_cost(&a->evaluator);
}

/* The share of the chain that is over: of its work, or of the time until the limit if that comes first. */
static double progress(const sl_improve_options *options, int64_t work, sl_time begin) {
    double share = (double)work / (double)options->work;
    if (options->until.deadline == SL_TIME_NEVER || options->until.deadline <= begin)
        return share;
    return fmax(share, (double)(sl_now() - begin) / (double)(options->until.deadline - begin));
}

/* In replayed ops: the interval between checks of temperature and limit. */
enum { LOOK = 5000 };

static void anneal(sl_annealer *a, const sl_improve_options *options, const int32_t *first_span,
                   double hottest, double coldest, int64_t *work) {
    int64_t look = 0; /* next check of the limit */
    sl_time begin = sl_now();
    for (*work = 0; *work < options->work && a->found > options->target && a->pair_count > 0;) {
        if (*work >= look) {
            a->temperature = hottest * pow(coldest / hottest, progress(options, *work, begin));
            if (sl_limit_is_over(&options->until))
                return;
            look = *work + 8 * a->ops + LOOK;
        }
        *work += move(a, first_span);
    }
}

/* ---- the start ---- */

/* Iterations after which repeated ranks hardly move against each other any more. */
enum { SETTLE = 10 };

static sl_status make_memory(sl_annealer *a) {
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
            a->memory[rank][i + 1] = a->memory[rank][i] + sl_annealer_memory(a->problem, &mine->step[i].op);
    }
    return SL_OK;
}

static double mean_time(const sl_annealer *a) {
    double sum = 0;
    int64_t count = 0;
    for (int rank = 0; rank < a->program.ranks; rank++)
        for (int i = 0; i < a->program.rank[rank].steps; i++, count++)
            sum += (double)sl_problem_op_time(a->problem, &a->program.rank[rank].step[i].op);
    return count > 0 ? sum / (double)count : 0;
}

static sl_status run(sl_annealer *a, const sl_improve_options *options, int64_t *work) {
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
    SL_TRY_GOTO(done, status,
                sl_alloc(&a->done, 3 * (size_t)a->program.ranks * (SL_REPAIRS + 1), sizeof *a->done));
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
    sl_annealer a = {.problem = problem, .best = order, .random = options->seed};
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
