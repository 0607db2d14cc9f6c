/* Fixed values by their names, as --fix and slackline_chooser_fix take them. */
#include "choose/search/shape.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixed_name {
    const char *name;
    size_t at;
    const char *const *values; /* NULL: a whole number from 1 */
} fixed_name;

static const char *const placements[] = {"linear", "loop", "wave", NULL};
static const char *const zeros[] = {"0", "1", "2", "3", NULL};

static const fixed_name names[] = {
    {"tensor", offsetof(sl_shape_fixed, tensor), NULL},
    {"context", offsetof(sl_shape_fixed, context), NULL},
    {"expert", offsetof(sl_shape_fixed, expert), NULL},
    {"data", offsetof(sl_shape_fixed, data), NULL},
    {"pipeline", offsetof(sl_shape_fixed, pipeline), NULL},
    {"chunks", offsetof(sl_shape_fixed, chunks), NULL},
    {"size", offsetof(sl_shape_fixed, size), NULL},
    {"placement", offsetof(sl_shape_fixed, placement), placements},
    {"zero", offsetof(sl_shape_fixed, zero), zeros},
    {"offload", offsetof(sl_shape_fixed, offload), sl_host_use_names},
    {"split", offsetof(sl_shape_fixed, uneven), sl_split_names},
    {"recompute", offsetof(sl_shape_fixed, recompute), sl_recompute_names},
    {"neighbors", offsetof(sl_shape_fixed, neighbors), sl_neighbors_names},
    {"communication", offsetof(sl_shape_fixed, regime), sl_regime_names},
    {"communicators", offsetof(sl_shape_fixed, communicators), sl_communicators_names},
};

sl_shape_fixed sl_shape_free(void) {
    return (sl_shape_fixed){.placement = -1,
                            .zero = -1,
                            .again = -1,
                            .neighbors = -1,
                            .recompute = -1,
                            .offload = -1,
                            .uneven = -1,
                            .regime = -1,
                            .communicators = -1};
}

static sl_status wrong_value(const fixed_name *name, const char *value) {
    char known[128] = "a whole number from 1";
    for (int i = 0; name->values && name->values[i]; i++)
        snprintf(known + (i ? strlen(known) : 0), sizeof known - (i ? strlen(known) : 0), "%s%s",
                 i ? ", " : "", name->values[i]);
    return sl_error(SL_EINVAL, "%s takes %s, got '%s'", name->name, known, value);
}

static sl_status fix_one(const fixed_name *name, const char *value, sl_shape_fixed *fixed) {
    int *field = (int *)(void *)((char *)fixed + name->at);
    if (!name->values) {
        char *end;
        long number = strtol(value, &end, 10);
        if (*value == 0 || *end || number < 1 || number > 1000000)
            return wrong_value(name, value);
        *field = (int)number;
        return SL_OK;
    }
    for (int i = 0; name->values[i]; i++)
        if (strcmp(name->values[i], value) == 0) {
            *field = i;
            return SL_OK;
        }
    return wrong_value(name, value);
}

sl_status sl_shape_fix(sl_shape_fixed *fixed, const char *name, const char *value) {
    size_t count = sizeof names / sizeof *names, at = 0;
    while (at < count && strcmp(names[at].name, name) != 0)
        at++;
    if (at == count)
        return sl_error(
            SL_EINVAL,
            "takes tensor, context, expert, data, pipeline, chunks, size, placement, zero, "
            "offload, split, recompute, neighbors, communication or communicators, and its value, "
            "got '%s'",
            name);
    SL_TRY(fix_one(&names[at], value, fixed));
    if (names[at].at == offsetof(sl_shape_fixed, offload))
        fixed->offload = 1 << fixed->offload;
    if (names[at].at != offsetof(sl_shape_fixed, recompute))
        return SL_OK;
    fixed->again = fixed->recompute == SL_RECOMPUTE_ALL; /* whole layers: where a stage needs it */
    if (fixed->again)
        fixed->recompute = SL_KEEP_ALL;
    return SL_OK;
}
