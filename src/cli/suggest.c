#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 32 /* longer words are not mistyped names */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Letters to change, add, drop or swap with a neighbour (optimal string alignment). */
static int distance(const char *a, const char *b) {
    int rows = (int)strlen(a), columns = (int)strlen(b), d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= rows; i++)
        d[i][0] = i;
    for (int j = 0; j <= columns; j++)
        d[0][j] = j;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++) {
            d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[rows][columns];
}

const char *sl_suggest(const char *word, const char *const *names) {
    const char *nearest = NULL;
    size_t length = strlen(word);
    int best = LONGEST;
    for (; length <= LONGEST && *names; names++) {
        if (strlen(*names) > LONGEST)
            continue;
        int begun = length >= 2 && strncmp(word, *names, length) == 0;
        int off = begun ? 1 : distance(word, *names);
        if (off < best && 3 * off <= (int)strlen(*names) + (begun ? 3 : 0)) {
            best = off;
            nearest = *names;
        }
    }
    return nearest;
}

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
