/* What files of both versions of control groups, of /proc and of /sys say, on texts as kernels write them. */
#include "check.h"
#include "notice/validate/readings.h"

static sl_core_set cores_of(const char *list) {
    sl_core_set cores = {{0}};
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        sl_core_set_add(&cores, atoi(at));
    return cores;
}

static void cpu_stat_of_both_versions_says_how_long_a_group_was_stopped(void **state) {
    (void)state;
    sl_throttling t;
    assert_true(sl_read_cpu_stat("nr_periods 1234\nnr_throttled 56\nthrottled_time 7890123456\n", &t));
    assert_int_equal(t.times, 56);
    assert_int_equal(t.stopped, 7890123456);
    assert_true(
        sl_read_cpu_stat("usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\ncore_sched.force_idle_usec 0\n"
                         "nr_periods 20\nnr_throttled 7\nthrottled_usec 654321\nnr_bursts 0\nburst_usec 0\n",
                         &t));
    assert_int_equal(t.times, 7);
    assert_int_equal(t.stopped, 654321000);
    /* the root of version 2, without a controller */
    assert_false(sl_read_cpu_stat("usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\n", &t));
    assert_false(sl_read_cpu_stat("", &t));
    assert_false(sl_read_cpu_stat("nr_throttled\n", &t));
}

static void limits_of_both_versions_are_processors(void **state) {
    (void)state;
    assert_near(sl_read_cpu_max("50000 100000\n"), 0.5, 1e-12);
    assert_near(sl_read_cpu_max("250000 100000\n"), 2.5, 1e-12);
    assert_near(sl_read_cpu_max("max 100000\n"), 0, 0);
    assert_near(sl_read_cpu_max(""), 0, 0);
    assert_near(sl_read_cfs_quota("25000\n", "100000\n"), 0.25, 1e-12);
    assert_near(sl_read_cfs_quota("-1\n", "100000\n"), 0, 0);
    assert_near(sl_read_cfs_quota("", ""), 0, 0);
}

static void pressure_is_the_total_of_the_some_line(void **state) {
    (void)state;
    assert_int_equal(sl_read_pressure("some avg10=4.60 avg60=13.93 avg300=17.16 total=10783278573\n"
                                      "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"),
                     10783278573000);
    assert_int_equal(sl_read_pressure("full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"), -1);
    assert_int_equal(sl_read_pressure(""), -1);
    /* beyond what is counted: some number, but no undefined behavior */
    assert_true(sl_read_pressure("some total=9223372036854775807\n") >= 0);
    sl_throttling absurd;
    assert_true(sl_read_cpu_stat("nr_throttled 1\nthrottled_usec 9223372036854775807\n", &absurd));
    assert_true(absurd.stopped >= 0);
}

static void schedstat_says_how_long_a_task_waited(void **state) {
    (void)state;
}

static void only_the_processors_of_a_set_count_as_busy(void **state) {
    (void)state;
    static const char text[] = "cpu  9999 9 9999 99999 9 9 9 9 0 0\n"
                               "cpu0 100 1 50 9000 30 2 3 4 0 0\n"
                               "cpu1 200 0 20 8000 10 0 0 0 0 0\n"
                               "cpu12 7 0 0 5 5 0 0 0 0 0\n"
                               "intr 123 4\nctxt 5\nbtime 1\n";
    sl_core_set zero = cores_of("0"), both = cores_of("0,1"), none = cores_of("5");
    assert_int_equal(sl_read_busy(text, &zero), 100 + 1 + 50 + 2 + 3 + 4);
    assert_int_equal(sl_read_busy(text, &both), 160 + 220);
    assert_int_equal(sl_read_busy(text, &none), -1);
    /* beyond what is counted: some number, but no undefined behavior */
    assert_true(sl_read_busy("cpu0 9223372036854775807 9223372036854775807 9 4 5 6 7 8\n", &zero) >= 0);
}

