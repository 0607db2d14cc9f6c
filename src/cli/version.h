/* What `slackline --version` says: the version, the commit where it is known, and how this command was built.
 */
#pragma once

#include <stdio.h>

/** "slackline 0.1.0" in the first line, then a line a fact. */
void sl_version_print(FILE *out);

/** "abc123def456", with "+" where files were changed; "": not known. */
const char *sl_version_commit(void);
/** Of that commit, "2026-11-22"; "": not known. */
const char *sl_version_date(void);
