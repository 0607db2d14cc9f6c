#include "plan/search/bound.h"
#include "base/memory.h"

/* Whether an order splits the backward or not, a gradient leaves no earlier than `input` after the backward
 * began, and a microbatch's backward takes no less than `backward` of the rank. */
typedef struct chain {
    sl_time *head; /* [ranks] the first F cannot start earlier: F and delay of all ranks before */
    sl_time *turn; /* [ranks] the first backward cannot start earlier: to the last rank and back */
    sl_time *input, *backward;
    sl_time *
        tail; /* [ranks] from the start of the last backward of a rank to the end of the last rank above it */
} chain;

static sl_time smaller(sl_time a, sl_time b) {
    return a < b ? a : b;
}

static sl_time larger(sl_time a, sl_time b) {
    return a > b ? a : b;
}

static sl_time delay(const sl_problem *p, int from, int to) {
    const sl_link *link = &p->link[from * p->ranks + to];
    return link->latency + link->transfer;
}

static void fill(const sl_problem *p, chain *c) {
    int last = p->ranks - 1;
    for (int r = 0; r <= last; r++) {
        c->input[r] = smaller(p->time[SL_I][r], p->time[SL_B][r]);
        c->backward[r] = smaller(p->time[SL_I][r] + p->time[SL_W][r], p->time[SL_B][r]);
        c->head[r] = r == 0 ? 0 : c->head[r - 1] + p->time[SL_F][r - 1] + delay(p, r - 1, r);
        c->tail[r] = larger(c->backward[r], r == 0 ? 0 : c->input[r] + delay(p, r, r - 1) + c->tail[r - 1]);
    }
    c->turn[last] = c->head[last] + p->time[SL_F][last];
    for (int r = last - 1; r >= 0; r--)
        c->turn[r] = c->turn[r + 1] + c->input[r + 1] + delay(p, r + 1, r);
}

/* Time 0 is the start of stage 0's first F, where the makespan begins. Four arguments for rank r with n
 * microbatches: its first F starts at `head` or later and all its work, n(F + backward), follows; its first
 * backward starts at `turn` or later and n backwards follow. Its last backward to start comes after all n
 * forwards and n - 1 other backwards, of which at least `input` each lies before it (W may be put off), and
 * after `turn`; `tail` follows from its start. */
static sl_time rank_bound(const sl_problem *p, const chain *c, int r) {
    sl_time n = p->microbatches, forwards = n * p->time[SL_F][r];
    sl_time all = larger(c->head[r] + forwards + n * c->backward[r], c->turn[r] + n * c->backward[r]);
    sl_time last = larger(c->head[r] + forwards + (n - 1) * c->input[r], c->turn[r] + (n - 1) * c->input[r]);
    return larger(all, last + c->tail[r]);
}

/* Link between r and r+1: n messages occupy it one after the other, the first no earlier than its producer
 * can end. The last to arrive starts an F (or backward) whose microbatch still has its way to the last rank
 * and back to rank 0. */
static sl_time link_bound(const sl_problem *p, const chain *c, int r) {
    sl_time n = p->microbatches, there = p->link[r * p->ranks + r + 1].transfer,
            back = p->link[(r + 1) * p->ranks + r].transfer;
    sl_time onwards = c->turn[0] - c->head[0] - p->time[SL_F][0]; /* all ranks' way there and back ... */
    sl_time done = c->head[r + 1] - p->time[SL_F][0];             /* ... less what lies behind at r + 1 */
    sl_time forward =
        c->head[r] + p->time[SL_F][r] + (n - 1) * there + delay(p, r, r + 1) + (onwards - done) + c->tail[0];
    sl_time backward = c->turn[r + 1] + c->input[r + 1] + (n - 1) * back + delay(p, r + 1, r) + c->tail[r];
    return larger(forward, backward);
}

sl_status sl_lower_bound(const sl_problem *p, sl_time *bound) {
    chain c;
    sl_time *block;
    size_t ranks = (size_t)p->ranks;
    SL_TRY(sl_alloc(&block, 5 * ranks, sizeof *block));
    c = (chain){.head = block,
                .turn = block + ranks,
                .input = block + 2 * ranks,
                .backward = block + 3 * ranks,
                .tail = block + 4 * ranks};
    fill(p, &c);
    *bound = 0;
    for (int r = 0; r < p->ranks; r++) {
        *bound = larger(*bound, rank_bound(p, &c, r));
        if (r + 1 < p->ranks)
            *bound = larger(*bound, link_bound(p, &c, r));
    }
    sl_free(block);
    return SL_OK;
}
