#include "plan/export/order_table.h"

#include "base/memory.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct table_reader {
    const char *name;
    const sl_problem *problem;
    sl_order *order;
    int rank, node; /* the present one, for errors */
    int room;       /* ops per rank */
    int forwards;   /* DeepSpeed: of the present stage */
    int *used_by;   /* DeepSpeed: [microbatches] microbatch in a buffer of the present stage; -1: none */
} table_reader;

static sl_status refuse_node(const table_reader *r, const char *why) {
    return sl_error(SL_EINVAL, "%s: rank %d, node %d: %s", r->name, r->rank, r->node, why);
}

static sl_status add_op(table_reader *r, int stage, json_int_t microbatch, int kind) {
    int *count = &r->order->count[r->rank];
    if (microbatch < 0 || microbatch >= r->problem->microbatches)
        return refuse_node(r, "there is no such microbatch");
    if (*count == r->room)
        return refuse_node(r, "more ops than the problem has");
    r->order->ops[r->rank][(*count)++] =
        (sl_op){.stage = stage, .microbatch = (int32_t)microbatch, .kind = kind};
    return SL_OK;
}

/* ---- DeepSpeed ---- */

/* ["ForwardPass", 3] or ["ForwardPass", {"buffer_id": 3}] */
static sl_status take_instruction(table_reader *r, const json_t *instruction) {
    const char *name = json_string_value(json_array_get(instruction, 0));
    const json_t *given = json_array_get(instruction, 1),
                 *buffer = json_is_object(given) ? json_object_get(given, "buffer_id") : given;
    if (!name)
        return refuse_node(r, "an instruction must be a list that begins with its name");
    int is_forward = strcmp(name, "ForwardPass") == 0;
    if (strcmp(name, "WeightPass") == 0 || strcmp(name, "ForwardBackwardPass") == 0)
        return refuse_node(r, "only ForwardPass and BackwardPass are read as ops");
    if (!is_forward && strcmp(name, "BackwardPass") != 0)
        return SL_OK;
    json_int_t at = json_integer_value(buffer);
    if (!json_is_integer(buffer) || at < 0 || at >= r->problem->microbatches)
        return refuse_node(r, "its buffer must be a number below that of microbatches");
    if (is_forward && r->used_by[at] >= 0)
        return refuse_node(r, "its buffer is in use");
    if (!is_forward && r->used_by[at] < 0)
        return refuse_node(r, "its buffer holds no microbatch");
    int microbatch = is_forward ? r->forwards++ : r->used_by[at];
    r->used_by[at] = is_forward ? microbatch : -1;
    return add_op(r, r->rank, microbatch, is_forward ? SL_F : SL_B);
}

static sl_status take_steps(table_reader *r, const json_t *steps) {
    r->node = r->forwards = 0;
    memset(r->used_by, -1, (size_t)r->problem->microbatches * sizeof *r->used_by);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        for (size_t k = 0; k < json_array_size(step); k++, r->node++)
            SL_TRY(take_instruction(r, json_array_get(step, k)));
    }
    return SL_OK;
}

static sl_status read_deepspeed(table_reader *r, const json_t *stages) {
    if (r->problem->placement != SL_LINEAR)
        return sl_error(SL_EINVAL, "%s: DeepSpeed has one stage per rank, the pipeline is %s", r->name,
                        sl_placement_name(r->problem->placement));
    SL_TRY(sl_alloc(&r->used_by, (size_t)r->problem->microbatches, sizeof *r->used_by));
    sl_status status = SL_OK;
    for (r->rank = 0; status == SL_OK && r->rank < r->problem->ranks; r->rank++)
        status = take_steps(r, json_array_get(stages, (size_t)r->rank));
    sl_free(r->used_by);
    return status;
}

/* ---- Primus ---- */

/* The stage of a chunk on the present rank; -1: none. */
static int stage_of(const table_reader *r, json_int_t chunk) {
    const sl_problem *p = r->problem;
    if (chunk < 0 || chunk >= p->stages / p->ranks)
        return -1;
    int first = (int)chunk * p->ranks, same = first + r->rank, turned = first + p->ranks - 1 - r->rank;
    return sl_problem_rank(p, same) == r->rank ? same : sl_problem_rank(p, turned) == r->rank ? turned : -1;
}

static sl_status take_node(table_reader *r, const char *function, json_int_t microbatch, json_int_t chunk) {
    static const struct {
        const char *name;
        int kind; /* -1: no op */
    } functions[] = {{"F", SL_F}, {"B", SL_I}, {"W", SL_W}, {"BW", SL_B},
                     {"SF", -1},  {"SB", -1},  {"RF", -1},  {"RB", -1}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        int stage = stage_of(r, chunk);
        if (strcmp(function, functions[i].name) != 0)
            continue;
        if (stage < 0)
            return refuse_node(r, "there is no such chunk");
        return functions[i].kind < 0 ? SL_OK : add_op(r, stage, microbatch, functions[i].kind);
    }
    return refuse_node(r, "its function must be F, B, W, BW, SF, SB, RF or RB");
}

static sl_status read_primus(table_reader *r, const json_t *table) {
    for (r->rank = 0; r->rank < r->problem->ranks; r->rank++) {
        const json_t *row = json_array_get(table, (size_t)r->rank);
        for (r->node = 0; r->node < (int)json_array_size(row); r->node++) {
            const json_t *node = json_array_get(row, (size_t)r->node),
                         *microbatch = json_object_get(node, "mini_batch"),
                         *chunk = json_object_get(node, "chunk");
            const char *function = json_string_value(json_object_get(node, "func_type"));
            if (!function || !json_is_integer(microbatch) || !json_is_integer(chunk))
                return refuse_node(r, "must have func_type, mini_batch and chunk");
            SL_TRY(take_node(r, function, json_integer_value(microbatch), json_integer_value(chunk)));
        }
    }
    return SL_OK;
}

