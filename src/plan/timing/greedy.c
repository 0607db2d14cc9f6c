/* A replay under regime fifo that decides the order of issue as it goes.
 *
 * A message starts when its data are made, nothing moves in its communicator on either rank, and the receiver
 * has a buffer; of several, the one that goes first by the rule. It is issued on both ranks when it starts
 * (an eager one is received when it has come), right after the ops that have ended there. So all issues
 * follow one sequence, in which each waits only for what is earlier: the ranks cannot stop, whatever the
 * times are. And a replay of the issues takes the same times, unless two messages reach a shared wire at the
 * same instant.
 *
 * Buffers: a receive has one from its issue until the op that uses it has ended. The last one (the last two,
 * if there are pairs) is kept for the block that needs a message next, so that no rank waits for a buffer
 * forever.
 */
#include "base/memory.h"
#include "plan/timing/critical.h"
#include "plan/timing/replay_inside.h"

#include <string.h>

/* Messages of one rank, direction and kind that wait to start. */
typedef struct message_line {
    int32_t first, count; /* waiting[first .. first + count) */
} message_line;

/* Messages of a link in the order in which they started; for eager ones. */
typedef struct link_queue {
    int32_t first; /* queued[first .. first + started) */
    int32_t started, came, received;
} link_queue;

struct sl_greedy {
    sl_message_rule rule;
    const sl_time *due;
    message_line *line;      /* [4 * ranks] by lane, then kind */
    int32_t *waiting;        /* [messages] by line */
    int32_t *line_first;     /* [4 * ranks] */
    link_queue *link;        /* [2 * ranks] by lane */
    int32_t *queued;         /* [messages] by lane */
    unsigned char *busy;     /* [ranks * SL_COMMUNICATORS_MAX] */
    unsigned char *left;     /* [messages] an eager message has left its wire */
    unsigned char *started;  /* [messages] */
    int32_t *open;           /* [ranks] receive buffers in use */
    int32_t *needed;         /* [ranks] no earlier step lacks a message that has not started */
    int32_t *kept;           /* [ranks] buffers for the block that needs a message next */
    sl_message_issue *issue; /* by rank */
    int32_t *first_issue;    /* [ranks] */
    int *issues;             /* [ranks] */
    unsigned char *changed;  /* [ranks] messages from or to it may be able to start */
    int32_t *change;         /* [ranks] those */
    int changes;
};

/* ---- opening ---- */

static int32_t lane_of(const sl_replayer *r, const sl_message *m) {
    return (int32_t)(sl_replay_lane((sl_replayer *)r, m) - r->lane);
}

static int32_t line_of(const sl_replayer *r, const sl_message *m) {
    return 2 * lane_of(r, m) + (m->op.kind == SL_F);
}

static sl_status allocate(const sl_replayer *r, struct sl_greedy *g) {
    size_t ranks = (size_t)r->program->ranks, messages = (size_t)r->program->messages;
    SL_TRY(sl_alloc(&g->line, 4 * ranks, sizeof *g->line));
    SL_TRY(sl_alloc(&g->line_first, 4 * ranks, sizeof *g->line_first));
    SL_TRY(sl_alloc(&g->waiting, messages, sizeof *g->waiting));
    SL_TRY(sl_alloc(&g->link, 2 * ranks, sizeof *g->link));
    SL_TRY(sl_alloc(&g->queued, messages, sizeof *g->queued));
    SL_TRY(sl_alloc(&g->busy, ranks * SL_COMMUNICATORS_MAX, 1));
    SL_TRY(sl_alloc(&g->left, messages, 1));
    SL_TRY(sl_alloc(&g->started, messages, 1));
    SL_TRY(sl_alloc(&g->open, ranks, sizeof *g->open));
    SL_TRY(sl_alloc(&g->needed, ranks, sizeof *g->needed));
    SL_TRY(sl_alloc(&g->kept, ranks, sizeof *g->kept));
    SL_TRY(sl_alloc(&g->issue, 2 * messages, sizeof *g->issue));
    SL_TRY(sl_alloc(&g->first_issue, ranks + 1, sizeof *g->first_issue));
    SL_TRY(sl_alloc(&g->issues, ranks, sizeof *g->issues));
    SL_TRY(sl_alloc(&g->changed, ranks, 1));
    return sl_alloc(&g->change, ranks, sizeof *g->change);
}

