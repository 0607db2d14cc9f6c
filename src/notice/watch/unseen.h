/* Calls that cannot be seen, as reported by the program's own layers (python/slackline/seen): a file
 * PID-ID.unseen in the folder of the rings, one line each. From outside: read with limits, and only as text.
 */
#pragma once

enum { SL_UNSEEN_LINES = 6 };

typedef struct sl_unseen {
    char text[SL_UNSEEN_LINES][220];
    int processes[SL_UNSEEN_LINES]; /* number that report it */
    int count;                      /* lines beyond the room are left out */
} sl_unseen;

/** Reads the files in `folder`; empty if it cannot be read. */
void sl_unseen_read(const char *folder, sl_unseen *unseen);
