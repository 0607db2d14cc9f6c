#include "run/binding/reduce.h"
#include "base/clock.h"
#include "base/memory.h"
#include "run/binding/gradient_norm.h"

#include <string.h>

#define CHUNK_BLOCKS ((size_t)256) /* of each share at a time: 1 MiB, the fastest of 64 KiB to 4 MiB */

static sl_status open_slot(const sl_reduce *r, sl_reduce_slot *slot) {
    const size_t chunk = CHUNK_BLOCKS * SL_NORM_BLOCK, size = (size_t)sl_group_size(r->data);
    if (slot->versions)
        return SL_OK;
    SL_TRY(sl_group_flight_open(r->data, &slot->flight));
    SL_TRY(sl_alloc(&slot->all, size * chunk, sizeof *slot->all));
    return sl_alloc(&slot->versions, size * chunk, sizeof *slot->versions);
}

sl_status sl_reduce_open(sl_device *device, sl_group *data, sl_reduce *r) {
    *r = (sl_reduce){.device = device, .data = data};
    return sl_group_size(data) > 1 ? open_slot(r, &r->slot[0]) : SL_OK;
}

void sl_reduce_close(sl_reduce *r) {
    for (int i = 0; i < SL_REDUCE_SLOTS; i++) {
        sl_group_flight_close(r->slot[i].flight);
        SL_FREE(r->slot[i].all, r->slot[i].versions);
    }
    *r = (sl_reduce){0};
}

typedef enum what { GRADIENT, WEIGHT } what;

static float *values_of(const sl_parameter *p, what side) {
    return side == GRADIENT ? p->gradient : p->weight;
}

/* Blocks of a share inside the chunk that begins `offset` blocks into every share. */
static void span_of(const sl_shares *cut, int share, size_t offset, size_t *begin, size_t *end) {
    *begin = sl_shares_begin(cut, share) + offset;
    *end = sl_shares_begin(cut, share + 1);
    *begin = *begin < *end ? *begin : *end;
    *end = *begin + CHUNK_BLOCKS < *end ? *begin + CHUNK_BLOCKS : *end;
}

static void pack(sl_device *device, const sl_shares *cut, const sl_parameter *list, what side, int share,
                 size_t offset, size_t length, float *out) {
    size_t begin, end, at, position;
    span_of(cut, share, offset, &begin, &end);
    memset(out, 0, length * sizeof *out); /* positions after a parameter's or a share's end */
    for (int i = 0; i < cut->parameters; i++) {
        size_t count = sl_shares_piece(cut, i, begin, end, &at, &position);
        if (count)
            device->read(device, out + position, values_of(&list[i], side) + at, count * sizeof *out);
    }
}

static void unpack(sl_device *device, const sl_shares *cut, const sl_parameter *list, what side, int share,
                   size_t offset, const float *in) {
    size_t begin, end, at, position;
    span_of(cut, share, offset, &begin, &end);
    for (int i = 0; i < cut->parameters; i++) {
        size_t count = sl_shares_piece(cut, i, begin, end, &at, &position);
        if (count)
            device->write(device, values_of(&list[i], side) + at, in + position, count * sizeof *in);
    }
}

/* Floats of a chunk of every share: at most the rest of the longest. */
static size_t length_of(size_t longest, size_t offset) {
    return (longest - offset < CHUNK_BLOCKS ? longest - offset : CHUNK_BLOCKS) * SL_NORM_BLOCK;
}

/* The progress of the chunks of a list: of `chunks`, the numbers started, turned (this replica's share is
 * summed, and is sent to the others) and taken, in this order. */
typedef struct travel {
    sl_reduce *reduce;
    const sl_shares *cut;
    const sl_parameter *list;
    what side;
    size_t longest, chunks, started, turned, taken;
    int size, me;
    int turns, whole; /* the first half is there at all; the second half is */
} travel;

static sl_reduce_slot *slot_of(const travel *t, size_t chunk) {
    return &t->reduce->slot[chunk % SL_REDUCE_SLOTS];
}

static size_t length_in(const travel *t, size_t chunk) {
    return length_of(t->longest, chunk * CHUNK_BLOCKS);
}

static void pack_share(const travel *t, size_t chunk, int share) {
    const size_t length = length_in(t, chunk);
    pack(t->reduce->device, t->cut, t->list, t->side, share, chunk * CHUNK_BLOCKS, length,
         slot_of(t, chunk)->all + (size_t)share * length);
}

static void unpack_share(const travel *t, size_t chunk, int share, const float *in) {
    unpack(t->reduce->device, t->cut, t->list, t->side, share, chunk * CHUNK_BLOCKS, in);
}

/* Until then a slot's arrays belong to the device. */
static sl_status copied(const travel *t) {
    return t->reduce->device->finish(t->reduce->device);
}

static sl_status gather(const travel *t, size_t chunk, const float *mine) {
    sl_reduce_slot *slot = slot_of(t, chunk);
    slot->started = sl_now();
    return sl_group_start_gather(slot->flight, mine, length_in(t, chunk), slot->all);
}

/* Sends this replica's version of all shares, or of weights its share. */
static sl_status start(travel *t) {
    const size_t chunk = t->started++, length = length_in(t, chunk);
    sl_reduce_slot *slot = slot_of(t, chunk);
    SL_TRY(open_slot(t->reduce, slot));
    if (!t->turns) {
        pack_share(t, chunk, t->me);
        SL_TRY(copied(t));
        t->turned++;
        return gather(t, chunk, slot->all + (size_t)t->me * length);
    }
    for (int share = 0; share < t->size; share++)
        pack_share(t, chunk, share);
    SL_TRY(copied(t));
    slot->started = sl_now();
    return sl_group_start_sum(slot->flight, slot->all, length, slot->versions);
}

