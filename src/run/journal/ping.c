#include "run/journal/ping.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <string.h>

#define SMALL 64                   /* bytes of the smaller messages */
#define BUDGET (SL_SECOND / 4)     /* of a link; slow ones get by with fewer rounds */
#define MIN 4                      /* rounds, half of them of either size */
#define PATIENCE (120 * SL_SECOND) /* a slow link is slow here, too */
#define ITERATION UINT32_MAX       /* that messages of the test carry: no iteration of a run */

/* ---- exchanging ---- */

typedef struct pinger {
    const sl_ping_way *way;
    sl_clock *clock;
    sl_time budget;
    char *out, *in;
    size_t small, large;
} pinger;

static size_t size_of(const pinger *p, int round) {
    return round % 2 ? p->large : p->small;
}

sl_status sl_ping_hear(void *object, int peer, int round, void *data, size_t bytes, sl_time *heard) {
    const sl_ping_transport *t = object;
    SL_TRY(sl_transport_receive(t->transport, peer, ITERATION, (uint32_t)round, data, bytes));
    return sl_transport_wait(t->transport, peer, ITERATION, (uint32_t)round,
                             sl_clock_now(t->clock) + t->patience, heard);
}

sl_status sl_ping_say(void *object, int peer, int round, const void *data, size_t bytes) {
    const sl_ping_transport *t = object;
    sl_sent done;
    const sl_time now = sl_clock_now(t->clock);
    SL_TRY(sl_transport_send(t->transport, peer, ITERATION, (uint32_t)round, data, bytes, now));
    return sl_transport_wait_sent(t->transport, peer, ITERATION, (uint32_t)round, now + t->patience, &done);
}

static sl_status hear(pinger *p, int peer, int round, sl_time *heard) {
    return p->way->hear(p->way->object, peer, round, p->in, size_of(p, round), heard);
}

static sl_status say(pinger *p, int peer, int round, int last, sl_time *sent) {
    p->out[0] = (char)last;
    *sent = sl_clock_now(p->clock);
    return p->way->say(p->way->object, peer, round, p->out, size_of(p, round));
}

/* The first of the two decides the number of rounds: it knows how long they take. */
static sl_status lead(pinger *p, int peer, sl_ping_half *half, int *rounds) {
    sl_time begin = sl_clock_now(p->clock);
    for (int round = 0, last = 0; !last; round++) {
        sl_time now = sl_clock_now(p->clock);
        last = round + 1 == SL_PING_MAX || (round + 1 >= MIN && round % 2 && now - begin > p->budget);
        half[round] = (sl_ping_half){.round = round, .last = last, .bytes = (int64_t)size_of(p, round)};
        SL_TRY(say(p, peer, round, last, &half[round].sent));
        SL_TRY(hear(p, peer, round, &half[round].heard));
        ++*rounds;
    }
    return SL_OK;
}

static sl_status follow(pinger *p, int peer, sl_ping_half *half, int *rounds) {
    for (int round = 0, last = 0; !last && round < SL_PING_MAX; round++) {
        half[round] = (sl_ping_half){.round = round, .bytes = (int64_t)size_of(p, round)};
        SL_TRY(hear(p, peer, round, &half[round].heard));
        last = half[round].last = p->in[0];
        SL_TRY(say(p, peer, round, last, &half[round].sent));
        ++*rounds;
    }
    return SL_OK;
}

sl_status sl_ping_over(const sl_ping_way *way, sl_clock *clock, int rank, const sl_ping_pair *pairs,
                       int count, size_t bytes, sl_time budget, sl_ping_half *half, int *halves) {
    pinger p = {.way = way,
                .clock = clock,
                .budget = budget,
                .small = bytes < SMALL ? (bytes + 1) / 2 : SMALL,
                .large = bytes > 1 ? bytes : 1};
    *halves = 0;
    SL_TRY(sl_alloc(&p.out, 2 * p.large, 1));
    p.in = p.out + p.large;
    memset(p.out, 1, 2 * p.large); /* pages are there before anything is measured */
    sl_status status = SL_OK;
    for (int i = 0; i < count && status == SL_OK; i++) {
        int rounds = 0;
        sl_ping_half *mine = half + *halves;
        if (pairs[i].a == rank)
            status = lead(&p, pairs[i].b, mine, &rounds);
        else if (pairs[i].b == rank)
            status = follow(&p, pairs[i].a, mine, &rounds);
        for (int k = 0; k < rounds; k++) {
            mine[k].pair = i;
            mine[k].rank = rank;
        }
        *halves += rounds;
    }
    sl_free(p.out);
    return status;
}

sl_status sl_ping(sl_transport *transport, sl_clock *clock, int rank, const sl_ping_pair *pairs, int count,
                  size_t bytes, sl_time patience, sl_ping_half *half, int *halves) {
    sl_ping_transport object = {.transport = transport, .clock = clock, .patience = patience};
    sl_ping_way way = {.object = &object, .say = sl_ping_say, .hear = sl_ping_hear};
    return sl_ping_over(&way, clock, rank, pairs, count, bytes, BUDGET, half, halves);
}

