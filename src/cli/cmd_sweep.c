/* --schedules and --sweep: the request of `compare`. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/comparison.h"
#include "plan/family/family.h"
#include "plan/pipeline/other_placement.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- items of a list ---- */

/* Length of the item at `text`: up to a comma outside brackets. */
static size_t item_length(const char *text) {
    int depth = 0;
    const char *c = text;
    for (; *c && (*c != ',' || depth > 0); c++)
        depth += (*c == '[' || *c == '{') - (*c == ']' || *c == '}');
    return (size_t)(c - text);
}

static sl_status copy_item(const char *text, size_t length, char **item) {
    SL_TRY(sl_alloc(item, length + 1, 1));
    memcpy(*item, text, length);
    return SL_OK;
}

/* ---- schedules ---- */

#define MAX_NAMES 64

static int list_names(const char **names) {
    int count = 0;
    names[count++] = "auto";
    names[count++] = "optimal";
    for (const sl_family *family = sl_families; family->name && count < MAX_NAMES - 1; family++)
        names[count++] = family->name;
    names[count] = NULL;
    return count;
}

static sl_status refuse_name(const char *name) {
    const char *names[MAX_NAMES], *near;
    char known[1024] = "";
    int count = list_names(names);
    if ((near = sl_suggest(name, names)) != NULL)
        return sl_error(SL_EINVAL, "--schedules: unknown schedule '%s'; did you mean '%s'?", name, near);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    return sl_error(SL_EINVAL, "--schedules: unknown schedule '%s'; known: %s", name, known);
}

static sl_status read_schedule(sl_compared *s) {
    const char *at = strchr(s->text, '@');
    size_t length = at ? (size_t)(at - s->text) : strlen(s->text);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), s->text);
    if (length >= sizeof s->name ||
        (strcmp(name, "auto") != 0 && strcmp(name, "optimal") != 0 && !sl_family_find(name)))
        return refuse_name(name);
    memcpy(s->name, name, length + 1);
    s->placement = at ? sl_placement_find(at + 1) : -1;
    if (at && s->placement < 0)
        return sl_error(SL_EINVAL,
                        "--schedules: unknown placement '%s'; known: linear, loop, wave, bidirectional",
                        at + 1);
    return SL_OK;
}

static sl_status add_schedule(const char *text, size_t length, sl_compared **schedule, size_t *capacity,
                              int *count) {
    SL_TRY(sl_grow(schedule, capacity, (size_t)*count + 1, sizeof **schedule));
    sl_compared *added = &(*schedule)[(*count)++];
    SL_TRY(copy_item(text, length, &added->text));
    SL_TRY(read_schedule(added));
    for (int i = 0; i + 1 < *count; i++)
        if (strcmp((*schedule)[i].text, added->text) == 0)
            return sl_error(SL_EINVAL, "--schedules: '%s' is listed twice", added->text);
    return SL_OK;
}

sl_status sl_compared_read(const char *text, const sl_problem *problem, sl_compared **schedule, int *count) {
    size_t capacity = 0;
    *schedule = NULL;
    *count = 0;
    for (const sl_family *family = sl_families; !text && family->name; family++)
        if (sl_family_fits(family, problem))
            SL_TRY(add_schedule(family->name, strlen(family->name), schedule, &capacity, count));
    if (!text)
        return add_schedule("auto", 4, schedule, &capacity, count);
    for (const char *c = text;; c++) {
        size_t length = item_length(c);
        if (length == 0)
            return sl_error(SL_EINVAL, "--schedules: an empty name in '%s'", text);
        SL_TRY(add_schedule(c, length, schedule, &capacity, count));
        c += length;
        if (!*c)
            return SL_OK;
    }
}

void sl_compared_free(sl_compared *schedule, int count) {
    for (int i = 0; i < count; i++)
        sl_free(schedule[i].text);
    sl_free(schedule);
}

/* ---- decimals without rounding ---- */

#define MAX_DIGITS 15 /* of a number of a range, so that sums stay inside int64 */

typedef struct decimal {
    int64_t digits; /* the number is digits / 10^decimals */
    int decimals;
} decimal;

static int read_decimal(const char *text, size_t length, decimal *number) {
    size_t i = 0;
    int negative = length > 0 && text[0] == '-', count = 0, dot = 0;
    *number = (decimal){0};
    for (i = length > 0 && (text[0] == '-' || text[0] == '+'); i < length; i++) {
        if (text[i] == '.' && !dot) {
            dot = 1;
        } else if (isdigit((unsigned char)text[i]) && count < MAX_DIGITS) {
            number->digits = number->digits * 10 + (text[i] - '0');
            number->decimals += dot;
            count += number->digits > 0 || dot; /* leading zeros do not count */
        } else {
            return 0;
        }
    }
    if (negative)
        number->digits = -number->digits;
    return i > 0 && isdigit((unsigned char)text[i - 1]);
}

/* To `decimals` decimals; 0 if that needs too many digits. */
static int align(decimal *number, int decimals) {
    for (; number->decimals < decimals; number->decimals++) {
        if (llabs(number->digits) > INT64_C(100000000000000000)) /* 1e17 */
            return 0;
        number->digits *= 10;
    }
    return 1;
}

