/* The hosts of the next attempt: those that the ranks have left stay out, unless too few slots would remain.
 */
#include "check.h"

#include "base/file.h"
#include "base/memory.h"
#include "launch/living.h"

#include <unistd.h>

static sl_launch_folder folder;

static int make_folder(void **state) {
    (void)state;
    static char name[] = "/tmp/slackline-living-XXXXXX";
    return mkdtemp(name) && sl_launch_folder_open(name, &folder) == SL_OK ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    sl_launch_folder_close(&folder);
    return sl_path_remove(folder.path) == SL_OK ? 0 : -1;
}

static void open_hosts(sl_living *living, sl_launch_config *config) {
    assert_ok(sl_living_open(living, config, &folder, 0));
    assert_ok(sl_living_continue(living));
    sl_living_begin(living);
}

/* What the ranks' leader writes. */
static void order_to_leave(const char *name, int iteration, const char *why) {
    sl_roster said;
    assert_ok(sl_roster_read(folder.path, &said));
    for (int i = 0; i < said.count; i++)
        if (strcmp(said.host[i].name, name) == 0)
            said.host[i].leave = 1;
    said.move.iteration = iteration;
    snprintf(said.move.why, sizeof said.move.why, "%s", why);
    assert_ok(sl_roster_write(folder.path, &said));
    sl_roster_free(&said);
}

static void a_host_that_was_left_stays_out(void **state) {
    (void)state;
    sl_launch_config config = {.hosts = "a:2,b:2,c:2", .ranks = 4};
    sl_living living;
    open_hosts(&living, &config);
    assert_string_equal(living.text, "a:2,b:2,c:2");
    assert_int_equal(sl_living_left(&living), 0); /* nothing was ordered */
    order_to_leave("b", 7, "its links are slow");
    assert_int_equal(sl_living_left(&living), 1);
    assert_string_equal(living.text, "a:2,c:2");
    sl_living_begin(&living);
    assert_int_equal(sl_living_left(&living), 0); /* the order is carried out once */
    assert_string_equal(living.text, "a:2,c:2");
    sl_living_close(&living);
    /* also in a command that continues the run, with its reason, but not in a new run */
    config.resumed = 1;
    open_hosts(&living, &config);
    assert_string_equal(living.text, "a:2,c:2");
    assert_string_equal(living.hosts.host[1].slow, "its links are slow");
    sl_living_close(&living);
    config.resumed = 0;
    open_hosts(&living, &config);
    assert_string_equal(living.text, "a:2,b:2,c:2");
    sl_living_close(&living);
}

/* The order of an attempt whose supervisor was killed. */
static void an_order_that_no_supervisor_saw_is_carried_out_by_the_next(void **state) {
    (void)state;
    sl_launch_config config = {.hosts = "a:2,b:2,c:2", .ranks = 4};
    sl_living living;
    open_hosts(&living, &config);
    order_to_leave("c", 5, "it is hot");
    sl_living_close(&living);
    config.resumed = 1;
    open_hosts(&living, &config);
    assert_string_equal(living.text, "a:2,b:2");
    assert_string_equal(living.hosts.host[2].slow, "it is hot");
    sl_living_close(&living);
}

/* a:2 alone is too few for 4 ranks; b, which was left first, is enough, so c stays out. */
static void a_slow_host_is_better_than_none_but_no_more_of_them_than_needed(void **state) {
    (void)state;
    sl_launch_config config = {.hosts = "a:2,b:2,c:2", .ranks = 4};
    sl_living living;
    open_hosts(&living, &config);
    order_to_leave("b", 7, "it is slow");
    assert_int_equal(sl_living_left(&living), 1);
    sl_living_begin(&living);
    order_to_leave("c", 9, "it is slow, too");
    assert_int_equal(sl_living_left(&living), 1);
    assert_string_equal(living.text, "a:2,b:2");
    sl_living_close(&living);
}

/* One that has failed its test is no help, however few remain. */
static void a_host_that_failed_its_test_is_not_taken_back(void **state) {
    (void)state;
    sl_launch_config config = {.hosts = "a:2,b:2,c:2,d:2", .ranks = 6};
    sl_living living;
    open_hosts(&living, &config);
    order_to_leave("b", 3, "it is slow");
    assert_int_equal(sl_living_left(&living), 1);
    snprintf(living.hosts.host[1].why, sizeof living.hosts.host[1].why, "it is gone");
    sl_living_begin(&living);
    order_to_leave("c", 4, "it is slow");
    assert_int_equal(sl_living_left(&living), 1);
    /* a and d have 4 slots; with c there would be 6, with b nothing more */
    assert_string_equal(living.text, "a:2,c:2,d:2");
    sl_living_close(&living);
}

static void too_few_slots_are_refused_at_once(void **state) {
    (void)state;
    sl_launch_config config = {.hosts = "a:2,b:1", .ranks = 4};
    sl_living living;
    assert_fails(sl_living_open(&living, &config, &folder, 0), SL_EINVAL, "3 slots 4 ranks");
    sl_living_close(&living);
}

