#include "plan/draw/text.h"
#include "base/memory.h"

#include <string.h>

#define MARGIN 10 /* "rank 1023 " */
#define MOST_COLUMNS 500

/* Colours that differ in brightness too: F blue, I orange, W green, B purple. */
static const char *const ansi[SL_OP_KINDS] = {"\033[97;44m", "\033[30;43m", "\033[30;42m", "\033[97;45m"};

/* One cell of a row. */
typedef struct cell {
    char text;
    signed char kind; /* -1: idle */
} cell;

static int column_of(sl_time t, sl_time end, int columns) {
    return end > 0 ? (int)((double)t / (double)end * columns + 0.5) : 0;
}

/* An op shows its letter, then as many of its microbatch's last digits as fit, then dashes. One that is too
 * short for a column of its own still gets one. */
static void put_span(const sl_span *span, sl_time begin, sl_time end, int columns, cell *row) {
    int from = column_of(span->start - begin, end, columns), to = column_of(span->end - begin, end, columns);
    if (from == columns)
        from--;
    if (to <= from)
        to = from + 1;
    char digits[16];
    int length = snprintf(digits, sizeof digits, "%d", span->op.microbatch), room = to - from - 1;
    const char *shown = digits + (length > room ? length - room : 0);
    row[from] = (cell){.text = sl_op_name(span->op.kind)[0], .kind = (signed char)span->op.kind};
    for (int i = from + 1; i < to && i < columns; i++)
        row[i] = (cell){.text = *shown ? *shown++ : '-', .kind = (signed char)span->op.kind};
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

/* Whether columns [at - 1, at + length] of the axis are blank. */
static int is_free(const char *axis, int at, int length) {
    for (int i = at > 0 ? at - 1 : 0; i <= at + length; i++)
        if (axis[i] != ' ')
            return 0;
    return 1;
}

/* Labels at both ends and, where there is room, at quarters of the width. */
static void print_axis(sl_time end, int columns, FILE *out) {
    static const int quarters[] = {0, 4, 2, 1, 3};
    char axis[MOST_COLUMNS + 2];
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

sl_status sl_draw_text(const sl_timeline *t, const sl_text_options *options, FILE *out) {
    int columns = (options->width < 40             ? 40
                   : options->width > MOST_COLUMNS ? MOST_COLUMNS
                                                   : options->width) -
                  MARGIN;
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
