/* A change of positions: the binding of the new position reuses parts of this process's old one; the rest
 * comes from the position's previous process. */
#include "base/memory.h"
#include "run/binding/binding_inside.h"
#include "run/device/host_view.h"

/* Where the state of the new position comes to. */
typedef enum reception {
    STAYS,   /* it is there: the stages are handed over */
    WAITS,   /* to a waiting buffer, until the old stages have been freed for the new ones */
    ARRIVES, /* to the new stages, in memory of their own */
} reception;

typedef struct move {
    sl_binding *old, *next;
    reception reception;
    int to, from; /* next process of this one's old position; previous process of its new position */
    int gives, takes, stays; /* stages with their weights: needed there; come from there; do not move */
    sl_block *out, *in;      /* [3 * helds] of the old position, of the new one */
    sl_host_view *view;      /* [6 * helds] of them, for the exchange */
    char *room;              /* the waiting room */
    size_t room_bytes;
    int room_on_host;
} move;

/* ---- peers and contents ---- */

static int same_slices(sl_run_position a, sl_run_position b) {
    return a.pipeline == b.pipeline && a.tensor == b.tensor;
}

/* World ranks are positions: the next process of this one's old position has its old world rank. */
static void find_partners(move *m, const int *was) {
    const sl_run *run = m->next->run;
    sl_run_position before = m->old->groups->position;
    int me = sl_group_rank(m->next->groups->world);
    m->to = was[me];
    m->stays = was[me] == me;
    for (int w = 0; w < sl_run_ranks(run); w++)
        if (was[w] == me)
            m->from = w;
    m->gives = !same_slices(sl_run_position_of(run, was[m->to]), before);
    m->takes = !same_slices(before, m->next->groups->position);
}

/* ZeRO's shares go from position to position, even if the weights are already there. */
static int moves_shares(const move *m) {
    return m->next->run->parallel.zero && !m->stays;
}

/* The state of a position in its stages: of each, in ascending order, weights and moments (`stages`) and a
 * share of the moments (`shares`). Sizes depend only on the position. Returns the number of blocks. */
static int list_held(const sl_binding *b, int stages, int shares, sl_block *blocks) {
    int count = 0;
    for (int i = 0; i < b->helds; i++) {
        const sl_held *h = &b->held[i];
        size_t floats, share = sl_shares_elements(sl_binding_cut(b, h->stage), b->holder);
        if (sl_binding_is_second(h))
            continue;
        float *state = sl_model_state(h->model, &floats);
        if (stages)
            blocks[count++] = (sl_block){state, floats * sizeof *state};
        for (int part = 0; part < 2 && shares; part++)
            blocks[count++] = (sl_block){h->moment[part], share * sizeof(float)};
    }
    return count;
}

/* The same in one piece of memory, for stages that are not open yet. *bytes: of all of it. */
static sl_status list_waiting(const sl_binding *b, char *memory, int stages, int shares, sl_block *blocks,
                              int *count, size_t *bytes) {
    size_t at = 0, floats;
    *count = 0;
    for (int stage = 0; stage < b->stages; stage++) {
        if (!sl_binding_holds(b, b->rank, stage))
            continue;
        SL_TRY(sl_model_state_floats(&b->config, stage, b->stages, &floats));
        size_t share = sl_shares_elements(sl_binding_cut(b, stage), b->holder);
        const size_t sizes[] = {floats * sizeof(float), share * sizeof(float), share * sizeof(float)};
        for (int k = 0; k < 3; k++) {
            if (k == 0 ? stages : shares)
                blocks[(*count)++] = (sl_block){memory ? memory + at : NULL, sizes[k]};
            at += k == 0 || b->run->parallel.zero ? sl_arena_round(sizes[k]) : 0;
        }
    }
    *bytes = at;
    return SL_OK;
}

static int all_blocks(const move *m) {
    return 3 * m->next->stages;
}

/* ---- destinations ---- */

static int host_suffices(const move *m) {
    return m->next->hosted <= (m->old->host ? sl_arena_limit(m->old->host) : 0);
}

/* Takes the whole memory of the old binding, with or without its contents. */
static void take_memory(move *m) {
    sl_binding *old = m->old, *next = m->next;
    next->limit = old->limit > next->limit ? old->limit : next->limit;
    next->room = old->room > next->room ? old->room : next->room;
    next->arena = old->arena;
    next->host = old->host;
    old->arena = old->host = NULL;
}

