#include "cli/series.h"

#include "base/memory.h"
#include "base/random.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const call_names[6] = {"call", "communicator", "peer", "bytes", "start_ns", "rank"};

/* A number and nothing else; spaces around it are allowed. */
static int parse_real(const char *text, double *value) {
    char *end;
    text += strspn(text, " \t");
    if (!strchr("+-.0123456789", *text) || !*text || strpbrk(text, "xX"))
        return 0;
    *value = strtod(text, &end);
    end += strspn(end, " \t");
    return *end == 0 && isfinite(*value);
}

#define LONGEST_LINE (16 << 20) /* bytes; a device or a binary file may never end its line */

/* As getline, up to the first zero byte or LONGEST_LINE; returns the bytes, or -1 at the end. *refused: the
 * reason of an early stop, else NULL. */
static ssize_t get_line(sl_series_reader *s, const char **refused) {
    size_t used = 0;
    int c = 0;
    *refused = NULL;
    while (c != '\n' && (c = getc_unlocked(s->file)) != EOF) {
        if (c == 0)
            *refused = "holds a zero byte";
        if (used == LONGEST_LINE)
            *refused = "is not a line of text: longer than 16 MiB";
        if (!*refused && sl_grow(&s->line, &s->line_size, used + 2, 1) != SL_OK)
            *refused = "out of memory for the line";
        if (*refused)
            return (ssize_t)used;
        s->line[used++] = (char)c;
        s->line[used] = 0;
    }
    return used > 0 ? (ssize_t)used : -1;
}

/* Reads a line without its end; 0 bytes are refused because text after them would be lost. */
static sl_status read_line(sl_series_reader *s, int *end) {
    for (;;) {
        errno = 0;
        const char *refused;
        ssize_t size = get_line(s, &refused);
        *end = size < 0;
        if (size < 0 && ferror(s->file))
            return sl_error(SL_EINVAL, "%s: cannot be read: %s", s->name, strerror(errno));
        if (size < 0)
            return SL_OK;
        s->line_number++;
        if (refused)
            return sl_error(SL_EINVAL, "%s:%ld: %s", s->name, s->line_number, refused);
        s->line[strcspn(s->line, "\r\n")] = 0;
        if (s->line_number == 1 && strncmp(s->line, "\xef\xbb\xbf", 3) == 0)
            memmove(s->line, s->line + 3, strlen(s->line + 3) + 1);
        if (s->line[strspn(s->line, " \t")])
            return SL_OK;
    }
}

/* One cell at `text`, unquoted in place; returns the text after it, NULL after the last one. */
static char *cut_cell(char *text, char **cell, int *wrong) {
    char *out = text, *in = text;
    *cell = text;
    *wrong = 0;
    if (*in != '"') {
        in += strcspn(in, ",");
        out = in;
    } else {
        for (in++; *in && !(in[0] == '"' && in[1] != '"'); in++) {
            in += in[0] == '"';
            *out++ = *in;
        }
        *wrong = *in != '"' || (in[1] && in[1] != ',');
        in += *in == '"';
    }
    char *next = *in == ',' ? in + 1 : NULL;
    *out = 0;
    return next;
}

static sl_status split(sl_series_reader *s) {
    char *text = s->line;
    for (s->cells = 0; text; s->cells++) {
        int wrong;
        SL_TRY(sl_grow(&s->cell, &s->cell_room, s->cells + 1, sizeof *s->cell));
        text = cut_cell(text, &s->cell[s->cells], &wrong);
        if (wrong)
            return sl_error(SL_EINVAL, "%s:%ld: column %zu: a quote is not closed, or text follows it",
                            s->name, s->line_number, s->cells + 1);
    }
    return SL_OK;
}

static int column_named(const sl_series_reader *s, const char *name) {
    for (size_t i = 0; i < s->columns; i++)
        if (strcmp(s->header[i], name) == 0)
            return (int)i;
    return -1;
}

