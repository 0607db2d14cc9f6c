/* Which build a program is of. Programs of one version understand each other. Nobody has tried what two of
 * different versions make of each other's messages, and they meet when hosts have installations of their own
 * or one was updated in part. So a program that starts another one of slackline passes its version, and ranks
 * that meet compare theirs: a difference is an error that names both versions and both programs.
 *
 * A started program gets "VERSION PATH" as its last argument, after SL_BUILD_OPTION. That must stay so in
 * every version, or a difference could not be reported. */
#pragma once

#include "base/status.h"

#define SL_BUILD_OPTION "--started-by"
enum { SL_BUILD_WORDS = 512 }; /* bytes, with the 0; a longer path is cut */

/** This program's words. */
void sl_build_words(char words[SL_BUILD_WORDS]);

/** Takes option and words off the end of a command line: the words, or NULL where there are none. */
const char *sl_build_take(int *argc, char **argv);

/** SL_ENONE if the words of what started this program (NULL: it said none) are of another version. */
sl_status sl_build_check(const char *starter);

/** SL_ENONE if the words of rank 0 and of `rank` are of different versions. */
sl_status sl_build_compare(const char *first, int rank, const char *other);
