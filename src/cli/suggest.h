/* What somebody may have meant who mistyped a command or an option. */
#ifndef SL_CLI_SUGGEST_H
#define SL_CLI_SUGGEST_H

#include "base/status.h"

/** The one of `names` (ended by NULL) that is nearest to `word`: at most a third of its letters changed,
 * added, dropped or swapped with a neighbour, or begun by `word` (at least 2 letters). NULL when none is
 * near. */
const char *sl_suggest(const char *word, const char *const *names);

/** SL_EINVAL: getopt did not take `word`; with `missing`, because a value should follow it. `names`, ended by
 * NULL, are the long options that there are, without their dashes. */
sl_status sl_refuse_option(const char *command, const char *const *names, const char *word, int missing);

#endif