static void find_call_columns(sl_series_reader *s) {
    s->is_calls = !s->wanted;
    for (int i = 0; i < 6; i++) {
        s->call_column[i] = column_named(s, call_names[i]);
        if (i < 5 && s->call_column[i] < 0)
            s->is_calls = 0;
    }
}

/* The first line is a header unless every cell of it is a number. */
static sl_status read_header(sl_series_reader *s) {
    double value;
    SL_TRY(split(s));
    s->columns = s->cells;
    s->first_pending = 1;
    for (size_t i = 0; i < s->cells; i++)
        if (!parse_real(s->cell[i], &value))
            s->first_pending = 0;
    if (s->first_pending) {
        if (s->wanted)
            return sl_error(SL_EINVAL, "%s:1: has no header, so there is no column '%s'", s->name, s->wanted);
        return SL_OK;
    }
    SL_TRY(sl_grow(&s->header, &s->header_room, s->columns, sizeof *s->header));
    for (size_t i = 0; i < s->columns; i++) {
        char *name = s->cell[i] + strspn(s->cell[i], " \t");
        name[strcspn(name, "\t")] = 0;
        for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
            name[n - 1] = 0;
        SL_TRY(sl_copy_text(&s->header[i], name));
    }
    find_call_columns(s);
    s->column = s->is_calls ? -1 : column_named(s, s->wanted ? s->wanted : "time_ms");
    if (s->wanted && s->column < 0)
        return sl_error(SL_EINVAL, "%s:%ld: there is no column '%s'", s->name, s->line_number, s->wanted);
    return SL_OK;
}

sl_status sl_series_reader_open(const char *path, const char *column, sl_series_reader *s) {
    int end = 0, is_input = strcmp(path, "-") == 0;
    *s = (sl_series_reader){.name = is_input ? "standard input" : path, .wanted = column, .column = -1};
    s->file = is_input ? stdin : fopen(path, "r");
    if (!s->file)
        return sl_error(SL_EINVAL, "%s: cannot be read: %s", path, strerror(errno));
    SL_TRY(read_line(s, &end));
    if (end)
        return sl_error(SL_EINVAL, "%s: is empty", s->name);
    s->is_json = s->line[strspn(s->line, " \t")] == '{';
    s->first_pending = s->is_json;
    return s->is_json ? SL_OK : read_header(s);
}

void sl_series_reader_close(sl_series_reader *s) {
    if (s->file && s->file != stdin)
        fclose(s->file);
    for (size_t i = 0; s->header && i < s->columns && i < s->header_room; i++)
        sl_free(s->header[i]);
    SL_FREE(s->header, s->cell, s->key, s->line);
    *s = (sl_series_reader){0};
}

sl_status sl_series_reader_refuse(const sl_series_reader *s, const char *why) {
    if (s->is_json)
        return sl_error(SL_EINVAL, "%s:%ld: '%s' %s", s->name, s->line_number, s->key, why);
    const char *name = s->header ? s->header[s->column] : "", *cell = s->cell[s->column];
    return sl_error(SL_EINVAL, "%s:%ld: column %d%s%s%s: '%.40s' %s", s->name, s->line_number, s->column + 1,
                    *name ? " '" : "", name, *name ? "'" : "", cell, why);
}

/* time_ms, else the last numeric value of the first object. */
static sl_status choose_key(sl_series_reader *s, const json_t *object) {
    const char *key, *chosen = s->wanted;
    json_t *value;
    if (!chosen && json_object_get(object, "time_ms"))
        chosen = "time_ms";
    if (!chosen)
        json_object_foreach((json_t *)object, key, value) if (json_is_number(value)) chosen = key;
    if (!chosen)
        return sl_error(SL_EINVAL, "%s:%ld: no value is a number", s->name, s->line_number);
    return sl_copy_text(&s->key, chosen);
}

