#include "notice/hang/pickle.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 32, SHARED_DEPTH = 6, SHARED_MAX = 4096, MAX_MEMO = 1 << 22, MAX_STACK = 1 << 22 };

/* A value of the stack; `value` NULL: a mark. */
typedef struct pickled {
    json_t *value;
    int depth;  /* of what it holds: jansson frees nested values by recursion */
    int shared; /* from the memo: nothing is added to it */
} pickled;

typedef struct memoized {
    json_t *value; /* NULL: none */
    size_t slot;   /* where it was on the stack */
} memoized;

typedef struct pickle {
    const char *name;
    const unsigned char *bytes;
    size_t size, at;
    pickled *stack;
    size_t count, capacity;
    memoized *memo;
    size_t memos, memo_room;
} pickle;

static sl_status refuse(const pickle *p, const char *why) {
    return sl_error(SL_EINVAL, "%s: byte %zu: %s", p->name, p->at, why);
}

static sl_status push(pickle *p, json_t *value, int depth) {
    if (p->count >= MAX_STACK) {
        json_decref(value);
        return refuse(p, "too many values");
    }
    sl_status status = sl_grow(&p->stack, &p->capacity, p->count + 1, sizeof *p->stack);
    if (status != SL_OK) {
        json_decref(value);
        return status;
    }
    p->stack[p->count++] = (pickled){.value = value, .depth = depth};
    return SL_OK;
}

static sl_status push_new(pickle *p, json_t *value) {
    return value ? push(p, value, 0) : sl_error(SL_ENOMEM, "out of memory for %s", p->name);
}

static sl_status take(pickle *p, size_t bytes, const unsigned char **from) {
    if (p->size - p->at < bytes)
        return refuse(p, "the pickle ends too early");
    *from = p->bytes + p->at;
    p->at += bytes;
    return SL_OK;
}

/* A number of 1 to 8 bytes, the lowest first. */
static sl_status number(pickle *p, size_t bytes, uint64_t *value) {
    const unsigned char *from = NULL;
    SL_TRY(take(p, bytes, &from));
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)from[i] << (8 * i);
    return SL_OK;
}

static sl_status push_text(pickle *p, size_t length_bytes) {
    uint64_t length;
    const unsigned char *from = NULL;
    SL_TRY(number(p, length_bytes, &length));
    if (length > p->size)
        return refuse(p, "a text is longer than the pickle");
    SL_TRY(take(p, (size_t)length, &from));
    json_t *text = json_stringn((const char *)from, (size_t)length);
    return push_new(p, text ? text : json_string("?"));
}

/* A signed number of any length, if it fits. */
static sl_status push_long(pickle *p) {
    uint64_t length, value = 0;
    SL_TRY(number(p, 1, &length));
    if (length > 8)
        return refuse(p, "a number of more than 64 bits");
    SL_TRY(number(p, (size_t)length, &value));
    if (length > 0 && length < 8 && value >> (8 * length - 1))
        value |= UINT64_MAX << (8 * length);
    return push_new(p, json_integer((json_int_t)value));
}

static sl_status push_real(pickle *p) {
    const unsigned char *from = NULL;
    uint64_t bits = 0;
    double value;
    SL_TRY(take(p, 8, &from));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | from[i];
    memcpy(&value, &bits, sizeof value);
    json_t *real = json_real(value);
    return push_new(p, real ? real : json_null()); /* not finite */
}

/* ---- the memo ---- */

static sl_status memoize(pickle *p, uint64_t at) {
    if (p->count == 0 || !p->stack[p->count - 1].value || at >= MAX_MEMO)
        return refuse(p, "wrong use of the memo");
    while (p->memos <= at) {
        SL_TRY(sl_grow(&p->memo, &p->memo_room, p->memos + 1, sizeof *p->memo));
        p->memo[p->memos++] = (memoized){0};
    }
    json_decref(p->memo[at].value);
    p->memo[at] = (memoized){json_incref(p->stack[p->count - 1].value), p->count - 1};
    return SL_OK;
}

