#include "plan/search/improve_inside.h"

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

double sl_annealer_memory(const sl_problem *p, const sl_op *op) {
    return sl_problem_start_memory(p, op) + sl_problem_end_memory(p, op);
}

static int within_limit(const sl_annealer *a, int rank, double before, const sl_op *op) {
    double limit = a->room[rank], peak = before + sl_problem_start_memory(a->problem, op);
    double after = before + sl_annealer_memory(a->problem, op);
    return (peak > after ? peak : after) <= limit + 1e-9 * limit;
}

/* Whether both add to the weight gradients of one stage, which requires ascending microbatches. */
static int accumulate(const sl_op *a, const sl_op *b) {
    return (a->kind == SL_W || a->kind == SL_B) && (b->kind == SL_W || b->kind == SL_B);
}

/* Whether steps i and i + 1 of the rank may be swapped, apart from memory. Ops of one kind and stage stay in
 * ascending microbatches: other orders are not better (plan/bound/relaxation.h). */
static int may_follow(const sl_annealer *a, int rank, int i) {
    const sl_step *step = a->program.rank[rank].step;
    const sl_op *first = &step[i].op, *second = &step[i + 1].op;
    if (first->paired || second->paired || (i > 0 && step[i - 1].op.paired))
        return 0;
    if (first->stage == second->stage && (first->kind == second->kind || accumulate(first, second)))
        return 0;
    return !feeds(a->problem, first, second);
}

static int may_swap(const sl_annealer *a, int rank, int i) {
    const sl_step *step = a->program.rank[rank].step;
    if (!may_follow(a, rank, i))
        return 0;
    if (!a->problem->limit)
        return 1;
    double before = a->memory[rank][i];
    return within_limit(a, rank, before, &step[i + 1].op) &&
           within_limit(a, rank, before + sl_annealer_memory(a->problem, &step[i + 1].op), &step[i].op);
}

static void settle(sl_annealer *a, int rank, int i) {
    const sl_step *step = &a->program.rank[rank].step[i];
    if (step->receive >= 0)
        a->program.message[step->receive].consumer = i;
    if (step->send >= 0)
        a->program.message[step->send].producer = i;
}

static void swap(sl_annealer *a, int rank, int i) {
    sl_step *step = a->program.rank[rank].step, kept = step[i];
    step[i] = step[i + 1];
    step[i + 1] = kept;
    settle(a, rank, i);
    settle(a, rank, i + 1);
    if (a->memory)
        a->memory[rank][i + 1] = a->memory[rank][i] + sl_annealer_memory(a->problem, &step[i].op);
}

/* Moves step i of the rank to position j by swaps, as far as `may` allows; returns its new position. */
static int carry_while(sl_annealer *a, int rank, int i, int j, int (*may)(const sl_annealer *, int, int)) {
    while (i < j && may(a, rank, i))
        swap(a, rank, i++);
    while (i > j && may(a, rank, i - 1))
        swap(a, rank, --i);
    return i;
}

static int carry(sl_annealer *a, int rank, int i, int j) {
    return carry_while(a, rank, i, j, may_swap);
}

static void carry_back(sl_annealer *a, int rank, int i, int j) {
    while (i < j)
        swap(a, rank, i++);
    while (i > j)
        swap(a, rank, --i);
}

/* ---- moves ---- */

static void remember(sl_annealer *a, int rank, int from, int to) {
    a->done[3 * a->done_count] = rank;
    a->done[3 * a->done_count + 1] = from;
    a->done[3 * a->done_count + 2] = to;
    a->done_count += from != to;
}

/* Swaps two critical neighbors, or moves one of them past the other and further. */
static void move_critical(sl_annealer *a) {
    int choice = sl_annealer_draw_below(a, a->pair_count);
    int rank = a->pairs[2 * choice], i = a->pairs[2 * choice + 1], from = i, to = i + 1;
    if (sl_annealer_draw_below(a, 3) == 0) {
        int far = 1 + sl_annealer_draw_below(a, 12), steps = a->program.rank[rank].steps;
        from = sl_annealer_draw_below(a, 2) ? i : i + 1;
        to = from == i ? i + far : i + 1 - far;
        to = to < 0 ? 0 : to >= steps ? steps - 1 : to;
    }
    remember(a, rank, from, carry(a, rank, from, to));
}

void sl_annealer_take_back(sl_annealer *a, int left) {
    while (a->done_count > left) {
        const int32_t *shift = &a->done[3 * --a->done_count];
        carry_back(a, shift[0], shift[2], shift[1]);
    }
}

/* The moves that can shorten the path: another op at the front or rear of a block. (Blocks are listed latest
 * first; the front of the path's first and the rear of its last have no effect.) */
