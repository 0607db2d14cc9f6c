/* The output of `slackline --version`: the version, the commit if known, and how this command was built. */
#pragma once

#include <stdio.h>

/** "slackline 0.1.0" in the first line, then one line per fact. */
void sl_version_print(FILE *out);

/** "abc123def456", with "+" if files were changed; "": unknown. */
const char *sl_version_commit(void);
/** Of that commit, "2026-11-22"; "": unknown. */
const char *sl_version_date(void);
