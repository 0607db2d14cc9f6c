/* Cells of the CSV form: the strict grammar, and the meaning of each cell. */
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <ctype.h>
#include <string.h>

/* A cell may be anything, even a whole other file: its beginning is enough to find it. */
sl_status sl_csv_refuse(const sl_csv_cell *c, const char *why) {
    return sl_error(SL_EINVAL, "%s:%d: column %d, '%.40s': %s", c->file, c->line, c->column, c->text, why);
}

const char *sl_csv_comm_name(int receive, int backward) {
    static const char *const names[2][2] = {{"SEND_F", "SEND_B"}, {"RECV_F", "RECV_B"}};
    return names[receive][backward];
}

/* One action as written: its word and numbers. */
typedef enum action_class { OP, COMM, SHARD } action_class;
typedef struct csv_action {
    action_class class;
    int kind; /* OP: sl_op_kind; SHARD: sl_csv_sharding */
    int receive, backward;
    int32_t stage, microbatch;
} csv_action;

/* A decimal number without sign at *text, which moves past it; -1 if there is none or it is far too large. */
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

/* The action at *text, which moves past it; NULL or the error. */
static const char *take_action(const char **text, csv_action *found) {
    static const struct {
        const char *word;
        action_class class;
        int kind, receive, backward;
    } words[] = {{"SEND_F", COMM, 0, 0, 0},
                 {"SEND_B", COMM, 0, 0, 1},
                 {"RECV_F", COMM, 0, 1, 0},
                 {"RECV_B", COMM, 0, 1, 1},
                 {"UNSHARD", SHARD, SL_CSV_UNSHARD, 0, 0},
                 {"RESHARD", SHARD, SL_CSV_RESHARD, 0, 0},
                 {"REDUCE_GRAD", SHARD, SL_CSV_REDUCE_GRAD, 0, 0},
                 {"F", OP, SL_F, 0, 0},
                 {"I", OP, SL_I, 0, 0},
                 {"W", OP, SL_W, 0, 0},
                 {"B", OP, SL_B, 0, 0}};
    int32_t stage = take_number(text);
    if (stage < 0)
        return "must begin with a stage number";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!take_word(text, words[i].word))
            continue;
        *found = (csv_action){.class = words[i].class,
                              .kind = words[i].kind,
                              .receive = words[i].receive,
                              .backward = words[i].backward,
                              .stage = stage};
        if (words[i].class != SHARD && (found->microbatch = take_number(text)) < 0)
            return "the microbatch is missing";
        return NULL;
    }
    return "no action of a pipeline (F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, ...)";
}

static sl_status add_op(sl_csv_reader *r, const sl_csv_cell *c, const csv_action *a, int paired) {
    if (a->stage >= r->problem->stages)
        return sl_csv_refuse(c, "there is no such stage");
    if (a->microbatch >= r->problem->microbatches)
        return sl_csv_refuse(c, "there is no such microbatch");
    if (sl_problem_rank(r->problem, a->stage) != r->rank)
        return sl_csv_refuse(c, "the stage belongs to another rank");
    int *count = &r->order->count[r->rank];
    if (*count == r->most[r->rank])
        return SL_OK; /* already too many: one comes twice, or a B with I and W; the check names it */
    r->row[r->rank].column[*count] = c->column;
    r->order->ops[r->rank][(*count)++] =
        (sl_op){.stage = a->stage, .microbatch = a->microbatch, .kind = a->kind, .paired = (int16_t)paired};
    return SL_OK;
}

static sl_status add_comm(sl_csv_reader *r, const sl_csv_cell *c, const csv_action *a) {
    const sl_problem *p = r->problem;
    if (a->stage >= p->stages || a->microbatch >= p->microbatches)
        return sl_csv_refuse(c, "there is no such stage or microbatch");
    if (sl_problem_rank(p, a->stage) != r->rank)
        return sl_csv_refuse(c, "the stage belongs to another rank");
    if (!sl_problem_runs(p, a->stage, a->microbatch))
        return sl_csv_refuse(c, "is of the other pipeline's microbatch");
    int other = a->receive == a->backward ? sl_problem_next(p, a->stage) : sl_problem_previous(p, a->stage);
    if (other < 0)
        return sl_csv_refuse(c, "there is no stage at the other end");
    int peer = sl_problem_rank(p, other);
    if (peer == r->rank)
        return sl_csv_refuse(c, "both ends are on this rank, where nothing is sent");
    sl_csv_row *row = &r->row[r->rank];
    SL_TRY(sl_grow(&row->comm, &row->comm_capacity, row->comms + 1, sizeof *row->comm));
    row->comm[row->comms++] = (sl_csv_comm){.stage = a->stage,
                                            .microbatch = a->microbatch,
                                            .backward = a->backward,
                                            .receive = a->receive,
                                            .peer = peer,
                                            .before = r->order->count[r->rank],
                                            .line = c->line,
                                            .column = c->column};
    r->comms++;
    return SL_OK;
}