/* How many messages each line, link and rank has in all. */
static void divide(const sl_replayer *r, struct sl_greedy *g) {
    int ranks = r->program->ranks;
    for (int32_t i = 0; i < r->program->messages; i++) {
        const sl_message *m = &r->program->message[i];
        g->line[line_of(r, m)].count++;
        g->first_issue[m->from + 1]++;
        g->first_issue[m->to + 1]++;
    }
    for (int32_t line = 0, first = 0; line < 4 * ranks; line++) {
        g->line_first[line] = first;
        if (line % 2 == 0)
            g->link[line / 2].first = first;
        first += g->line[line].count;
    }
    for (int rank = 0; rank < ranks; rank++) {
        g->first_issue[rank + 1] += g->first_issue[rank];
        g->kept[rank] = 1;
        for (int i = 0; i < r->program->rank[rank].steps; i++)
            g->kept[rank] = r->program->rank[rank].step[i].op.paired ? 2 : g->kept[rank];
    }
}

void sl_greedy_close(struct sl_greedy *g) {
    if (!g)
        return;
    SL_FREE(g->line, g->line_first, g->waiting, g->link, g->queued, g->busy, g->left, g->started, g->open,
            g->needed, g->kept, g->issue, g->first_issue, g->issues, g->changed, g->change);
    sl_free(g);
}

sl_status sl_replayer_order_messages(sl_replayer *r, sl_message_rule rule, const sl_time *due) {
    if (!r->greedy) {
        struct sl_greedy *g;
        SL_TRY(sl_alloc(&g, 1, sizeof *g));
        sl_status status = allocate(r, g);
        if (status != SL_OK) {
            sl_greedy_close(g);
            return status;
        }
        divide(r, g);
        r->greedy = g;
    }
    r->greedy->rule = rule;
    r->greedy->due = due;
    return SL_OK;
}

const sl_message_issue *sl_replayer_issues(const sl_replayer *r, int rank, int *count) {
    *count = r->greedy->issues[rank];
    return &r->greedy->issue[r->greedy->first_issue[rank]];
}

/* ---- the state ---- */

static unsigned char *busy_at(const sl_replayer *r, const sl_message *m, int receive) {
    int at = sl_communicator(r->problem, r->program, m, receive);
    return &r->greedy->busy[SL_COMMUNICATORS_MAX * (receive ? m->to : m->from) + at];
}

static void note_change(struct sl_greedy *g, int32_t rank) {
    if (!g->changed[rank]) {
        g->changed[rank] = 1;
        g->change[g->changes++] = rank;
    }
}

static void add_issue(sl_replayer *r, int32_t rank, int32_t message, int receive) {
    struct sl_greedy *g = r->greedy;
    g->issue[g->first_issue[rank] + g->issues[rank]++] =
        (sl_message_issue){.message = message, .receive = receive, .step = r->next[rank]};
}

/* How far ahead of its op a message is. */
static int32_t distance(const sl_replayer *r, const sl_message *m) {
    return m->consumer - r->next[m->to];
}

static int goes_first(const sl_replayer *r, int32_t a, int32_t b) {
    const struct sl_greedy *g = r->greedy;
    const sl_message *x = &r->program->message[a], *y = &r->program->message[b];
    if (g->rule == SL_FIRST_DUE && g->due[a] != g->due[b])
        return g->due[a] < g->due[b];
    if (g->rule == SL_FIRST_NEEDED && distance(r, x) != distance(r, y))
        return distance(r, x) < distance(r, y);
    return x->op.microbatch != y->op.microbatch ? x->op.microbatch < y->op.microbatch : a < b;
}

/* Joins its line, which is in the order in which the receiver needs its messages. */
static void join_line(sl_replayer *r, int32_t message) {
    struct sl_greedy *g = r->greedy;
    const sl_message *all = r->program->message;
    message_line *line = &g->line[line_of(r, &all[message])];
    int32_t *begin = &g->waiting[line->first], *at = &begin[line->count++];
    for (; at > begin && all[message].consumer < all[at[-1]].consumer; at--)
        *at = at[-1];
    *at = message;
    note_change(g, all[message].from);
}

