#include "cli/help.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- lines and blocks ---- */

static size_t indent_of(const char *line) {
    return strspn(line, " ");
}

static int begins(const char *line, const char *with) {
    return strncmp(line, with, strlen(with)) == 0;
}

/* The title at the start of a block of this kind, "Usage: " and the like. */
static const char *title_of(sl_help_kind kind) {
    return kind == SL_HELP_USAGE     ? "Usage: "
           : kind == SL_HELP_EXIT    ? "Exit code: "
           : kind == SL_HELP_EXAMPLE ? "Example: "
                                     : "";
}

/* Six blanks, a word, and two blanks before its meaning. */
static int is_value(const char *line) {
    return indent_of(line) == 6 && strstr(line + 6, "  ") != NULL;
}

/* The kind of a line if it begins a block; -1: it continues `before`. */
static int kind_of(const char *line, int before, int after_blank) {
    for (sl_help_kind kind = SL_HELP_USAGE; kind <= SL_HELP_EXAMPLE; kind++)
        if (*title_of(kind) && begins(line, title_of(kind)))
            return (int)kind;
    if (before == SL_HELP_EXAMPLE)
        return -1;
    if (indent_of(line) == 2 && line[2] == '-')
        return SL_HELP_OPTION;
    int in_option = before == SL_HELP_OPTION || before == SL_HELP_VALUE;
    if (in_option && is_value(line))
        return SL_HELP_VALUE;
    if (after_blank || before < 0 || (in_option && indent_of(line) == 0))
        return SL_HELP_TEXT;
    return -1;
}

static sl_status add_block(sl_help *help, size_t *room, sl_help_kind kind, int line) {
    SL_TRY(sl_grow(&help->block, room, (size_t)help->blocks + 1, sizeof *help->block));
    help->block[help->blocks++] = (sl_help_block){.kind = kind, .first = line, .count = 1};
    return SL_OK;
}

static sl_status split(sl_help *help) {
    size_t room = 0, count = 0;
    for (const char *c = help->text; *c; c++)
        count += *c == '\n';
    SL_TRY(sl_alloc(&help->line, count + 1, sizeof *help->line));
    int before = -1, after_blank = 0;
    for (char *line = help->text; *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        help->line[help->lines] = line;
        if (!*line) {
            after_blank = 1;
        } else {
            int kind = kind_of(line, before, after_blank);
            if (kind >= 0)
                SL_TRY(add_block(help, &room, (sl_help_kind)kind, help->lines));
            else
                help->block[help->blocks - 1].count = help->lines - help->block[help->blocks - 1].first + 1;
            before = (int)help->block[help->blocks - 1].kind;
            after_blank = 0;
        }
        help->lines++;
        line = next;
    }
    return SL_OK;
}

sl_status sl_help_parse(const char *text, sl_help *help) {
    *help = (sl_help){0};
    SL_TRY(sl_copy_text(&help->text, text));
    return split(help);
}

void sl_help_free(sl_help *help) {
    SL_FREE(help->text, help->line, help->block);
    *help = (sl_help){0};
}

/* ---- heads and words ---- */

size_t sl_help_head(const sl_help *help, int block, const char **head) {
    const char *line = help->line[help->block[block].first];
    *head = line + indent_of(line);
    const char *gap = strstr(*head, "  ");
    return gap ? (size_t)(gap - *head) : strlen(*head);
}

void sl_help_words(const sl_help *help, int block, char *text, size_t size) {
    const sl_help_block *b = &help->block[block];
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < b->count; i++) {
        const char *line = help->line[b->first + i];
        if (i == 0 && (b->kind == SL_HELP_OPTION || b->kind == SL_HELP_VALUE)) {
            const char *head;
            size_t length = sl_help_head(help, block, &head);
            line = head + length;
        } else if (i == 0) {
            line += strlen(title_of(b->kind));
        }
        while (*(line += indent_of(line))) {
            size_t length = strcspn(line, " ");
            if (used + length + 2 > size)
                return;
            used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? " " : "", (int)length, line);
            line += length;
        }
    }
}

/* ---- options ---- */

/* FILE, LIST|FILE, PROBLEM, TRACE: a file; DIR: a folder. */
static sl_help_argument argument_kind(const char *argument) {
    static const char *const files[] = {"FILE", "PROBLEM", "TRACE", NULL};
    if (!*argument)
        return SL_HELP_NOTHING;
    for (int i = 0; files[i]; i++)
        if (strstr(argument, files[i]))
            return SL_HELP_FILE;
    return strstr(argument, "DIR") ? SL_HELP_FOLDER : SL_HELP_WORDS;
}

/* "-o, --output FILE": the letter, the name, the argument. */
static void read_head(const char *head, size_t length, sl_help_option *o) {
    for (size_t at = 0; at < length;) {
        const char *word = head + at;
        size_t size = strcspn(word, " ");
        size = at + size > length ? length - at : size;
        int comma = word[size - 1] == ',', bare = (int)size - comma;
        if (begins(word, "--"))
            snprintf(o->name, sizeof o->name, "%.*s", bare - 2, word + 2);
        else if (word[0] == '-' && bare == 2)
            o->letter = word[1];
        else
            snprintf(o->argument + strlen(o->argument), sizeof o->argument - strlen(o->argument), "%s%.*s",
                     *o->argument ? " " : "", (int)size, word);
        at += size + strspn(word + size, " ");
    }
    o->kind = argument_kind(o->argument);
}

static int is_plain(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)word[i]) && !isdigit((unsigned char)word[i]) && word[i] != '-' &&
            word[i] != '|')
            return 0;
    return length > 0;
}