static sl_status add_shard(sl_csv_reader *r, const sl_csv_cell *c, const csv_action *a) {
    if (a->stage >= r->problem->stages || sl_problem_rank(r->problem, a->stage) != r->rank)
        return sl_csv_refuse(c, "the stage belongs to another rank");
    sl_csv_row *row = &r->row[r->rank];
    SL_TRY(sl_grow(&row->shard, &row->shard_capacity, row->shards + 1, sizeof *row->shard));
    row->shard[row->shards++] = (sl_csv_shard){.stage = a->stage,
                                               .kind = (sl_csv_sharding)a->kind,
                                               .before = r->order->count[r->rank],
                                               .line = c->line,
                                               .column = c->column};
    return SL_OK;
}

/* (0F7;7B3)OVERLAP_F_B */
static sl_status read_pair(sl_csv_reader *r, const sl_csv_cell *c) {
    csv_action forward, backward;
    const char *p = c->text + 1, *wrong = take_action(&p, &forward);
    if (!wrong && *p != ';')
        wrong = "two overlapped ops must be separated by ';'";
    if (!wrong) {
        p++;
        wrong = take_action(&p, &backward);
    }
    if (!wrong && *p != ')')
        wrong = "two overlapped ops must end with ')'";
    if (wrong)
        return sl_csv_refuse(c, wrong);
    p++;
    if (!take_word(&p, "OVERLAP_F_B"))
        return sl_csv_refuse(c, "OVERLAP_F_B must follow two overlapped ops");
    if (*p)
        return sl_csv_refuse(c, "unexpected text after the action");
    if (forward.class != OP || forward.kind != SL_F || backward.class != OP || backward.kind != SL_B)
        return sl_csv_refuse(c, "only an F and a B, in this order, can be overlapped");
    if (forward.stage == backward.stage && forward.microbatch == backward.microbatch)
        return sl_csv_refuse(c, "an F cannot be overlapped with its own B");
    SL_TRY(add_op(r, c, &forward, 1));
    return add_op(r, c, &backward, 0);
}

static sl_status read_cell(sl_csv_reader *r, const sl_csv_cell *c) {
    csv_action a;
    const char *p = c->text;
    if (*p == '(')
        return read_pair(r, c);
    const char *wrong = take_action(&p, &a);
    if (!wrong && *p)
        wrong = "unexpected text after the action";
    if (wrong)
        return sl_csv_refuse(c, wrong);
    return a.class == OP ? add_op(r, c, &a, 0) : a.class == COMM ? add_comm(r, c, &a) : add_shard(r, c, &a);
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
static sl_status read_line(sl_csv_reader *r, char *line, int number) {
    int column = 1;
    for (char *next = line; next; column++) {
        char *text = next, *comma = strchr(next, ',');
        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = 0;
        sl_csv_cell c = {.file = r->file, .line = number, .column = column, .text = trim(text)};
        if (*c.text)
            SL_TRY(read_cell(r, &c));
    }
    return SL_OK;
}

sl_status sl_csv_read_lines(sl_csv_reader *r, char *content, size_t size) {
    if (strlen(content) != size)
        return sl_error(SL_EINVAL, "%s: holds a zero byte", r->file);
    int number = 1;
    for (char *line = content; *line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (r->rank >= r->problem->ranks)
            return sl_error(SL_EINVAL, "%s:%d: one line per rank is required, and the problem has %d ranks%s",
                            r->file, number, r->problem->ranks,
                            line[strspn(line, " \r")] ? "" : "; a blank line counts as one, in PyTorch too");
        r->row[r->rank].line = number;
        SL_TRY(read_line(r, line, number));
        r->rank++;
        line = end ? end + 1 : line + strlen(line);
    }
    if (r->rank != r->problem->ranks)
        return sl_error(SL_EINVAL, "%s: %d line%s, but the problem has %d ranks", r->file, r->rank,
                        r->rank == 1 ? "" : "s", r->problem->ranks);
    return SL_OK;
}
