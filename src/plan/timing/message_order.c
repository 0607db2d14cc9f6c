#include "plan/timing/message_order.h"
#include "base/memory.h"
#include "plan/lower/own_issues.h"
#include "plan/lower/receive_buffers.h"
#include "plan/timing/replay.h"

/* Issues of all ranks, tried one after the other. */
typedef struct message_search {
    const sl_problem *problem;
    sl_order *order; /* with the best issues so far */
    sl_program program;
    sl_replayer *replayer;
    sl_issuer *issuer;    /* those that are tried */
    sl_time *due;         /* [messages] */
    int32_t *first;       /* [ranks] spans */
    sl_time best, enough; /* makespans; enough: if no message ever waited for another of its communicator */
} message_search;

/* ---- one order of issue ---- */

/* The next deadline of a message: when the op that needs it starts. */
static void set_due(message_search *s, const sl_timeline *t) {
    for (int32_t m = 0; m < s->program.messages; m++) {
        const sl_message *message = &s->program.message[m];
        s->due[m] = t->span[s->first[message->to] + message->consumer].start;
    }
}

static sl_status keep(message_search *s) {
    const sl_message_issue **issue;
    int *count;
    sl_status status;
    SL_TRY(sl_alloc(&issue, (size_t)s->program.ranks, sizeof(const sl_message_issue *)));
    SL_TRY_GOTO(done, status, sl_alloc(&count, (size_t)s->program.ranks, sizeof *count));
    for (int rank = 0; rank < s->program.ranks; rank++)
        issue[rank] = sl_issues_of(s->issuer, rank, &count[rank]);
    status = sl_order_take_issues(&s->program, issue, count, s->order);
    sl_free(count);
done:
    sl_free(issue);
    return status;
}

/* Times the issuer's issues. `pytorch`: those that need no issues in the order. */
static sl_status try_issues(message_search *s, int pytorch) {
    sl_timeline timeline;
    int rank, at;
    SL_TRY(sl_receive_buffers_find(s->problem, &s->program, s->issuer, &rank, &at));
    if (at >= 0)
        return SL_OK;
    SL_TRY(sl_replay_issued(s->problem, &s->program, s->issuer, &timeline));
    sl_time makespan = sl_timeline_makespan(&timeline);
    sl_status status = SL_OK;
    if (makespan < s->best) {
        s->best = makespan;
        if (!pytorch) /* deadlines of a better kind; the first ones are those of no waiting at all */
            set_due(s, &timeline);
        if (pytorch)
            sl_order_drop_issues(s->order);
        else
            status = keep(s);
    }
    sl_timeline_free(&timeline);
    return status;
}

static sl_status try_rule(message_search *s, sl_message_rule rule) {
    if (s->best <= s->enough)
        return SL_OK;
    SL_TRY(sl_replayer_order_messages(s->replayer, rule, s->due));
    if (sl_replayer_run(s->replayer, NULL) >= s->best)
        return SL_OK;
    for (int rank = 0; rank < s->program.ranks; rank++) {
        int count;
        const sl_message_issue *issue = sl_replayer_issues(s->replayer, rank, &count);
        sl_issuer_give(s->issuer, rank, issue, count);
    }
    return try_issues(s, 0);
}

/* ---- all ---- */

/* Deadlines of an order whose messages never wait for each other. */
static sl_status set_first_due(message_search *s) {
    sl_timeline timeline;
    SL_TRY(sl_replay(s->problem, &s->program, SL_DECOUPLED, 1, &timeline));
    s->enough = sl_timeline_makespan(&timeline);
    set_due(s, &timeline);
    sl_timeline_free(&timeline);
    return SL_OK;
}

static sl_status search(message_search *s, const sl_message_effort *effort) {
    enum { AGAIN = 2 };
    SL_TRY(set_first_due(s));
    if (s->enough >= effort->cutoff)
        return SL_OK;
    SL_TRY(sl_issuer_run(s->issuer));
    SL_TRY(try_issues(s, !s->program.own_issues));
    SL_TRY(try_rule(s, SL_FIRST_DUE));
    SL_TRY(try_rule(s, SL_FIRST_NEEDED));
    if (effort->quick)
        return SL_OK;
    SL_TRY(try_rule(s, SL_FIRST_MICROBATCH));
    for (int i = 0; i < AGAIN; i++)
        SL_TRY(try_rule(s, SL_FIRST_DUE));
    return SL_OK;
}

static sl_status open(message_search *s) {
    SL_TRY(sl_lower(s->problem, s->order, &s->program));
    SL_TRY(sl_issuer_open(&s->program, &s->issuer));
    SL_TRY(sl_replayer_open(s->problem, &s->program, &s->replayer));
    SL_TRY(sl_alloc(&s->due, (size_t)s->program.messages, sizeof *s->due));
    SL_TRY(sl_alloc(&s->first, (size_t)s->program.ranks, sizeof *s->first));
    for (int rank = 1; rank < s->program.ranks; rank++)
        s->first[rank] = s->first[rank - 1] + s->program.rank[rank - 1].steps;
    return SL_OK;
}

sl_status sl_messages_plan(const sl_problem *problem, const sl_message_effort *effort, sl_order *order) {
    message_search s = {.problem = problem, .order = order, .best = SL_TIME_NEVER};
    if (problem->communication != SL_FIFO)
        return SL_OK;
    sl_status status = open(&s);
    SL_THEN(status, search(&s, effort));
    sl_replayer_close(s.replayer);
    sl_issuer_close(s.issuer);
    SL_FREE(s.due, s.first);
    sl_program_free(&s.program);
    return status;
}