static void leave_line(sl_replayer *r, int32_t message) {
    message_line *line = &r->greedy->line[line_of(r, &r->program->message[message])];
    line->first++;
    line->count--;
}

/* ---- buffers ---- */

/* Whether the message is of the block that is the first to lack one. */
static int is_needed_next(sl_replayer *r, const sl_message *m) {
    const sl_rank_program *mine = &r->program->rank[m->to];
    int32_t *i = &r->greedy->needed[m->to];
    while (*i < mine->steps && (mine->step[*i].receive < 0 || r->greedy->started[mine->step[*i].receive]))
        ++*i;
    int pair = *i + 1 < mine->steps && mine->step[*i].op.paired;
    return m->consumer == *i || (pair && m->consumer == *i + 1);
}

static int has_buffer(sl_replayer *r, const sl_message *m) {
    int most = r->problem->receive_buffers, open = r->greedy->open[m->to];
    return most == 0 || open < most - r->greedy->kept[m->to] || (open < most && is_needed_next(r, m));
}

/* ---- messages ---- */

static int can_start(sl_replayer *r, int32_t message) {
    const sl_message *m = &r->program->message[message];
    return !*busy_at(r, m, 0) && (sl_message_is_eager(r->problem, m) || !*busy_at(r, m, 1)) &&
           has_buffer(r, m);
}

static void start(sl_replayer *r, int32_t message, sl_time now) {
    const sl_message *m = &r->program->message[message];
    struct sl_greedy *g = r->greedy;
    int eager = sl_message_is_eager(r->problem, m);
    link_queue *link = &g->link[lane_of(r, m)];
    leave_line(r, message);
    sl_replay_move(r, message, now);
    const sl_transfer *t = &r->timeline.transfer[message];
    *busy_at(r, m, 0) = 1;
    add_issue(r, m->from, message, 0);
    if (eager) {
        g->queued[link->first + link->started++] = message;
    } else {
        *busy_at(r, m, 1) = 1;
        add_issue(r, m->to, message, 1);
    }
    g->started[message] = 1;
    g->open[m->to]++;
    sl_replay_add(r, (replay_moment){.time = eager ? t->end : t->arrive,
                                     .microbatch = m->op.microbatch,
                                     .rank = r->program->ranks + message});
}

static void take(sl_replayer *r, int32_t message, sl_time now) {
    const sl_message *m = &r->program->message[message];
    r->timeline.transfer[message].arrive = now;
    r->arrived[message] = 1;
    if (m->consumer == r->next[m->to] || m->consumer == r->next[m->to] + 1)
        sl_replay_push(r, m->to);
}

/* Receives the eager messages of a lane that have come, in their order, while their communicator is free. */
static void take_eager(sl_replayer *r, int32_t lane, sl_time now) {
    struct sl_greedy *g = r->greedy;
    for (link_queue *link = &g->link[lane]; link->received < link->came; link->received++) {
        int32_t message = g->queued[link->first + link->received];
        const sl_message *m = &r->program->message[message];
        if (*busy_at(r, m, 1))
            return;
        add_issue(r, m->to, message, 1);
        take(r, message, now);
    }
}

/* The lanes that lead to a rank. */
static void lanes_to(const sl_replayer *r, int32_t rank, int32_t lane[2]) {
    int ranks = r->program->ranks;
    lane[0] = 2 * ((rank + ranks - 1) % ranks);
    lane[1] = 2 * ((rank + 1) % ranks) + 1;
}

static void set_free(sl_replayer *r, const sl_message *m, int receive, sl_time now) {
    int32_t rank = receive ? m->to : m->from, lane[2];
    *busy_at(r, m, receive) = 0;
    note_change(r->greedy, rank);
    lanes_to(r, rank, lane);
    take_eager(r, lane[0], now);
    take_eager(r, lane[1], now);
}

