#include "plan/draw/text.h"
#include "base/memory.h"

#include <string.h>

#define MARGIN 9 /* "rank 1023" */

/* Colours that differ in brightness too: F blue, I orange, W green, B purple. */
static const char *const ansi[SL_OP_KINDS] = {"\033[97;44m", "\033[30;43m", "\033[30;42m", "\033[97;45m"};

/* One cell of a row; `first` marks the beginning of an op, which is shown as a bar when neighbours look alike. */
typedef struct cell {
    char text;
    signed char kind; /* -1: idle */
} cell;

static int column_of(sl_time t, sl_time end, int columns) {
    return end > 0 ? (int)((double)t / (double)end * columns + 0.5) : 0;
}

/* An op of at least 2 columns shows its letter and the last digits of its microbatch that fit. */
static void put_span(const sl_span *span, sl_time begin, sl_time end, int columns, cell *row) {
    int from = column_of(span->start - begin, end, columns), to = column_of(span->end - begin, end, columns);
    if (to <= from)
        to = from + 1;
    char label[16];
    int length = snprintf(label, sizeof label, "%s%d", sl_op_name(span->op.kind), span->op.microbatch);
    if (length >= to - from) /* one column of air keeps neighbours apart */
        length = 1;
    for (int i = from; i < to && i < columns; i++) {
        int letter = i - from;
        row[i] = (cell){.text = letter < length ? label[letter] : to - from >= 3 && i == to - 1 ? ' ' : '-',
                        .kind = (signed char)span->op.kind};
    }
}

static void print_row(int rank, const cell *row, int columns, int colour, FILE *out) {
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

/* Labels at quarters of the width. */
static void print_axis(sl_time end, int columns, FILE *out) {
    char axis[512];
    memset(axis, ' ', sizeof axis);
    for (int quarter = 0; quarter <= 4; quarter++) {
        char label[32];
        int length = snprintf(label, sizeof label, "%.4g ms", sl_to_ms(end) * quarter / 4);
        int at = quarter * columns / 4 - (quarter == 4 ? length : quarter == 0 ? 0 : length / 2);
        if (at >= 0 && MARGIN + at + length < (int)sizeof axis)
            memcpy(axis + MARGIN + at, label, (size_t)length);
    }
    int last = MARGIN + columns < (int)sizeof axis ? MARGIN + columns : (int)sizeof axis - 1;
    while (last > 0 && axis[last - 1] == ' ')
        last--;
    fprintf(out, "%.*s\n", last, axis);
}

sl_status sl_draw_text(const sl_timeline *t, const sl_text_options *options, FILE *out) {
    int columns = (options->width < 40 ? 40 : options->width > 500 ? 500 : options->width) - MARGIN;
    sl_time begin = SL_TIME_NEVER, end = 0;
    for (int i = 0; i < t->spans; i++) {
        begin = t->span[i].start < begin ? t->span[i].start : begin;
        end = t->span[i].end > end ? t->span[i].end : end;
    }
    cell *row;
    SL_TRY(sl_alloc(&row, (size_t)columns, sizeof *row));
    for (int rank = 0, i = 0; rank < t->ranks; rank++) {
        for (int c = 0; c < columns; c++)
            row[c] = (cell){.text = '.', .kind = -1};
        for (; i < t->spans && t->span[i].rank == rank; i++)
            put_span(&t->span[i], begin, end - begin, columns, row);
        print_row(rank, row, columns, options->colour, out);
    }
    sl_free(row);
    if (t->spans > 0)
        print_axis(end - begin, columns, out);
    return ferror(out) ? sl_error_errno(SL_ESYS, "the chart cannot be written") : SL_OK;
}
