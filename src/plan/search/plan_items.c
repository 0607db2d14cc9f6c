#include "plan/search/plan_items.h"
#include "plan/pipeline/problem.h"

#include <string.h>

enum { WHOLE_DIGITS = 9, FRACTION_DIGITS = 6 }; /* of ms: exact as ns, also as a double */

static int take(const char **at, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return 0;
    *at += length;
    return 1;
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int take_digits(const char **at, int most, int64_t *value, int *count) {
    *value = 0;
    for (*count = 0; is_digit(**at); ++*at, ++*count) {
        if (*count == most)
            return 0;
        *value = 10 * *value + (**at - '0');
    }
    return *count > 0;
}

static int take_number(const char **at, const char *key, int most, int32_t *number) {
    int64_t value;
    int count;
    if (!take(at, key) || (**at == '0' && is_digit((*at)[1])) ||
        !take_digits(at, WHOLE_DIGITS, &value, &count) || value > most)
        return 0;
    *number = (int32_t)value;
    return 1;
}

static int take_time(const char **at, const char *key, sl_time *time) {
    int64_t whole, part;
    int count;
    if (!take(at, key) || (**at == '0' && is_digit((*at)[1])) ||
        !take_digits(at, WHOLE_DIGITS, &whole, &count) || !take(at, ".") ||
        !take_digits(at, FRACTION_DIGITS, &part, &count))
        return 0;
    for (; count < FRACTION_DIGITS; count++)
        part *= 10;
    *time = whole * SL_MS + part;
    return 1;
}

static int take_kind(const char **at, int kinds, int32_t *kind) {
    if (!take(at, ", \"op\": \""))
        return 0;
    for (*kind = 0; *kind < kinds; ++*kind) {
        const char *after = *at;
        if (take(&after, sl_op_name(*kind)) && take(&after, "\"")) {
            *at = after;
            return 1;
        }
    }
    return 0;
}

int sl_plan_item_span(const char *text, sl_span *s) {
    int32_t part = 0;
    *s = (sl_span){0};
    if (!take_number(&text, "{\"rank\": ", SL_MAX_RANKS - 1, &s->rank) ||
        !take_kind(&text, SL_SPAN_KINDS, &s->op.kind) ||
        !take_number(&text, ", \"stage\": ", SL_MAX_STAGES - 1, &s->op.stage) ||
        !take_number(&text, ", \"microbatch\": ", SL_MAX_MICROBATCHES - 1, &s->op.microbatch) ||
        !take_time(&text, ", \"start_ms\": ", &s->start) || !take_time(&text, ", \"end_ms\": ", &s->end))
        return 0;
    if (*text == ',' && !take_number(&text, ", \"part\": ", SL_MAX_PARTS - 1, &part))
        return 0;
    s->op.part = (int16_t)part;
    return strcmp(text, "}") == 0 && s->start <= s->end;
}

int sl_plan_item_transfer(const char *text, sl_transfer *t) {
    *t = (sl_transfer){0};
    return take_number(&text, "{\"from\": ", SL_MAX_RANKS - 1, &t->from) &&
           take_number(&text, ", \"to\": ", SL_MAX_RANKS - 1, &t->to) &&
           take_kind(&text, SL_OP_KINDS, &t->op.kind) &&
           take_number(&text, ", \"stage\": ", SL_MAX_STAGES - 1, &t->op.stage) &&
           take_number(&text, ", \"microbatch\": ", SL_MAX_MICROBATCHES - 1, &t->op.microbatch) &&
           take_time(&text, ", \"start_ms\": ", &t->start) && take_time(&text, ", \"end_ms\": ", &t->end) &&
           take_time(&text, ", \"arrive_ms\": ", &t->arrive) && strcmp(text, "}") == 0 &&
           t->start <= t->end && t->end <= t->arrive;
}