/* ---- fitting ---- */

/* One-way times of a direction. */
typedef struct ping_sample {
    double bytes;
    sl_time time;
} ping_sample;

static void fit(const ping_sample *s, int count, sl_ping_link *link) {
    sl_time slope[SL_PING_MAX * SL_PING_MAX], rest[SL_PING_MAX];
    int slopes = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (s[k].bytes > s[i].bytes) /* in 1e-6 ns a byte, so that the median of times serves */
                slope[slopes++] =
                    (sl_time)((double)(s[k].time - s[i].time) * 1e6 / (s[k].bytes - s[i].bytes));
    double per_byte = slopes ? (double)sl_median(slope, slopes) / 1e6 : 0;
    *link = (sl_ping_link){.rounds = count, .per_byte = per_byte > 0 ? per_byte : 0};
    for (int i = 0; i < count; i++)
        rest[i] = s[i].time - (sl_time)(link->per_byte * s[i].bytes);
    sl_time latency = sl_median(rest, count);
    link->latency = latency > 0 ? latency : 0;
}

/* Both halves of a round, in rank 0's time. */
static int one_way(const sl_ping_half *a, const sl_ping_half *b, const sl_offset *clock, sl_time *there,
                   sl_time *back) {
    if (!a || !b || a->bytes != b->bytes)
        return 0;
    int64_t shift = clock[b->rank].offset - clock[a->rank].offset,
            error = clock[a->rank].error + clock[b->rank].error;
    *there = b->heard - a->sent - shift;
    *back = a->heard - b->sent + shift;
    if (error > 0 && !sl_offset_direction_certain(*there, *back, error))
        *there = *back = (*there + *back) / 2;
    return 1;
}

static void fit_pair(const sl_ping_half *const (*round)[2], const sl_offset *clock, sl_ping_link *link) {
    ping_sample there[SL_PING_MAX], back[SL_PING_MAX];
    /* Rounds 0 and 1 warm up the path, which is negligible for a link so slow that it ran only the
     * minimum. */
    const int slow = round[MIN - 1][0] && !round[MIN][0];
    int count = 0;
    for (int i = slow ? 0 : 2; i < SL_PING_MAX; i++)
        if (one_way(round[i][0], round[i][1], clock, &there[count].time, &back[count].time)) {
            there[count].bytes = back[count].bytes = (double)round[i][0]->bytes;
            count++;
        }
    if (count == 0)
        return;
    fit(there, count, &link[0]);
    fit(back, count, &link[1]);
}

sl_status sl_ping_fit_pairs(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                            const sl_offset *clock, sl_ping_link (*found)[2]) {
    const sl_ping_half *(*round)[2]; /* [pair][SL_PING_MAX]: of a, of b */
    SL_TRY(sl_alloc(&round, (size_t)count * SL_PING_MAX, sizeof *round));
    for (int i = 0; i < halves; i++) {
        const sl_ping_half *h = &half[i];
        if (h->pair < 0 || h->pair >= count || h->round < 0 || h->round >= SL_PING_MAX)
            continue;
        const sl_ping_pair *pair = &pairs[h->pair];
        if (h->rank == pair->a || h->rank == pair->b)
            round[h->pair * SL_PING_MAX + h->round][h->rank == pair->b] = h;
    }
    for (int i = 0; i < count; i++) {
        found[i][0] = found[i][1] = (sl_ping_link){0};
        fit_pair((const sl_ping_half *const(*)[2])(round + i * SL_PING_MAX), clock, found[i]);
    }
    sl_free(round);
    return SL_OK;
}

sl_status sl_ping_fit(const sl_ping_half *half, int halves, const sl_ping_pair *pairs, int count,
                      const sl_offset *clock, int ranks, sl_ping_link *link) {
    sl_ping_link(*found)[2];
    SL_TRY(sl_alloc(&found, (size_t)count, sizeof *found));
    sl_status status = sl_ping_fit_pairs(half, halves, pairs, count, clock, found);
    for (int i = 0; i < count && status == SL_OK; i++)
        if (found[i][0].rounds > 0) {
            link[pairs[i].a * ranks + pairs[i].b] = found[i][0];
            link[pairs[i].b * ranks + pairs[i].a] = found[i][1];
        }
    sl_free(found);
    return status;
}

/* ---- all ranks together ---- */

/* The first round in which neither rank of the pair is busy. */
static int free_round(const sl_ping_pair *pairs, const int *round, int count, sl_ping_pair pair) {
    for (int r = 0;; r++) {
        int busy = 0;
        for (int i = 0; i < count && !busy; i++)
            busy = round[i] == r && (pairs[i].a == pair.a || pairs[i].a == pair.b || pairs[i].b == pair.a ||
                                     pairs[i].b == pair.b);
        if (!busy)
            return r;
    }
}