/* A message has arrived, or left its wire. */
static void end_message(sl_replayer *r, int32_t message, sl_time now) {
    const sl_message *m = &r->program->message[message];
    struct sl_greedy *g = r->greedy;
    int32_t lane = lane_of(r, m);
    if (!sl_message_is_eager(r->problem, m)) {
        take(r, message, now);
        set_free(r, m, 0, now);
        set_free(r, m, 1, now);
    } else if (g->left[message]) {
        g->link[lane].came++;
        take_eager(r, lane, now);
    } else {
        g->left[message] = 1;
        set_free(r, m, 0, now);
        sl_replay_add(r, (replay_moment){.time = r->timeline.transfer[message].arrive,
                                         .microbatch = m->op.microbatch,
                                         .rank = r->program->ranks + message});
    }
}

/* ---- ops ---- */

static void end_block(sl_replayer *r, int32_t rank, sl_time now) {
    const sl_step *step = &r->program->rank[rank].step[r->next[rank]];
    int steps = r->running[rank];
    r->next[rank] += steps;
    r->running[rank] = 0;
    r->free[rank] = now;
    for (int i = 0; i < steps; i++) {
        if (step[i].send >= 0)
            join_line(r, step[i].send);
        if (step[i].receive >= 0) {
            r->greedy->open[rank]--;
            note_change(r->greedy, rank);
        }
    }
    sl_replay_push(r, rank);
}

/* ---- the replay ---- */

static void consider(sl_replayer *r, int32_t lane, int32_t *best) {
    for (int32_t i = 2 * lane; i < 2 * lane + 2; i++) {
        const message_line *line = &r->greedy->line[i];
        if (line->count == 0)
            continue;
        int32_t message = r->greedy->waiting[line->first];
        if ((*best < 0 || goes_first(r, message, *best)) && can_start(r, message))
            *best = message;
    }
}

/* Starts what can start after the changes. */
static void start_all(sl_replayer *r, sl_time now) {
    struct sl_greedy *g = r->greedy;
    for (int32_t best = 0; best >= 0;) {
        best = -1;
        for (int i = 0; i < g->changes; i++) {
            int32_t lane[2];
            lanes_to(r, g->change[i], lane);
            consider(r, 2 * g->change[i], &best);
            consider(r, 2 * g->change[i] + 1, &best);
            consider(r, lane[0], &best);
            consider(r, lane[1], &best);
        }
        if (best >= 0)
            start(r, best, now);
    }
    for (int i = 0; i < g->changes; i++)
        g->changed[g->change[i]] = 0;
    g->changes = 0;
}

static void reset(sl_replayer *r) {
    struct sl_greedy *g = r->greedy;
    size_t ranks = (size_t)r->program->ranks, messages = (size_t)r->program->messages;
    for (size_t i = 0; i < 4 * ranks; i++)
        g->line[i] = (message_line){.first = g->line_first[i]};
    for (size_t i = 0; i < 2 * ranks; i++)
        g->link[i] = (link_queue){.first = g->link[i].first};
    memset(g->busy, 0, ranks * SL_COMMUNICATORS_MAX);
    memset(g->left, 0, messages);
    memset(g->started, 0, messages);
    memset(g->open, 0, ranks * sizeof *g->open);
    memset(g->needed, 0, ranks * sizeof *g->needed);
    memset(g->issues, 0, ranks * sizeof *g->issues);
    for (int i = 0; i < 2 * r->program->messages; i++)
        r->timeline.cause[i] = SL_NO_CAUSE;
}

void sl_greedy_run(sl_replayer *r) {
    reset(r);
    for (int rank = r->program->ranks - 1; rank >= 0; rank--)
        sl_replay_push(r, rank);
    sl_replay_start_ranks(r);
    while (r->moments > 0) {
        sl_time now = r->heap[0].time;
        while (r->moments > 0 && r->heap[0].time == now) {
            replay_moment moment = sl_replay_take(r);
            if (moment.rank >= r->program->ranks)
                end_message(r, moment.rank - r->program->ranks, now);
            else
                end_block(r, moment.rank, now);
        }
        sl_replay_start_ranks(r);
        start_all(r, now);
    }
}
