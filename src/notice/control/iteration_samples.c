#include "notice/control/iteration_samples.h"

#include "base/memory.h"
#include "base/numbers.h"
#include <string.h>

#define QUEUE 1024 /* blocks of a rank that wait, at most; a power of two */
#define QUEUE_MIN 16
#define LEVEL 15 /* blocks for the median that is a rank's own level */
#define STALE 4  /* a rank this many of its blocks late is not waited for */

typedef struct queued_block {
    sl_message_block block;
    sl_time seen;
} queued_block;

typedef struct follows {
    int rank, process;
    int alive;
    queued_block *queue; /* [room] by index modulo room, a power of two */
    size_t room;
    uint64_t first, next;
    int64_t newest;      /* end of the last block */
    sl_time last[LEVEL]; /* time of an iteration in the last blocks */
    uint64_t seen;
    sl_time level, found; /* median of `last`; of this sample */
} follows;

struct sl_iteration_samples {
    follows *rank;
    size_t ranks, capacity;
    uint32_t *index; /* [indexed] of a rank's number: 1 + index in rank[], 0: not heard yet */
    size_t indexed;
    sl_time *room; /* [capacity of ranks] */
    size_t room_size;
    int reference; /* index in rank[]; -1: none */
    int period;
    int64_t iteration;
    sl_time first_seen, last_seen;
    sl_time without; /* others have been sending since then, and the reference has not; 0: it sends */
};

sl_status sl_iteration_samples_open(sl_iteration_samples **samples) {
    SL_TRY(sl_alloc(samples, 1, sizeof **samples));
    (*samples)->reference = -1;
    return SL_OK;
}

void sl_iteration_samples_close(sl_iteration_samples *samples) {
    if (!samples)
        return;
    for (size_t i = 0; i < samples->ranks; i++)
        sl_free(samples->rank[i].queue);
    SL_FREE(samples->rank, samples->index, samples->room, samples);
}

static queued_block *at(const follows *f, uint64_t position) {
    return &f->queue[position & (f->room - 1)];
}

static follows *known(const sl_iteration_samples *s, int rank) {
    return rank >= 0 && (size_t)rank < s->indexed && s->index[rank] ? &s->rank[s->index[rank] - 1] : NULL;
}

/* Twice the room, with the blocks in it. */
static sl_status widen(follows *f) {
    queued_block *wider;
    size_t room = 2 * f->room;
    SL_TRY(sl_alloc(&wider, room, sizeof *wider));
    for (uint64_t i = f->first; i < f->next; i++)
        wider[i & (room - 1)] = *at(f, i);
    sl_free(f->queue);
    f->queue = wider;
    f->room = room;
    return SL_OK;
}

static sl_status find(sl_iteration_samples *s, int rank, follows **found) {
    *found = known(s, rank);
    if (*found)
        return SL_OK;
    SL_TRY(sl_grow(&s->index, &s->indexed, (size_t)rank + 1, sizeof *s->index));
    SL_TRY(sl_grow(&s->rank, &s->capacity, s->ranks + 1, sizeof *s->rank));
    SL_TRY(sl_grow(&s->room, &s->room_size, s->ranks + 1, sizeof *s->room));
    *found = &s->rank[s->ranks];
    **found = (follows){.rank = rank, .alive = 1, .room = QUEUE_MIN};
    SL_TRY(sl_alloc(&(*found)->queue, QUEUE_MIN, sizeof(queued_block)));
    s->index[rank] = (uint32_t)++s->ranks;
    return SL_OK;
}

static void note_level(follows *f, sl_time time) {
    sl_time sorted[LEVEL];
    f->last[f->seen++ % LEVEL] = time;
    int count = f->seen < LEVEL ? (int)f->seen : LEVEL;
    memcpy(sorted, f->last, (size_t)count * sizeof *sorted);
    f->level = sl_median(sorted, count);
}

/* When all ranks stop (a hold, a checkpoint), the reference is not missing: neither leftover blocks nor the
 * first rank heard afterwards replaces it. */
static int all_stand(const sl_iteration_samples *s, const follows *reference, sl_time now) {
    return now - s->last_seen > SL_SAMPLES_WAIT / 2 + STALE / 2 * reference->level;
}

static void note_silence(sl_iteration_samples *s, const follows *f, sl_time now) {
    const follows *reference = s->reference >= 0 ? &s->rank[s->reference] : NULL;
    if (f == reference || (reference && all_stand(s, reference, now)))
        s->without = 0;
    if (reference && f != reference && s->without == 0)
        s->without = now;
    s->last_seen = now;
}

