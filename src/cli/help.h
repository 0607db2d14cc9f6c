/* The help of a subcommand, help/NAME.txt, as data: the text of --help is the only source of manual pages
 * (cmd_man.c) and completions (cmd_completion.c).
 *
 * The text has this form, which tests/cli/test_help.py checks for every subcommand:
 *
 *   Usage: slackline plan PROBLEM [--format text|json] ...     lines until an empty one
 *
 *   Paragraphs.
 *
 *     -o, --output FILE  text, after two blanks or more        two blanks, then an option
 *                        goes on further right
 *         value          what it means                         six blanks: a value of that option
 *
 *   Exit code: ...                                             a paragraph of its own
 *
 *   Example: slackline plan ...                                to the end
 *
 * An argument's values are its list of values, or in the usage: `--format text|json`. Words in capitals there
 * are names: FILE, PROBLEM, RUN... a file, DIR a folder, COMMAND a subcommand, and after `--` a program. */
#pragma once

#include "base/status.h"

#include <stddef.h>

typedef enum sl_help_kind {
    SL_HELP_USAGE,
    SL_HELP_TEXT,
    SL_HELP_OPTION,
    SL_HELP_VALUE, /* of the option before */
    SL_HELP_EXIT,
    SL_HELP_EXAMPLE
} sl_help_kind;

typedef struct sl_help_block {
    sl_help_kind kind;
    int first, count; /* lines */
} sl_help_block;

typedef struct sl_help {
    char *text;
    char **line; /* into `text`, without their ends */
    int lines;
    sl_help_block *block;
    int blocks;
} sl_help;

/* The argument of an option, or a positional one. */
typedef enum sl_help_argument {
    SL_HELP_NOTHING,
    SL_HELP_WORDS, /* one of `values`, or anything */
    SL_HELP_FILE,
    SL_HELP_FOLDER,
    SL_HELP_COMMAND, /* a subcommand */
    SL_HELP_PROGRAM  /* after --: a program, and its own arguments */
} sl_help_argument;

typedef struct sl_help_option {
    char letter;       /* -o; 0: none */
    char name[48];     /* output; "": none */
    char argument[64]; /* FILE, as in the help; "": takes none */
    sl_help_argument kind;
    char values[512]; /* with blanks between; "": not listed */
    int block;
} sl_help_option;

/** The text of --help of a subcommand, as blocks. SL_ENOMEM. Free with sl_help_free, also on error. */
sl_status sl_help_parse(const char *text, sl_help *help);
void sl_help_free(sl_help *help);

/** Prints a help to standard output; on a terminal, lines that are too long for it are broken at blanks. */
void sl_help_print(const char *text);

/** The next option after block *at (begin with -1), which moves there. Nonzero if there is one. */
int sl_help_next_option(const sl_help *help, int *at, sl_help_option *option);

/** The words of a block, without its head (the option, the value, "Usage:", "Exit code:"), in one line; at
 * most `size`, cut after a word. */
void sl_help_words(const sl_help *help, int block, char *text, size_t size);

/** The head of an option or a value: "-o, --output FILE". Returns its length; *head is its begin. */
size_t sl_help_head(const sl_help *help, int block, const char **head);

/** The positional argument in the usage; `values` as in sl_help_option. */
sl_help_argument sl_help_place(const sl_help *help, char *values, size_t size);
