#include "notice/message/gate_view.h"

static void look_at_thread(const sl_gate_thread *thread, uint32_t channels, sl_gate_view_thread *view) {
    uint64_t word = atomic_load_explicit(&thread->word, memory_order_acquire);
    view->state = (sl_gate_state)(word & 0xff);
    view->serial = word >> 8;
    view->forbidden = (int)atomic_load(&thread->forbidden);
    view->entries = 0;
    if (view->state > SL_GATE_PARKED) { /* from outside: nothing is known of it */
        view->state = SL_GATE_MOVING;
        return;
    }
    int loops =
        view->state == SL_GATE_OUTSIDE && view->forbidden; /* perhaps on Test, which may not park there */
    if (view->state != SL_GATE_INSIDE && view->state != SL_GATE_PARKED && !loops)
        return;
    uint32_t count = atomic_load_explicit(&thread->count, memory_order_acquire);
    for (uint32_t i = 0; i < count && i < SL_GATE_ENTRIES; i++) {
        uint64_t number = atomic_load_explicit(&thread->entry[i].number, memory_order_acquire);
        uint32_t channel = atomic_load_explicit(&thread->entry[i].channel, memory_order_acquire);
        if (channel < channels && (!loops || (number & SL_GATE_NEED)))
            view->entry[view->entries++] = (sl_gate_view_entry){
                .channel = channel, .need = (number & SL_GATE_NEED) != 0, .number = number & ~SL_GATE_NEED};
    }
}

static uint32_t limited(uint32_t value, uint32_t most) {
    return value < most ? value : most;
}

/* Anything that changed during the look is moving, and its list may be torn. */
static void drop_what_moved(const sl_gate *gate, sl_gate_view *view) {
    for (uint32_t i = 0; i < view->threads; i++) {
        sl_gate_view_thread *thread = &view->thread[i];
        uint64_t word = atomic_load(&gate->thread[i].word);
        if (word >> 8 == thread->serial && (word & 0xff) == (uint64_t)thread->state)
            continue;
        thread->state = SL_GATE_MOVING;
        thread->serial = word >> 8;
        thread->entries = 0;
    }
}

static void subtract_parked(sl_gate_view *view) {
    for (uint32_t i = 0; i < view->threads; i++)
        for (uint32_t j = 0; view->thread[i].state == SL_GATE_PARKED && j < view->thread[i].entries; j++) {
            const sl_gate_view_entry *entry = &view->thread[i].entry[j];
            sl_gate_view_channel *channel = &view->channel[entry->channel];
            if (!entry->need && entry->number > 0 && channel->entered >= entry->number)
                channel->entered = entry->number - 1;
        }
}

void sl_gate_look(const sl_gate *gate, sl_gate_view *view) {
    view->rank = gate->rank;
    view->held = atomic_load(&gate->hold) != 0;
    view->finished = (int)atomic_load(&gate->finished);
    view->threads = limited(atomic_load(&gate->threads), SL_GATE_THREADS);
    /* Channels are counted again below: a thread may list one that was made meanwhile. */
    for (uint32_t i = 0; i < view->threads; i++)
        look_at_thread(&gate->thread[i], SL_GATE_CHANNELS, &view->thread[i]);
    view->channels = limited(atomic_load(&gate->channels), SL_GATE_CHANNELS);
    view->calls = 0;
    for (uint32_t i = 0; i < view->channels; i++) {
        const sl_gate_channel *channel = &gate->channel[i];
        sl_gate_view_channel *seen = &view->channel[i];
        *seen = (sl_gate_view_channel){0};
        if (!atomic_load_explicit(&channel->ready, memory_order_acquire))
            continue;
        seen->ready = 1;
        seen->key = channel->key;
        seen->announced = seen->entered = atomic_load(&channel->announced);
        seen->due = atomic_load(&channel->due);
        seen->target = atomic_load(&channel->target);
        view->calls += seen->key.kind != SL_CHANNEL_WINDOW ? seen->announced : 0;
    }
    view->overflow = (int)atomic_load(&gate->overflow);
    view->wild = atomic_load(&gate->wild);
    uint64_t drained = atomic_load(&gate->drained); /* before enqueued, which may only make it look busier */
    view->drained = drained == atomic_load(&gate->enqueued);
    drop_what_moved(gate, view);
    for (uint32_t i = 0; i < view->threads; i++) /* entries of channels beyond the count are from outside */
        for (uint32_t j = 0; j < view->thread[i].entries; j++)
            if (view->thread[i].entry[j].channel >= view->channels)
                view->thread[i].entries = j;
    subtract_parked(view);
}
