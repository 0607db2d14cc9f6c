#include "plan/pipeline/csv.h"
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A cell of the file and where it stands. */
typedef struct cell {
    const char *file;
    int line, column;
    const char *text; /* ended by 0, without blanks around */
} cell;

static sl_status refuse(const cell *c, const char *why) {
    return sl_error(SL_EINVAL, "%s:%d: column %d, '%s': %s", c->file, c->line, c->column, c->text, why);
}

/* What a communication cell says, to be compared with the other end's. */
typedef struct comm {
    int32_t stage, microbatch;
    int backward, receive;
    int line, column;
} comm;

typedef struct reader {
    const sl_problem *problem;
    sl_order *order;
    const char *file;
    int rank;
    comm **comm;      /* [ranks], communication cells in order */
    size_t *comms, *capacity;
} reader;

/* A decimal number without sign at *text, moved behind it; -1 when there is none or it is far too large. */
static int32_t take_number(const char **text) {
    int64_t value = 0;
    const char *p = *text;
    if (!isdigit((unsigned char)*p))
        return -1;
    for (; isdigit((unsigned char)*p); p++)
        if ((value = value * 10 + (*p - '0')) > INT32_MAX)
            return -1;
    *text = p;
    return (int32_t)value;
}

static int take_word(const char **text, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0)
        return 0;
    *text += length;
    return 1;
}

static sl_status add_op(reader *r, const cell *c, int32_t stage, int kind, int32_t microbatch) {
    if (stage >= r->problem->stages)
        return refuse(c, "there is no such stage");
    if (microbatch >= r->problem->microbatches)
        return refuse(c, "there is no such microbatch");
    if (sl_problem_rank(r->problem, stage) != r->rank)
        return refuse(c, "the stage belongs to another rank");
    if (r->order->count[r->rank] >= 3 * r->problem->microbatches * (r->problem->stages / r->problem->ranks))
        return refuse(c, "more ops than the rank has");
    r->order->ops[r->rank][r->order->count[r->rank]++] = (sl_op){.stage = stage, .microbatch = microbatch, .kind = kind};
    return SL_OK;
}

static sl_status add_comm(reader *r, const cell *c, int32_t stage, int receive, int backward, int32_t microbatch) {
    if (stage >= r->problem->stages || microbatch >= r->problem->microbatches)
        return refuse(c, "there is no such stage or microbatch");
    if (sl_problem_rank(r->problem, stage) != r->rank)
        return refuse(c, "the stage belongs to another rank");
    SL_TRY(sl_grow(&r->comm[r->rank], &r->capacity[r->rank], r->comms[r->rank] + 1, sizeof **r->comm));
    r->comm[r->rank][r->comms[r->rank]++] = (comm){.stage = stage, .microbatch = microbatch, .backward = backward,
                                                   .receive = receive, .line = c->line, .column = c->column};
    return SL_OK;
}

static sl_status read_cell(reader *r, const cell *c) {
    static const struct {
        const char *word;
        int kind, receive, backward; /* kind -1: communication, -2: sharding */
    } words[] = {{"SEND_F", -1, 0, 0}, {"SEND_B", -1, 0, 1}, {"RECV_F", -1, 1, 0}, {"RECV_B", -1, 1, 1},
                 {"UNSHARD", -2, 0, 0}, {"RESHARD", -2, 0, 0}, {"REDUCE_GRAD", -2, 0, 0},
                 {"F", SL_F, 0, 0},     {"I", SL_I, 0, 0},     {"W", SL_W, 0, 0},         {"B", SL_B, 0, 0}};
    const char *p = c->text;
    if (*p == '(')
        return refuse(c, "overlapped ops are not run by this version");
    int32_t stage = take_number(&p);
    if (stage < 0)
        return refuse(c, "must begin with a stage number");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!take_word(&p, words[i].word))
            continue;
        int32_t microbatch = words[i].kind == -2 ? 0 : take_number(&p);
        if (microbatch < 0)
            return refuse(c, "the microbatch is missing");
        if (*p)
            return refuse(c, "something stands behind the action");
        if (words[i].kind >= 0)
            return add_op(r, c, stage, words[i].kind, microbatch);
        if (words[i].kind == -1)
            return add_comm(r, c, stage, words[i].receive, words[i].backward, microbatch);
        return stage < r->problem->stages && sl_problem_rank(r->problem, stage) == r->rank
                   ? SL_OK
                   : refuse(c, "the stage belongs to another rank");
    }
    return refuse(c, "no action of a pipeline (F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, ...)");
}