static void a_process_may_have_brackets_and_blanks_in_its_name(void **state) {
    (void)state;
    sl_process_reading p;
    assert_true(
        sl_read_process("4711 (a) R (b) x) S 1 4711 4711 0 -1 4194560 120 0 0 0 31 11 0 0 20 0 1 0 12345 "
                        "2240512 174 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 "
                        "0 0 0\n",
                        &p));
    assert_int_equal(p.pid, 4711);
    assert_int_equal(p.ticks, 42);
    assert_int_equal(p.core, 3);
    assert_string_equal(p.name, "a) R (b) x");
    assert_false(sl_read_process("4711", &p));
    assert_false(sl_read_process("", &p));
}

static void the_clock_is_the_mean_of_the_sets_processors(void **state) {
    (void)state;
    static const char text[] = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2000.000\n\n"
                               "processor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 3000.500\n\n";
    sl_core_set one = cores_of("1"), both = cores_of("0,1"), other = cores_of("7");
    assert_near(sl_read_cpuinfo(text, &one), 3000.5, 1e-9);
    assert_near(sl_read_cpuinfo(text, &both), 2500.25, 1e-9);
    assert_near(sl_read_cpuinfo(text, &other), 0, 0);
    assert_near(sl_read_cpuinfo("processor\t: 0\nBogoMIPS\t: 50.00\n", &both), 0, 0);
}

static const char v1_mounts[] =
    "23 60 0:22 / /proc rw,relatime - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:12 master:3 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
static const char v2_mounts[] =
    "29 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 "
    "cgroup2 rw,nsdelegate,memory_recursiveprot\n";
static const char container_mounts[] =
    "33 31 0:30 /docker/0123 /sys/fs/cgroup/cpu ro,relatime - cgroup cgroup rw,cpu,cpuacct\n";

static void the_group_of_a_process_is_found_in_both_versions(void **state) {
    (void)state;
    char folder[256];
    size_t mount;
    static const char v1[] =
        "9:name=systemd:/\n4:cpuset:/set\n3:cpu,cpuacct:/slurm/job 7/step:0\n0::/user.slice\n";
    assert_true(sl_read_group(v1, v1_mounts, "cpu", folder, sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/cpu,cpuacct/slurm/job 7/step:0");
    assert_int_equal(mount, strlen("/sys/fs/cgroup/cpu,cpuacct"));
    assert_true(sl_read_group(v1, v1_mounts, "cpuset", folder, sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/cpuset/set");
    assert_true(sl_read_group(v1, v1_mounts, "", folder, sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/unified/user.slice");
    assert_true(sl_read_group("0::/system.slice/a.service\n", v2_mounts, "", folder, sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/system.slice/a.service");
    /* no such controller there */
    assert_false(
        sl_read_group("0::/system.slice/a.service\n", v2_mounts, "cpu", folder, sizeof folder, &mount));
    assert_false(sl_read_group("", v1_mounts, "cpu", folder, sizeof folder, &mount));
}

static void a_container_sees_the_hierarchy_from_its_own_group_on(void **state) {
    (void)state;
    char folder[256];
    size_t mount;
    assert_true(sl_read_group("3:cpu,cpuacct:/docker/0123/rank\n", container_mounts, "cpu", folder,
                              sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/cpu/rank");
    assert_true(sl_read_group("3:cpu,cpuacct:/docker/0123\n", container_mounts, "cpu", folder, sizeof folder,
                              &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/cpu");
    assert_true(sl_read_group("3:cpu:/\n", v1_mounts, "cpu", folder, sizeof folder, &mount));
    assert_string_equal(folder, "/sys/fs/cgroup/cpu,cpuacct");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_stat_of_both_versions_says_how_long_a_group_was_stopped),
        cmocka_unit_test(limits_of_both_versions_are_processors),
        cmocka_unit_test(pressure_is_the_total_of_the_some_line),
        cmocka_unit_test(schedstat_says_how_long_a_task_waited),
        cmocka_unit_test(only_the_processors_of_a_set_count_as_busy),
        cmocka_unit_test(a_process_may_have_brackets_and_blanks_in_its_name),
        cmocka_unit_test(the_clock_is_the_mean_of_the_sets_processors),
        cmocka_unit_test(the_group_of_a_process_is_found_in_both_versions),
        cmocka_unit_test(a_container_sees_the_hierarchy_from_its_own_group_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
