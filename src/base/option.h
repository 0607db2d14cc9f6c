/* The options of a command line: one way to walk along them, to refuse what is none, and to read numbers and
 * choices. A command gives getopt_long's table, in which 'h' is --help and 'o' may also be said as -o, and a
 * function that takes one option or word. Names may be shortened as long as they stay clear, options and
 * other words may stand in any order, and behind `--` there are only words, whatever POSIXLY_CORRECT says.
 * What is refused is refused in one line, with a guess at what was meant. */
#ifndef SL_BASE_OPTION_H
#define SL_BASE_OPTION_H

#include "base/status.h"

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

#define SL_OPTION_WORD 1 /* no option, but a word by itself */

typedef struct sl_options {
    const char *command; /* in front of what is refused */
    const struct option *table;
    int argc;
    char **argv; /* argv[0] is not looked at */
    int stops;   /* ends at the first word: what begins there (argv[next]) is somebody else's */
    /* what has come */
    int option;        /* a letter of the table, or SL_OPTION_WORD */
    const char *value; /* of the option, NULL where it takes none; or the word */
    int next;          /* of argv */
    int help;          /* --help: nothing behind it was looked at */
} sl_options;

/** Gives `take` one option or word after the other; what it returns but SL_OK ends that. SL_EINVAL: there is
 * no such option, its value is missing, or it takes none. */
sl_status sl_options_take(sl_options *options, sl_status (*take)(const sl_options *options, void *asked),
                          void *asked);

/** A word for a command that takes but one, which becomes *word: SL_EINVAL, and `refusal` behind the
 * command's name, when it is there already. */
sl_status sl_option_only_word(const sl_options *options, const char *refusal, const char **word);

/** SL_EINVAL: a word for a command that takes none. */
sl_status sl_option_too_much(const sl_options *options);

/** The option's value as a number from `least` to `most`, or as one of `names` (ended by NULL), of which
 * *chosen is the index. `unit` says of what ("ms"); NULL: of nothing. SL_EINVAL: option, range and value. */
sl_status sl_option_whole(const sl_options *options, int64_t least, int64_t most, int64_t *value);
sl_status sl_option_int(const sl_options *options, int least, int most, int *value);
sl_status sl_option_real(const sl_options *options, const char *unit, double least, double most,
                         double *value);
sl_status sl_option_choice(const sl_options *options, const char *const *names, int *chosen);

/** A value that no list of processes should show: as it is, or the first word of FILE for @FILE. It goes into
 * text[size]. SL_EINVAL: the file cannot be read, the value is empty or too long; the text never shows it. */
sl_status sl_option_secret(const sl_options *options, char *text, size_t size);

#endif
