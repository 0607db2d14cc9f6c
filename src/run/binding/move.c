/* A change of seats: the binding of the new seat takes from the old one of this process what it can use as it
 * is, the rest comes from the process that sat there. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <string.h>

/* ---- what is handed over ---- */

void sl_binding_inherit(sl_binding *b, sl_binding *old) {
    b->data = old->data;
    b->device = old->device;
    old->data = NULL;
    old->device = NULL;
}

static int same_slices(sl_seat a, sl_seat b) {
    return a.pipeline == b.pipeline && a.tensor == b.tensor;
}

int sl_binding_serves(const sl_binding *b, const sl_binding *old, size_t hosted) {
    sl_seat now = b->groups->seat, before = old->groups->seat;
    int same_share = !b->run->parallel.zero || now.replica == before.replica;
    size_t host = old->host ? sl_arena_limit(old->host) : 0;
    return same_slices(now, before) && same_share && b->limit <= old->limit && b->room <= old->room &&
           hosted <= host;
}

sl_status sl_binding_adopt(sl_binding *b, sl_binding *old) {
    SL_TRY(sl_alloc(&b->held, (size_t)b->stages, sizeof *b->held));
    b->limit = old->limit;
    b->room = old->room;
    b->arena = old->arena;
    b->host = old->host;
    old->arena = old->host = NULL;
    for (int i = 0; i < old->helds; i++) {
        sl_held *from = &old->held[i];
        b->held[b->helds++] = (sl_held){.binding = b,
                                        .stage = from->stage,
                                        .index = i,
                                        .model = from->model,
                                        .list = from->list,
                                        .parameters = from->parameters,
                                        .tied = from->tied,
                                        .moment = {from->moment[0], from->moment[1]}};
        sl_model_set_tensor(from->model, &b->config.tensor);
        from->model = NULL;
        from->moment[0] = from->moment[1] = NULL;
    }
    sl_arena_restart_peak(b->arena);
    return SL_OK;
}

/* ---- what is sent ---- */

/* Whose stages hold the state of the seat of `b`, which `other` may have adopted. */
static const sl_held *holders(const sl_binding *b, const sl_binding *other) {
    return b->helds > 0 && b->held[0].model ? b->held : other->held;
}

/* The state of the seat of `b` in blocks[3 * helds]: of each stage in ascending order weights and moments
 * (`stages`) and a share of moments (`shares`), sizes that depend on the seat alone. Returns how many. */
static int list_blocks(const sl_binding *b, const sl_held *held, int stages, int shares, sl_block *blocks) {
    int count = 0;
    for (int i = 0; i < b->helds; i++) {
        size_t floats, share;
        float *state = sl_model_state(held[i].model, &floats);
        share = sl_shares_elements(sl_binding_cut(b, held[i].stage), b->groups->seat.replica);
        if (stages)
            blocks[count++] = (sl_block){state, floats * sizeof *state};
        for (int m = 0; m < 2 && shares; m++)
            blocks[count++] = (sl_block){held[i].moment[m], share * sizeof(float)};
    }
    return count;
}

static double sum_bytes(const sl_block *blocks, int count) {
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)blocks[i].bytes;
    return bytes;
}

/* What this process has already, in memory that could not be handed over. */
static void copy_own(const sl_binding *old, const sl_binding *next, int shares, sl_block *from,
                     sl_block *into) {
    int count = list_blocks(old, old->held, 1, shares, from);
    list_blocks(next, next->held, 1, shares, into);
    for (int i = 0; i < count; i++)
        memcpy(into[i].data, from[i].data, from[i].bytes);
}

typedef struct moves {
    int to, from;            /* who sits where this process sat; who sat where it sits now */
    int gives, takes, stays; /* stages with their weights: are needed there; come from there; nobody moves */
} moves;

static moves plan_moves(const sl_binding *old, const sl_binding *next, const int *was) {
    const sl_run *run = next->run;
    int me = sl_group_rank(next->groups->world);
    moves m = {.to = was[me], .stays = was[me] == me};
    for (int w = 0; w < sl_run_ranks(run); w++)
        if (was[w] == me)
            m.from = w;
    m.gives = !same_slices(sl_run_seat(run, was[m.to]), old->groups->seat);
    m.takes = !same_slices(old->groups->seat, next->groups->seat);
    return m;
}

static sl_status exchange(sl_binding *old, sl_binding *next, const moves *m, sl_block *blocks, int most,
                          double *bytes) {
    const sl_held *mine = holders(old, next);
    int shares = next->run->parallel.zero && !m->stays, gives, takes, adopted = mine != old->held;
    if (!adopted && !m->takes)
        copy_own(old, next, next->run->parallel.zero && m->stays, blocks, blocks + most);
    gives = list_blocks(old, mine, m->gives, shares, blocks);
    takes = list_blocks(next, next->held, m->takes, shares, blocks + most);
    *bytes = sum_bytes(blocks, gives);
    return sl_group_exchange(next->groups->world, blocks, gives, m->to, blocks + most, takes, m->from);
}

/* World ranks are seats: the process that sits in this one's old seat has its old world rank. */
sl_status sl_binding_move(sl_binding *old, sl_binding *next, const int *was, double *bytes) {
    moves m = plan_moves(old, next, was);
    int most = 3 * next->helds; /* every rank holds as many */
    sl_block *blocks;
    SL_TRY(sl_alloc(&blocks, 2 * (size_t)most, sizeof *blocks));
    sl_status status = exchange(old, next, &m, blocks, most, bytes);
    sl_free(blocks);
    for (int h = 0; h < next->helds && status == SL_OK && holders(old, next) == old->held; h++)
        status = sl_model_weights_changed(next->held[h].model);
    return status;
}
