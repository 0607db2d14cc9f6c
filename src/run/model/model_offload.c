#include "run/model/transformer_inside.h"

/* Moves the kept data of a microbatch to host memory and back: the same bytes at other addresses. */

void sl_model_set_host(sl_model_stage *s, sl_arena *host) {
    s->host = host;
}

/* Takes both blocks before copying either, so that a failure leaves everything unchanged. */
static sl_status take(const sl_model_stage *s, const sl_kept *k, sl_arena *to, const char *what,
                      sl_kept *moved) {
    SL_TRY(sl_arena_take(to, s->forward_bytes, SL_ARENA_LOW, what, &moved->forward));
    if (!k->backward)
        return SL_OK;
    sl_status status = sl_arena_take(to, s->backward_bytes, SL_ARENA_HIGH, what, &moved->backward);
    if (status != SL_OK)
        sl_arena_give(to, moved->forward);
    return status;
}

static sl_status move(const sl_model_stage *s, sl_kept *k, sl_arena *from, sl_arena *to, const char *what) {
    void (*const copy)(sl_device *, void *, const void *, size_t) =
        to == s->host ? s->device->read : s->device->write;
    sl_kept moved = *k;
    SL_TRY(take(s, k, to, what, &moved));
    moved.away = to == s->host;
    if (k->backward)
        copy(s->device, moved.backward, k->backward, s->layout.backward * sizeof(float));
    copy(s->device, moved.forward, k->forward, s->layout.forward * sizeof(float));
    SL_TRY(s->device->finish(s->device)); /* after a failure the blocks may still be written */
    sl_arena_give(from, k->forward);
    sl_arena_give(from, k->backward);
    *k = moved;
    return SL_OK;
}

static sl_status may_move(const sl_model_stage *s, int microbatch, int away, const char *what) {
    if (!s->host)
        return sl_error(SL_EINVAL, "%s of microbatch %d: the stage has no host memory", what, microbatch);
    if (microbatch < 0 || microbatch >= s->microbatches)
        return sl_error(SL_EINVAL, "%s of microbatch %d: the iteration has %d", what, microbatch,
                        s->microbatches);
    const sl_kept *k = &s->kept[microbatch];
    if (!k->forward || k->away != away)
        return sl_error(SL_EINVAL, "%s of microbatch %d is out of turn", what, microbatch);
    return SL_OK;
}

sl_status sl_model_offload(sl_model_stage *s, int microbatch) {
    SL_TRY(may_move(s, microbatch, 0, "offload"));
    return move(s, &s->kept[microbatch], s->arena, s->host, "a microbatch moved to the host");
}

sl_status sl_model_fetch(sl_model_stage *s, int microbatch) {
    SL_TRY(may_move(s, microbatch, 1, "fetch"));
    return move(s, &s->kept[microbatch], s->host, s->arena, "a microbatch brought back from the host");
}
