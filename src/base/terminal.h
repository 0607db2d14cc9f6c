/* A terminal that somebody else's output ends at. What rank 0 says appears where the command that started the
 * run has its standard output, but the rank cannot see that: its own is a pipe, or a pseudo terminal that
 * mpirun makes for it whatever its output goes to. So the command offers its terminal in the environment
 * (SL_TERMINAL_VARIABLE), or says there that it has none, and the rank believes nothing else.
 *
 * The offer names the terminal's device, so that a rank of the same host sees its width as it is now; a rank
 * elsewhere knows the width at the start. */
#pragma once

#include <stdio.h>

#define SL_TERMINAL_VARIABLE "SLACKLINE_TERMINAL"

typedef struct sl_terminal {
    int columns; /* at the start; 0: there is no terminal */
    int colour;
    char device[64]; /* empty: unknown */
} sl_terminal;

/** The terminal that is open as `file`; columns 0: it is none, or a dumb one (TERM). Never fails. */
void sl_terminal_of(int file, sl_terminal *terminal);

/** Puts the terminal on standard output into the environment; or none, where standard output is not a
 * terminal, or a dumb one (TERM). Colour unless NO_COLOR is set. Not for threads: it changes the environment.
 */
void sl_terminal_offer(void);

/** The terminal that was offered; columns 0: none was. Never fails. */
void sl_terminal_find(sl_terminal *terminal);

/** Its width now; asked each time, for windows change. At least 1. */
int sl_terminal_columns(const sl_terminal *terminal);

/** Where `out` is a terminal that knows escapes: takes away what stands on its last line, so that a message
 * after a progress line is not written into it. */
void sl_terminal_clear_line(FILE *out);
