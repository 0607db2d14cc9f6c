#include "cli/order_file.h"
#include "base/memory.h"
#include "pack/unpack.h"
#include "plan/export/order_table.h"
#include "plan/lower/written.h"

#include <string.h>

enum { LOOKED_AT = 65536 }; /* first bytes, which show the form */
#define MAX_BYTES ((size_t)1 << 30)

/* A file whose form its first bytes show. */
typedef struct order_input {
    const char *file;
    sl_plan_reader *plan; /* NULL: another form, or not known yet */
    int is_known;
    char *text; /* until it is known; in another form, all */
    size_t size, room;
} order_input;

static size_t blanks(const order_input *in) {
    size_t count = 0;
    while (count < in->size && in->text[count] && strchr(" \t\r\n\f\v", in->text[count]))
        count++;
    return count;
}

static sl_status choose_form(order_input *in) {
    const size_t skipped = blanks(in);
    in->is_known = 1;
    if (!sl_order_is_plan(in->text + skipped, in->size - skipped))
        return SL_OK;
    SL_TRY(sl_plan_reader_open(in->file, 1, &in->plan));
    return sl_plan_reader_feed(in->plan, in->text, in->size);
}

static sl_status feed(void *object, const char *bytes, size_t size) {
    order_input *in = object;
    if (in->plan)
        return sl_plan_reader_feed(in->plan, bytes, size);
    if (in->size + size > MAX_BYTES)
        return sl_error(SL_EINVAL, "%s: larger than %zu bytes", in->file, MAX_BYTES);
    SL_TRY(sl_grow(&in->text, &in->room, in->size + size + 1, 1)); /* ended by a zero */
    memcpy(in->text + in->size, bytes, size);
    in->size += size;
    in->text[in->size] = 0;
    return in->is_known || in->size < LOOKED_AT ? SL_OK : choose_form(in);
}

static sl_status parse(order_input *in, const sl_problem *problem, sl_order *order) {
    if (!in->is_known)
        SL_TRY(choose_form(in));
    if (in->plan)
        return sl_plan_reader_end_order(in->plan, in->file, problem, order);
    if (!sl_order_table_is(in->text, in->size))
        return sl_order_parse_csv(in->file, in->text, in->size, problem, order);
    const size_t skipped = blanks(in);
    return sl_order_table_parse(in->file, in->text + skipped, in->size - skipped, problem, order);
}

sl_status sl_order_file_read(const char *file, const sl_problem *problem, sl_order *order) {
    order_input in = {.file = file};
    *order = (sl_order){0};
    sl_status status = sl_grow(&in.text, &in.room, 1, 1);
    SL_THEN(status, sl_unpack_file(file, SL_PLAN_BYTES, &(sl_unpack_sink){feed, &in}));
    SL_THEN(status, parse(&in, problem, order));
    sl_plan_reader_close(in.plan);
    sl_free(in.text);
    return status;
}

sl_status sl_plan_file_read(const char *file, sl_timeline *timeline, sl_plan_memory *memory,
                            char schedule[SL_PLAN_NAME]) {
    sl_plan_reader *reader;
    *timeline = (sl_timeline){0};
    *memory = (sl_plan_memory){0};
    SL_TRY(sl_plan_reader_open(file, 0, &reader));
    sl_status status = sl_unpack_file(file, SL_PLAN_BYTES, &(sl_unpack_sink){sl_plan_reader_feed, reader});
    SL_THEN(status, sl_plan_reader_end(reader, timeline, memory, schedule));
    sl_plan_reader_close(reader);
    return status;
}
