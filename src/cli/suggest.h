/* What somebody may have meant who mistyped a command or an option. */
#ifndef SL_CLI_SUGGEST_H
#define SL_CLI_SUGGEST_H

/** The one of `names` (ended by NULL) that is nearest to `word`: at most a third of its letters changed,
 * added, dropped or swapped with a neighbour, or begun by `word` (at least 2 letters). NULL when none is
 * near. */
const char *sl_suggest(const char *word, const char *const *names);

#endif