int sl_ping_pairs(const sl_problem *p, sl_ping_pair *pairs, int *round) {
    int count = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        int next = sl_problem_next(p, stage);
        if (next < 0 || sl_problem_rank(p, next) == sl_problem_rank(p, stage))
            continue;
        int x = sl_problem_rank(p, stage), y = sl_problem_rank(p, next), known = 0;
        sl_ping_pair pair = {.a = x < y ? x : y, .b = x < y ? y : x};
        for (int i = 0; i < count; i++)
            known |= pairs[i].a == pair.a && pairs[i].b == pair.b;
        if (known)
            continue;
        int at = count, free = free_round(pairs, round, count, pair);
        for (; at > 0 && round[at - 1] > free; at--) {
            pairs[at] = pairs[at - 1];
            round[at] = round[at - 1];
        }
        pairs[at] = pair;
        round[at] = free;
        count++;
    }
    return count;
}

typedef struct pinging {
    const sl_run *run;
    const sl_groups *groups;
    sl_ping_pair *pairs;
    int *round, count;
    sl_ping_half *half, *all; /* this rank's; on rank 0 those of all ranks */
    size_t *sizes;
    sl_offset *clock; /* [ranks] of the pipeline at hand */
} pinging;

/* Stores each link of one pipeline into link[ranks * ranks] if it is slower than the one there. */
static sl_status fit_pipeline(const pinging *p, int pipeline, int halves, const sl_offset *offsets,
                              double bytes, sl_ping_link *link) {
    int tensors = p->run->parallel.tensor, ranks = p->run->parallel.pipeline, mine = 0;
    sl_ping_half *own;
    sl_ping_link *found;
    sl_status status;
    SL_TRY(sl_alloc(&own, (size_t)halves + 1, sizeof *own));
    for (int i = 0; i < halves; i++)
        if (p->all[i].pipeline == pipeline)
            own[mine++] = p->all[i];
    for (int rank = 0; rank < ranks; rank++)
        p->clock[rank] = offsets[sl_run_world_rank(
            p->run, (sl_run_position){rank, pipeline / tensors, pipeline % tensors})];
    SL_TRY_GOTO(free_own, status, sl_alloc(&found, (size_t)ranks * (size_t)ranks, sizeof *found));
    SL_TRY_GOTO(free_found, status, sl_ping_fit(own, mine, p->pairs, p->count, p->clock, ranks, found));
    for (int at = 0; at < ranks * ranks; at++)
        if (found[at].rounds > 0 &&
            (link[at].rounds == 0 || sl_ping_time(&found[at], bytes) > sl_ping_time(&link[at], bytes)))
            link[at] = found[at];
free_found:
    sl_free(found);
free_own:
    sl_free(own);
    return status;
}

static sl_status ping_all(pinging *p, sl_transport *transport, sl_clock *clock, double bytes,
                          const sl_offset *offsets, sl_ping_link *link) {
    const sl_run_position *position = &p->groups->position;
    int halves = 0, tensors = p->run->parallel.tensor, pipelines = p->run->parallel.data * tensors;
    size_t sum = 0, most = 2 * (size_t)p->count * SL_PING_MAX * (size_t)pipelines;
    int leads = sl_groups_lead(p->groups), world = sl_group_size(p->groups->world);
    SL_TRY(sl_alloc(&p->half, (size_t)p->count * SL_PING_MAX, sizeof *p->half));
    SL_TRY(sl_alloc(&p->all, leads ? most : 1, sizeof *p->all));
    SL_TRY(sl_alloc(&p->sizes, (size_t)world, sizeof *p->sizes));
    SL_TRY(sl_alloc(&p->clock, (size_t)p->run->parallel.pipeline, sizeof *p->clock));
    SL_TRY(sl_ping(transport, clock, position->pipeline, p->pairs, p->count, (size_t)bytes, PATIENCE, p->half,
                   &halves));
    for (int i = 0; i < halves; i++)
        p->half[i].pipeline = position->replica * tensors + position->tensor;
    SL_TRY(sl_group_gather(p->groups->world, p->groups->leader, p->half, (size_t)halves * sizeof *p->half,
                           p->all, most * sizeof *p->all, p->sizes));
    for (int w = 0; w < world; w++)
        sum += p->sizes[w];
    for (int pipeline = 0; pipeline < pipelines && leads; pipeline++)
        SL_TRY(fit_pipeline(p, pipeline, (int)(sum / sizeof *p->all), offsets, bytes, link));
    return SL_OK;
}

sl_status sl_ping_all(const sl_run *run, const sl_groups *groups, sl_transport *transport, sl_clock *clock,
                      double bytes, const sl_offset *offsets, sl_ping_link *link) {
    pinging p = {.run = run, .groups = groups};
    sl_problem shape = sl_run_shape(run);
    SL_TRY(sl_alloc(&p.pairs, (size_t)shape.stages, sizeof *p.pairs));
    sl_status status = sl_alloc(&p.round, (size_t)shape.stages, sizeof *p.round);
    if (status == SL_OK) {
        p.count = sl_ping_pairs(&shape, p.pairs, p.round);
        status = ping_all(&p, transport, clock, bytes, offsets, link);
    }
    SL_FREE(p.round, p.clock, p.sizes, p.all, p.half, p.pairs);
    return status;
}
