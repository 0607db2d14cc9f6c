#include "base/option.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 63, FIRST = 256 }; /* getopt_long returns FIRST plus the index of a row */

const sl_value sl_text_or_json[] = {{"text", NULL}, {"json", NULL}, {NULL, NULL}};

/* ---- errors ---- */

/* Lists the names with this prefix, separated by commas; returns their number. */
static int list_begun(const struct option *table, const char *word, char *text, size_t size) {
    int count = 0;
    text[0] = 0;
    for (; table->name; table++)
        if (strncmp(table->name, word, strlen(word)) == 0) {
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s--%s", count++ ? ", " : "", table->name);
        }
    return count;
}

/* A key of the command's file by the name of an option or the beginning of KEY=VALUE. */
typedef struct wanted_key {
    const char *word;
    size_t length;
    char path[160]; /* "": none so far */
} wanted_key;

/* Whether the last part of `path`, or all of it, is the word, in which - stands for _ and . */
static int is_named(const wanted_key *w, const char *path) {
    if (strlen(path) != w->length)
        return 0;
    size_t same = 0;
    while (same < w->length && (path[same] == w->word[same] || w->word[same] == '-'))
        same++;
    return same == w->length;
}

/* A section is meant by its key `kind`. */
static void match_key(const char *path, const sl_key *key, void *context) {
    wanted_key *w = context;
    char whole[sizeof w->path], section[sizeof w->path];
    snprintf(whole, sizeof whole, "%s%s", path, key->name);
    snprintf(section, sizeof section, "%.*s", (int)strlen(path) - 1, path);
    const int is_kind = *path && strcmp(key->name, "kind") == 0 && is_named(w, section);
    if (!w->path[0] && !strstr(whole, "[]") && (is_named(w, key->name) || is_named(w, whole) || is_kind))
        snprintf(w->path, sizeof w->path, "%s", whole);
}

/* What --set would be given for the word; 0: the command has no --set, or its file no such key. */
static int find_key(const sl_options *o, const char *word, size_t length, char path[160]) {
    wanted_key wanted = {.word = word, .length = length};
    for (const sl_option *row = o->table; row->name && length > 0; row++)
        if (row->keys && row->kind == SL_TAKES_TEXTS)
            row->keys(match_key, &wanted);
    snprintf(path, 160, "%s", wanted.path);
    return path[0] != 0;
}

static sl_status refuse_name(const sl_options *o, const struct option *table, const char *text) {
    char path[160];
    const char *names[MAX_NAMES + 1] = {NULL};
    char begun[256];
    int is_long = strncmp(text, "--", 2) == 0;
    for (int i = 0; i < MAX_NAMES && table[i].name; i++)
        names[i] = table[i].name;
    if (is_long && list_begun(table, text + 2, begun, sizeof begun) > 1)
        return sl_error(SL_EINVAL, "%s: '%s' may be any of %s", o->command, text, begun);
    if (is_long && find_key(o, text + 2, strlen(text + 2), path))
        return sl_error(SL_EINVAL, "%s: unknown option '%s'; did you mean '--set %s=VALUE'?", o->command,
                        text, path);
    const char *near = is_long ? sl_suggest(text + 2, names) : NULL;
    if (near)
        return sl_error(SL_EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", o->command, text, near);
    return sl_error(SL_EINVAL, "%s: unknown option '%s'; see slackline %s --help", o->command, text,
                    o->command);
}

/* `word` is the one that getopt_long has rejected; `missing`: because it lacks a value. */
static sl_status refuse(const sl_options *o, const struct option *table, const char *word, int missing) {
    char text[64];
    int is_long = strncmp(word, "--", 2) == 0;
    if (!is_long && optopt > ' ' && optopt < 127) /* one of several letters after a - */
        snprintf(text, sizeof text, "-%c", optopt);
    else
        snprintf(text, sizeof text, "%s", word);
    text[is_long ? strcspn(text, "=") : strlen(text)] = 0;
    if (missing)
        return sl_error(SL_EINVAL, "%s: a value is missing after '%s'; see slackline %s --help", o->command,
                        text, o->command);
    if (is_long && optopt) /* known, so its value is wrong */
        return sl_error(SL_EINVAL, "%s: '%s' takes no value", o->command, text);
    return refuse_name(o, table, text);
}

/* ---- values ---- */

sl_status sl_option_whole(const sl_options *o, int64_t least, int64_t most, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(o->value, &end, 10);
    if (!isdigit((unsigned char)o->value[o->value[0] == '-']) || *end || errno || *value < least ||
        *value > most)
        return sl_error(SL_EINVAL, "%s: --%s must be a whole number from %lld to %lld, got '%.40s'",
                        o->command, o->row->name, (long long)least, (long long)most, o->value);
    return SL_OK;
}

sl_status sl_option_int(const sl_options *o, int least, int most, int *value) {
    int64_t number;
    SL_TRY(sl_option_whole(o, least, most, &number));
    *value = (int)number;
    return SL_OK;
}

/* A decimal number, without strtod's other forms. */
static int is_decimal(const char *text) {
    return text[strspn(text, "0123456789.eE+-")] == 0 && strpbrk(text, "0123456789") != NULL;
}

sl_status sl_option_real(const sl_options *o, const char *unit, double least, double most, double *value) {
    char *end;
    *value = strtod(o->value, &end);
    if (!is_decimal(o->value) || *end || !(*value >= least && *value <= most))
        return sl_error(SL_EINVAL, "%s: --%s must be %s from %g to %g, got '%.40s'", o->command, o->row->name,
                        unit ? unit : "a number", least, most, o->value);
    return SL_OK;
}

void sl_values_join(const sl_value *values, char *text, size_t size) {
    text[0] = 0;
    for (const sl_value *v = values; v->name; v++) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", v == values ? "" : v[1].name ? ", " : " or ", v->name);
    }
}