/* Splits one line in place. */
static sl_status read_line(reader *r, char *line, int number) {
    int column = 1;
    for (char *next = line; next; column++) {
        char *text = next, *comma = strchr(next, ',');
        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = 0;
        while (*text == ' ' || *text == '"')
            text++;
        for (size_t length = strlen(text); length > 0 && strchr(" \r\"", text[length - 1]); length--)
            text[length - 1] = 0;
        cell c = {.file = r->file, .line = number, .column = column, .text = text};
        if (*text)
            SL_TRY(read_cell(r, &c));
    }
    return SL_OK;
}

static sl_status read_lines(reader *r, char *content, size_t size) {
    if (strlen(content) != size)
        return sl_error(SL_EINVAL, "%s: holds a zero byte", r->file);
    int number = 1;
    for (char *line = content; *line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (r->rank >= r->problem->ranks)
            return sl_error(SL_EINVAL, "%s:%d: line %d of ranks, but the problem has %d", r->file, number, number,
                            r->problem->ranks);
        SL_TRY(read_line(r, line, number));
        r->rank++;
        line = end ? end + 1 : line + strlen(line);
    }
    if (r->rank != r->problem->ranks)
        return sl_error(SL_EINVAL, "%s: %d lines, but the problem has %d ranks", r->file, r->rank, r->problem->ranks);
    return SL_OK;
}

/* ---- communication cells: all sends of a link, in order, are all receives of its other end ---- */

static const comm *next_on_link(const reader *r, int rank, int receive, int backward, size_t *at) {
    for (; *at < r->comms[rank]; ++*at) {
        const comm *c = &r->comm[rank][*at];
        if (c->receive == receive && c->backward == backward)
            return &r->comm[rank][(*at)++];
    }
    return NULL;
}

static sl_status check_link(const reader *r, int from, int to, int backward) {
    size_t i = 0, j = 0;
    int count = 0;
    for (;;) {
        const comm *sent = next_on_link(r, from, 0, backward, &i), *got = next_on_link(r, to, 1, backward, &j);
        if (!sent && !got)
            break;
        const comm *where = sent ? sent : got;
        if (!sent || !got || sent->microbatch != got->microbatch)
            return sl_error(SL_EINVAL, "%s:%d: column %d: message %d from rank %d to rank %d is %s microbatch %d and %s %d",
                            r->file, where->line, where->column, count, from, to, sent ? "sent as" : "never sent;",
                            sent ? sent->microbatch : -1, got ? "received as" : "never received;", got ? got->microbatch : -1);
        count++;
    }
    if (count != r->problem->microbatches)
        return sl_error(SL_EINVAL, "%s: %d messages from rank %d to rank %d, but %d microbatches", r->file, count, from, to,
                        r->problem->microbatches);
    return SL_OK;
}

static sl_status check_comms(const reader *r) {
    size_t all = 0;
    for (int rank = 0; rank < r->problem->ranks; rank++)
        all += r->comms[rank];
    for (int rank = 0; all > 0 && rank + 1 < r->problem->ranks; rank++) {
        SL_TRY(check_link(r, rank, rank + 1, 0));
        SL_TRY(check_link(r, rank + 1, rank, 1));
    }
    return SL_OK;
}

static sl_status read_order(reader *r, char *content, size_t size) {
    const sl_problem *p = r->problem;
    SL_TRY(sl_alloc(&r->comm, (size_t)p->ranks, sizeof *r->comm));
    SL_TRY(sl_alloc(&r->comms, (size_t)p->ranks, sizeof *r->comms));
    SL_TRY(sl_alloc(&r->capacity, (size_t)p->ranks, sizeof *r->capacity));
    SL_TRY(sl_order_make(p->ranks, 3 * p->microbatches * (p->stages / p->ranks), r->order));
    SL_TRY(read_lines(r, content, size));
    SL_TRY(check_comms(r));
    sl_status status = sl_order_check(p, r->order);
    if (status != SL_OK) {
        char why[768];
        snprintf(why, sizeof why, "%s", sl_error_text());
        return sl_error(status, "%s: %s", r->file, why);
    }
    return SL_OK;
}

sl_status sl_order_read_csv(const char *file, const sl_problem *problem, sl_order *order) {
    char *content;
    size_t size;
    reader r = {.problem = problem, .order = order, .file = file};
    *order = (sl_order){0};
    SL_TRY(sl_file_read(file, &content, &size));
    sl_status status = read_order(&r, content, size);
    for (int rank = 0; r.comm && rank < problem->ranks; rank++)
        sl_free(r.comm[rank]);
    sl_free(r.comm);
    sl_free(r.comms);
    sl_free(r.capacity);
    sl_free(content);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_order_write_csv(const sl_order *order, FILE *out) {
    for (int rank = 0; rank < order->ranks; rank++) {
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            fprintf(out, "%s%d%s%d", i ? "," : "", op->stage, sl_op_name(op->kind), op->microbatch);
        }
        fputc('\n', out);
    }
    return ferror(out) ? sl_error_errno(SL_ESYS, "the order cannot be written") : SL_OK;
}