/* hosts.json is removed by the command that made it, and by no other. */
static void only_who_made_the_file_removes_it(void **state) {
    (void)state;
    char path[PATH_MAX + 16];
    sl_launch_config config = {.hosts = "a:2", .ranks = 2};
    sl_living living;
    snprintf(path, sizeof path, "%s/hosts.json", folder.path);
    sl_roster_remove(folder.path);
    open_hosts(&living, &config);
    sl_living_forget(&living);
    assert_int_equal(access(path, F_OK), -1);
    sl_living_begin(&living);
    sl_living_close(&living);
    config.resumed = 1;
    open_hosts(&living, &config);
    sl_living_forget(&living);
    assert_int_equal(access(path, F_OK), 0);
    sl_living_close(&living);
}

/* Replicas of 2 ranks, at least one. */
static sl_status fit_pairs(const void *context, int slots, sl_launch_layout *layout) {
    const int *most = context, replicas = slots / 2 < *most ? slots / 2 : *most;
    if (replicas < 1)
        return sl_error(SL_ENONE, "a replica needs 2 slots");
    layout->ranks = 2 * replicas;
    snprintf(layout->argument, sizeof layout->argument, "%dx2", replicas);
    snprintf(layout->words, sizeof layout->words, "%d replicas", replicas);
    return SL_OK;
}

static void an_elastic_run_takes_the_layout_that_fits_and_grows_with_what_is_back(void **state) {
    (void)state;
    const int most = 3;
    char argument[24] = "";
    sl_launch_config config = {
        .hosts = "a:2,b:2,c:1", .ranks = 6, .fit = fit_pairs, .fit_context = &most, .argument = argument};
    sl_living living;
    open_hosts(&living, &config); /* fewer slots than ranks from the beginning: 5 */
    assert_int_equal(living.layout.ranks, 4);
    assert_string_equal(argument, "2x2");
    assert_true(sl_living_is_reduced(&living));
    /* b is lost; c:1 and b:2 are back one after the other */
    living.lost[1] = living.lost[2] = 1;
    strcpy(living.hosts.host[1].why, "it is gone");
    strcpy(living.hosts.host[2].why, "it is gone");
    sl_living_regain(&living, 3);
    assert_int_equal(living.layout.ranks, 2);
    assert_false(sl_living_would_grow(&living, "\0\0\1"));
    assert_true(sl_living_would_grow(&living, "\0\1\0"));
    living.back[1] = 1;
    sl_living_regain(&living, 5);
    assert_string_equal(living.text, "a:2,b:2");
    assert_string_equal(argument, "2x2");
    assert_int_equal(living.hosts.move.iteration, 5);
    assert_string_equal(living.hosts.move.layout, "2 replicas");
    sl_living_close(&living);
    config.hosts = "a:1";
    assert_fails(sl_living_open(&living, &config, &folder, 0), SL_ENONE, "2 slots");
    sl_living_close(&living);
}

/* The leader's word that the ranks have ended to grow is no order to leave, and no failure. */
static void ranks_that_ended_to_grow_have_not_failed(void **state) {
    (void)state;
    const int most = 2;
    sl_launch_config config = {.hosts = "a:2,b:2", .ranks = 4, .fit = fit_pairs, .fit_context = &most};
    sl_living living;
    sl_roster said;
    open_hosts(&living, &config);
    living.lost[1] = 1;
    strcpy(living.hosts.host[1].why, "it is gone");
    sl_living_regain(&living, 3);
    sl_living_begin(&living);
    living.back[1] = 1;
    assert_int_equal(sl_living_left(&living), 0); /* it has failed */
    assert_int_equal(living.layout.ranks, 2);
    assert_ok(sl_roster_read(folder.path, &said));
    said.move = (sl_roster_move){.iteration = 9, .grow = 1};
    assert_ok(sl_roster_write(folder.path, &said));
    sl_roster_free(&said);
    assert_int_equal(sl_living_left(&living), 1);
    assert_int_equal(living.layout.ranks, 4);
    assert_string_equal(living.text, "a:2,b:2");
    assert_true(living.hosts.move.iteration == 9 && !living.hosts.move.grow && living.hosts.move.ended > 0);
    sl_living_close(&living);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_was_left_stays_out),
        cmocka_unit_test(an_order_that_no_supervisor_saw_is_carried_out_by_the_next),
        cmocka_unit_test(a_slow_host_is_better_than_none_but_no_more_of_them_than_needed),
        cmocka_unit_test(a_host_that_failed_its_test_is_not_taken_back),
        cmocka_unit_test(too_few_slots_are_refused_at_once),
        cmocka_unit_test(an_elastic_run_takes_the_layout_that_fits_and_grows_with_what_is_back),
        cmocka_unit_test(ranks_that_ended_to_grow_have_not_failed),
        cmocka_unit_test(only_who_made_the_file_removes_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
