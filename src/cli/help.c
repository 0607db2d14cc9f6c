#include "cli/help.h"
#include "base/numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    WIDEST = 80,   /* columns of a line */
    NARROWEST = 30 /* below this, line breaks by the terminal are as good */
};

/* ---- the parts ---- */

__attribute__((format(printf, 2, 3))) static void append(char *text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, SL_HELP_ROOM - used, format, values);
    va_end(values);
}

const char *sl_help_line(const char **text, int *length) {
    const char *line = *text;
    if (!line || !*line)
        return NULL;
    *length = (int)strcspn(line, "\n");
    *text = line + *length + (line[*length] != 0);
    return line;
}

/* The length of the first word: to a blank, at most `length`. */
static int word_length(const char *text, int length) {
    const int at = (int)strcspn(text, " ");
    return at < length ? at : length;
}

/* The length of what is not broken unless it is longer than `room`: a word, words within quotes, and, in an
 * example, an option with its value. */
static int unit_length(const char *text, int length, int room, int is_example) {
    const int word = word_length(text, length);
    int unit = word;
    if (is_example && *text == '-' && word + 1 < length && text[word + 1] != '-')
        unit = word + 1 + unit_length(text + word + 1, length - word - 1, room, 0);
    const char *end = *text == '\'' ? memchr(text + 1, '\'', (size_t)length - 1) : NULL;
    if (end)
        unit = (int)(end - text) + word_length(end, length - (int)(end - text));
    return unit <= room ? unit : word;
}

int sl_help_shows(const sl_option *option) {
    return *option->name && option->help;
}

/* a|b|c, unless the argument has a name. */
static void append_argument(const sl_option *o, char *text) {
    char room[SL_VALUE_ROOM];
    sl_value value;
    if (o->argument)
        append(text, "%s", o->argument);
    for (int i = 0; !o->argument && sl_option_value(o, i, &value, room); i++)
        append(text, "%s%s", i ? "|" : "", value.name);
}

int sl_help_head(const sl_option *o, char text[SL_HELP_ROOM]) {
    text[0] = 0;
    if (o->letter)
        append(text, "-%c, ", o->letter);
    append(text, "--%s%s", o->name, o->argument || o->values ? " " : "");
    append_argument(o, text);
    return (int)strlen(text);
}

void sl_help_meaning(const sl_option *o, char text[SL_HELP_ROOM]) {
    char values[256];
    snprintf(text, SL_HELP_ROOM, "%s", o->help);
    if (o->argument && o->values && !o->values->help) {
        sl_values_join(o->values, values, sizeof values);
        append(text, ": %s", values);
    }
    if (o->standard)
        append(text, " (default %s)", o->standard);
    else if (o->kind == SL_TAKES_TEXTS)
        append(text, " (repeatable)");
}

int sl_help_usage(const sl_command *command, int form, char text[SL_HELP_ROOM]) {
    const sl_option *words = sl_options_words(command->options);
    const unsigned bit = 1u << form;
    unsigned forms = 1;
    int others = 0;
    for (const sl_option *o = command->options; o->name; o++) {
        forms |= o->required;
        others |= sl_help_shows(o) && !(o->required & bit);
    }
    if (bit > forms)
        return 0;
    snprintf(text, SL_HELP_ROOM, "slackline %s", command->name);
    const int is_program = words && words->kind == SL_TAKES_PROGRAM;
    const int is_wanted = words && (words->required & bit);
    if (words && !is_program && (is_wanted || !words->required)) {
        append(text, is_wanted ? " " : " [");
        append_argument(words, text);
        append(text, is_wanted ? "" : "]");
    }
    for (const sl_option *o = command->options; o->name; o++)
        if (*o->name && o->required & bit) {
            append(text, " --%s ", o->name);
            append_argument(o, text);
        }
    append(text, others ? " [OPTION]..." : "");
    if (is_program)
        append(text, " -- %s", words->argument);
    return 1;
}

/* ---- lines ---- */

/* Prints the words of text[length] from column `at` on. Further lines begin at `left`; `broken` ends a line
 * that another follows. */
static void fill(const char *text, int length, int at, int left, int width, const char *broken) {
    int is_first = 1;
    for (int size; length > 0; text += size, length -= size) {
        size = (int)strspn(text, " ");
        text += size;
        length -= size;
        size = unit_length(text, length, width - left - (int)strlen(broken), *broken != 0);
        if (!is_first && at + 1 + size > width - (int)strlen(broken)) {
            printf("%s\n%*s", broken, left, "");
            at = left;
            is_first = 1;
        }
        printf("%s%.*s", is_first ? "" : " ", size, text);
        at += size + !is_first;
        is_first = 0;
    }
    putchar('\n');
}

