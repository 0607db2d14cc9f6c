#include "plan/lower/waits.h"
#include "base/memory.h"

#include <string.h>

enum { MAX_WAITS = 4, NONE = -1 };

/* Events: the steps of all ranks; then, for each end (2 * message, plus 1 for the receive), that it is
 * reached; then, likewise, that it is done. */
typedef struct waits {
    const sl_problem *problem;
    const sl_program *program;
    int issued; /* there are issues */
    int steps, ends, events;
    int32_t *first;   /* [ranks + 1] first step */
    int32_t *rank;    /* [steps] */
    int32_t *follows; /* [ends] the step before its issue; NONE */
    int32_t *before;  /* [ends] the end before it in its communicator; NONE */
    int32_t *at;      /* [ends] position among its rank's issues */
} waits;

static int reached(const waits *w, int32_t end) {
    return w->steps + end;
}

static int done(const waits *w, int32_t end) {
    return w->steps + w->ends + end;
}

/* What a step of rank `rank` waits for; the second of a pair begins with the first. */
static int step_waits(const waits *w, int rank, int32_t i, int32_t *found) {
    const sl_rank_program *mine = &w->program->rank[rank];
    int count = 0;
    if (i > 0)
        found[count++] = w->first[rank] + i - 1;
    for (int32_t k = i; k <= i + (mine->step[i].op.paired != 0); k++) {
        int32_t m = mine->step[k].receive;
        if (m < 0)
            continue;
        found[count++] = w->issued ? done(w, 2 * m + 1)
                                   : w->first[w->program->message[m].from] + w->program->message[m].producer;
    }
    return count;
}

/* The events that event `e` waits for. */
static int waits_of(const waits *w, int32_t e, int32_t found[MAX_WAITS]) {
    int count = 0;
    if (e < w->steps) {
        int rank = w->rank[e];
        return step_waits(w, rank, e - w->first[rank], found);
    }
    int32_t end = (e - w->steps) % w->ends;
    if (e < w->steps + w->ends) {
        if (w->follows[end] != NONE)
            found[count++] = w->follows[end];
        if (w->before[end] != NONE)
            found[count++] = done(w, w->before[end]);
        return count;
    }
    found[count++] = reached(w, end);
    if (end % 2 || !sl_message_is_eager(w->problem, &w->program->message[end / 2]))
        found[count++] = reached(w, end ^ 1);
    return count;
}

/* ---- the events that lie on cycles ---- */

/* Takes away events that wait for nothing that is left, again and again. left[e]: waits of e. */
static void settle(const waits *w, int32_t *left, int32_t *stack, const int32_t *user, const int32_t *users) {
    int depth = 0;
    for (int32_t e = 0; e < w->events; e++)
        if (left[e] == 0)
            stack[depth++] = e;
    while (depth > 0) {
        int32_t e = stack[--depth];
        for (int32_t u = users[e]; u < users[e + 1]; u++)
            if (--left[user[u]] == 0)
                stack[depth++] = user[u];
    }
}

/* The reverse of waits_of: user[users[e] .. users[e + 1]) wait for e. */
static sl_status reverse(const waits *w, int32_t **user, int32_t **users, int32_t *left) {
    int32_t found[MAX_WAITS];
    int32_t total = 0;
    SL_TRY(sl_alloc(users, (size_t)w->events + 2, sizeof **users));
    for (int32_t e = 0; e < w->events; e++) {
        left[e] = waits_of(w, e, found);
        total += left[e];
        for (int i = 0; i < left[e]; i++)
            (*users)[found[i] + 2]++;
    }
    SL_TRY(sl_alloc(user, (size_t)total + 1, sizeof **user));
    for (int32_t e = 0; e <= w->events; e++)
        (*users)[e + 1] += (*users)[e];
    for (int32_t e = 0; e < w->events; e++) {
        int count = waits_of(w, e, found);
        for (int i = 0; i < count; i++)
            (*user)[(*users)[found[i] + 1]++] = e;
    }
    return SL_OK;
}

/* ---- the shortest of the cycles ---- */

typedef struct search {
    const waits *w;
    const int32_t *left; /* above 0: the event waits forever */
    int32_t *from;       /* [events] the event that it was found from, in this search */
    int32_t *round;      /* [events] the search that found it last */
    int32_t *queue, *length;
    int32_t *best; /* the shortest cycle, backwards */
    int shortest;  /* its length; INT32_MAX: none */
} search;

static void keep(search *s, int32_t start, int32_t last) {
    int count = 0;
    for (int32_t e = last; e != start; e = s->from[e])
        s->best[count++] = e;
    s->best[count++] = start;
    s->shortest = count;
}

/* Breadth first from `start` along waits, no deeper than a shorter cycle would be. */
static void search_from(search *s, int32_t start, int32_t round) {
    int32_t found[MAX_WAITS];
    int head = 0, tail = 0;
    s->queue[tail++] = start;
    s->length[start] = 1;
    s->round[start] = round;
    while (head < tail) {
        int32_t e = s->queue[head++];
        int count = waits_of(s->w, e, found);
        if (s->length[e] >= s->shortest)
            return;
        for (int i = 0; i < count; i++) {
            if (found[i] == start) {
                keep(s, start, e);
                return;
            }
            if (s->left[found[i]] == 0 || s->round[found[i]] == round)
                continue;
            s->round[found[i]] = round;
            s->from[found[i]] = e;
            s->length[found[i]] = s->length[e] + 1;
            s->queue[tail++] = found[i];
        }
    }
}

