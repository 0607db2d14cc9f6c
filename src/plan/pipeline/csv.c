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

/* A cell may be anything, a whole other file too: its beginning is enough to find it. */
static sl_status refuse(const cell *c, const char *why) {
    return sl_error(SL_EINVAL, "%s:%d: column %d, '%.40s': %s", c->file, c->line, c->column, c->text, why);
}

/* What a communication cell says, to be compared with the other end's. */
typedef struct comm {
    int32_t stage, microbatch;
    int backward, receive;
    int before; /* ops of the rank that stand before it */
    int line, column;
} comm;

typedef struct reader {
    const sl_problem *problem;
    sl_order *order;
    const char *file;
    int rank;
    int most; /* ops that `order` has room for: one more than a rank may have, so that a surplus is seen */
    int **column; /* [ranks][op] cell that it came from */
    int *line_of; /* [ranks] */
    comm **comm;  /* [ranks], communication cells in order */
    size_t *comms, *capacity;
    unsigned char *seen; /* [ranks][receive][backward][microbatches] */
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
    int *count = &r->order->count[r->rank];
    if (*count == r->most)
        return SL_OK; /* too many already: one stands twice, or a B beside I and W; the check says which */
    r->column[r->rank][*count] = c->column;
    r->order->ops[r->rank][(*count)++] = (sl_op){.stage = stage, .microbatch = microbatch, .kind = kind};
    return SL_OK;
}

static sl_status add_comm(reader *r, const cell *c, int32_t stage, int receive, int backward,
                          int32_t microbatch) {
    if (stage >= r->problem->stages || microbatch >= r->problem->microbatches)
        return refuse(c, "there is no such stage or microbatch");
    if (sl_problem_rank(r->problem, stage) != r->rank)
        return refuse(c, "the stage belongs to another rank");
    if (receive == backward ? stage + 1 >= r->problem->stages : stage == 0)
        return refuse(c, "there is no stage at the other end");
    SL_TRY(sl_grow(&r->comm[r->rank], &r->capacity[r->rank], r->comms[r->rank] + 1, sizeof **r->comm));
    r->comm[r->rank][r->comms[r->rank]++] = (comm){.stage = stage,
                                                   .microbatch = microbatch,
                                                   .backward = backward,
                                                   .receive = receive,
                                                   .before = r->order->count[r->rank],
                                                   .line = c->line,
                                                   .column = c->column};
    return SL_OK;
}

static sl_status read_cell(reader *r, const cell *c) {
    static const struct {
        const char *word;
        int kind, receive, backward; /* kind -1: communication, -2: sharding */
    } words[] = {{"SEND_F", -1, 0, 0},      {"SEND_B", -1, 0, 1},  {"RECV_F", -1, 1, 0},
                 {"RECV_B", -1, 1, 1},      {"UNSHARD", -2, 0, 0}, {"RESHARD", -2, 0, 0},
                 {"REDUCE_GRAD", -2, 0, 0}, {"F", SL_F, 0, 0},     {"I", SL_I, 0, 0},
                 {"W", SL_W, 0, 0},         {"B", SL_B, 0, 0}};
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

/* Cuts blanks and one pair of quotes, as PyTorch's csv module writes them, off both ends. */
static char *trim(char *text) {
    while (*text == ' ')
        text++;
    size_t length = strlen(text);
    while (length > 0 && strchr(" \r", text[length - 1]))
        length--;
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text++;
        length -= 2;
    }
    text[length] = 0;
    return text;
}

/* Splits one line in place. */
static sl_status read_line(reader *r, char *line, int number) {
    int column = 1;
    for (char *next = line; next; column++) {
        char *text = next, *comma = strchr(next, ',');
        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = 0;
        cell c = {.file = r->file, .line = number, .column = column, .text = trim(text)};
        if (*c.text)
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
            return sl_error(SL_EINVAL, "%s:%d: one line a rank, and the problem has %d ranks", r->file,
                            number, r->problem->ranks);
        r->line_of[r->rank] = number;
        SL_TRY(read_line(r, line, number));
        r->rank++;
        line = end ? end + 1 : line + strlen(line);
    }
    if (r->rank != r->problem->ranks)
        return sl_error(SL_EINVAL, "%s: %d lines, but the problem has %d ranks", r->file, r->rank,
                        r->problem->ranks);
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
        const comm *sent = next_on_link(r, from, 0, backward, &i),
                   *got = next_on_link(r, to, 1, backward, &j);
        if (!sent && !got)
            break;
        const comm *where = sent ? sent : got;
        if (!sent || !got)
            return sl_error(SL_EINVAL, "%s:%d: column %d: microbatch %d from rank %d to rank %d is %s",
                            r->file, where->line, where->column, where->microbatch, from, to,
                            sent ? "never received" : "never sent");
        if (sent->microbatch != got->microbatch)
            return sl_error(
                SL_EINVAL,
                "%s:%d: column %d: message %d from rank %d to rank %d is sent as microbatch %d, but "
                "received as %d in line %d, column %d",
                r->file, where->line, where->column, count, from, to, sent->microbatch, got->microbatch,
                got->line, got->column);
        count++;
    }
    if (count != r->problem->microbatches)
        return sl_error(SL_EINVAL, "%s: %d messages from rank %d to rank %d, but %d microbatches", r->file,
                        count, from, to, r->problem->microbatches);
    return SL_OK;
}

