/* A suggestion for a mistyped name of a command, an option, a key or a schedule. */
#pragma once

/** The one of `names` (ended by NULL) that is nearest to `word`: the same except for capitals, at most a
 * third of the letters changed, added, dropped or swapped with a neighbor, or with the prefix `word` (at
 * least 2 letters). NULL: none is near. */
const char *sl_suggest(const char *word, const char *const *names);
