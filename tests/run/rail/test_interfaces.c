/* labels: net */
/* An interface that goes down takes its rails with it at once, not after a silence; when it is up again so
 * are they. In a network namespace of its own, whose loopback interface is ours to switch. */
#include "run/rail/conveyance.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void switch_loopback(int up) {
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(any >= 0);
    request.ifr_flags = (short)(up ? IFF_UP : 0);
    int failed = ioctl(any, SIOCSIFFLAGS, &request);
    close(any);
    assert_int_equal(failed, 0);
}

typedef struct outage {
    int phase;
    sl_time since;
    double heard_ms;
} outage;

static sl_status switch_off_and_on(conveyance *v) {
    outage *o = v->object;
    sl_time now = sl_clock_now(sl_clock_real());
    if (o->phase == 0 && v->taken >= 20) {
        o->phase = 1;
        o->since = now;
        switch_loopback(0);
    } else if (o->phase == 1 && v->heard[0].count[SL_HAPPENED_RAIL_DOWN] &&
               v->heard[1].count[SL_HAPPENED_RAIL_DOWN]) {
        o->phase = 2;
        o->heard_ms = sl_to_ms(now - o->since);
        o->since = now;
    } else if (o->phase == 2 && now - o->since > 300 * SL_MS) {
        o->phase = 3;
        switch_loopback(1);
    }
    v->hold = o->phase < 3;
    return SL_OK;
}

static void an_interface_that_goes_down_takes_its_rails_along_at_once(void **state) {
    (void)state;
    conveyance v;
    outage o = {0};
    switch_loopback(1);
    begin(&v, 500, 4, 200000);
    v.step = switch_off_and_on;
    v.object = &o;
    /* so that only netlink can be the reason */
    v.config[0].silence = v.config[1].silence = 20 * SL_SECOND;
    add_rail(&v, "127.0.0.1");
    open_endpoint(&v, 1);
    open_endpoint(&v, 0);
    carry(&v);
    must_have_carried_all(&v);
    assert_int_equal(o.phase, 3);
    printf("both ends knew after %.1f ms\n", o.heard_ms);
    assert_int_equal(v.heard[0].rail_ups[0], 2);
    assert_non_null(strstr(v.heard[1].last[SL_HAPPENED_RAIL_DOWN], "interface went down"));
    finish(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_that_goes_down_takes_its_rails_along_at_once),
    };
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("skipped: no network namespace may be made here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