/* The depth of a value that the dump uses several times; -1: deeper or larger than a list of frames. */
static int shared_depth(const json_t *value, int left, int *values) {
    size_t i;
    json_t *one;
    const char *key;
    int deepest = 0;
    if (left == 0 || --*values < 0)
        return -1;
    if (!json_is_array(value) && !json_is_object(value))
        return 0;
    json_array_foreach(value, i, one) {
        int depth = shared_depth(one, left - 1, values);
        if (depth < 0)
            return -1;
        deepest = depth + 1 > deepest ? depth + 1 : deepest;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, one) {
        int depth = shared_depth(one, left - 1, values);
        if (depth < 0)
            return -1;
        deepest = depth + 1 > deepest ? depth + 1 : deepest;
    }
    return deepest > 0 ? deepest : 1;
}

/* A list or table that is still being filled must not come to hold itself: it is still on its slot then. */
static sl_status recall(pickle *p, uint64_t at) {
    int values = SHARED_MAX;
    if (at >= p->memos || !p->memo[at].value)
        return refuse(p, "an unknown value of the memo");
    const memoized *m = &p->memo[at];
    const int holds = json_is_array(m->value) || json_is_object(m->value);
    const int depth = holds ? shared_depth(m->value, SHARED_DEPTH, &values) : 0;
    if (depth < 0 || (holds && m->slot < p->count && p->stack[m->slot].value == m->value))
        return refuse(p, "a list or table that is used twice and is too large, or holds itself");
    SL_TRY(push(p, json_incref(m->value), depth));
    p->stack[p->count - 1].shared = holds;
    return SL_OK;
}

/* ---- lists and tables ---- */

/* The position of the last mark; count: there is none. */
static size_t find_mark(const pickle *p) {
    size_t i = p->count;
    while (i > 0 && p->stack[i - 1].value)
        i--;
    return i > 0 ? i - 1 : p->count;
}

static sl_status hold(pickle *p, size_t holder, int depth) {
    if (depth >= DEEPEST)
        return refuse(p, "lists and tables are nested too deeply");
    if (p->stack[holder].depth < depth + 1)
        p->stack[holder].depth = depth + 1;
    return SL_OK;
}

static void drop_to(pickle *p, size_t count) {
    while (p->count > count)
        json_decref(p->stack[--p->count].value);
}

/* The values from `first` on go into the list below them. */
static sl_status append(pickle *p, size_t first, size_t below) {
    if (!p->stack[below].value || p->stack[below].shared || !json_is_array(p->stack[below].value))
        return refuse(p, "values without a list");
    for (size_t i = first; i < p->count; i++) {
        if (!p->stack[i].value)
            return refuse(p, "a mark within a list");
        SL_TRY(hold(p, below, p->stack[i].depth));
        if (json_array_append(p->stack[below].value, p->stack[i].value) != 0)
            return sl_error(SL_ENOMEM, "out of memory for %s", p->name);
    }
    drop_to(p, below + 1);
    return SL_OK;
}

static sl_status set_item(pickle *p, size_t below, size_t at) {
    char text[32];
    const json_t *key = p->stack[at].value;
    json_t *value = p->stack[at + 1].value;
    if (!key || !value || (!json_is_string(key) && !json_is_integer(key)))
        return refuse(p, "a key that is neither a text nor a number");
    SL_TRY(hold(p, below, p->stack[at + 1].depth));
    if (json_is_integer(key))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(key));
    if (json_object_set(p->stack[below].value, json_is_integer(key) ? text : json_string_value(key), value) !=
        0)
        return sl_error(SL_ENOMEM, "out of memory for %s", p->name);
    return SL_OK;
}

static sl_status set_items(pickle *p, size_t first, size_t below) {
    if (!p->stack[below].value || p->stack[below].shared || !json_is_object(p->stack[below].value) ||
        (p->count - first) % 2 != 0)
        return refuse(p, "keys and values without a table");
    for (size_t i = first; i < p->count; i += 2)
        SL_TRY(set_item(p, below, i));
    drop_to(p, below + 1);
    return SL_OK;
}

/* The last values, or those from the mark on, as a list. */
static sl_status make_list(pickle *p, size_t first, int mark) {
    json_t *list = json_array();
    int depth = 0;
    if (!list)
        return sl_error(SL_ENOMEM, "out of memory for %s", p->name);
    for (size_t i = first; i < p->count; i++) {
        if (!p->stack[i].value || p->stack[i].depth + 1 >= DEEPEST ||
            json_array_append(list, p->stack[i].value) != 0) {
            json_decref(list);
            return refuse(p, "a wrong tuple");
        }
        depth = p->stack[i].depth + 1 > depth ? p->stack[i].depth + 1 : depth;
    }
    drop_to(p, first - (size_t)mark);
    return push(p, list, depth);
}

