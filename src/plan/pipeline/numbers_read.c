/* Numbers, or lists of one number per stage, rank or layer. */
#include "base/memory.h"
#include "base/suggest.h"
#include "plan/pipeline/problem_read.h"

#include <stdio.h>
#include <string.h>

static sl_status one_number(const sl_yaml *list, const sl_yaml *node, const sl_number_range *range,
                            double *value) {
    sl_status status = sl_yaml_real(node, range->least, range->most, value);
    if (status != SL_OK && list != node) { /* items of a list have no key */
        char text[1024];
        snprintf(text, sizeof text, "%s", sl_error_text());
        const char *what = strstr(text, "must be");
        status = sl_yaml_error(list, "%s", what ? what : text);
    }
    return status;
}

sl_status sl_read_numbers(const sl_yaml *node, int count, const char *each, const sl_number_range *range,
                          double *values) {
    if (node->kind == SL_YAML_LIST && node->children != count)
        return sl_yaml_error(node, "must be a number or a list of %d, one per %s, got %d", count, each,
                             node->children);
    if (node->kind == SL_YAML_MAP)
        return sl_yaml_error(node, "must be a number or a list of %d", count);
    int list = node->kind == SL_YAML_LIST;
    for (int i = 0; i < (list ? count : 1); i++)
        SL_TRY(one_number(node, list ? node->child[i] : node, range, &values[i]));
    for (int i = 1; i < count && !list; i++)
        values[i] = values[0];
    return SL_OK;
}

sl_status sl_read_times(const sl_yaml *node, int count, const char *each, const sl_number_range *range,
                        sl_time *values) {
    double *ms;
    SL_TRY(sl_alloc(&ms, (size_t)count, sizeof *ms));
    sl_status status = sl_read_numbers(node, count, each, range, ms);
    for (int i = 0; i < count && status == SL_OK; i++)
        values[i] = sl_from_ms(ms[i]);
    sl_free(ms);
    return status;
}

static sl_status refuse_unknown(const sl_yaml *child, const sl_key *table, const char *where) {
    const char *names[32] = {NULL};
    for (int i = 0; i < 31 && table[i].name; i++)
        names[i] = table[i].name;
    const char *near = sl_suggest(child->key, names);
    return sl_yaml_error(child, "is not a known key of '%s'%s%s%s", where, near ? "; did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
}

sl_status sl_check_keys(const sl_yaml *map, const sl_key *table) {
    if (map->kind != SL_YAML_MAP)
        return sl_yaml_error(map, "must be a map");
    for (int i = 0; i < map->children; i++) {
        int known = 0;
        for (const sl_key *key = table; key->name; key++)
            known |= strcmp(key->name, map->child[i]->key) == 0;
        if (!known)
            return refuse_unknown(map->child[i], table, map->key);
        if (map->child[i]->kind == SL_YAML_SCALAR && !*map->child[i]->text)
            return sl_yaml_error(map->child[i], "has no value; it must be a number, as in '%s: 2'",
                                 map->child[i]->key);
    }
    for (const sl_key *key = table; key->name; key++)
        if (key->required && !sl_yaml_find(map, key->name))
            return sl_yaml_error(map, "lacks '%s'%s", key->name,
                                 table == sl_time_keys && sl_yaml_find(map, "B")
                                     ? "; B is made of I and W, and a plan needs both"
                                     : "");
    return SL_OK;
}

/* clang-format off */
const sl_key sl_time_keys[] = {
    {.name = "F", .type = SL_KEY_CUSTOM, .required = 1, .help = "forward, ms; a number or one per stage"},
    {.name = "I", .type = SL_KEY_CUSTOM, .required = 1, .help = "backward for the input, ms"},
    {.name = "W", .type = SL_KEY_CUSTOM, .required = 1, .help = "backward for the weights, ms"},
    {.name = "B", .type = SL_KEY_CUSTOM, .help = "full backward, ms; default I + W"},
    {.name = "FB", .type = SL_KEY_CUSTOM, .help = "a forward and a full backward, overlapped (dualpipe-v); default F + B"},
    {0}};
const sl_key sl_delta_keys[] = {
    {.name = "F", .type = SL_KEY_CUSTOM, .help = "memory change when F starts; default 1"},
    {.name = "I", .type = SL_KEY_CUSTOM, .help = "when I ends; default 0"},
    {.name = "I_start", .type = SL_KEY_CUSTOM, .help = "what I or B takes when it starts, before its change at its end (gradients of activations); default 0"},
    {.name = "W", .type = SL_KEY_CUSTOM, .help = "when W ends; default -1"},
    {.name = "B", .type = SL_KEY_CUSTOM, .help = "when B ends; default I + W"},
    {.name = "input", .type = SL_KEY_CUSTOM, .help = "what F keeps of a stage that recomputes: its input; default 0"},
    {0}};
/* clang-format on */

sl_status sl_read_op_times(const sl_yaml *map, int count, const char *each, sl_time *const *time) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        const sl_yaml *node = sl_yaml_find(map, sl_op_name(kind));
        sl_number_range ms = {.least = 0, .most = kind == SL_B ? 2 * SL_MAX_OP_MS : SL_MAX_OP_MS};
        if (node)
            SL_TRY(sl_read_times(node, count, each, &ms, time[kind]));
        for (int i = 0; i < count && !node; i++)
            time[kind][i] = time[SL_I][i] + time[SL_W][i]; /* only B may be absent */
    }
    return SL_OK;
}

sl_status sl_read_deltas(const sl_yaml *map, int count, const char *each, double *const *delta) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        const sl_yaml *node = sl_yaml_find(map, sl_op_name(kind));
        double most = kind == SL_B ? 2 * SL_MAX_MEMORY : SL_MAX_MEMORY;
        if (node)
            SL_TRY(sl_read_numbers(node, count, each, &(sl_number_range){.least = -most, .most = most},
                                   delta[kind]));
        for (int i = 0; i < count && kind == SL_B && !node; i++)
            delta[SL_B][i] = delta[SL_I][i] + delta[SL_W][i];
    }
    return SL_OK;
}