static sl_status find_shortest(const waits *w, const int32_t *left, search *s) {
    size_t events = (size_t)w->events;
    *s = (search){.w = w, .left = left, .shortest = INT32_MAX};
    SL_TRY(sl_alloc(&s->from, events, sizeof *s->from));
    SL_TRY(sl_alloc(&s->round, events, sizeof *s->round));
    SL_TRY(sl_alloc(&s->queue, events, sizeof *s->queue));
    SL_TRY(sl_alloc(&s->length, events, sizeof *s->length));
    SL_TRY(sl_alloc(&s->best, events, sizeof *s->best));
    for (int32_t e = 0; e < w->events; e++)
        if (left[e] > 0)
            search_from(s, e, e + 1);
    return SL_OK;
}

/* ---- the answer ---- */

static sl_wait wait_of(const waits *w, int32_t e) {
    if (e < w->steps) {
        int rank = w->rank[e];
        return (sl_wait){.kind = SL_WAIT_STEP, .rank = rank, .at = e - w->first[rank]};
    }
    int32_t end = (e - w->steps) % w->ends;
    const sl_message *m = &w->program->message[end / 2];
    return (sl_wait){.kind = end % 2 ? SL_WAIT_RECEIVE : SL_WAIT_SEND,
                     .rank = end % 2 ? m->to : m->from,
                     .at = w->at[end]};
}

/* An end that is reached and done is named once. */
static sl_status answer(const search *s, sl_wait_cycle *cycle) {
    SL_TRY(sl_alloc(&cycle->wait, (size_t)s->shortest, sizeof *cycle->wait));
    for (int i = s->shortest - 1; i >= 0; i--) {
        sl_wait next = wait_of(s->w, s->best[i]);
        const sl_wait *last = cycle->length > 0 ? &cycle->wait[cycle->length - 1] : NULL;
        if (!last || memcmp(last, &next, sizeof next) != 0)
            cycle->wait[cycle->length++] = next;
    }
    if (cycle->length > 1 &&
        memcmp(&cycle->wait[0], &cycle->wait[cycle->length - 1], sizeof *cycle->wait) == 0)
        cycle->length--;
    return SL_OK;
}

static void set_ends(waits *w, const sl_issuer *issuer) {
    for (int rank = 0; rank < w->program->ranks; rank++) {
        int count;
        const sl_message_issue *issue = sl_issues_of(issuer, rank, &count);
        int32_t last[SL_COMMUNICATORS_MAX];
        memset(last, -1, sizeof last);
        for (int i = 0; i < count; i++) {
            int32_t end = 2 * issue[i].message + issue[i].receive,
                    *before = &last[sl_communicator(
                        w->problem, w->program, &w->program->message[issue[i].message], issue[i].receive)];
            w->at[end] = i;
            w->follows[end] = issue[i].step > 0 ? w->first[rank] + issue[i].step - 1 : NONE;
            w->before[end] = *before;
            *before = end;
        }
    }
}

static sl_status open(const sl_problem *problem, const sl_program *program, const sl_issuer *issuer,
                      waits *w) {
    size_t ends = issuer ? 2 * (size_t)program->messages : 0;
    *w = (waits){.problem = problem, .program = program, .issued = issuer != NULL, .ends = (int)ends};
    SL_TRY(sl_alloc(&w->first, (size_t)program->ranks + 1, sizeof *w->first));
    SL_TRY(sl_alloc(&w->follows, ends, sizeof *w->follows));
    SL_TRY(sl_alloc(&w->before, ends, sizeof *w->before));
    SL_TRY(sl_alloc(&w->at, ends, sizeof *w->at));
    for (int rank = 0; rank < program->ranks; rank++)
        w->first[rank + 1] = w->first[rank] + program->rank[rank].steps;
    w->steps = w->first[program->ranks];
    SL_TRY(sl_alloc(&w->rank, (size_t)w->steps, sizeof *w->rank));
    for (int rank = 0; rank < program->ranks; rank++)
        for (int32_t step = w->first[rank]; step < w->first[rank + 1]; step++)
            w->rank[step] = rank;
    w->events = w->steps + 2 * w->ends;
    if (issuer)
        set_ends(w, issuer);
    return SL_OK;
}

sl_status sl_waits_check(const sl_problem *problem, const sl_program *program, const sl_issuer *issuer,
                         sl_wait_cycle *cycle) {
    waits w;
    search s = {0};
    int32_t *left = NULL, *stack = NULL, *user = NULL, *users = NULL;
    int stuck = 0;
    sl_status status;
    *cycle = (sl_wait_cycle){0};
    SL_TRY_GOTO(done, status, open(problem, program, issuer, &w));
    SL_TRY_GOTO(done, status, sl_alloc(&left, (size_t)w.events, sizeof *left));
    SL_TRY_GOTO(done, status, sl_alloc(&stack, (size_t)w.events, sizeof *stack));
    SL_TRY_GOTO(done, status, reverse(&w, &user, &users, left));
    settle(&w, left, stack, user, users);
    for (int32_t e = 0; e < w.events; e++)
        stuck |= left[e] > 0;
    if (stuck) {
        SL_TRY_GOTO(done, status, find_shortest(&w, left, &s));
        SL_TRY_GOTO(done, status, answer(&s, cycle));
    }
done:
    SL_FREE(w.first, w.rank, w.follows, w.before, w.at, left, stack, user, users);
    SL_FREE(s.from, s.round, s.queue, s.length, s.best);
    return status;
}

void sl_wait_cycle_free(sl_wait_cycle *cycle) {
    sl_free(cycle->wait);
    *cycle = (sl_wait_cycle){0};
}
