#include "base/clock.h"
#include "base/memory.h"
#include "notice/validate/allgather.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 0x534c564d, BATCH = 64, KEEP_EACH = 512, KEEP_MAX = 1 << 20 };
#define SLICE (200 * SL_MS) /* of a wait for the store */
#define PAUSE (50 * SL_MS)  /* before a store that is lost is asked again */
#define GRACE SL_SECOND     /* for the store to show what was written to it */

typedef enum allgather_word { WORD_PART, WORD_END } allgather_word;

/* An entry of the log; a part's bytes follow. */
typedef struct entry_head {
    uint32_t magic;
    int32_t step, member, word;
} entry_head;

typedef struct log_entry {
    entry_head head;
    void *bytes;
    size_t size;
} log_entry;

typedef struct allgather_talk {
    sl_store *store;
    char log[96];
    int members, self, step;
    char *absent; /* [members] */
    sl_store_position position;
    log_entry *early; /* read already, of steps to come; in the log's order */
    size_t count, room;
} allgather_talk;

static void close_talk(void *context) {
    allgather_talk *t = context;
    for (size_t i = 0; i < t->count; i++)
        sl_free(t->early[i].bytes);
    SL_FREE(t->early, t->absent, t);
}

/* Writes it, repeatedly if the store is lost: a duplicate counts once. */
static sl_status say(allgather_talk *t, allgather_word what, const void *bytes, size_t size,
                     sl_time deadline) {
    const entry_head top = {.magic = MAGIC, .step = t->step, .member = t->self, .word = (int32_t)what};
    size_t keep = (size_t)t->members * KEEP_EACH;
    char *message;
    SL_TRY(sl_alloc(&message, sizeof top + size, 1));
    memcpy(message, &top, sizeof top);
    if (size > 0)
        memcpy(message + sizeof top, bytes, size);
    sl_status status;
    while ((status = sl_store_append(t->store, t->log, message, sizeof top + size,
                                     keep < KEEP_MAX ? keep : KEEP_MAX)) == SL_EPEER) {
        sl_time now = sl_now();
        if (now >= deadline)
            break;
        sl_clock_sleep_until(sl_clock_real(), now + PAUSE);
    }
    sl_free(message);
    return status;
}

typedef struct allgather_step {
    sl_allgather_parts *gathered;
    int missing; /* members that are awaited still */
    int ended;
} allgather_step;

/* One entry of the log, in its order. */
static sl_status hear(allgather_talk *t, allgather_step *s, const entry_head *top, const void *bytes,
                      size_t size) {
    if (top->member < 0 || top->member >= t->members || t->absent[top->member] || s->ended)
        return SL_OK;
    if (top->word == WORD_END) {
        s->ended = 1;
        return SL_OK;
    }
    if (s->gathered->part[top->member])
        return SL_OK;
    SL_TRY(sl_allgather_parts_put(s->gathered, top->member, bytes, size));
    s->ended = --s->missing == 0;
    return SL_OK;
}

static sl_status keep_early(allgather_talk *t, const entry_head *top, const void *bytes, size_t size) {
    SL_TRY(sl_grow(&t->early, &t->room, t->count + 1, sizeof *t->early));
    log_entry *e = &t->early[t->count];
    *e = (log_entry){.head = *top, .size = size};
    SL_TRY(sl_alloc(&e->bytes, size + 1, 1));
    memcpy(e->bytes, bytes, size);
    t->count++;
    return SL_OK;
}

/* What was read already and belongs to this step. */
static sl_status hear_early(allgather_talk *t, allgather_step *s) {
    sl_status status = SL_OK;
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        log_entry *e = &t->early[i];
        if (e->head.step > t->step) {
            t->early[kept++] = *e;
            continue;
        }
        if (e->head.step == t->step && status == SL_OK)
            status = hear(t, s, &e->head, e->bytes, e->size);
        sl_free(e->bytes);
    }
    t->count = kept;
    return status;
}

static sl_status hear_more(allgather_talk *t, allgather_step *s, sl_time wait) {
    const sl_store_entry *entries;
    size_t count;
    SL_TRY(sl_store_read(t->store, t->log, &t->position, BATCH, wait, &entries, &count));
    for (size_t i = 0; i < count; i++) {
        entry_head top;
        if (entries[i].size < sizeof top)
            continue;
        memcpy(&top, entries[i].bytes, sizeof top);
        const char *bytes = (const char *)entries[i].bytes + sizeof top;
        size_t size = entries[i].size - sizeof top;
        if (top.magic != MAGIC || top.step < t->step)
            continue;
        if (top.step > t->step)
            SL_TRY(keep_early(t, &top, bytes, size));
        else
            SL_TRY(hear(t, s, &top, bytes, size));
    }
    return SL_OK;
}

/* Until the step ends: by itself, or by this member's own entry when its patience runs out. */
static sl_status listen_until_end(allgather_talk *t, allgather_step *s, sl_time deadline) {
    int said = 0;
    SL_TRY(hear_early(t, s));
    while (!s->ended) {
        sl_time now = sl_now();
        if (now >= deadline + GRACE)
            return sl_error(SL_EPEER, "the store does not answer");
        if (now >= deadline && !said) {
            SL_TRY(say(t, WORD_END, NULL, 0, deadline + GRACE));
            said = 1;
        }
        sl_time left = said ? SLICE : deadline - now;
        sl_status status = hear_more(t, s, left < SLICE ? left : SLICE);
        if (status == SL_EPEER)
            sl_clock_sleep_until(sl_clock_real(), now + PAUSE);
        else if (status != SL_OK)
            return status;
    }
    return SL_OK;
}

static sl_status gather_all(void *context, const void *bytes, size_t size, sl_time patience,
                            sl_allgather_parts *gathered) {
    allgather_talk *t = context;
    sl_time deadline = sl_now() + patience;
    SL_TRY(sl_allgather_parts_open(t->members, gathered));
    allgather_step s = {.gathered = gathered};
    for (int i = 0; i < t->members; i++)
        s.missing += !t->absent[i];
    SL_TRY(say(t, WORD_PART, bytes, size, deadline));
    SL_TRY(listen_until_end(t, &s, deadline));
    for (int i = 0; i < t->members; i++)
        t->absent[i] = !gathered->part[i];
    t->step++;
    if (t->absent[t->self])
        return sl_error(SL_EPEER, "the others continued without this process, which was too late");
    return SL_OK;
}

sl_status sl_allgather_open_store(sl_store *store, const char *round, int members, int self,
                                  sl_allgather *allgather) {
    allgather_talk *t;
    SL_TRY(sl_alloc(&t, 1, sizeof *t));
    *t = (allgather_talk){.store = store, .members = members, .self = self};
    snprintf(t->log, sizeof t->log, "validation:%.64s:talk", round);
    sl_status status = sl_alloc(&t->absent, (size_t)members, 1);
    if (status != SL_OK) {
        sl_free(t);
        return status;
    }
    *allgather = (sl_allgather){
        .members = members, .self = self, .context = t, .gather_all = gather_all, .close = close_talk};
    return SL_OK;
}
