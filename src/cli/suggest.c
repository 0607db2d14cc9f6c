#include "cli/suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

sl_status sl_refuse_option(const char *command, const char *const *names, const char *word, int missing) {
    /* of letters behind one dash the one that is none; getopt may stand before that word, or behind it */
    char text[64], letters[3] = {'-', (char)optopt, 0};
    const int is_long = strncmp(word, "--", 2) == 0;
    snprintf(text, sizeof text, "%s", !is_long && optopt ? letters : word);
    text[strcspn(text, "=")] = 0;
    if (missing)
        return sl_error(SL_EINVAL, "%s: a value is missing after '%s'; see slackline %s --help", command,
                        text, command);
    if (is_long && strchr(word, '=') && optopt)
        return sl_error(SL_EINVAL, "%s: '%s' takes no value", command, text);
    const char *near = strncmp(text, "--", 2) == 0 ? sl_suggest(text + 2, names) : NULL;
    if (near)
        return sl_error(SL_EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", command, text, near);
    return sl_error(SL_EINVAL, "%s: unknown option '%s'; see slackline %s --help", command, text, command);
}