/* A message leaves behind the op that makes it and comes in front of the op that needs it. `at` holds the
 * position + 1 of the rank's forwards, then of its backwards, by microbatch. */
static sl_status check_place(const reader *r, int rank, const comm *c, const int *at) {
    static const char *const names[2][2] = {{"SEND_F", "SEND_B"}, {"RECV_F", "RECV_B"}};
    char text[64];
    snprintf(text, sizeof text, "%d%s%d", c->stage, names[c->receive][c->backward], c->microbatch);
    cell where = {.file = r->file, .line = c->line, .column = c->column, .text = text};
    int microbatches = r->problem->microbatches;
    int position = at[c->backward * microbatches + c->microbatch] - 1;
    unsigned char *seen =
        &r->seen[(((size_t)rank * 2 + (size_t)c->receive) * 2 + (size_t)c->backward) * (size_t)microbatches +
                 (size_t)c->microbatch];
    if (*seen)
        return refuse(&where, "stands twice");
    *seen = 1;
    if (c->receive && position < c->before)
        return refuse(&where, "stands behind the op that needs it");
    if (!c->receive && position >= c->before)
        return refuse(&where, "stands before the op that makes it");
    return SL_OK;
}

static sl_status check_places(const reader *r, int *at) {
    for (int rank = 0; rank < r->problem->ranks; rank++) {
        for (int i = 0; i < r->order->count[rank]; i++) {
            const sl_op *op = &r->order->ops[rank][i];
            if (op->kind != SL_W)
                at[(op->kind != SL_F) * r->problem->microbatches + op->microbatch] = i + 1;
        }
        for (size_t i = 0; i < r->comms[rank]; i++)
            SL_TRY(check_place(r, rank, &r->comm[rank][i], at));
    }
    return SL_OK;
}

/* Only the compute_comms form has any. */
static sl_status check_comms(reader *r) {
    size_t all = 0, ranks = (size_t)r->problem->ranks, microbatches = (size_t)r->problem->microbatches;
    for (size_t rank = 0; rank < ranks; rank++)
        all += r->comms[rank];
    if (all == 0)
        return SL_OK;
    int *at;
    SL_TRY(sl_alloc(&r->seen, ranks * 4 * microbatches, 1));
    SL_TRY(sl_alloc(&at, 2 * microbatches, sizeof *at));
    sl_status status = check_places(r, at);
    sl_free(at);
    for (int rank = 0; rank + 1 < r->problem->ranks && status == SL_OK; rank++) {
        status = check_link(r, rank, rank + 1, 0);
        if (status == SL_OK)
            status = check_link(r, rank + 1, rank, 1);
    }
    return status;
}

/* The order's own faults, with the cell that they came from. */
static sl_status check_order(const reader *r) {
    int rank, position;
    sl_status status = sl_order_check_at(r->problem, r->order, &rank, &position);
    if (status == SL_OK)
        return SL_OK;
    char why[768];
    snprintf(why, sizeof why, "%s", sl_error_text());
    if (rank < 0)
        return sl_error(status, "%s: %s", r->file, why);
    if (position < 0)
        return sl_error(status, "%s:%d: %s", r->file, r->line_of[rank], why);
    return sl_error(status, "%s:%d: column %d: %s", r->file, r->line_of[rank], r->column[rank][position],
                    why);
}

static sl_status make_reader(reader *r) {
    const sl_problem *p = r->problem;
    size_t ranks = (size_t)p->ranks;
    r->most = 3 * p->microbatches * (p->stages / p->ranks) + 1;
    SL_TRY(sl_alloc(&r->comm, ranks, sizeof *r->comm));
    SL_TRY(sl_alloc(&r->comms, ranks, sizeof *r->comms));
    SL_TRY(sl_alloc(&r->capacity, ranks, sizeof *r->capacity));
    SL_TRY(sl_alloc(&r->line_of, ranks, sizeof *r->line_of));
    SL_TRY(sl_alloc(&r->column, ranks, sizeof *r->column));
    for (size_t rank = 0; rank < ranks; rank++)
        SL_TRY(sl_alloc(&r->column[rank], (size_t)r->most, sizeof **r->column));
    return sl_order_make(p->ranks, r->most, r->order);
}

static sl_status read_order(reader *r, char *content, size_t size) {
    SL_TRY(make_reader(r));
    SL_TRY(read_lines(r, content, size));
    SL_TRY(check_order(r));
    return check_comms(r);
}

static void free_reader(reader *r) {
    for (int rank = 0; rank < r->problem->ranks; rank++) {
        if (r->comm)
            sl_free(r->comm[rank]);
        if (r->column)
            sl_free(r->column[rank]);
    }
    sl_free(r->comm);
    sl_free(r->comms);
    sl_free(r->capacity);
    sl_free(r->line_of);
    sl_free(r->column);
    sl_free(r->seen);
}

sl_status sl_order_read_csv(const char *file, const sl_problem *problem, sl_order *order) {
    char *content;
    size_t size;
    reader r = {.problem = problem, .order = order, .file = file};
    *order = (sl_order){0};
    SL_TRY(sl_file_read(file, &content, &size));
    sl_status status = read_order(&r, content, size);
    free_reader(&r);
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
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the order cannot be written") : SL_OK;
}
