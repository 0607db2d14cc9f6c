/* The terminal at the end of another program's output. The output of rank 0 appears on the standard output of
 * the command that started the run, but the rank cannot see that: its own is a pipe, or a pseudo terminal
 * that mpirun always makes. So the command puts its terminal, or its absence, into the environment
 * (SL_TERMINAL_VARIABLE), and the rank uses only that.
 *
 * The variable names the terminal's device, so that a rank on the same host gets its current width; a rank
 * elsewhere uses the width at the start. */
#pragma once

#include <stdio.h>

#define SL_TERMINAL_VARIABLE "SLACKLINE_TERMINAL"

typedef struct sl_terminal {
    int columns; /* at the start; 0: no terminal */
    int colour;
    char device[64]; /* empty: unknown */
} sl_terminal;

/** The terminal that is open as `file`; columns 0: not a terminal, or a dumb one (TERM). Never fails. */
void sl_terminal_of(int file, sl_terminal *terminal);

/** Puts the terminal on standard output into the environment, or none if standard output is not a terminal,
 * or a dumb one (TERM). Color unless NO_COLOR is set. Not for use with threads: it changes the
 * environment. */
void sl_terminal_offer(void);

/** The terminal that was offered; columns 0: none was. Never fails. */
void sl_terminal_find(sl_terminal *terminal);

/** Its current width; read each time because windows change. At least 1. */
int sl_terminal_columns(const sl_terminal *terminal);

/** If `out` is a terminal with escapes: clears its last line, so that a message after a progress line is not
 * written into it. */
void sl_terminal_clear_line(FILE *out);
