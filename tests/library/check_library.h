/* What the tests of the public library share. */
#ifndef SL_TESTS_CHECK_LIBRARY_H
#define SL_TESTS_CHECK_LIBRARY_H

#include "check.h"

#include <slackline/slackline.h>

static const int64_t ms = 1000000;

#define works(call)                                                                                          \
    do {                                                                                                     \
        if ((call) != SLACKLINE_OK)                                                                          \
            fail_msg("%s: %s", #call, slackline_error());                                                    \
    } while (0)

#define refuses(call, part)                                                                                  \
    do {                                                                                                     \
        assert_int_equal((call), SLACKLINE_INVALID);                                                         \
        assert_says(slackline_error(), (part));                                                              \
    } while (0)

#endif