static sl_status parse_json(sl_series_reader *s, double *sample) {
    json_error_t error;
    json_t *object = json_loads(s->line, JSON_REJECT_DUPLICATES, &error);
    if (!object || !json_is_object(object)) {
        json_decref(object);
        return sl_error(SL_EINVAL, "%s:%ld: column %d: no JSON object: %s", s->name, s->line_number,
                        object ? 1 : error.column, object ? "something else" : error.text);
    }
    sl_status status = s->key ? SL_OK : choose_key(s, object);
    const json_t *value = status == SL_OK ? json_object_get(object, s->key) : NULL;
    if (status == SL_OK && !json_is_number(value))
        status = sl_series_reader_refuse(s, value ? "is not a number" : "is missing");
    if (status == SL_OK)
        *sample = json_number_value(value);
    json_decref(object);
    return status;
}

static sl_status check_width(const sl_series_reader *s) {
    if (s->cells != s->columns)
        return sl_error(SL_EINVAL, "%s:%ld: has %zu columns, the first line has %zu", s->name, s->line_number,
                        s->cells, s->columns);
    return SL_OK;
}

static sl_status parse_cell(sl_series_reader *s, double *sample) {
    SL_TRY(check_width(s));
    for (int i = (int)s->cells - 1; s->column < 0 && i >= 0; i--)
        if (parse_real(s->cell[i], sample))
            s->column = i;
    if (s->column < 0)
        return sl_error(SL_EINVAL, "%s:%ld: no column is a number", s->name, s->line_number);
    return parse_real(s->cell[s->column], sample) ? SL_OK : sl_series_reader_refuse(s, "is not a number");
}

static sl_status next_line(sl_series_reader *s, int *end) {
    *end = 0;
    if (s->first_pending) {
        s->first_pending = 0;
        return SL_OK;
    }
    SL_TRY(read_line(s, end));
    return *end || s->is_json ? SL_OK : split(s);
}

sl_status sl_series_reader_next(sl_series_reader *s, double *sample, int *end) {
    SL_TRY(next_line(s, end));
    if (*end)
        return SL_OK;
    return s->is_json ? parse_json(s, sample) : parse_cell(s, sample);
}

/* Numbers by value; names (a communicator may have one) by their letters. */
static sl_status parse_word(sl_series_reader *s, int column, int64_t least, int is_name, int64_t *value) {
    const char *text = s->cell[s->column = column];
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 0);
    if (*text && !*end && !errno && (is_name || *value >= least))
        return SL_OK;
    if (!is_name || !*text)
        return sl_series_reader_refuse(s, "is not a whole number that fits");
    uint64_t mixed = SL_RANDOM_STEP;
    for (; *text; text++)
        mixed = sl_random_mix(mixed ^ (unsigned char)*text);
    *value = (int64_t)mixed;
    return SL_OK;
}

sl_status sl_series_reader_next_call(sl_series_reader *s, sl_series_call *call, int *end) {
    int64_t name, communicator, peer, bytes;
    SL_TRY(next_line(s, end));
    if (*end)
        return SL_OK;
    SL_TRY(check_width(s));
    SL_TRY(parse_word(s, s->call_column[0], 0, 1, &name));
    SL_TRY(parse_word(s, s->call_column[1], 0, 1, &communicator));
    SL_TRY(parse_word(s, s->call_column[2], INT32_MIN, 0, &peer));
    SL_TRY(parse_word(s, s->call_column[3], 0, 0, &bytes));
    SL_TRY(parse_word(s, s->call_column[4], INT64_MIN, 0, &call->start));
    call->rank = 0;
    if (s->call_column[5] >= 0)
        SL_TRY(parse_word(s, s->call_column[5], 0, 0, &call->rank));
    uint64_t mixed = sl_random_mix((uint64_t)name);
    call->symbol = (sl_symbol){.communicator = (uint64_t)communicator,
                               .bytes = (uint64_t)bytes,
                               .peer = (int32_t)peer,
                               .call = (uint32_t)(mixed ^ mixed >> 32)};
    return SL_OK;
}
