/* Options that a command does not have, and what somebody may have meant (base/suggest.h). */
#ifndef SL_CLI_SUGGEST_H
#define SL_CLI_SUGGEST_H

#include "base/status.h"
#include "base/suggest.h"

/** SL_EINVAL: getopt did not take `word`; with `missing`, because a value should follow it. `names`, ended by
 * NULL, are the long options that there are, without their dashes. */
sl_status sl_refuse_option(const char *command, const char *const *names, const char *word, int missing);

#endif
