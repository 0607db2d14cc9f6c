#include "base/suggest.h"
#include "base/numbers.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define LONGEST 32 /* longer words are not mistyped names */

/* Number of letters to change, add, drop or swap with a neighbor (optimal string alignment). */
static int distance(const char *a, const char *b) {
    int rows = (int)strlen(a), columns = (int)strlen(b), d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= rows; i++)
        d[i][0] = i;
    for (int j = 0; j <= columns; j++)
        d[0][j] = j;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++) {
            d[i][j] = sl_smaller(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                                 sl_smaller(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = sl_smaller(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[rows][columns];
}

static int max_letters(const char *a, const char *b) {
    size_t one = strlen(a), other = strlen(b);
    return (int)(one > other ? one : other);
}

const char *sl_suggest(const char *word, const char *const *names) {
    const char *nearest = NULL;
    size_t length = strlen(word);
    int best = LONGEST;
    for (; length <= LONGEST && *names; names++) {
        if (strlen(*names) > LONGEST)
            continue;
        int begun = length >= 2 && strncmp(word, *names, length) == 0;
        int off = strcasecmp(word, *names) == 0 ? 0 : begun ? 1 : distance(word, *names);
        if (off < best && 3 * off <= max_letters(word, *names) + (begun ? 3 : 0)) {
            best = off;
            nearest = *names;
        }
    }
    return nearest;
}
