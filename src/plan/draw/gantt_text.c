#include "plan/draw/gantt_text.h"
#include "base/memory.h"
#include "plan/draw/chunk.h"

#include <ctype.h>
#include <string.h>

#define MARGIN 10 /* "rank 1023 " */
#define MAX_COLUMNS 500

/* Colors that differ in brightness too: F blue, I orange, W green, B purple, collectives gray, moves to host
 * memory and back cyan. */
static const char *const ansi[SL_SPAN_KINDS] = {"\033[97;44m", "\033[30;43m", "\033[30;42m", "\033[97;45m",
                                                "\033[30;47m", "\033[30;47m", "\033[30;46m", "\033[30;46m"};

/* One cell of a row. */
typedef struct text_cell {
    char text;
    signed char kind; /* -1: idle */
} text_cell;

typedef struct chart {
    const sl_timeline *t;
    sl_chunks chunks;
    sl_time begin, length;
    int columns;
    int parts, pairs; /* seen */
    text_cell *row;
} chart;

static int column_of(const chart *c, sl_time t) {
    return c->length > 0 ? (int)((double)(t - c->begin) / (double)c->length * c->columns + 0.5) : 0;
}

/* One that is shorter than a column still gets one. */
static void columns_of(const chart *c, const sl_span *span, int *from, int *to) {
    *from = column_of(c, span->start);
    *to = column_of(c, span->end);
    if (*from == c->columns)
        --*from;
    if (*to <= *from)
        *to = *from + 1;
}

/* The op's letter, small for the second of two stages of a rank; for more stages, a letter for the stage
 * follows. Then the microbatch's last digits, as many as fit into `room`. */
static const char *words(const chart *c, const sl_op *op, int room, char *text, size_t size) {
    char digits[16];
    int chunk = c->chunks.of[op->stage], letter = sl_op_name(op->kind)[0];
    if (c->chunks.most == 2 && chunk == 1)
        letter = tolower(letter);
    int stage = c->chunks.most > 2 ? (chunk < 26 ? 'a' + chunk : '*') : 0;
    int length = snprintf(digits, sizeof digits, "%d", op->microbatch), left = room - 1 - (stage != 0);
    const char *shown = left <= 0 ? "" : digits + (length > left ? length - left : 0);
    if (stage)
        snprintf(text, size, "%c%c%s", letter, stage, shown);
    else
        snprintf(text, size, "%c%s", letter, shown);
    return text;
}

static void put_op(chart *c, const sl_op *op, int from, int to) {
    char text[32];
    const char *shown = words(c, op, to - from, text, sizeof text);
    for (int i = from; i < to && i < c->columns; i++)
        c->row[i] = (text_cell){.text = *shown ? *shown++ : '-', .kind = (signed char)op->kind};
}

/* An op shows its words, then dashes; one that continues the previous part, a colon. The two ops of a pair
 * share their columns, with an ampersand between them. */
static void put_span(chart *c, int i) {
    const sl_span *span = &c->t->span[i], *before = i > 0 ? span - 1 : NULL;
    int from, to;
    columns_of(c, span, &from, &to);
    if (before && before->op.paired) {
        int middle = from + (to - from + 1) / 2;
        if (middle < to)
            put_op(c, &span->op, middle, to);
        if (middle < to && middle - from >= 3)
            c->row[middle - 1].text = '&';
        c->pairs = 1;
        return;
    }
    put_op(c, &span->op, from, to);
    if (span->op.part > 0 && before && before->end == span->start && before->op.kind == span->op.kind &&
        before->op.stage == span->op.stage && before->op.microbatch == span->op.microbatch) {
        for (int k = from; k < to && k < c->columns; k++)
            c->row[k].text = k == from && to - from > 1 ? ':' : '-';
        c->parts = 1;
    }
}

/* A fetch cannot use its initial: it would look like a small F. */
static char mark_of(const sl_span *span) {
    return span->op.kind == SL_OFFLOAD ? '^' : span->op.kind == SL_FETCH ? 'v' : sl_op_name(span->op.kind)[0];
}

/* In parallel with the ops, so only in idle columns. */
static void put_collective(chart *c, const sl_span *span) {
    int from, to;
    columns_of(c, span, &from, &to);
    for (int i = from; i < to && i < c->columns; i++)
        if (c->row[i].kind < 0)
            c->row[i] = (text_cell){.text = mark_of(span), .kind = (signed char)span->op.kind};
}