static sl_status last_as_list(pickle *p, size_t count) {
    return p->count < count ? refuse(p, "a tuple of more values than there are")
                            : make_list(p, p->count - count, 0);
}

/* ---- opcodes ---- */

static sl_status from_mark(pickle *p, unsigned char code) {
    size_t mark = find_mark(p);
    if (mark == p->count)
        return refuse(p, "no mark");
    if (code == 't')
        return make_list(p, mark + 1, 1);
    if (mark == 0)
        return refuse(p, "nothing below the mark");
    const size_t first = mark + 1;
    return code == 'e' ? append(p, first, mark - 1) : set_items(p, first, mark - 1);
}

static sl_status step(pickle *p, unsigned char code) {
    uint64_t value = 0;
    switch (code) {
    case 0x80: /* PROTO */
        SL_TRY(number(p, 1, &value));
        return value >= 2 && value <= 5 ? SL_OK : refuse(p, "a protocol other than 2 to 5");
    case 0x95: /* FRAME */
        return number(p, 8, &value);
    case '(':
        return push(p, NULL, 0);
    case ']':
        return push_new(p, json_array());
    case '}':
        return push_new(p, json_object());
    case ')':
        return push_new(p, json_array());
    case 'N':
        return push_new(p, json_null());
    case 0x88:
        return push_new(p, json_true());
    case 0x89:
        return push_new(p, json_false());
    case 'K':
        SL_TRY(number(p, 1, &value));
        return push_new(p, json_integer((json_int_t)value));
    case 'M':
        SL_TRY(number(p, 2, &value));
        return push_new(p, json_integer((json_int_t)value));
    case 'J':
        SL_TRY(number(p, 4, &value));
        return push_new(p, json_integer((int32_t)(uint32_t)value));
    case 0x8a:
        return push_long(p);
    case 'G':
        return push_real(p);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'C':  /* SHORT_BINBYTES */
    case 'U':  /* SHORT_BINSTRING */
        return push_text(p, 1);
    case 'X':
    case 'B':
        return push_text(p, 4);
    case 0x8d: /* BINUNICODE8 */
        return push_text(p, 8);
    case 'q':
        SL_TRY(number(p, 1, &value));
        return memoize(p, value);
    case 'r':
        SL_TRY(number(p, 4, &value));
        return memoize(p, value);
    case 0x94: /* MEMOIZE */
        return memoize(p, p->memos);
    case 'h':
        SL_TRY(number(p, 1, &value));
        return recall(p, value);
    case 'j':
        SL_TRY(number(p, 4, &value));
        return recall(p, value);
    case 0x85:
    case 0x86:
    case 0x87:
        return last_as_list(p, (size_t)(code - 0x84));
    case 't':
    case 'e':
    case 'u':
        return from_mark(p, code);
    case 'a':
        return p->count < 2 ? refuse(p, "nothing to append") : append(p, p->count - 1, p->count - 2);
    case 's':
        return p->count < 3 ? refuse(p, "nothing to set") : set_items(p, p->count - 2, p->count - 3);
    case 'c':
    case 'R':
    case 'o':
    case 'i':
    case 'b':
    case 0x81:
    case 0x92:
    case 0x93:
        return refuse(p, "an opcode that runs code: no flight recorder writes it");
    default:
        return refuse(p, "an opcode that no flight recorder writes");
    }
}

static sl_status read_all(pickle *p) {
    const unsigned char *code = NULL;
    for (;;) {
        SL_TRY(take(p, 1, &code));
        if (*code == '.')
            break;
        SL_TRY(step(p, *code));
    }
    return p->count == 1 && p->stack[0].value ? SL_OK : refuse(p, "not one value");
}

sl_status sl_pickle_read(const char *name, const void *bytes, size_t size, json_t **json) {
    pickle p = {.name = name, .bytes = bytes, .size = size};
    *json = NULL;
    sl_status status = read_all(&p);
    if (status == SL_OK)
        *json = json_incref(p.stack[0].value);
    drop_to(&p, 0);
    for (size_t i = 0; i < p.memos; i++)
        json_decref(p.memo[i].value);
    SL_FREE(p.stack, p.memo);
    return status;
}