sl_status sl_option_choice(const sl_options *o, int *chosen) {
    char all[256];
    for (const sl_value *v = o->row->values; v->name; v++)
        if (strcmp(v->name, o->value) == 0) {
            *chosen = (int)(v - o->row->values);
            return SL_OK;
        }
    sl_values_join(o->row->values, all, sizeof all);
    return sl_error(SL_EINVAL, "%s: --%s must be %s, got '%.40s'", o->command, o->row->name, all, o->value);
}

int sl_option_value(const sl_option *option, int index, sl_value *value, char room[SL_VALUE_ROOM]) {
    if (option->list)
        return option->list(index, value, room);
    for (const sl_value *v = option->values; v && v->name; v++)
        if (index-- == 0) {
            *value = *v;
            return 1;
        }
    return 0;
}

sl_status sl_option_secret(const sl_options *o, char *text, size_t size) {
    enum { MAX = 4096 };
    const char *word = o->value;
    char *content = NULL;
    size_t bytes;
    if (word[0] == '@') {
        SL_TRY(sl_file_read_max(word + 1, MAX, &content, &bytes));
        content[strcspn(content, " \t\r\n")] = 0;
        word = content;
    }
    size_t length = strlen(word);
    if (length > 0 && length < size)
        memcpy(text, word, length + 1);
    sl_free(content);
    return length > 0 && length < size
               ? SL_OK
               : sl_error(SL_EINVAL, "%s: --%s %s (1 to %zu characters, or @FILE to read them from a file)",
                          o->command, o->row->name, length ? "is too long" : "is empty", size - 1);
}

sl_status sl_option_too_much(const sl_options *o) {
    return sl_error(SL_EINVAL, "%s: unexpected argument '%.200s'; see slackline %s --help", o->command,
                    o->value, o->command);
}

/* ---- parsing ---- */

/* What a word may have been meant for: a setting, or the file of an option that the command requires. */
static void guess_word(const sl_options *o, char *text, size_t size) {
    const char *equals = strchr(o->value, '=');
    char path[160];
    text[0] = 0;
    if (equals && find_key(o, o->value, (size_t)(equals - o->value), path)) {
        snprintf(text, size, "; did you mean '--set %s%.100s'?", path, equals);
        return;
    }
    for (const sl_option *row = o->table; row->name && !equals; row++)
        if (*row->name && row->required && row->completes == SL_COMPLETES_FILE) {
            snprintf(text, size, "; did you mean '--%s %.100s'?", row->name, o->value);
            return;
        }
}

static sl_status take_text(const sl_options *o, void *field) {
    const char **text = field;
    char guess[320];
    if (o->row->kind == SL_TAKES_ONCE && *text) {
        if (*o->row->name)
            guess[0] = 0;
        else
            guess_word(o, guess, sizeof guess);
        return sl_error(SL_EINVAL, "%s: %s, got '%.200s' too%s", o->command, o->row->words, o->value, guess);
    }
    *text = o->value;
    return SL_OK;
}