static void print_row(int rank, const text_cell *row, int columns, int colour, FILE *out) {
    fprintf(out, "rank %-*d", MARGIN - 5, rank);
    int kind = -1;
    for (int i = 0; i < columns; i++) {
        if (colour && row[i].kind != kind)
            fputs(row[i].kind >= 0 ? ansi[row[i].kind] : "\033[0m", out);
        kind = row[i].kind;
        fputc(row[i].kind >= 0 ? row[i].text : colour ? ' ' : '.', out);
    }
    fputs(colour && kind >= 0 ? "\033[0m\n" : "\n", out);
}

/* Whether columns [at - 1, at + length] of the axis are blank. */
static int is_free(const char *axis, int at, int length) {
    for (int i = at > 0 ? at - 1 : 0; i <= at + length; i++)
        if (axis[i] != ' ')
            return 0;
    return 1;
}

/* Labels at both ends and, if there is room, at quarters of the width. */
static void print_axis(sl_time end, int columns, FILE *out) {
    static const int quarters[] = {0, 4, 2, 1, 3};
    char axis[MAX_COLUMNS + 2];
    memset(axis, ' ', sizeof axis);
    for (int i = 0; i < 5; i++) {
        char label[32];
        int length = snprintf(label, sizeof label, "%.4g ms", sl_to_ms(end) * quarters[i] / 4);
        int at = MARGIN + quarters[i] * columns / 4 -
                 (quarters[i] == 4   ? length
                  : quarters[i] == 0 ? 0
                                     : length / 2);
        if (at + length <= MARGIN + columns && is_free(axis, at, length))
            memcpy(axis + at, label, (size_t)length);
    }
    int last = MARGIN + columns;
    while (last > 0 && axis[last - 1] == ' ')
        last--;
    fprintf(out, "%.*s\n", last, axis);
}

/* Explains the signs that only some charts have; no line is longer than the narrowest chart. */
static void explain(const chart *c, FILE *out) {
    if (c->chunks.most == 2)
        fputs("capitals: first stage; small: second\n", out);
    if (c->chunks.most > 2)
        fputs("second letter: a rank's stage, a: first\n", out);
    if (c->parts)
        fputs(": the next part of the same op\n", out);
    if (c->pairs)
        fputs("& forward and backward, overlapped\n", out);
    int moves = c->t->collectives > 0 && c->t->collective[c->t->collectives - 1].op.kind >= SL_OFFLOAD;
    if (c->t->collectives > 0 && c->t->collective[0].op.kind < SL_OFFLOAD)
        fputs("g gather, r reduction, where idle\n", out);
    if (moves)
        fputs("^ to host memory, v back, where idle\n", out);
}

static void measure(chart *c) {
    const sl_timeline *t = c->t;
    sl_time end = 0;
    c->begin = t->spans ? SL_TIME_NEVER : 0;
    for (int i = 0; i < t->spans + t->collectives; i++) {
        const sl_span *span = i < t->spans ? &t->span[i] : &t->collective[i - t->spans];
        c->begin = span->start < c->begin ? span->start : c->begin;
        end = span->end > end ? span->end : end;
    }
    c->length = end - c->begin;
}

static void draw(chart *c, int colour, FILE *out) {
    for (int rank = 0, i = 0; rank < c->t->ranks; rank++) {
        for (int k = 0; k < c->columns; k++)
            c->row[k] = (text_cell){.text = '.', .kind = -1};
        for (; i < c->t->spans && c->t->span[i].rank == rank; i++)
            put_span(c, i);
        for (int k = 0; k < c->t->collectives; k++)
            if (c->t->collective[k].rank == rank)
                put_collective(c, &c->t->collective[k]);
        print_row(rank, c->row, c->columns, colour, out);
    }
    if (c->t->spans > 0)
        print_axis(c->length, c->columns, out);
    explain(c, out);
}

sl_status sl_draw_text(const sl_timeline *t, const sl_text_options *options, FILE *out) {
    int width = options->width < 40 ? 40 : options->width > MAX_COLUMNS ? MAX_COLUMNS : options->width;
    chart c = {.t = t, .columns = width - MARGIN};
    SL_TRY(sl_chunks_make(t, &c.chunks));
    sl_status status = sl_alloc(&c.row, (size_t)c.columns, sizeof *c.row);
    if (status == SL_OK) {
        measure(&c);
        draw(&c, options->colour, out);
        if (ferror(out))
            status = sl_error_errno(SL_ESYS, "the chart cannot be written");
    }
    sl_free(c.row);
    sl_chunks_free(&c.chunks);
    return status;
}