static sl_status hand_over(move *m) {
    sl_binding *old = m->old, *b = m->next;
    SL_TRY(sl_alloc(&b->held, (size_t)b->shape.stages, sizeof *b->held));
    take_memory(m);
    for (int i = 0; i < old->helds; i++) {
        sl_held *from = &old->held[i];
        b->held[b->helds++] = (sl_held){.binding = b,
                                        .stage = from->stage,
                                        .number = from->number,
                                        .twin = from->twin ? &b->held[from->twin->index] : NULL,
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
    return SL_OK;
}

/* Uses free room of the arena, if it is left next to the old and the new stages. */
static sl_status open_room(move *m) {
    sl_arena *arena = m->old->arena;
    int count;
    SL_TRY(list_waiting(m->next, NULL, 1, 1, m->in, &count, &m->room_bytes));
    size_t stages = sl_arena_in_use(arena), fixed = m->next->need.fixed;
    stages = stages > fixed ? stages : fixed;
    if (m->next->device->host_memory && stages + m->room_bytes <= sl_arena_limit(arena))
        return sl_arena_take(arena, m->room_bytes, SL_ARENA_HIGH, "moving states", &m->room);
    m->room_on_host = 1; /* in small pages: freeing memory for large ones may take seconds */
    return sl_alloc(&m->room, m->room_bytes, 1);
}

static void close_room(move *m) {
    if (m->room_on_host)
        sl_free(m->room);
    else
        sl_arena_give(m->next->arena ? m->next->arena : m->old->arena, m->room);
    m->room = NULL;
}

static sl_status prepare(move *m) {
    sl_binding *old = m->old, *next = m->next;
    sl_run_position now = next->groups->position, before = old->groups->position;
    int kept = same_slices(now, before) && (!next->run->parallel.zero || now.replica == before.replica);
    int suffices = host_suffices(m) && sl_arena_extend(old->arena, next->limit, next->room);
    m->reception = !suffices ? ARRIVES : kept ? STAYS : WAITS;
    if (m->reception == STAYS)
        return hand_over(m);
    if (m->reception == WAITS)
        return open_room(m);
    SL_TRY(sl_binding_open_memory(next));
    return sl_binding_open_stages(next);
}

/* ---- moving ---- */

static sl_status list_in(const move *m, int stages, int shares, int *count) {
    size_t bytes;
    if (m->reception == WAITS)
        return list_waiting(m->next, m->room, stages, shares, m->in, count, &bytes);
    *count = list_held(m->next, stages, shares, m->in);
    return SL_OK;
}

/* From the device's memory, or to it, where the other side may be a waiting room on the host. */
static sl_status copy_blocks(const move *m, const sl_block *to, const sl_block *from, int count, int enters) {
    sl_device *device = m->next->device;
    void (*const copy)(sl_device *, void *, const void *, size_t) = !m->room_on_host ? device->copy
                                                                    : enters         ? device->write
                                                                                     : device->read;
    for (int i = 0; i < count; i++)
        copy(device, to[i].data, from[i].data, to[i].bytes);
    return device->finish(device);
}

/* Copies data that this process already has, but elsewhere. */
static sl_status copy_own(const move *m) {
    int shares = m->next->run->parallel.zero && m->stays, count;
    SL_TRY(list_in(m, 1, shares, &count));
    list_held(m->old, 1, shares, m->out);
    return copy_blocks(m, m->in, m->out, count, 0);
}

/* Blocks of the device as the host reaches them. */
static sl_status open_views(const move *m, sl_block *block, int count, int uses, sl_host_view *view) {
    for (int i = 0; i < count; i++) {
        SL_TRY(sl_host_view_open(m->next->device, block[i].data, block[i].bytes, uses, &view[i]));
        block[i].data = view[i].host;
    }
    return SL_OK;
}

static sl_status exchange_blocks(move *m, int gives, int takes) {
    const int waits = m->reception == WAITS;
    sl_status status = open_views(m, m->out, gives, SL_VIEW_READ, m->view);
    if (!waits)
        SL_THEN(status, open_views(m, m->in, takes, SL_VIEW_WRITE, m->view + gives));
    SL_THEN(status, sl_group_exchange(m->next->groups->world, m->out, gives, m->to, m->in, takes, m->from));
    for (int i = 0; i < gives + (waits ? 0 : takes); i++)
        status = sl_host_view_close(&m->view[i], status);
    return status;
}

static sl_status exchange(move *m, double *bytes) {
    const sl_binding *source = m->reception == STAYS ? m->next : m->old;
    int gives, takes;
    if (m->reception != STAYS && !m->takes)
        SL_TRY(copy_own(m));
    gives = list_held(source, m->gives, moves_shares(m), m->out);
    SL_TRY(list_in(m, m->takes, moves_shares(m), &takes));
    for (int i = 0; i < gives; i++)
        *bytes += (double)m->out[i].bytes;
    return exchange_blocks(m, gives, takes);
}

/* From the waiting buffer into stages in the place of the old ones. */
static sl_status enter(move *m) {
    int zero = m->next->run->parallel.zero, count;
    sl_binding_close_stages(m->old);
    take_memory(m);
    SL_TRY(sl_binding_open_stages(m->next));
    SL_TRY(list_in(m, 1, zero, &count));
    list_held(m->next, 1, zero, m->out);
    return copy_blocks(m, m->out, m->in, count, 1);
}

static sl_status carry_out(move *m, double *bytes) {
    SL_TRY(sl_alloc(&m->out, 2 * (size_t)all_blocks(m), sizeof *m->out));
    m->in = m->out + all_blocks(m);
    SL_TRY(sl_alloc(&m->view, 2 * (size_t)all_blocks(m), sizeof *m->view));
    SL_TRY(prepare(m));
    SL_TRY(exchange(m, bytes));
    if (m->reception == WAITS)
        SL_TRY(enter(m));
    else
        sl_binding_close_stages(m->old);
    for (int h = 0; h < m->next->helds; h++)
        SL_TRY(sl_model_weights_changed(m->next->held[h].model));
    return sl_binding_open_buffers(m->next);
}

sl_status sl_binding_move(sl_binding *old, const sl_run *run, const sl_groups *groups, int in_flight,
                          int hosted, const int *was, sl_binding **next, double *bytes) {
    move m = {.old = old};
    *bytes = 0;
    SL_TRY(sl_binding_make(run, groups, next));
    m.next = *next;
    m.next->config.without_weights = 1;
    m.next->data = old->data;
    m.next->device = old->device;
    old->data = NULL;
    old->device = NULL;
    find_partners(&m, was);
    sl_status status = sl_binding_size(m.next, in_flight, hosted);
    SL_THEN(status, carry_out(&m, bytes));
    close_room(&m);
    if (status == SL_OK) {
        sl_arena_restart_peak(m.next->arena);
    } else { /* the memory of both is its */
        old->device = m.next->device;
        m.next->device = NULL;
    }
    SL_FREE(m.out, m.view);
    return status;
}