/* `a|b|c` in the usage, with blanks for bars; "" if it is not of that form. */
static void take_alternatives(const char *word, size_t length, char *values, size_t size) {
    if (!is_plain(word, length) || !memchr(word, '|', length) || length + 1 > size)
        return;
    snprintf(values, size, "%.*s", (int)length, word);
    for (char *c = values; *c; c++)
        *c = *c == '|' ? ' ' : *c;
}

/* A word of the usage: to a blank, a bracket or the line's end. */
static size_t word_length(const char *word) {
    return strcspn(word, " []");
}

static void find_in_usage(const sl_help *help, sl_help_option *o) {
    char name[sizeof o->name + 2];
    snprintf(name, sizeof name, "--%s", o->name);
    for (int i = 0; i < help->blocks; i++)
        for (int l = 0; help->block[i].kind == SL_HELP_USAGE && l < help->block[i].count; l++)
            for (const char *at = help->line[help->block[i].first + l]; *at;) {
                size_t length = word_length(at);
                if (length == strlen(name) && strncmp(at, name, length) == 0 && at[length] == ' ')
                    take_alternatives(at + length + 1, word_length(at + length + 1), o->values,
                                      sizeof o->values);
                at += length + (at[length] != 0);
            }
}

int sl_help_next_option(const sl_help *help, int *at, sl_help_option *option) {
    *option = (sl_help_option){0};
    for (++*at; *at < help->blocks && help->block[*at].kind != SL_HELP_OPTION;)
        ++*at;
    if (*at >= help->blocks)
        return 0;
    const char *head;
    size_t length = sl_help_head(help, *at, &head);
    option->block = *at;
    read_head(head, length, option);
    for (int i = *at + 1; i < help->blocks && help->block[i].kind == SL_HELP_VALUE; i++) {
        size_t used = strlen(option->values);
        length = sl_help_head(help, i, &head);
        if (used + length + 2 < sizeof option->values)
            snprintf(option->values + used, sizeof option->values - used, "%s%.*s", used ? " " : "",
                     (int)length, head);
    }
    if (!*option->values && *option->name)
        find_in_usage(help, option);
    return 1;
}

/* ---- positional arguments ---- */

static int takes_argument(const sl_help *help, const char *word, size_t length) {
    sl_help_option o;
    for (int at = -1; sl_help_next_option(help, &at, &o);) {
        if (length == 2 && word[0] == '-' && word[1] == o.letter)
            return o.kind != SL_HELP_NOTHING;
        if (length == strlen(o.name) + 2 && begins(word, "--") && strncmp(word + 2, o.name, length - 2) == 0)
            return o.kind != SL_HELP_NOTHING;
    }
    return 0;
}

/* One line of usage; the first positional argument counts. */
static sl_help_argument place_in(const sl_help *help, const char *line, char *values, size_t size) {
    int skip = 0, behind = 0;
    for (const char *word = line; *word;) {
        size_t length = word_length(word);
        if (length == 2 && begins(word, "--")) {
            behind = 1;
        } else if (length > 1 && word[0] == '-') {
            skip = takes_argument(help, word, length);
        } else if (length > 0 && skip) {
            skip = 0;
        } else if (length > 0 && !(length == 6 && begins(word, "OPTION"))) {
            if (length == 7 && begins(word, "COMMAND"))
                return behind ? SL_HELP_PROGRAM : SL_HELP_COMMAND;
            take_alternatives(word, length, values, size);
            if (*values)
                return SL_HELP_WORDS;
            if (isupper((unsigned char)word[0]) && length > 1)
                return SL_HELP_FILE;
        }
        word += length + (word[length] != 0);
    }
    return SL_HELP_NOTHING;
}

sl_help_argument sl_help_place(const sl_help *help, char *values, size_t size) {
    values[0] = 0;
    for (int i = 0; i < help->blocks; i++)
        for (int l = 0; help->block[i].kind == SL_HELP_USAGE && l < help->block[i].count; l++) {
            const char *line = help->line[help->block[i].first + l];
            line += l == 0 ? strlen(title_of(SL_HELP_USAGE)) : 0;
            sl_help_argument place = place_in(help, line, values, size);
            if (place != SL_HELP_NOTHING)
                return place;
        }
    return SL_HELP_NOTHING;
}

/* Help on a terminal that is narrower than its lines. */

enum { MIN = 30 }; /* columns; below this, line breaks by the terminal are as good */

/* The indent of a continued line: below its words, after their option. */
static size_t below(const char *line, size_t width) {
    size_t indent = strspn(line, " ");
    const char *gap = strstr(line + indent, "  ");
    size_t words = gap ? (size_t)(gap - line) + strspn(gap, " ") : indent;
    return words <= width / 2 ? words : indent + 4;
}

/* The length of `line` that fits into `room`: to a blank after `from`, else to the first one. */
static size_t piece(const char *line, size_t from, size_t room) {
    size_t at = room;
    while (at > from && line[at] != ' ')
        at--;
    return at > from ? at : room + strcspn(line + room, " ");
}

static void print_line(const char *line, size_t width, FILE *out) {
    size_t left = below(line, width), from = left, room = width;
    while (strlen(line) > room) {
        size_t length = piece(line, from, room);
        fprintf(out, "%.*s\n", (int)length, line);
        line += length;
        line += strspn(line, " ");
        if (!*line)
            return;
        fprintf(out, "%*s", (int)left, "");
        from = 0;
        room = width - left;
    }
    fprintf(out, "%s\n", line);
}

void sl_help_print(const char *text) {
    struct winsize size;
    sl_help help = {0};
    int is_narrow =
        isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= MIN;
    if (!is_narrow || sl_help_parse(text, &help) != SL_OK)
        fputs(text, stdout);
    else
        for (int i = 0; i < help.lines; i++)
            print_line(help.line[i], size.ws_col, stdout);
    sl_help_free(&help);
}
