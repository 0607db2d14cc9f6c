/* The keys that --set takes, for completion: read from the tables that `slackline formats` prints, so that a
 * key of a config table is completed without being told here. */
#ifndef SL_CLI_COMPLETION_KEYS_H
#define SL_CLI_COMPLETION_KEYS_H

#include "cli/help.h"

typedef struct sl_completion_key {
    char *name;   /* pipeline.links.list.0.latency_ms: of a list its first item */
    char *values; /* with blanks between; "": not listed */
    char *words;  /* what it means */
} sl_completion_key;

/* The keys of one kind of file. */
typedef struct sl_completion_table {
    const char *name;     /* problem, run, cluster, campaign */
    const char *commands; /* that take --set for it, with blanks around each */
    sl_completion_key *key;
    int count;
} sl_completion_table;

#define SL_COMPLETION_TABLES 4

/** All of them; `schedules` (with blanks between) are the values of keys named schedule. Free with
 * sl_completion_keys_free, also on error. */
sl_status sl_completion_keys_read(const char *schedules, sl_completion_table table[SL_COMPLETION_TABLES]);
void sl_completion_keys_free(sl_completion_table table[SL_COMPLETION_TABLES]);

/** The name of the table whose keys this option of this command takes (KEY=...); NULL: none. */
const char *sl_completion_keys_of(const sl_completion_table table[SL_COMPLETION_TABLES], const char *command,
                                  const sl_help_option *option);

#endif
