#include "run/binding/snapshot.h"
#include "base/memory.h"
#include "run/binding/binding_inside.h"

#include <stdio.h>
#include <string.h>

static void describe(const sl_parameter *p, const char *ending, const float *data, sl_tensor_source *out) {
    *out = (sl_tensor_source){.dimensions = p->rows ? 2 : 1, .data = data};
    out->shape[0] = p->rows ? p->full_rows : p->full_columns;
    out->shape[1] = p->rows ? p->full_columns : 0;
    snprintf(out->name, sizeof out->name, "%s%s", p->name, ending);
}

static sl_status make_stage(const sl_parameter *list, int count, float **at, sl_snapshot_stage *s) {
    s->parameters = count;
    SL_TRY(sl_alloc(&s->weight, (size_t)count, sizeof *s->weight));
    SL_TRY(sl_alloc(&s->moment, 2 * (size_t)count, sizeof *s->moment));
    for (int i = 0; i < count; i++) {
        size_t full = sl_parameter_full_count(&list[i]);
        describe(&list[i], "", *at, &s->weight[i]);
        describe(&list[i], ".moment1", *at + full, &s->moment[2 * i]);
        describe(&list[i], ".moment2", *at + 2 * full, &s->moment[2 * i + 1]);
        *at += 3 * full;
    }
    return SL_OK;
}

sl_status sl_snapshot_make(sl_binding *binding, sl_snapshot *snapshot) {
    size_t floats = 0;
    *snapshot = (sl_snapshot){0};
    if (binding->holder > 0 || binding->groups->position.tensor > 0)
        return SL_OK;
    for (int h = 0; h < binding->helds; h++)
        for (int i = 0; i < binding->held[h].parameters && !sl_binding_is_second(&binding->held[h]); i++)
            floats += 3 * sl_parameter_full_count(&binding->held[h].list[i]);
    SL_TRY(sl_alloc(&snapshot->stage, (size_t)binding->helds, sizeof *snapshot->stage));
    SL_TRY(sl_alloc(&snapshot->memory, floats, sizeof *snapshot->memory));
    snapshot->bytes = floats * sizeof *snapshot->memory;
    memset(snapshot->memory, 0xff,
           snapshot->bytes); /* touched now, not between two iterations; NaN until taken */
    float *at = snapshot->memory;
    for (int h = 0; h < binding->helds; h++) {
        const sl_held *held = &binding->held[h];
        if (sl_binding_is_second(held))
            continue;
        sl_snapshot_stage *s = &snapshot->stage[snapshot->stages++];
        s->stage = held->stage;
        SL_TRY(make_stage(held->list, held->parameters, &at, s));
    }
    return SL_OK;
}

void sl_snapshot_free(sl_snapshot *snapshot) {
    for (int i = 0; i < snapshot->stages; i++) {
        SL_FREE(snapshot->stage[i].weight, snapshot->stage[i].moment);
    }
    SL_FREE(snapshot->stage, snapshot->memory);
    *snapshot = (sl_snapshot){0};
}

/* Every rank that holds a stage calls sl_binding_collect for it, in the same order. */
sl_status sl_snapshot_take(sl_snapshot *snapshot, sl_binding *binding) {
    static const sl_binding_value values[] = {SL_VALUE_WEIGHT, SL_VALUE_MOMENT1, SL_VALUE_MOMENT2};
    float *at = snapshot->memory;
    SL_TRY(sl_binding_settle(binding));
    for (int h = 0; h < binding->helds; h++) {
        const sl_held *held = &binding->held[h];
        for (int i = 0; i < held->parameters && !sl_binding_is_second(held); i++)
            for (int v = 0; v < 3; v++) {
                SL_TRY(sl_binding_collect(binding, held->stage, i, values[v], at));
                at += at ? sl_parameter_full_count(&held->list[i]) : 0;
            }
    }
    return SL_OK;
}