/* A number and the character after it at *at, which moves past both. */
static int take_field(const char **at, char after, int *number) {
    char *end;
    if (!isdigit((unsigned char)**at))
        return 0;
    long value = strtol(*at, &end, 10);
    *number = value > INT32_MAX ? INT32_MAX : (int)value;
    *at = end + 1;
    return *end == after;
}

/* (F|0|0),(SF|0|0) until the end of the line */
static sl_status take_line(table_reader *r, const char *at) {
    for (r->node = 0; *at; r->node++) {
        char function[4] = "";
        int microbatch, chunk;
        size_t letters = *at == '(' ? strcspn(at + 1, "|") : 0;
        if (letters == 0 || letters >= sizeof function || at[1 + letters] != '|')
            return refuse_node(r, "must look like (F|0|0)");
        memcpy(function, at + 1, letters);
        at += letters + 2;
        if (!take_field(&at, '|', &microbatch) || !take_field(&at, ')', &chunk))
            return refuse_node(r, "must look like (F|0|0)");
        SL_TRY(take_node(r, function, microbatch, chunk));
        if (*at && *at++ != ',')
            return refuse_node(r, "must be followed by a comma");
    }
    return SL_OK;
}

/* Lines of "Rank 0: ..."; changes `text`, which is ended by 0. */
static sl_status read_lines(table_reader *r, char *text) {
    int lines = 0;
    for (char *line = text, *next; line; line = next, lines++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (*line == 0)
            break;
        const char *at = line + 5;
        r->rank = lines;
        r->node = 0;
        if (lines == r->problem->ranks)
            return sl_error(SL_EINVAL, "%s: more than %d ranks", r->name, r->problem->ranks);
        int number;
        if (strncmp(line, "Rank ", 5) != 0 || !take_field(&at, ':', &number) || number != lines)
            return sl_error(SL_EINVAL, "%s:%d: must begin with 'Rank %d:'", r->name, lines + 1, lines);
        SL_TRY(take_line(r, at + strspn(at, " ")));
    }
    return lines == r->problem->ranks ? SL_OK
                                      : sl_error(SL_EINVAL, "%s: has %d ranks, the pipeline has %d", r->name,
                                                 lines, r->problem->ranks);
}

/* ---- all ---- */

static sl_status read_document(table_reader *r, const json_t *document) {
    const json_t *stages = json_object_get(document, "stages"), *table = json_object_get(document, "table"),
                 *rows = json_is_array(document) ? document
                         : stages                ? stages
                                                 : table;
    if (!json_is_array(rows))
        return sl_error(SL_EINVAL, "%s: has neither 'stages' of DeepSpeed nor a 'table' of Primus", r->name);
    if (json_array_size(rows) != (size_t)r->problem->ranks)
        return sl_error(SL_EINVAL, "%s: has %zu ranks, the pipeline has %d", r->name, json_array_size(rows),
                        r->problem->ranks);
    int is_nodes = json_is_object(json_array_get(json_array_get(rows, 0), 0));
    return is_nodes ? read_primus(r, rows) : read_deepspeed(r, rows);
}

static sl_status read_json(table_reader *r, const char *text, size_t size) {
    json_error_t error;
    json_t *document = json_loadb(text, size, 0, &error);
    if (!document)
        return sl_error(SL_EINVAL, "%s:%d: %s", r->name, error.line, error.text);
    sl_status status = read_document(r, document);
    json_decref(document);
    return status;
}

static sl_status read_text(table_reader *r, const char *text, size_t size) {
    char *copy;
    SL_TRY(sl_alloc(&copy, size + 1, 1));
    memcpy(copy, text, size);
    sl_status status = read_lines(r, copy);
    sl_free(copy);
    return status;
}

static sl_status check_read(const table_reader *r) {
    char why[256];
    sl_status status = sl_order_check(r->problem, r->order);
    if (status == SL_OK)
        return SL_OK;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(status, "%s: %s", r->name, why);
}

sl_status sl_order_table_parse(const char *name, const char *text, size_t size, const sl_problem *problem,
                               sl_order *order) {
    table_reader r = {.name = name, .problem = problem, .order = order};
    *order = (sl_order){0};
    if (problem->communication == SL_FIFO)
        return sl_error(SL_EINVAL, "%s: with communication fifo, the order of messages counts: use csv-comms",
                        name);
    if (problem->parts > 1)
        return sl_error(SL_EINVAL, "%s: the problem cuts ops into %d parts, which this form cannot name",
                        name, problem->parts);
    for (int rank = 0; rank < problem->ranks; rank++) {
        int ops = sl_problem_rank_ops(problem, rank, 3);
        r.room = ops > r.room ? ops : r.room;
    }
    SL_TRY(sl_order_make(problem->ranks, r.room, order));
    sl_status status = size > 0 && *text == 'R' ? read_text(&r, text, size) : read_json(&r, text, size);
    SL_THEN(status, check_read(&r));
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

int sl_order_table_is(const char *text, size_t size) {
    size_t at = 0;
    while (at < size && isspace((unsigned char)text[at]))
        at++;
    return at < size && strchr("{[R", text[at]) && text[at];
}

int sl_order_is_plan(const char *text, size_t size) {
    static const char name[] = "slackline-plan-1";
    return size > 0 && *text == '{' && memmem(text, size < 200 ? size : 200, name, sizeof name - 1) != NULL;
}
