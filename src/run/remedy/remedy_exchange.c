/* Places found by exchanging two at a time, as long as the model says that an iteration becomes shorter: of
 * the processes that something slow concerns each with any other, the best first. What an iteration takes is
 * what it is in sl_remedy_model, but for the schedule: one quick rule stands for all, and replicas that are
 * alike are asked once. The search of adapt/topology/topology.h, which knows rings and gives all replicas the
 * same number of microbatches, does not look for that; this one sees only what single exchanges lead to. */
#include "adapt/balance/pipelines.h"
#include "base/memory.h"
#include "run/remedy/remedy_inside.h"

#include <string.h>

#define RULE "zb-h1"
#define PLANS 1000 /* of the whole search: some 50 ms */

typedef struct search {
    sl_trainer *t;
    sl_pipelines *pipelines;
    sl_problem **kind; /* [kinds] that differ; the pipelines' replicas */
    size_t kinds, kind_room;
    int balances; /* microbatches may be divided anew */
    int *split;   /* [data] scratch, and what each is like */
    int *of;
    sl_time *each;
    sl_problem *problem;
} search;

static int alike(const sl_problem *a, const sl_problem *b) {
    size_t times = (size_t)a->stages * sizeof *a->reduce;
    int same = memcmp(a->reduce, b->reduce, times) == 0;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        same &= memcmp(a->time[kind], b->time[kind], times) == 0;
    for (int link = 0; link < a->ranks * a->ranks && same; link++)
        same = a->link[link].latency == b->link[link].latency &&
               a->link[link].transfer == b->link[link].transfer;
    return same;
}

/* The problem's number among those that differ. */
static sl_status number(search *s, const sl_problem *problem, int *of) {
    size_t k = 0;
    while (k < s->kinds && !alike(s->kind[k], problem))
        k++;
    *of = (int)k;
    if (k < s->kinds)
        return SL_OK;
    SL_TRY(sl_grow(&s->kind, &s->kind_room, s->kinds + 1, sizeof(sl_problem *)));
    SL_TRY(sl_alloc(&s->kind[k], 1, sizeof **s->kind));
    s->kinds++;
    SL_TRY(sl_problem_copy(problem, s->kind[k]));
    return sl_pipelines_add(s->pipelines, s->kind[k], 0);
}

/* From an even split away from the slowest, as long as that makes it shorter. */
static sl_status divide(search *s) {
    int replicas = s->t->run->parallel.data;
    for (;;) {
        int worst = 0, to = -1;
        sl_time least = SL_TIME_NEVER, less;
        for (int r = 1; r < replicas; r++)
            worst = s->each[r] > s->each[worst] ? r : worst;
        for (int r = 0; r < replicas; r++) {
            sl_time more;
            if (r == worst)
                continue;
            SL_TRY(sl_pipelines_planned(s->pipelines, s->of[r], s->split[r] + 1, &more));
            to = more < least ? r : to;
            least = more < least ? more : least;
        }
        if (to < 0 || s->split[worst] == 1 || least >= s->each[worst])
            return SL_OK;
        SL_TRY(sl_pipelines_planned(s->pipelines, s->of[worst], s->split[worst] - 1, &less));
        s->split[worst]--;
        s->split[to]++;
        s->each[worst] = less;
        s->each[to] = least;
    }
}

static sl_status measure(search *s, const int *home, sl_time *time) {
    int replicas = s->t->run->parallel.data;
    memcpy(s->split, s->t->remedy->even, (size_t)replicas * sizeof *s->split);
    sl_status status = sl_remedy_problems(s->t, home, s->split, s->problem);
    for (int r = 0; r < replicas && status == SL_OK; r++)
        status = number(s, &s->problem[r], &s->of[r]);
    for (int r = 0; r < replicas; r++)
        sl_problem_free(&s->problem[r]);
    for (int r = 0; r < replicas && status == SL_OK; r++)
        status = sl_pipelines_planned(s->pipelines, s->of[r], s->split[r], &s->each[r]);
    if (status == SL_OK && s->balances)
        status = divide(s);
    *time = 0;
    for (int r = 0; r < replicas && status == SL_OK; r++)
        *time = s->each[r] > *time ? s->each[r] : *time;
    return status;
}

