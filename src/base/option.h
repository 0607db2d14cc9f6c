/* The options of a command line: a command gives a table, a row an option, which says how its value is read
 * and where it goes; one function walks along the words and reads them after it. --help is every command's,
 * and a row whose letter is 'o' may also be said as -o. Names may be shortened as long as they stay clear,
 * options and other words may stand in any order, and behind `--` there are only words, whatever
 * POSIXLY_CORRECT says. What is refused is refused in one line, with a guess at what was meant. */
#pragma once

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
    SL_TAKES_TEXT,   /* const char * */
    SL_TAKES_ONCE,   /* the same; SL_EINVAL and `words` when there was one already */
    SL_TAKES_TEXTS,  /* sl_texts, one more */
    SL_TAKES_FLAG,   /* int, which becomes 1; there is no value */
    SL_TAKES_NO,     /* int, which becomes 0; there is no value */
    SL_TAKES_INT,    /* int, from `least` to `most` */
    SL_TAKES_WHOLE,  /* int64_t, from `least` to `most` */
    SL_TAKES_SEED,   /* uint64_t, from 0 to INT64_MAX */
    SL_TAKES_REAL,   /* double, from `least` to `most`; `words`: of what, "ms"; NULL: of nothing */
    SL_TAKES_CHOICE, /* int, the index of one of `names` */
    SL_TAKES_SECRET, /* char[most], by sl_option_secret */
    SL_TAKES_OWN     /* whatever `take` makes of it */
} sl_option_kind;

typedef struct sl_options sl_options;

typedef struct sl_option {
    const char *name; /* "": words that are no options, NULL: the end of the table */
    sl_option_kind kind;
    size_t at; /* of the field in what is asked */
    double least, most;
    const char *words;
    const char *const *names; /* ended by NULL */
    sl_status (*take)(const sl_options *options, void *field);
    char letter; /* 'o': -o, too */
} sl_option;

/* A row: SL_OPTION("seed", SEED, asked, search.seed), with more fields behind it where its kind has some; the
 * end of a table is SL_OPTIONS_END. The function of an SL_OPTION_OWN gets all of what is asked. */
#define SL_OPTION(text, kind_of, object, field, ...)                                                         \
    { .name = text, .kind = SL_TAKES_##kind_of, .at = offsetof(object, field), __VA_ARGS__ }
#define SL_OPTION_OWN(text, function)                                                                        \
    { .name = text, .kind = SL_TAKES_OWN, .take = function }
#define SL_OPTIONS_END                                                                                       \
    { .name = NULL }

struct sl_options {
    const char *command; /* in front of what is refused */
    const sl_option *table;
    int argc;
    char **argv;       /* argv[0] is not looked at */
    const char *usage; /* what --help prints */
    int stops;         /* ends at the first word: what begins there (argv[next]) is somebody else's */
    /* what has come */
    const sl_option *row; /* of the table */
    const char *value;    /* of the option, NULL where it takes none; or the word */
    int next;             /* of argv */
};

/** Reads all options and words into the fields of `asked`. SL_EINVAL: there is no such option, its value is
 * missing or wrong, or it takes none; or a word for a command that takes none. SL_ENOMEM. SL_DONE: --help,
 * `usage` was printed, nothing behind it was looked at. */
sl_status sl_options_take(sl_options *options, void *asked);

/* For SL_TAKES_OWN: */

/** SL_EINVAL: a word too many. */
sl_status sl_option_too_much(const sl_options *options);

/** The option's value as a number from `least` to `most`, or as one of `names`, of which *chosen is the
 * index. `unit` is as `words` of SL_TAKES_REAL. SL_EINVAL: option, range and value. */
sl_status sl_option_whole(const sl_options *options, int64_t least, int64_t most, int64_t *value);
sl_status sl_option_int(const sl_options *options, int least, int most, int *value);
sl_status sl_option_real(const sl_options *options, const char *unit, double least, double most,
                         double *value);
sl_status sl_option_choice(const sl_options *options, const char *const *names, int *chosen);

/** A value that no list of processes should show: as it is, or the first word of FILE for @FILE. It goes into
 * text[size]. SL_EINVAL: the file cannot be read, the value is empty or too long; the text never shows it. */
sl_status sl_option_secret(const sl_options *options, char *text, size_t size);
