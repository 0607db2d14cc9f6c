#include "notice/detect/period.h"
#include "base/memory.h"
#include "base/random.h"

#include <string.h>

/* Symbols of a call sequence as small numbers, by exact comparison, with when each was seen. */

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

/* More different symbols are not kept: the caller starts over. */
#define SL_SYMBOLS_MAX 65536

static size_t slot_of(const sl_symbol *symbol) {
    uint64_t mixed = sl_random_mix(symbol->communicator + SL_RANDOM_STEP);
    mixed = sl_random_mix(mixed ^ symbol->bytes);
    return (size_t)sl_random_mix(mixed ^ ((uint64_t)(uint32_t)symbol->peer << 32 | symbol->call));
}

static int same(const sl_symbol *a, const sl_symbol *b) {
    return a->communicator == b->communicator && a->bytes == b->bytes && a->peer == b->peer &&
           a->call == b->call;
}

/* The slot of `symbol`, or the free one for it. */
static size_t find(const sl_symbols *symbols, const sl_symbol *symbol) {
    size_t at = slot_of(symbol) & (symbols->slots - 1);
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

/* The number of `symbol`, called at `position`; new ones get the next number. SL_ENOMEM. */
static sl_status sl_symbols_note(sl_symbols *symbols, const sl_symbol *symbol, uint64_t position,
                                 uint32_t *number) {
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

static void sl_symbols_close(sl_symbols *symbols) {
    SL_FREE(symbols->seen, symbols->slot);
    *symbols = (sl_symbols){0};
}

#define HISTORY 65536
#define ROOM 256       /* calls that there is room for at first */
#define FIRST_SEARCH 8 /* calls before the first search */
#define POOR 6         /* a loop of at most this many different calls may be inside an iteration */
#define ROUNDS_POOR 128
#define ROUNDS_RICH 4
#define VISITS 6
#define LOOP_MAX 32

struct sl_period {
    sl_symbols symbols;
    uint32_t *number;     /* [history] symbols of the last calls, by position modulo history */
    int64_t *start;       /* [history] */
    size_t history, most; /* there is room for; a power of two, which grows with the calls up to `most` */
    uint64_t calls;       /* so far */
    uint64_t begin;       /* first position that counts: all symbols were forgotten there */
    uint64_t search;      /* position of the next search */
    uint32_t *template;   /* [period], followed by the automaton's failure links in `fail` */
    int *fail;
    int period, state;
    uint64_t whole_end; /* position after the last complete period; 0: none */
    uint64_t whole, in_step_calls;
    uint64_t searched, whole_then; /* calls and whole periods at the last search */
    int lost, turned;
    uint32_t *reversed; /* for a search: [history] each */
    uint32_t *match, *room, *mark;
    size_t marks;
    sl_period_iteration *queue;
    size_t queued, taken, queue_capacity;
};

/* Room for twice as many calls. Before the first has been replaced, positions are indices. */
static sl_status remember_more(sl_period *p, size_t size) {
    void *const array[] = {&p->number, &p->start, &p->reversed, &p->match, &p->room, &p->template, &p->fail};
    const size_t item[] = {sizeof *p->number, sizeof *p->start,    sizeof *p->reversed, sizeof *p->match,
                           sizeof *p->room,   sizeof *p->template, sizeof *p->fail};
    for (size_t i = 0; i < sizeof item / sizeof item[0]; i++) {
        size_t had = p->history;
        SL_TRY(sl_grow(array[i], &had, size, item[i]));
    }
    p->history = size;
    return SL_OK;
}

sl_status sl_period_open(size_t history, sl_period **period) {
    sl_period *p;
    *period = NULL;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    for (p->most = 64; p->most < (history ? history : HISTORY);)
        p->most *= 2;
    p->search = FIRST_SEARCH;
    sl_status status = remember_more(p, p->most < ROOM ? p->most : ROOM);
    if (status != SL_OK)
        sl_period_close(p);
    else
        *period = p;
    return status;
}

void sl_period_close(sl_period *p) {
    if (!p)
        return;
    sl_symbols_close(&p->symbols);
    SL_FREE(p->number, p->start, p->reversed, p->match, p->room, p->mark, p->template, p->fail, p->queue, p);
}

static uint32_t number_at(const sl_period *p, uint64_t position) {
    return p->number[position & (p->history - 1)];
}

static int64_t start_at(const sl_period *p, uint64_t position) {
    return p->start[position & (p->history - 1)];
}

/* ---- following the template ---- */

static void link_failures(sl_period *p) {
    p->fail[0] = -1;
    for (int i = 0, state = -1; i < p->period;) {
        while (state >= 0 && p->template[i] != p->template[state])
            state = p->fail[state];
        p->fail[++i] = ++state;
    }
}

static sl_status finish(sl_period *p, uint64_t first, uint64_t next) {
    if (p->taken == p->queued)
        p->taken = p->queued = 0;
    SL_TRY(sl_grow(&p->queue, &p->queue_capacity, p->queued + 1, sizeof *p->queue));
    p->queue[p->queued++] = (sl_period_iteration){.start = start_at(p, first),
                                                  .time = start_at(p, next) - start_at(p, first),
                                                  .first = first,
                                                  .period = p->period};
    return SL_OK;
}

/* Where iterations end in something else, there they begin. */
static void turn(sl_period *p, int by) {
    uint32_t *room = p->room;
    for (int i = 0; i < p->period; i++)
        room[i] = p->template[(i + by) % p->period];
    memcpy(p->template, room, (size_t)p->period * sizeof *room);
    link_failures(p);
    p->turned = 1;
}

/* The call at `position` through the automaton. */
static sl_status follow(sl_period *p, uint64_t position) {
    uint32_t symbol = number_at(p, position);
    int before = p->state;
    while (p->state >= 0 && p->template[p->state] != symbol)
        p->state = p->fail[p->state];
    p->state++;
    int went_on = p->state == before + 1;
    if (!went_on) {
        p->lost = 1;
        if (!p->turned && before > 0 && p->whole_end && p->whole_end + (uint64_t)before == position) {
            turn(p, before);
            p->state = p->template[0] == symbol;
        }
    } else if (p->state == 1 && p->whole_end && p->whole_end == position &&
               position - (uint64_t)p->period >= p->begin)
        SL_TRY(finish(p, position - (uint64_t)p->period, position));
    if (p->state == p->period) {
        p->whole_end = position + 1;
        p->whole++;
        p->in_step_calls += (uint64_t)p->period;
        p->state = 0;
    }
    return SL_OK;
}

/* The last `period` of the last `matched` calls is the template; those calls are followed again. */
static sl_status begin_template(sl_period *p, int period, size_t matched) {
    p->period = period;
    p->state = 0;
    p->whole_end = p->whole = p->whole_then = p->in_step_calls = 0;
    p->lost = p->turned = 0;
    uint64_t first = p->calls - matched;
    for (int i = 0; i < period; i++)
        p->template[i] = number_at(p, first + (uint64_t)i);
    link_failures(p);
    for (uint64_t i = first; i < p->calls; i++)
        SL_TRY(follow(p, i));
    return SL_OK;
}

/* ---- searching ---- */

/* match[k]: how many of the latest calls equal those k earlier (Z function of the reversed history). */
static void correlate(sl_period *p, size_t length) {
    for (size_t i = 0; i < length; i++)
        p->reversed[i] = number_at(p, p->calls - 1 - i);
    size_t left = 0, right = 0;
    p->match[0] = (uint32_t)length;
    for (size_t i = 1; i < length; i++) {
        size_t n = 0;
        if (i < right)
            n = p->match[i - left] < right - i ? p->match[i - left] : right - i;
        while (i + n < length && p->reversed[n] == p->reversed[i + n])
            n++;
        p->match[i] = (uint32_t)n;
        if (i + n > right) {
            left = i;
            right = i + n;
        }
    }
}

/* Marks the symbols of a body of `lag` calls with `lag`; how many different ones. */
static size_t mark_loop(sl_period *p, const uint32_t *body, size_t lag) {
    size_t different = 0;
    for (size_t i = 0; i < lag; i++)
        if (p->mark[body[i]] != lag) {
            p->mark[body[i]] = (uint32_t)lag;
            different++;
        }
    return different;
}

/* The next call of the body, which goes round, that differs from the one at `i`. */
static size_t next_other(const uint32_t *body, size_t lag, size_t i) {
    size_t at = i;
    do
        at++;
    while (at < i + lag && body[at % lag] == body[i % lag]);
    return at;
}

/* Whether three rounds of a loop of 2 to 32 different calls in a row are inside the body; repetitions of a
 * call in a row count as one. */
static int holds_loop(sl_period *p, const uint32_t *body, size_t lag) {
    size_t count = 0;
    uint32_t *rest = p->room;
    for (size_t i = 0; i < lag && count < p->history; i = next_other(body, lag, i))
        rest[count++] = body[i];
    for (size_t step = 2; step <= LOOP_MAX && 3 * step < count; step++)
        for (size_t i = 0, same = 0; i < 2 * count && same < count; i++) {
            same = rest[i % count] == rest[(i + step) % count] ? same + 1 : 0;
            if (same == 2 * step)
                return 1;
        }
    return 0;
}

/* How often the program went to calls of `symbol` and stayed away for more than a round of the loop. */
static int visits(const sl_period *p, uint32_t symbol, size_t lag, size_t length) {
    int count = 0;
    size_t last = length;
    for (size_t i = 0; i < length; i++)
        if (p->reversed[i] == symbol) {
            count += last == length || i - last > lag;
            last = i;
        }
    return count;
}

/* Whether no symbol outside the body keeps recurring: else it is not the whole iteration. */
static int spans(sl_period *p, const uint32_t *body, size_t lag, size_t length, int patient) {
    int rich = mark_loop(p, body, lag) > POOR || holds_loop(p, body, lag);
    size_t rounds = rich ? ROUNDS_RICH : ROUNDS_POOR;
    for (size_t s = 0; s < p->symbols.symbols; s++) {
        const sl_seen *seen = &p->symbols.seen[s];
        uint64_t away = p->calls - 1 - seen->last;
        if (p->mark[s] == lag || seen->count < 2 || away > 2 * seen->widest || seen->widest > rounds * lag)
            continue;
        if (patient || visits(p, (uint32_t)s, lag, length) < VISITS)
            return 0;
    }
    return 1;
}

/* Whether a found lag may replace the template: it contains the template's symbols, or it has lasted for half
 * as long as the template did. */
static int may_replace(sl_period *p, size_t lag, size_t matched) {
    if (!p->period || matched > p->in_step_calls / 2)
        return 1;
    mark_loop(p, p->reversed, lag);
    for (int i = 0; i < p->period; i++)
        if (p->mark[p->template[i]] != lag)
            return 0;
    return 1;
}

static sl_status make_marks(sl_period *p) {
    SL_TRY(sl_grow(&p->mark, &p->marks, p->symbols.symbols, sizeof *p->mark));
    memset(p->mark, 0, p->marks * sizeof *p->mark);
    return SL_OK;
}

/* The smallest lag that matches over three periods and spans; 0: none. As far as the calls repeat at a lag
 * that does not span, longer lags have the same symbols and do not span either. */
static size_t find_lag(sl_period *p, size_t length, int patient) {
    size_t reach = 0;
    for (size_t lag = 1; 3 * lag <= length; lag++) {
        if (lag <= reach || p->match[lag] < 2 * lag)
            continue;
        if (spans(p, p->reversed, lag, length, patient))
            return lag;
        reach = p->match[lag] + lag > reach ? p->match[lag] + lag : reach;
    }
    return 0;
}

/* Whether most calls since the last search were complete periods, so no longer period is searched. */
static int keeps_template(sl_period *p, size_t length) {
    uint64_t whole = (p->whole - p->whole_then) * (uint64_t)p->period;
    return p->period && 2 * whole >= p->calls - p->searched &&
           spans(p, p->template, (size_t)p->period, length, 1);
}

static sl_status search(sl_period *p) {
    uint64_t known = p->calls - p->begin;
    size_t length = known < p->history ? (size_t)known : p->history;
    SL_TRY(make_marks(p));
    correlate(p, length);
    int kept = keeps_template(p, length);
    p->searched = p->calls;
    p->whole_then = p->whole;
    size_t lag = kept ? (size_t)p->period : find_lag(p, length, 1);
    if (!lag && !p->period)
        lag = find_lag(p, length, 0);
    p->search = p->calls + (length / 4 > FIRST_SEARCH ? length / 4 : FIRST_SEARCH);
    p->lost = 0;
    if (!lag || lag == (size_t)p->period || !may_replace(p, lag, p->match[lag] + lag))
        return SL_OK;
    return begin_template(p, (int)lag, p->match[lag] + lag);
}

/* A program whose calls are all different leaves nothing to compare with: forgets everything. */
static void forget(sl_period *p) {
    sl_symbols_close(&p->symbols);
    p->begin = p->calls;
    p->period = 0;
    p->search = p->calls + FIRST_SEARCH;
}

sl_status sl_period_add(sl_period *p, const sl_symbol *symbol, int64_t start) {
    if (p->symbols.symbols >= SL_SYMBOLS_MAX)
        forget(p);
    if (p->calls == p->history && p->history < p->most)
        SL_TRY(remember_more(p, 2 * p->history));
    size_t at = (size_t)p->calls & (p->history - 1);
    SL_TRY(sl_symbols_note(&p->symbols, symbol, p->calls, &p->number[at]));
    p->start[at] = start;
    p->calls++;
    if (p->period)
        SL_TRY(follow(p, p->calls - 1));
    if (p->calls >= p->search && (!p->period || p->lost))
        return search(p);
    return SL_OK;
}

sl_status sl_period_end(sl_period *p) {
    return p->calls > p->begin && (!p->period || p->lost) ? search(p) : SL_OK;
}

int sl_period_take(sl_period *p, sl_period_iteration *iteration) {
    if (p->taken == p->queued)
        return 0;
    *iteration = p->queue[p->taken++];
    return 1;
}

int sl_period_calls(const sl_period *p) {
    return p->period;
}
