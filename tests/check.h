/* What every cmocka test includes, in the order that cmocka wants. */
#ifndef SL_TESTS_CHECK_H
#define SL_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "facts.h"

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        if ((call) != SL_OK)                                                                                 \
            fail_msg("%s: %s", #call, sl_error_text());                                                      \
    } while (0)

/* In double, unlike cmocka's assert_float_equal; a NaN is never near. */
#define assert_near(value, expected, allowed)                                                                \
    do {                                                                                                     \
        double near_value_ = (value), near_expected_ = (expected), near_off_ = near_value_ - near_expected_; \
        if (!((near_off_ < 0 ? -near_off_ : near_off_) <= (allowed)))                                        \
            fail_msg("%s is %.17g, not %.17g", #value, near_value_, near_expected_);                         \
    } while (0)

/* The text has the facts of `part`. */
#define assert_says(text, part)                                                                              \
    do {                                                                                                     \
        const char *text_ = (text), *missing_ = missing_fact(text_, (part));                                 \
        if (!*text_ || missing_)                                                                             \
            fail_msg("'%s' lacks '%s' of '%s'", text_, missing_ ? missing_ : "words", (part));               \
    } while (0)

/* The call fails with this status, and its text has the facts of `part`. */
#define assert_fails(call, status, part)                                                                     \
    do {                                                                                                     \
        assert_int_equal((call), (status));                                                                  \
        assert_says(sl_error_text(), (part));                                                                \
    } while (0)

/* How many of `all` like cases a test tries: under a sanitizer, which takes ten times as long, every tenth finds what it
 * finds. With SL_ALL_CASES in the environment (tools/test --slow) all. */
static inline int cases(int all) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return getenv("SL_ALL_CASES") ? all : (all + 9) / 10;
#else
    return all;
#endif
}

#endif
