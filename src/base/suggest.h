/* What somebody may have meant who mistyped a name: of a command, an option, a key, a schedule. */
#pragma once

/** The one of `names` (ended by NULL) that is nearest to `word`: the same but for capitals, at most a third
 * of the letters changed, added, dropped or swapped with a neighbour, or begun by `word` (at least 2
 * letters). NULL when none is near. */
const char *sl_suggest(const char *word, const char *const *names);
