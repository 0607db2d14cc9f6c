#include "base/option.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 63

/* ---- what is no option ---- */

/* The names that begin so, with commas between; how many. */
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

static sl_status refuse_name(const sl_options *o, const char *text) {
    const char *names[MOST_NAMES + 1] = {NULL};
    char begun[256];
    int is_long = strncmp(text, "--", 2) == 0;
    for (int i = 0; i < MOST_NAMES && o->table[i].name; i++)
        names[i] = o->table[i].name;
    if (is_long && list_begun(o->table, text + 2, begun, sizeof begun) > 1)
        return sl_error(SL_EINVAL, "%s: '%s' may be any of %s", o->command, text, begun);
    const char *near = is_long ? sl_suggest(text + 2, names) : NULL;
    if (near)
        return sl_error(SL_EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", o->command, text, near);
    return sl_error(SL_EINVAL, "%s: unknown option '%s'; see slackline %s --help", o->command, text,
                    o->command);
}

/* `word` is what getopt_long has not taken: `missing`, for want of a value. */
static sl_status refuse(const sl_options *o, const char *word, int missing) {
    char text[64];
    int is_long = strncmp(word, "--", 2) == 0;
    if (!is_long && optopt > ' ' && optopt < 127) /* one of several letters behind a - */
        snprintf(text, sizeof text, "-%c", optopt);
    else
        snprintf(text, sizeof text, "%s", word);
    text[is_long ? strcspn(text, "=") : strlen(text)] = 0;
    if (missing)
        return sl_error(SL_EINVAL, "%s: a value is missing after '%s'; see slackline %s --help", o->command,
                        text, o->command);
    if (is_long && optopt) /* known, so it is its value that is wrong */
        return sl_error(SL_EINVAL, "%s: '%s' takes no value", o->command, text);
    return refuse_name(o, text);
}

sl_status sl_option_too_much(const sl_options *o) {
    return sl_error(SL_EINVAL, "%s: '%.200s' is too much; see slackline %s --help", o->command, o->value,
                    o->command);
}

/* ---- one after the other ---- */

static int has_letter(const struct option *table, int letter) {
    for (; table->name; table++)
        if (table->val == letter)
            return 1;
    return 0;
}

sl_status sl_options_take(sl_options *o, sl_status (*take)(const sl_options *, void *), void *asked) {
    char letters[8];
    snprintf(letters, sizeof letters, "%c:h%s", o->stops ? '+' : '-', has_letter(o->table, 'o') ? "o:" : "");
    opterr = 0;
    optind = 0; /* getopt starts anew */
    for (;;) {
        int at = optind > 0 ? optind : 1;
        optarg = NULL;
        o->option = getopt_long(o->argc, o->argv, letters, o->table, NULL);
        if (o->option == '?' || o->option == ':')
            return refuse(o, o->argv[at], o->option == ':');
        if (o->option == -1)
            break;
        o->value = optarg;
        if ((o->help = o->option == 'h'))
            return SL_OK;
        SL_TRY(take(o, asked));
    }
    o->option = SL_OPTION_WORD;
    for (o->next = optind; !o->stops && o->next < o->argc;) { /* behind -- */
        o->value = o->argv[o->next++];
        SL_TRY(take(o, asked));
    }
    return SL_OK;
}

sl_status sl_option_only_word(const sl_options *o, const char *refusal, const char **word) {
    if (*word)
        return sl_error(SL_EINVAL, "%s: %s, got '%.200s' too", o->command, refusal, o->value);
    *word = o->value;
    return SL_OK;
}

/* ---- values ---- */

static const char *name_of(const sl_options *o) {
    const struct option *entry = o->table;
    while (entry->name && entry->val != o->option)
        entry++;
    return entry->name ? entry->name : "";
}

sl_status sl_option_whole(const sl_options *o, int64_t least, int64_t most, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(o->value, &end, 10);
    if (!isdigit((unsigned char)o->value[o->value[0] == '-']) || *end || errno || *value < least ||
        *value > most)
        return sl_error(SL_EINVAL, "%s: --%s must be a whole number from %lld to %lld, got '%.40s'",
                        o->command, name_of(o), (long long)least, (long long)most, o->value);
    return SL_OK;
}

sl_status sl_option_int(const sl_options *o, int least, int most, int *value) {
    int64_t number;
    SL_TRY(sl_option_whole(o, least, most, &number));
    *value = (int)number;
    return SL_OK;
}

/* A decimal number: none of strtod's other forms. */
static int is_decimal(const char *text) {
    return text[strspn(text, "0123456789.eE+-")] == 0 && strpbrk(text, "0123456789") != NULL;
}

sl_status sl_option_real(const sl_options *o, const char *unit, double least, double most, double *value) {
    char *end;
    *value = strtod(o->value, &end);
    if (!is_decimal(o->value) || *end || !(*value >= least && *value <= most))
        return sl_error(SL_EINVAL, "%s: --%s must be %s from %g to %g, got '%.40s'", o->command, name_of(o),
                        unit ? unit : "a number", least, most, o->value);
    return SL_OK;
}

sl_status sl_option_choice(const sl_options *o, const char *const *names, int *chosen) {
    char all[256] = "";
    for (int i = 0; names[i]; i++) {
        size_t used = strlen(all);
        if (strcmp(names[i], o->value) == 0) {
            *chosen = i;
            return SL_OK;
        }
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
    }
    return sl_error(SL_EINVAL, "%s: --%s must be %s, got '%.40s'", o->command, name_of(o), all, o->value);
}

sl_status sl_option_secret(const sl_options *o, char *text, size_t size) {
    enum { MOST = 4096 };
    const char *word = o->value;
    char *content = NULL;
    size_t bytes;
    if (word[0] == '@') {
        SL_TRY(sl_file_read_most(word + 1, MOST, &content, &bytes));
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
                          o->command, name_of(o), length ? "is too long" : "is empty", size - 1);
}
