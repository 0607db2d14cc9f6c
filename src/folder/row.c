#include "folder/row.h"

#include <limits.h>
#include <math.h>

sl_status sl_row_iteration_read(const char *line, size_t length, sl_row_iteration *row) {
    json_t *o = sl_json_object(line, length);
    *row = (sl_row_iteration){.iteration = sl_json_count(o, "iteration", -1),
                              .delegates = sl_json_count(o, "delegates", 0),
                              .late = json_is_true(json_object_get(o, "late")),
                              .lossless = json_is_null(json_object_get(o, "loss")),
                              .loss = sl_json_number(o, "loss", SL_ROW_MAX),
                              .validation = sl_json_number(o, "validation_loss", SL_ROW_MAX),
                              .time = sl_json_number(o, "time_ms", SL_ROW_TIME_MAX),
                              .predicted = sl_json_number(o, "predicted_ms", SL_ROW_TIME_MAX),
                              .tokens = sl_json_number(o, "tokens_per_s", SL_ROW_MAX),
                              .schedule = sl_json_text(o, "schedule", ""),
                              .phase = sl_json_text(o, "phase", ""),
                              .links = json_object_get(o, "links"),
                              .works = json_object_get(o, "work_ms"),
                              .object = o};
    return row->iteration >= 0 ? SL_OK : SL_EINVAL;
}

int sl_row_link_read(const json_t *entry, sl_row_link *link) {
    *link = (sl_row_link){.from = sl_json_count(entry, "from", -1),
                          .to = sl_json_count(entry, "to", -1),
                          .replica = sl_json_count(entry, "replica", -1),
                          .latency = sl_json_number(entry, "latency_ms", SL_ROW_TIME_MAX),
                          .transfer = sl_json_number(entry, "transfer_ms", SL_ROW_TIME_MAX)};
    return link->from >= 0 && link->to >= 0 && !isnan(link->latency + link->transfer);
}

int sl_row_point_read(const json_t *entry, sl_row_iteration *row) {
    const json_t *number = json_array_get(entry, 0);
    const json_int_t iteration = json_is_integer(number) ? json_integer_value(number) : -1;
    const double time = sl_json_value(json_array_get(entry, 1), SL_ROW_TIME_MAX);
    const int held = json_integer_value(json_array_get(entry, 2)) == 1;
    *row = (sl_row_iteration){.iteration = iteration < INT_MAX ? (int)iteration : -1,
                              .loss = NAN,
                              .validation = NAN,
                              .time = held ? NAN : time,
                              .predicted = NAN,
                              .tokens = NAN,
                              .schedule = "",
                              .phase = ""};
    return row->iteration >= 0 && !isnan(time);
}

/* Takes both ends of a link, or neither. */
static void take_link(const json_t *link, sl_row_event *row) {
    const json_t *from = json_array_get(link, 0), *to = json_array_get(link, 1);
    if (json_array_size(link) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return;
    const json_int_t one = json_integer_value(from), other = json_integer_value(to);
    if (one < 0 || other < 0 || one >= INT_MAX || other >= INT_MAX)
        return;
    row->from = (int)one;
    row->to = (int)other;
}

sl_status sl_row_event_read(const char *line, size_t length, sl_row_event *row) {
    json_t *o = sl_json_object(line, length);
    const double time = sl_json_number(o, "time_s", SL_ROW_TIME_MAX);
    *row = (sl_row_event){.time = isnan(time) ? 0 : time,
                          .iteration = sl_json_count(o, "iteration", -1),
                          .rank = sl_json_count(o, "rank", -1),
                          .replica = sl_json_count(o, "replica", -1),
                          .from = -1,
                          .to = -1,
                          .kind = sl_json_text(o, "kind", ""),
                          .seen = sl_json_text(o, "seen", ""),
                          .decided = sl_json_text(o, "decided", ""),
                          .why = sl_json_text(o, "why", ""),
                          .object = o};
    take_link(json_object_get(o, "link"), row);
    row->both = row->from >= 0 && json_is_true(json_object_get(o, "both"));
    return *row->kind ? SL_OK : SL_EINVAL;
}
