/* The options of a command line: a command gives a table with one row per option, which has the type and
 * destination of its value, and its meaning; one function parses the words by it, and --help, manual pages
 * and completion show it (cli/command.h). Every command has --help, and a row with the letter 'o' also
 * accepts -o. Names may be shortened while they are unambiguous, options and other words may come in any
 * order, and after `--` there are only words, regardless of POSIXLY_CORRECT. An error is one line, with a
 * suggestion. */
#pragma once

#include "base/config.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Several values of one option, or several words, in the order of the command line. They point into argv. */
typedef struct sl_texts {
    const char **text; /* free with sl_free */
    int count;
    size_t room;
} sl_texts;

/** SL_ENOMEM. */
sl_status sl_texts_add(sl_texts *texts, const char *text);

/* How a value is read, and the type of the field that it goes to. */
typedef enum sl_option_kind {
    SL_TAKES_TEXT,    /* const char * */
    SL_TAKES_ONCE,    /* the same; SL_EINVAL and `words` if repeated */
    SL_TAKES_TEXTS,   /* sl_texts, one more */
    SL_TAKES_FLAG,    /* int, which becomes 1; there is no value */
    SL_TAKES_NO,      /* int, which becomes 0; there is no value */
    SL_TAKES_INT,     /* int, from `least` to `most` */
    SL_TAKES_WHOLE,   /* int64_t, from `least` to `most` */
    SL_TAKES_SEED,    /* uint64_t, from 0 to INT64_MAX */
    SL_TAKES_REAL,    /* double, from `least` to `most`; `words`: the unit, "ms"; NULL: none */
    SL_TAKES_CHOICE,  /* int, the index of one of `values` */
    SL_TAKES_SECRET,  /* char[most], by sl_option_secret */
    SL_TAKES_OWN,     /* whatever `take` makes of it */
    SL_TAKES_PROGRAM, /* of a row for words: char **, the first word and all that follow, another program's */
} sl_option_kind;

/* A value that an option may have. */
typedef struct sl_value {
    const char *name;
    const char *help; /* NULL: the name says it */
} sl_value;

extern const sl_value sl_text_or_json[];

enum { SL_VALUE_ROOM = 512 };

/* Values that another table holds: *value becomes number `index`, whose texts may be in `room`. 0: there are
 * fewer. */
typedef int (*sl_value_list)(int index, sl_value *value, char room[SL_VALUE_ROOM]);

/* What completes a value that is none of a list. */
typedef enum sl_completion {
    SL_COMPLETES_NOTHING,
    SL_COMPLETES_FILE,
    SL_COMPLETES_FOLDER,
    SL_COMPLETES_COMMAND /* a subcommand */
} sl_completion;

typedef struct sl_options sl_options;

/* A row, from which parsing, --help, the manual page and completion follow. */
typedef struct sl_option {
    const char *name; /* "": words that are not options, NULL: the end of the table */
    sl_option_kind kind;
    size_t at;            /* offset of the field in `asked` */
    const char *argument; /* FILE, KEY=VALUE; NULL: its values, a|b|c, or none */
    const char *help;     /* one line; NULL: not shown */
    const char *standard; /* its value before the words are read; NULL: the field stays as it is */
    double least, most;
    const char *words;
    const sl_value *values;                          /* ended by a NULL name */
    sl_value_list list;                              /* the same, if another table has them */
    void (*keys)(sl_key_visit visit, void *context); /* its value begins with one of these keys */
    sl_status (*take)(const sl_options *options, void *field);
    sl_completion completes;
    unsigned required;   /* bit i: in form i of the usage */
    char letter;         /* 'o': -o, too */
    const char *heading; /* of this row and those after it */
} sl_option;

/* A row: SL_OPTION("seed", SEED, asked, search.seed, "N", "of the search"), followed by more fields if its
 * kind has some; SL_OPTIONS_END ends a table. The function of an SL_OPTION_OWN gets the whole `asked`. */
#define SL_OPTION(text, kind_of, object, field, argument_name, meaning, ...)                                 \
    {                                                                                                        \
        .name = text, .kind = SL_TAKES_##kind_of, .at = offsetof(object, field), .argument = argument_name,  \
        .help = meaning, __VA_ARGS__                                                                         \
    }
#define SL_OPTION_OWN(text, function, argument_name, meaning, ...)                                           \
    {                                                                                                        \
        .name = text, .kind = SL_TAKES_OWN, .take = function, .argument = argument_name, .help = meaning,    \
        __VA_ARGS__                                                                                          \
    }
/* A form of the output, text unless it is given: FORM, of which `forms` gives the meanings; or text or json.
 */
#define SL_OPTION_FORM(object, field, forms)                                                                 \
    SL_OPTION("format", CHOICE, object, field, "FORM", "form of the output", .values = forms,                \
              .standard = "text")
#define SL_OPTION_TEXT_OR_JSON(object, field)                                                                \
    SL_OPTION("format", CHOICE, object, field, NULL, "form of the output", .values = sl_text_or_json,        \
              .standard = "text")
#define SL_OPTIONS_END                                                                                       \
    { .name = NULL }

struct sl_options {
    const char *command; /* prefix of errors */
    const sl_option *table;
    int argc;
    char **argv; /* argv[0] is ignored */
    /* the present option or word */
    const sl_option *row; /* of the table */
    const char *value;    /* of the option, NULL if it takes none; or the word */
};

/** Reads all options and words into the fields of `asked`, defaults first. SL_EINVAL: an unknown option, a
 * missing, wrong or unexpected value, or a word for a command without words. SL_ENOMEM. SL_DONE: --help, the
 * rest was not parsed. */
sl_status sl_options_take(sl_options *options, void *asked);

/** The row for words that are not options; NULL: the command takes none. */
const sl_option *sl_options_words(const sl_option *table);

/** The value number `index` of `values` or of `list`. 0: there are fewer. */
int sl_option_value(const sl_option *option, int index, sl_value *value, char room[SL_VALUE_ROOM]);

/** "a, b or c". */
void sl_values_join(const sl_value *values, char *text, size_t size);

/* For SL_TAKES_OWN: */

/** SL_EINVAL: an unexpected word. */
sl_status sl_option_too_much(const sl_options *options);

/** The option's value as a number from `least` to `most`, or as one of the row's `values`, of which *chosen
 * is the index. `unit` is as `words` of SL_TAKES_REAL. SL_EINVAL: option, range and value. */
sl_status sl_option_whole(const sl_options *options, int64_t least, int64_t most, int64_t *value);
sl_status sl_option_int(const sl_options *options, int least, int most, int *value);
sl_status sl_option_real(const sl_options *options, const char *unit, double least, double most,
                         double *value);
sl_status sl_option_choice(const sl_options *options, int *chosen);

/** A value that process lists should not show: itself, or the first word of FILE for @FILE. Written to
 * text[size]. SL_EINVAL: the file cannot be read, the value is empty or too long; the error never shows
 * it. */
sl_status sl_option_secret(const sl_options *options, char *text, size_t size);