static sl_status turn(travel *t) {
    const size_t chunk = t->turned++;
    sl_reduce_slot *slot = slot_of(t, chunk);
    float *mine = slot->versions + (size_t)t->me * length_in(t, chunk);
    SL_TRY(sl_group_finish_sum(slot->flight, mine));
    if (t->whole)
        return gather(t, chunk, mine);
    unpack_share(t, chunk, t->me, mine);
    t->taken++;
    return copied(t);
}

static sl_status take(travel *t) {
    const size_t chunk = t->taken++, length = length_in(t, chunk);
    sl_reduce_slot *slot = slot_of(t, chunk);
    SL_TRY(sl_group_finish_gather(slot->flight));
    for (int share = 0; share < t->size; share++)
        if (t->side == GRADIENT || share != t->me)
            unpack_share(t, chunk, share, slot->all + (size_t)share * length);
    return copied(t);
}

/* Processes arrived chunks first, the oldest before others. Starts another chunk if none is under way, or
 * none has arrived soon. */
static sl_status step(travel *t) {
    sl_group_flight *flight[2];
    sl_time soon = SL_TIME_NEVER;
    int count = 0, which = -1, takes = t->taken < t->turned;
    const int starts = t->started < t->chunks && t->started - t->taken < SL_REDUCE_SLOTS;
    if (takes) {
        flight[count++] = slot_of(t, t->taken)->flight;
        soon = slot_of(t, t->taken)->started + SL_REDUCE_SOON;
    }
    if (t->turned < t->started) {
        sl_time due = slot_of(t, t->turned)->started + SL_REDUCE_SOON;
        flight[count++] = slot_of(t, t->turned)->flight;
        soon = due < soon ? due : soon;
    }
    if (count > 0)
        SL_TRY(sl_group_first(flight, count, starts ? soon : SL_TIME_NEVER, &which));
    if (which < 0)
        return start(t);
    return which == 0 && takes ? take(t) : turn(t);
}

static sl_status travel_all(sl_reduce *r, const sl_shares *cut, const sl_parameter *list, what side,
                            int whole) {
    travel t = {.reduce = r,
                .cut = cut,
                .list = list,
                .side = side,
                .longest = sl_shares_longest(cut),
                .size = sl_group_size(r->data),
                .me = sl_group_rank(r->data),
                .turns = side == GRADIENT,
                .whole = whole};
    if (t.size > 1)
        t.chunks = (t.longest + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS;
    while (t.taken < t.chunks)
        SL_TRY(step(&t));
    return SL_OK;
}

sl_status sl_reduce_gradients(sl_reduce *r, const sl_shares *cut, const sl_parameter *list, int whole) {
    return travel_all(r, cut, list, GRADIENT, whole);
}

sl_status sl_reduce_weights(sl_reduce *r, const sl_shares *cut, const sl_parameter *list) {
    return travel_all(r, cut, list, WEIGHT, 1);
}

double sl_reduce_bytes(size_t elements, int replicas) {
    return 2.0 * (replicas - 1) / replicas * (double)elements * sizeof(float);
}

sl_status sl_shares_make(const sl_parameter *list, int parameters, int shares, sl_shares *cut) {
    *cut = (sl_shares){.parameters = parameters, .shares = shares};
    SL_TRY(sl_alloc(&cut->first, (size_t)parameters + 1, sizeof *cut->first));
    sl_status status = sl_alloc(&cut->count, (size_t)parameters, sizeof *cut->count);
    for (int i = 0; i < parameters && status == SL_OK; i++) {
        cut->count[i] = list[i].count;
        cut->first[i + 1] = cut->first[i] + sl_norm_blocks(list[i].count);
    }
    if (status != SL_OK)
        sl_shares_free(cut);
    return status;
}

void sl_shares_free(sl_shares *cut) {
    SL_FREE(cut->first, cut->count);
    *cut = (sl_shares){0};
}

size_t sl_shares_begin(const sl_shares *cut, int share) {
    return cut->first[cut->parameters] * (size_t)share / (size_t)cut->shares;
}

size_t sl_shares_longest(const sl_shares *cut) {
    size_t longest = 0;
    for (int share = 0; share < cut->shares; share++) {
        size_t blocks = sl_shares_begin(cut, share + 1) - sl_shares_begin(cut, share);
        longest = blocks > longest ? blocks : longest;
    }
    return longest;
}

size_t sl_shares_piece(const sl_shares *cut, int i, size_t begin, size_t end, size_t *at, size_t *position) {
    size_t from = cut->first[i] > begin ? cut->first[i] : begin;
    size_t to = cut->first[i + 1] < end ? cut->first[i + 1] : end;
    *at = *position = 0;
    if (from >= to)
        return 0;
    *at = (from - cut->first[i]) * SL_NORM_BLOCK;
    *position = (from - begin) * SL_NORM_BLOCK;
    size_t until = (to - cut->first[i]) * SL_NORM_BLOCK;
    return (until < cut->count[i] ? until : cut->count[i]) - *at;
}

size_t sl_shares_before(const sl_shares *cut, int i, size_t begin, size_t end) {
    size_t at, position, elements = 0;
    for (int k = 0; k < i; k++)
        elements += sl_shares_piece(cut, k, begin, end, &at, &position);
    return elements;
}

size_t sl_shares_elements(const sl_shares *cut, int share) {
    return sl_shares_before(cut, cut->parameters, sl_shares_begin(cut, share),
                            sl_shares_begin(cut, share + 1));
}
