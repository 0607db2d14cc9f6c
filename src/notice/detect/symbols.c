#include "notice/detect/symbols.h"

#include "base/memory.h"
#include "base/random.h"

static size_t place_of(const sl_symbol *symbol) {
    uint64_t mixed = sl_random_mix(symbol->communicator + SL_RANDOM_STEP);
    mixed = sl_random_mix(mixed ^ symbol->bytes);
    return (size_t)sl_random_mix(mixed ^ ((uint64_t)(uint32_t)symbol->peer << 32 | symbol->call));
}

static int same(const sl_symbol *a, const sl_symbol *b) {
    return a->communicator == b->communicator && a->bytes == b->bytes && a->peer == b->peer &&
           a->call == b->call;
}

/* The slot that holds `symbol`, or the free one where it belongs. */
static size_t find(const sl_symbols *symbols, const sl_symbol *symbol) {
    size_t at = place_of(symbol) & (symbols->slots - 1);
    while (symbols->slot[at] && !same(&symbols->seen[symbols->slot[at] - 1].symbol, symbol))
        at = (at + 1) & (symbols->slots - 1);
    return at;
}

static sl_status widen(sl_symbols *symbols) {
    size_t slots = symbols->slots ? 2 * symbols->slots : 256;
    uint32_t *slot;
    SL_TRY(sl_alloc(&slot, slots, sizeof *slot));
    sl_free(symbols->slot);
    symbols->slot = slot;
    symbols->slots = slots;
    for (size_t i = 0; i < symbols->symbols; i++)
        symbols->slot[find(symbols, &symbols->seen[i].symbol)] = (uint32_t)i + 1;
    return SL_OK;
}

sl_status sl_symbols_note(sl_symbols *symbols, const sl_symbol *symbol, uint64_t position, uint32_t *number) {
    if (2 * (symbols->symbols + 1) > symbols->slots)
        SL_TRY(widen(symbols));
    size_t at = find(symbols, symbol);
    if (!symbols->slot[at]) {
        SL_TRY(sl_grow(&symbols->seen, &symbols->capacity, symbols->symbols + 1, sizeof *symbols->seen));
        symbols->seen[symbols->symbols] = (sl_seen){.symbol = *symbol, .last = position};
        symbols->slot[at] = (uint32_t)++symbols->symbols;
    }
    *number = symbols->slot[at] - 1;
    sl_seen *seen = &symbols->seen[*number];
    if (position - seen->last > seen->widest)
        seen->widest = position - seen->last;
    seen->last = position;
    seen->count++;
    return SL_OK;
}

void sl_symbols_close(sl_symbols *symbols) {
    SL_FREE(symbols->seen, symbols->slot);
    *symbols = (sl_symbols){0};
}
