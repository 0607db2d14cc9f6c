#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

sl_status sl_refuse_option(const char *command, const char *const *names, const char *word, int missing) {
    char text[64];
    snprintf(text, sizeof text, "%s", word);
    text[strcspn(text, "=")] = 0;
    if (missing)
        return sl_error(SL_EINVAL, "%s: a value is missing after '%s'; see slackline %s --help", command,
                        text, command);
    const char *near = strncmp(text, "--", 2) == 0 ? sl_suggest(text + 2, names) : NULL;
    if (near)
        return sl_error(SL_EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", command, text, near);
    return sl_error(SL_EINVAL, "%s: unknown option '%s'; see slackline %s --help", command, text, command);
}
