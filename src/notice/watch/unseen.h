/* What the program's own layers have found of its calls that cannot be seen (python/slackline/seen): a file
 * PID-ID.unseen beside the rings, a line for each. From outside: read with limits, and as words only. */
#pragma once

enum { SL_UNSEEN_LINES = 6 };

typedef struct sl_unseen {
    char text[SL_UNSEEN_LINES][220];
    int processes[SL_UNSEEN_LINES]; /* that say it */
    int count;                      /* more than there is room for are left out */
} sl_unseen;

/** Reads what lies in `folder`; nothing where it cannot be read. */
void sl_unseen_read(const char *folder, sl_unseen *unseen);