static void move_block(sl_annealer *a) {
    int choice = sl_annealer_draw_below(a, a->block_count), rear = sl_annealer_draw_below(a, 2);
    const int32_t *block = &a->blocks[3 * choice];
    if (choice == 0 && rear && a->block_count > 1)
        rear = 0;
    if (choice == a->block_count - 1 && a->block_count > 1)
        rear = 1;
    int rank = block[0], first = block[1], last = block[2], far = last - first;
    if (far == 0)
        return;
    far = sl_annealer_draw_below(a, 3) == 0 ? 1 + sl_annealer_draw_below(a, far < 12 ? far : 12) : 1;
    int from, to, border = rear ? last : first;
    if (sl_annealer_draw_below(a, 2)) { /* another op moves to the border */
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

/* ---- moves across the memory limit ---- */

enum { RELEASES = 4, REACH = 40 };

static int first_over(const sl_annealer *a, int rank, int first, int last) {
    for (int i = first; i <= last; i++)
        if (!within_limit(a, rank, a->memory[rank][i], &a->program.rank[rank].step[i].op))
            return i;
    return -1;
}

/* One of the next ops after step i that release memory. */
static int draw_release(sl_annealer *a, int rank, int i) {
    const sl_rank_program *mine = &a->program.rank[rank];
    int left = sl_annealer_draw_below(a, RELEASES), found = -1;
    for (int k = i + 1; k < mine->steps && k <= i + REACH && left >= 0; k++)
        if (sl_annealer_memory(a->problem, &mine->step[k].op) < 0) {
            found = k;
            left--;
        }
    return found;
}

/* Moves a step as far as its dependencies allow; then later ops that release memory go ahead of those that
 * exceed the limit. Returns whether there is an order within it, else nothing moves. */
static int shift_with_releases(sl_annealer *a, int rank, int from, int to) {
    int before = a->done_count, came = carry_while(a, rank, from, to, may_follow),
        first = from < came ? from : came, last = from < came ? came : from, over;
    remember(a, rank, from, came);
    for (int tries = 0; a->problem->limit && (over = first_over(a, rank, first, last)) >= 0; tries++) {
        int release = tries < SL_REPAIRS ? draw_release(a, rank, over) : -1;
        came = release < 0 ? -1 : carry_while(a, rank, release, over, may_follow);
        if (release >= 0)
            remember(a, rank, release, came);
        if (came != over) {
            sl_annealer_take_back(a, before);
            return 0;
        }
        last = release > last ? release : last;
    }
    return 1;
}

/* An op at a border of a block, or of the steps around it, moves; the memory limit follows. */
static void move_across_limit(sl_annealer *a) {
    const int32_t *block = &a->blocks[3 * sl_annealer_draw_below(a, a->block_count)];
    int rank = block[0], steps = a->program.rank[rank].steps, length = block[2] - block[1] + 1;
    int from = block[1] + sl_annealer_draw_below(a, length),
        far = 1 + sl_annealer_draw_below(a, sl_annealer_draw_below(a, 2) ? 3 : 12);
    int to = sl_annealer_draw_below(a, 2) ? from + far : from - far;
    shift_with_releases(a, rank, from, to < 0 ? 0 : to >= steps ? steps - 1 : to);
}

/* How far apart the ops of a rank may be that follow others into another order. */
enum { ALONG = 16 };

/* Where the same microbatch's op of the neighbor stage is, if that stage is on rank `to`; -1. */
static int neighbor_of(const sl_annealer *a, int rank, int i, int to) {
    const sl_step *step = &a->program.rank[rank].step[i];
    const sl_message *message = a->program.message;
    if (step->send >= 0 && message[step->send].to == to)
        return message[step->send].consumer;
    return step->receive >= 0 && message[step->receive].from == to ? message[step->receive].producer : -1;
}

/* Exchanges two critical neighbors, and then the ops of the same microbatches on one rank after the other,
 * since ranks that keep the former order would wait for each other. */
static void move_along(sl_annealer *a) {
    int choice = sl_annealer_draw_below(a, a->pair_count),
        way = sl_annealer_draw_below(a, 2) ? 1 : a->program.ranks - 1;
    int rank = a->pairs[2 * choice], first = a->pairs[2 * choice + 1], second = first + 1;
    int left =
        sl_annealer_draw_below(a, 2) ? a->program.ranks : 1 + sl_annealer_draw_below(a, a->program.ranks);
    while (left-- > 0 && first >= 0 && first < second && second - first <= ALONG) {
        int to = (rank + way) % a->program.ranks, next = neighbor_of(a, rank, first, to),
            after = neighbor_of(a, rank, second, to);
        int came = carry(a, rank, second, first);
        remember(a, rank, second, came);
        if (came != first)
            return;
        rank = to;
        first = next;
        second = after;
    }
}

/* One forward more, or fewer, before the first backward: on one rank, or also on all ranks before it, which
 * keeps the slack of the links between them. */
static void move_warmup(sl_annealer *a) {
    int last = sl_annealer_draw_below(a, a->program.ranks), more = sl_annealer_draw_below(a, 2);
    for (int rank = sl_annealer_draw_below(a, 2) ? 0 : last; rank <= last; rank++) {
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

/* The cost of a try, in replayed ops. */
enum { TRY = 4, TRIES = 40 };
/* A move in so many is one across the memory limit. */
enum { ACROSS = 4 };

int64_t sl_annealer_move(sl_annealer *a) {
    int tries = 0;
    for (a->done_count = 0; a->done_count == 0 && tries < TRIES; tries++)
        if (sl_annealer_draw_below(a, 32) == 0)
            move_warmup(a);
        else if (a->problem->limit && sl_annealer_draw_below(a, ACROSS) == 0)
            move_across_limit(a);
        else if (a->pair_count > 0 && sl_annealer_draw_below(a, 3) == 0)
            move_along(a);
        else if (sl_annealer_draw_below(a, 16) == 0)
            move_critical(a);
        else
            move_block(a);
    return tries * TRY;
}