sl_status sl_iteration_samples_add(sl_iteration_samples *s, const sl_message_block *block, sl_time now) {
    follows *f;
    if (block->rank < 0 || block->count <= 0 || block->time < 0 || block->end < block->start)
        return SL_OK; /* from elsewhere */
    SL_TRY(find(s, block->rank, &f));
    if (s->first_seen == 0)
        s->first_seen = now;
    if (f->process != block->process || !f->alive) { /* another process took the rank */
        *f = (follows){.rank = f->rank,
                       .process = block->process,
                       .alive = 1,
                       .queue = f->queue,
                       .room = f->room,
                       .newest = INT64_MIN};
    }
    note_silence(s, f, now);
    if (f->next - f->first == f->room && f->room < QUEUE)
        SL_TRY(widen(f));
    if (f->next - f->first == f->room)
        f->first++;
    *at(f, f->next++) = (queued_block){.block = *block, .seen = now};
    f->newest = block->end;
    note_level(f, block->time / block->count);
    return SL_OK;
}

void sl_iteration_samples_lost(sl_iteration_samples *s, int rank) {
    follows *f = known(s, rank);
    if (f)
        f->alive = 0;
}

/* The reference: the lowest rank, among those with the longest iterations, that still sends. */
static void choose(sl_iteration_samples *s, sl_time now) {
    sl_time longest = 0;
    follows *old = s->reference >= 0 ? &s->rank[s->reference] : NULL;
    if (old &&
        (old->first < old->next || (old->alive && (s->without == 0 || all_stand(s, old, now) ||
                                                   now - s->without < SL_SAMPLES_WAIT + STALE * old->level))))
        return;
    if (!old && now - s->first_seen < SL_SAMPLES_WAIT / 4)
        return; /* the others are about to find their period too */
    for (size_t i = 0; i < s->ranks; i++)
        if (s->rank[i].first < s->rank[i].next && s->rank[i].level > longest)
            longest = s->rank[i].level;
    int best = -1;
    for (size_t i = 0; i < s->ranks; i++) {
        const follows *f = &s->rank[i];
        if (f->first < f->next && 3 * f->level >= 2 * longest && (best < 0 || f->rank < s->rank[best].rank))
            best = (int)i;
    }
    if (best >= 0) {
        s->reference = best;
        s->without = 0;
    }
}

/* Whether rank f has sent everything up to `middle`, or never will. */
static int complete(const follows *f, int64_t middle, int64_t length) {
    return !f->alive || f->newest >= middle || (f->next > 0 && f->newest < middle - STALE * length);
}

/* Mean time of an iteration of rank f within [start, end); 0: none known. Older blocks are dropped. */
static sl_time meanwhile(follows *f, int64_t start, int64_t end) {
    int64_t middle = start + (end - start) / 2, sum = 0, count = 0, around = 0;
    for (; f->first < f->next; f->first++) {
        const sl_message_block *b = &at(f, f->first)->block;
        int64_t own = b->start + (b->end - b->start) / 2;
        if (b->start <= middle && middle < b->end)
            around = b->time / b->count;
        if (own >= end)
            break;
        if (own >= start) {
            sum += b->time;
            count += b->count;
        } else if (b->end > end) {
            break; /* a long one, which is around the next as well */
        }
    }
    if (!count && !around && f->first < f->next) {
        const sl_message_block *b = &at(f, f->first)->block;
        if (b->start <= middle && middle < b->end)
            around = b->time / b->count;
    }
    return count ? sum / count : around;
}

static void fill(sl_iteration_samples *s, const follows *reference, sl_sample *sample) {
    sl_time longest = reference->level, slowest = 0;
    int count = 0;
    for (size_t i = 0; i < s->ranks; i++)
        if (s->rank[i].found && s->rank[i].level > longest)
            longest = s->rank[i].level;
    for (size_t i = 0; i < s->ranks; i++) {
        const follows *f = &s->rank[i];
        if (!f->found || (3 * f->level < 2 * longest && f != reference))
            continue;
        s->room[count++] = f->found;
        slowest = f->found > slowest ? f->found : slowest;
    }
    sample->ranks = count;
    sample->time_ms = sl_to_ms(sl_median(s->room, count));
    sample->slowest_ms = sl_to_ms(slowest);
}

int sl_iteration_samples_take(sl_iteration_samples *s, sl_time now, sl_sample *sample) {
    choose(s, now);
    follows *reference = s->reference >= 0 ? &s->rank[s->reference] : NULL;
    if (!reference || reference->first == reference->next)
        return 0;
    const queued_block *head = at(reference, reference->first);
    sl_message_block block = head->block;
    int64_t middle = block.start + (block.end - block.start) / 2;
    sl_time patience = head->seen + SL_SAMPLES_WAIT + (block.end - block.start);
    for (size_t i = 0; i < s->ranks && now < patience; i++)
        if (!complete(&s->rank[i], middle, block.end - block.start))
            return 0;
    for (size_t i = 0; i < s->ranks; i++)
        if (&s->rank[i] != reference)
            s->rank[i].found = meanwhile(&s->rank[i], block.start, block.end);
    reference->first++;
    reference->found = block.time / block.count;
    *sample =
        (sl_sample){.count = block.count, .period = block.period, .start = block.start, .end = block.end};
    sample->bytes = (double)block.bytes / block.count;
    fill(s, reference, sample);
    sample->restarted = s->period != block.period;
    s->period = block.period;
    sample->iteration = s->iteration;
    s->iteration += block.count;
    return 1;
}
