/* Which builds work together. Programs of one build (build_id.h) understand each other; messages between
 * different builds are untested. Builds can differ if hosts have separate installations or one was partly
 * updated. So a slackline program that starts another one passes its build, and ranks compare theirs when
 * they connect: a difference is an error that names both builds and both programs.
 *
 * A started program gets "BUILD PATH" as its last argument, after SL_BUILD_OPTION. That must stay so in
 * every version, or a difference could not be reported. */
#pragma once

#include "base/status.h"

#define SL_BUILD_OPTION "--started-by"
enum { SL_BUILD_WORDS = 512 }; /* bytes, with the 0; a longer path is cut */

/** This program's words. */
void sl_build_words(char words[SL_BUILD_WORDS]);

/** Removes option and words from the end of a command line. Returns the words, or NULL if there are none. */
const char *sl_build_take(int *argc, char **argv);

/** SL_ENONE if the words of the program that started this one (NULL: none) are of another build. */
sl_status sl_build_check(const char *starter);

/** SL_ENONE if the words of rank 0 and of `rank` are of different builds. */
sl_status sl_build_compare(const char *first, int rank, const char *other);
