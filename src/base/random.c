#include "base/random.h"

#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

sl_status sl_random_text(char *text, size_t digits, const char *what) {
    unsigned char random[32];
    assert(digits / 2 <= sizeof random);
    if (getrandom(random, digits / 2, 0) != (ssize_t)(digits / 2))
        return sl_error_errno(SL_ESYS, "cannot get a %s", what);
    for (size_t i = 0; i < digits / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return SL_OK;
}