/* Without the zeros that only align it with the other numbers. */
static void print_decimal(int64_t digits, int decimals, char *text, size_t size) {
    for (; decimals > 0 && digits % 10 == 0; decimals--)
        digits /= 10;
    char all[40]; /* 32 digits with leading zeros */
    snprintf(all, sizeof all, "%032lld", (long long)llabs(digits));
    const char *whole = all + strspn(all, "0"), *point = all + 32 - decimals;
    whole = whole < point - 1 ? whole : point - 1;
    snprintf(text, size, "%s%.*s%s%s", digits < 0 ? "-" : "", (int)(point - whole), whole,
             decimals ? "." : "", point);
}

/* ---- sweep ---- */

static sl_status add_value(sl_sweep *sweep, size_t *capacity, const char *text, size_t length) {
    if (sweep->values == SL_MAX_VALUES)
        return sl_error(SL_EINVAL, "--sweep %s: more than %d values", sweep->key, SL_MAX_VALUES);
    SL_TRY(sl_grow(&sweep->value, capacity, (size_t)sweep->values + 1, sizeof *sweep->value));
    SL_TRY(copy_item(text, length, &sweep->value[sweep->values]));
    sweep->values++;
    return SL_OK;
}

static sl_status read_range(sl_sweep *sweep, const char *text) {
    decimal part[3]; /* from, to, step */
    const char *c = text;
    int decimals = 0;
    for (int i = 0; i < 3; i++) {
        size_t length = strcspn(c, ":");
        if (!read_decimal(c, length, &part[i]) || (c[length] == ':') != (i < 2))
            return sl_error(SL_EINVAL,
                            "--sweep %s: must be FROM:TO:STEP in decimals (at most %d digits) or a list "
                            "A,B,.., got '%s'",
                            sweep->key, MAX_DIGITS, text);
        decimals = part[i].decimals > decimals ? part[i].decimals : decimals;
        c += length + 1;
    }
    for (int i = 0; i < 3; i++)
        if (!align(&part[i], decimals))
            return sl_error(SL_EINVAL, "--sweep %s: '%s' has too many digits", sweep->key, text);
    int64_t from = part[0].digits, to = part[1].digits, step = part[2].digits;
    if (step == 0 || (to != from && (to > from) != (step > 0)))
        return sl_error(SL_EINVAL, "--sweep %s: the step of '%s' does not lead from FROM to TO", sweep->key,
                        text);
    if ((to - from) / step >= SL_MAX_VALUES)
        return sl_error(SL_EINVAL, "--sweep %s: '%s' has %lld values; at most %d", sweep->key, text,
                        (long long)((to - from) / step + 1), SL_MAX_VALUES);
    size_t capacity = 0;
    for (int64_t i = 0; i <= (to - from) / step; i++) {
        char value[64];
        print_decimal(from + i * step, decimals, value, sizeof value);
        SL_TRY(add_value(sweep, &capacity, value, strlen(value)));
    }
    return SL_OK;
}

static sl_status read_list(sl_sweep *sweep, const char *text) {
    size_t capacity = 0;
    for (const char *c = text;; c++) {
        size_t length = item_length(c);
        if (length == 0)
            return sl_error(SL_EINVAL, "--sweep %s: an empty value in '%s'", sweep->key, text);
        SL_TRY(add_value(sweep, &capacity, c, length));
        for (int i = 0; i + 1 < sweep->values; i++)
            if (strcmp(sweep->value[i], sweep->value[sweep->values - 1]) == 0)
                return sl_error(SL_EINVAL, "--sweep %s: '%s' is listed twice", sweep->key, sweep->value[i]);
        c += length;
        if (!*c)
            return SL_OK;
    }
}

static int is_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number) && strspn(text, "0123456789+-.eE") == strlen(text);
}

/* A colon outside brackets makes a range; {F: 1, I: 1} is one value. */
static int is_range(const char *text) {
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '[' || *text == '{') - (*text == ']' || *text == '}');
        if (*text == ':' && depth == 0)
            return 1;
    }
    return 0;
}

sl_status sl_sweep_read(const char *text, sl_sweep *sweep) {
    *sweep = (sl_sweep){.values = 0};
    if (!text) {
        sweep->values = 1;
        return SL_OK;
    }
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return sl_error(SL_EINVAL, "--sweep %s: must be KEY=FROM:TO:STEP or KEY=A,B,..", text);
    SL_TRY(copy_item(text, (size_t)(equals - text), &sweep->key));
    SL_TRY(is_range(equals + 1) ? read_range(sweep, equals + 1) : read_list(sweep, equals + 1));
    SL_TRY(sl_alloc(&sweep->number, (size_t)sweep->values, sizeof *sweep->number));
    sweep->is_numeric = 1;
    for (int i = 0; i < sweep->values; i++)
        sweep->is_numeric &= is_number(sweep->value[i], &sweep->number[i]);
    return SL_OK;
}

void sl_sweep_close(sl_sweep *sweep) {
    for (int i = 0; sweep->value && i < sweep->values; i++)
        sl_free(sweep->value[i]);
    SL_FREE(sweep->value, sweep->number, sweep->key);
    *sweep = (sl_sweep){0};
}