/* `head` at column `indent`, then `text` from `column` on: on the next line if the head is longer. */
static void print_entry(int indent, const char *head, int column, const char *text, int width) {
    const int end = printf("%*s%s", indent, "", head);
    printf(end + 2 > column ? "\n%*s" : "%*s", end + 2 > column ? column : column - end, "");
    fill(text, (int)strlen(text), column, column, width, "");
}

static void print_paragraphs(const char *text, int width) {
    int length, was_shown = 0;
    for (const char *line; (line = sl_help_line(&text, &length)) != NULL; was_shown = *line == ' ') {
        if (!(*line == ' ' && was_shown))
            putchar('\n');
        if (*line == ' ')
            printf("%.*s\n", length, line);
        else
            fill(line, length, 0, 0, width, "");
    }
}
/* ---- options ---- */

static void print_values(int indent, int (*value_of)(const void *of, int, sl_value *, char *), const void *of,
                         int width) {
    char room[SL_VALUE_ROOM];
    sl_value value;
    int column = 0;
    for (int i = 0; value_of(of, i, &value, room); i++)
        column = (int)strlen(value.name) > column ? (int)strlen(value.name) : column;
    column = indent + sl_smaller(column, width / 3) + 2;
    for (int i = 0; value_of(of, i, &value, room); i++)
        print_entry(indent, value.name, column, value.help, width);
}

/* An option's values, if they have meanings. */
static int value_of_option(const void *of, int index, sl_value *value, char *room) {
    return sl_option_value(of, index, value, room) && value->help;
}

static int value_of_list(const void *of, int index, sl_value *value, char *room) {
    return ((const sl_command *)of)->list(index, value, room);
}

/* Where meanings begin: longer heads have a line of their own. */
static int column_of(const sl_option *table, int width) {
    enum { COLUMN_MAX = 22 };
    char head[SL_HELP_ROOM];
    int column = 0;
    for (const sl_option *o = table; o->name; o++) {
        const int length = sl_help_shows(o) ? sl_help_head(o, head) : 0;
        column = length > column && length <= sl_smaller(COLUMN_MAX, width / 3) ? length : column;
    }
    return column + 4;
}

static void print_options(const sl_option *table, int width) {
    const int column = column_of(table, width);
    char head[SL_HELP_ROOM], meaning[SL_HELP_ROOM];
    int is_first = 1;
    for (const sl_option *o = table; o->name; o++) {
        if (!sl_help_shows(o))
            continue;
        if (is_first || o->heading)
            putchar('\n');
        if (o->heading)
            printf("%s:\n", o->heading);
        sl_help_head(o, head);
        sl_help_meaning(o, meaning);
        print_entry(2, head, column, meaning, width);
        print_values(6, value_of_option, o, width);
        is_first = 0;
    }
}

/* ---- the whole ---- */

static int columns(void) {
    struct winsize size;
    const int is_known =
        isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= NARROWEST;
    return is_known ? sl_smaller(size.ws_col, WIDEST) : WIDEST;
}

static void print_examples(const char *text, int width) {
    static const char title[] = "Example: ";
    const int left = (int)strlen(title);
    int length;
    printf("\n");
    for (const char *line, *head = title; (line = sl_help_line(&text, &length)) != NULL; head = "") {
        printf("%-*s", left, head);
        fill(line, length, left, left + 4, width, " \\");
    }
}

void sl_help_print(const sl_command *command) {
    static const char title[] = "Usage: ";
    const int width = columns(), left = (int)strlen(title);
    char text[SL_HELP_ROOM];
    for (int form = 0; sl_help_usage(command, form, text); form++) {
        printf("%-*s", left, form ? "" : title);
        fill(text, (int)strlen(text), left, left + 10, width, "");
    }
    print_paragraphs(command->about, width);
    print_options(command->options, width);
    if (command->list_title) {
        printf("\n%s:\n", command->list_title);
        print_values(2, value_of_list, command, width);
    }
    print_paragraphs(command->notes, width);
    if (command->exit_code) {
        snprintf(text, sizeof text, "Exit code: %s", command->exit_code);
        print_paragraphs(text, width);
    }
    print_examples(command->example, width);
}
