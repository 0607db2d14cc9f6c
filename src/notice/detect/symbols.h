/* Symbols of a call sequence as small numbers, by exact comparison, with when each was seen. */
#ifndef SL_NOTICE_DETECT_SYMBOLS_H
#define SL_NOTICE_DETECT_SYMBOLS_H

#include "notice/detect/period.h"

typedef struct sl_seen {
    sl_symbol symbol;
    uint64_t last;   /* position of its last call */
    uint64_t widest; /* largest distance between two of its calls that follow each other */
    uint64_t count;
} sl_seen;

typedef struct sl_symbols {
    sl_seen *seen; /* [symbols] */
    size_t symbols, capacity;
    uint32_t *slot; /* open addressing: number + 1, 0: free */
    size_t slots;   /* a power of two */
} sl_symbols;

/** More different symbols than that are not kept: the caller starts anew. */
#define SL_SYMBOLS_MOST 65536

/** The number of `symbol`, called at `position`; new ones get the next number. SL_ENOMEM. */
sl_status sl_symbols_note(sl_symbols *symbols, const sl_symbol *symbol, uint64_t position, uint32_t *number);
void sl_symbols_close(sl_symbols *symbols);

#endif