sl_status sl_texts_add(sl_texts *texts, const char *text) {
    SL_TRY(sl_grow(&texts->text, &texts->room, (size_t)texts->count + 1, sizeof *texts->text));
    texts->text[texts->count++] = text;
    return SL_OK;
}

static sl_status take_seed(const sl_options *o, uint64_t *seed) {
    int64_t number = 0;
    sl_status status = sl_option_whole(o, 0, INT64_MAX, &number);
    *seed = (uint64_t)number;
    return status;
}

static sl_status take(const sl_options *o, void *asked) {
    const sl_option *r = o->row;
    void *field = (char *)asked + r->at;
    switch (r->kind) {
    case SL_TAKES_TEXT:
    case SL_TAKES_ONCE:
        return take_text(o, field);
    case SL_TAKES_TEXTS:
        return sl_texts_add(field, o->value);
    case SL_TAKES_FLAG:
    case SL_TAKES_NO:
        *(int *)field = r->kind == SL_TAKES_FLAG;
        return SL_OK;
    case SL_TAKES_INT:
        return sl_option_int(o, (int)r->least, (int)r->most, field);
    case SL_TAKES_WHOLE:
        return sl_option_whole(o, (int64_t)r->least, (int64_t)r->most, field);
    case SL_TAKES_SEED:
        return take_seed(o, field);
    case SL_TAKES_REAL:
        return sl_option_real(o, r->words, r->least, r->most, field);
    case SL_TAKES_CHOICE:
        return sl_option_choice(o, field);
    case SL_TAKES_SECRET:
        return sl_option_secret(o, field, (size_t)r->most);
    case SL_TAKES_OWN:
        return r->take(o, field);
    case SL_TAKES_PROGRAM: /* taken with all that follows it */
        break;
    }
    return SL_OK;
}

const sl_option *sl_options_words(const sl_option *table) {
    while (table->name && *table->name)
        table++;
    return table->name ? table : NULL;
}

static sl_status take_word(sl_options *o, const char *word, void *asked) {
    o->row = sl_options_words(o->table);
    o->value = word;
    return o->row ? take(o, asked) : sl_option_too_much(o);
}

static sl_status take_standards(sl_options *o, void *asked) {
    for (o->row = o->table; o->row->name; o->row++)
        if (o->row->standard) {
            o->value = o->row->standard;
            SL_TRY(take(o, asked));
        }
    return SL_OK;
}

/* getopt_long's table, and its letters. */
static void make_table(const sl_options *o, int stops, struct option *table, char letters[8]) {
    int lettered = 0, n = 0;
    for (const sl_option *row = o->table; row->name; row++) {
        const int alone = row->kind == SL_TAKES_FLAG || row->kind == SL_TAKES_NO;
        const int value = FIRST + (int)(row - o->table);
        if (*row->name)
            table[n++] = (struct option){row->name, alone ? no_argument : required_argument, NULL, value};
        lettered |= row->letter == 'o';
    }
    table[n] = (struct option){"help", no_argument, NULL, 'h'};
    snprintf(letters, 8, "%c:h%s", stops ? '+' : '-', lettered ? "o:" : "");
}

static const sl_option *row_of(const sl_options *o, int value) {
    const sl_option *row = o->table;
    if (value >= FIRST)
        return &row[value - FIRST];
    while (row->letter != value)
        row++;
    return row;
}

sl_status sl_options_take(sl_options *o, void *asked) {
    struct option table[MAX_NAMES + 2] = {{NULL, 0, NULL, 0}};
    char letters[8];
    const sl_option *words = sl_options_words(o->table);
    const int stops = words && words->kind == SL_TAKES_PROGRAM;
    make_table(o, stops, table, letters);
    SL_TRY(take_standards(o, asked));
    opterr = 0;
    optind = 0; /* getopt starts over */
    for (;;) {
        int at = optind > 0 ? optind : 1;
        optarg = NULL;
        int value = getopt_long(o->argc, o->argv, letters, table, NULL);
        if (value == '?' || value == ':')
            return refuse(o, table, o->argv[at], value == ':');
        if (value == -1)
            break;
        if (value == 'h')
            return SL_DONE;
        if (value == 1) { /* a word */
            SL_TRY(take_word(o, optarg, asked));
            continue;
        }
        o->row = row_of(o, value);
        o->value = optarg;
        SL_TRY(take(o, asked));
    }
    if (stops)
        *(char ***)((char *)asked + words->at) = o->argv + optind;
    for (int i = optind; !stops && i < o->argc; i++) /* after -- */
        SL_TRY(take_word(o, o->argv[i], asked));
    return SL_OK;
}
