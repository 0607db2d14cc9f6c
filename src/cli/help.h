/* The text of --help, from a command's description (command.h). Lines are filled to the width of the
 * terminal, at most 80 columns. The parts are what cmd_man.c makes a manual page of. */
#pragma once

#include "cli/command.h"

enum { SL_HELP_ROOM = 1024 };

/** Prints the help to standard output. */
void sl_help_print(const sl_command *command);

/** Form number `form` of the usage: "slackline balance --microbatches M --times LIST [OPTION]...". 0: there
 * are fewer. */
int sl_help_usage(const sl_command *command, int form, char text[SL_HELP_ROOM]);

/** "-o, --output FILE". Returns its length. */
int sl_help_head(const sl_option *option, char text[SL_HELP_ROOM]);

/** The meaning, values that need no meaning of their own, and the default. */
void sl_help_meaning(const sl_option *option, char text[SL_HELP_ROOM]);

/** Whether an option is shown: those without a name or a meaning are not. */
int sl_help_shows(const sl_option *option);

/** Moves *text to the next of its lines; returns that line and its length. NULL: there are no more. */
const char *sl_help_line(const char **text, int *length);