/* Something slow concerns it. */
static int is_touched(const sl_trainer *t, int home) {
    const sl_cluster_view *v = &t->remedy->view;
    int touched = v->slow[home] > 1;
    for (int other = 0; other < v->homes && !touched; other++) {
        int there = home * v->homes + other, back = other * v->homes + home;
        touched = v->latency[there] > 0 || v->pace[there] > 0 || v->latency[back] > 0 || v->pace[back] > 0;
    }
    return touched;
}

static void swap(int *home, int a, int b) {
    int kept = home[a];
    home[a] = home[b];
    home[b] = kept;
}

/* The best exchange of two; *time is what it leads to. *found 0: none makes an iteration shorter. */
static sl_status best_exchange(search *s, int *home, sl_time *time, int *found) {
    int world = s->t->world, at[2] = {0, 0};
    sl_time least = *time;
    for (int a = 0; a < world; a++)
        for (int b = 0; b < world; b++) {
            sl_time then;
            if (a == b || !is_touched(s->t, home[a]) || (is_touched(s->t, home[b]) && b < a) ||
                sl_pipelines_plans(s->pipelines) > PLANS)
                continue;
            swap(home, a, b);
            sl_status status = measure(s, home, &then);
            swap(home, a, b);
            if (status == SL_ENONE)
                continue;
            SL_TRY(status);
            if (then < least) {
                least = then;
                at[0] = a;
                at[1] = b;
            }
        }
    *found = least < *time;
    *time = least;
    if (*found)
        swap(home, at[0], at[1]);
    return SL_OK;
}

static sl_status climb(search *s, int *home, sl_time *time) {
    int found = 1;
    SL_TRY(measure(s, home, time));
    while (found)
        SL_TRY(best_exchange(s, home, time, &found));
    return SL_OK;
}

/* From the present arrangement, from that with slow devices gathered, and from that of the beginning:
 * home[world] becomes the best that is reached. */
static sl_status climb_from_all(search *s, int *home) {
    sl_trainer *t = s->t;
    size_t world = (size_t)t->world;
    int *from;
    sl_time best = SL_TIME_NEVER, time;
    SL_TRY(sl_alloc(&from, world, sizeof *from));
    sl_status status = SL_OK;
    for (int start = 0; start < 3 && status == SL_OK; start++) {
        memcpy(from, t->home, world * sizeof *from);
        if (start == 1 && !sl_remedy_gather(t, from))
            continue;
        for (int w = 0; w < t->world && start == 2; w++)
            from[w] = w;
        status = climb(s, from, &time);
        if (status == SL_OK && time < best) {
            best = time;
            memcpy(home, from, world * sizeof *home);
        }
        status = status == SL_ENONE ? SL_OK : status;
    }
    sl_free(from);
    return status;
}

sl_status sl_remedy_exchange(sl_trainer *t, int balances, int *home, int *moved) {
    search s = {.t = t, .balances = balances};
    size_t replicas = (size_t)t->run->parallel.data;
    memcpy(home, t->home, (size_t)t->world * sizeof *home);
    *moved = 0;
    sl_status status = sl_alloc(&s.split, replicas, sizeof *s.split);
    if (status == SL_OK)
        status = sl_alloc(&s.each, replicas, sizeof *s.each);
    if (status == SL_OK)
        status = sl_alloc(&s.of, replicas, sizeof *s.of);
    if (status == SL_OK)
        status = sl_alloc(&s.problem, replicas, sizeof *s.problem);
    if (status == SL_OK)
        status = sl_pipelines_open(RULE, t->run->batch.microbatches, &s.pipelines);
    if (status == SL_OK)
        status = climb_from_all(&s, home);
    for (int w = 0; w < t->world; w++)
        *moved += home[w] != t->home[w];
    sl_pipelines_close(s.pipelines);
    for (size_t k = 0; k < s.kinds; k++) {
        sl_problem_free(s.kind[k]);
        sl_free(s.kind[k]);
    }
    sl_free(s.kind);
    sl_free(s.of);
    sl_free(s.problem);
    sl_free(s.each);
    sl_free(s.split);
    return status == SL_ENONE ? SL_OK : status;
}
