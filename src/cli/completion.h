/* What completion in any shell needs to know of the commands; each shell writes it in its own words. */
#ifndef SL_CLI_COMPLETION_H
#define SL_CLI_COMPLETION_H

#include "cli/completion_keys.h"
#include "cli/help.h"

#include <stdio.h>

typedef struct sl_completed {
    const sl_subcommand *command;
    sl_help help;
    sl_help_argument place; /* what stands beside options */
    char values[512];       /* of it */
} sl_completed;

typedef struct sl_completion {
    sl_completed *list;
    int count;
    sl_completion_table table[SL_COMPLETION_TABLES];
} sl_completion;

/** Each writes a whole script to `out`. */
void sl_completion_bash(const sl_completion *all, FILE *out);
void sl_completion_zsh(const sl_completion *all, FILE *out);
void sl_completion_fish(const sl_completion *all, FILE *out);

/** What an option does, in few words, in text[size]. */
void sl_completion_words(const sl_help *help, int block, char *text, size_t size);

/** `text` between single quotes, of which each within becomes `quote`. */
void sl_completion_quote(FILE *out, const char *text, const char *quote);

#endif
