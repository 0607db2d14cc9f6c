/* What validating processes say of themselves first: those of another version are named, with both hosts. */
#include "base/build_id.h"
#include "base/memory.h"
#include "check.h"
#include "notice/validate/introduction.h"

#include <unistd.h>

static void another_version_is_named_with_both_hosts(void **state) {
    (void)state;
    char *words[] = {(char *)(uintptr_t) "healthcheck"}, host[80] = "";
    sl_validate_request request;
    sl_allgather_parts all;
    sl_membership membership;
    const sl_wire_address place = {0};
    assert_ok(sl_validate_request_read(1, words, &request));
    assert_ok(sl_allgather_parts_open(2, &all));
    for (int i = 0; i < 2; i++) {
        void *bytes;
        size_t size;
        assert_ok(sl_introduce(&request, i, &place, &bytes, &size));
        assert_ok(sl_allgather_parts_put(&all, i, bytes, size));
        sl_free(bytes);
    }
    assert_ok(sl_membership_open(&all, &membership));
    assert_int_equal(membership.hosts, 1);
    sl_membership_free(&membership);
    sl_introduction *other = all.part[1];
    snprintf(other->build, sizeof other->build, "9.9.9");
    snprintf(other->host, sizeof other->host, "far-away");
    assert_fails(sl_membership_open(&all, &membership), SL_EPEER, "slackline 9.9.9 on host far-away");
    gethostname(host, sizeof host - 1);
    assert_non_null(strstr(sl_error_text(), sl_build_id()));
    assert_says(sl_error_text(), host);
    sl_membership_free(&membership);
    other->version++; /* whatever follows is of another form, but these two are where they were */
    all.size[1] = 112;
    assert_fails(sl_membership_open(&all, &membership), SL_EPEER, "slackline 9.9.9 on host far-away");
    sl_membership_free(&membership);
    sl_allgather_parts_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_version_is_named_with_both_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
