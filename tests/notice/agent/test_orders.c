/* What an agent does of what it is ordered: nothing that strangers order, and nothing beyond what its node
 * is. Started with the word `healthcheck` this program stands for slackline: it leaves a file and waits. */
#include "notice/control/watched_job.h"

#include "notice/message/clocks.h"
#include "notice/message/messages.h"
#include <dirent.h>

#define FOLDER "SL_ORDERS_FOLDER"

static int started(void) {
    int count = 0;
    DIR *folder = opendir(getenv(FOLDER));
    for (struct dirent *one; (one = readdir(folder));)
        count += strncmp(one->d_name, "member-", 7) == 0;
    closedir(folder);
    return count;
}

static int be_member(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/member-%d", getenv(FOLDER), (int)getpid());
    fclose(fopen(path, "w"));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    return 0;
}

/* A job of four ranks under an agent that knows all of them, and nobody who controls it but the test. */
static job *begin(void) {
    job *j = job_open(1);
    setenv(FOLDER, j->scratch, 1);
    j->validate = 1;
    job_start(j, 1);
    job_add_agent(j, 0, NULL);
    job_run(j, SL_SECOND / 2);
    for (sl_time end = job_now() + JOB_PATIENCE; job_iterations(j) < 10 && job_now() < end;)
        job_run(j, SL_SECOND / 10);
    return j;
}

static sl_store *orderer(job *j, const char *key) {
    sl_store *store;
    assert_ok(sl_store_open(j->url, "job", 0, &store));
    if (key)
        assert_ok(sl_store_seal(store, key));
    return store;
}

static void order(sl_store *store, const char *kind, int64_t round, json_t *more) {
    json_object_set_new(more, "kind", json_string(kind));
    json_object_set_new(more, "round", json_integer(round));
    assert_ok(sl_json_append(store, SL_LOG_ORDERS, more, 100));
}

static json_t *until(sl_time time) {
    return json_pack("{s:I}", "node-a", (json_int_t)time);
}

static json_t *member(int rank, int64_t pid) {
    return json_pack("{s:s,s:i,s:I,s:i}", "node", "node-a", "rank", rank, "pid", (json_int_t)pid, "gemm", 0);
}

static void validate(sl_store *store, int64_t round, const char *links, json_t *members) {
    order(store, "validate", round,
          json_pack("{s:s,s:I,s:o,s:o}", "links", links, "deadline_ms", (json_int_t)1000, "until",
                    until(job_now() + 60 * SL_SECOND), "members", members));
}

static json_t *all_ranks(const job *j) {
    json_t *members = json_array();
    for (int rank = 0; rank < JOB_RANKS; rank++)
        json_array_append_new(members, member(rank, j->rank[rank]));
    return members;
}

static const sl_store_refused *refused(const job *j) {
    return sl_store_refused_by(j->agent_store[0]);
}

/* Looks at gates that the agent has answered a hold with. */
static size_t views(job *j) {
    sl_store *store = orderer(j, JOB_KEY);
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    assert_ok(sl_store_read(store, SL_LOG_VIEWS, &position, 100, 0, &entry, &count));
    sl_store_close(store);
    return count;
}

static void strangers_order_nothing(void **state) {
    (void)state;
    job *j = begin();
    sl_store *none = orderer(j, NULL), *wrong = orderer(j, "another-key-than-this-job-has");
    order(none, "hold", 7, json_pack("{s:o}", "until", until(job_now() + 30 * SL_SECOND)));
    order(wrong, "hold", 8, json_pack("{s:o}", "until", until(job_now() + 30 * SL_SECOND)));
    validate(none, 9, "", all_ranks(j));
    validate(wrong, 10, "", all_ranks(j));
    job_run(j, SL_SECOND);
    assert_int_equal(views(j), 0);
    assert_int_equal(started(), 0);
    assert_int_equal(refused(j)->foreign, 4);
    sl_store *own = orderer(j, JOB_KEY); /* the job itself is obeyed */
    order(own, "hold", 11, json_pack("{s:o}", "until", until(job_now() + 2 * SL_SECOND)));
    job_run(j, SL_SECOND / 2);
    assert_int_equal(views(j), JOB_RANKS);
    assert_int_equal(refused(j)->foreign, 4);
    char clock[SL_CLOCK_NAME]; /* a time for all nodes with this clock, and for those with another */
    sl_clock_identity(clock, sizeof clock);
    order(own, "release", 11, json_object());
    order(own, "hold", 12,
          json_pack("{s:{s:I}}", "until", "another clock", (json_int_t)(job_now() + 2 * SL_SECOND)));
    job_run(j, SL_SECOND / 2);
    assert_int_equal(views(j), JOB_RANKS);
    order(own, "hold", 13, json_pack("{s:{s:I}}", "until", clock, (json_int_t)(job_now() + 2 * SL_SECOND)));
    job_run(j, SL_SECOND / 2);
    assert_int_equal(views(j), 2 * JOB_RANKS);
    sl_store_close(none), sl_store_close(wrong), sl_store_close(own);
    job_close(j);
}

static void no_more_validating_processes_are_started_than_the_node_has_ranks(void **state) {
    (void)state;
    job *j = begin();
    sl_store *own = orderer(j, JOB_KEY);
    json_t *many = json_array(), *strange = json_array();
    for (int i = 0; i < 40; i++)
        json_array_append_new(many, member(0, j->rank[0]));
    validate(own, 5, "", many);
    for (int i = 0; i < 40; i++)
        json_array_append_new(strange, member(100 + i, 1 + i)); /* nobody's */
    validate(own, 6, "", strange);
    validate(own, 7, "/etc/passwd", all_ranks(j)); /* a file's name is no list of links */
    job_run(j, SL_SECOND);
    assert_int_equal(started(), 0);
    assert_int_equal(refused(j)->odd, 2);
    validate(own, 8, "0-1,2-3", all_ranks(j));
    for (sl_time end = job_now() + JOB_PATIENCE; started() < JOB_RANKS && job_now() < end;)
        job_run(j, SL_SECOND / 10);
    job_run(j, SL_SECOND / 2);
    assert_int_equal(started(), JOB_RANKS);
    assert_int_equal(refused(j)->odd, 2);
    sl_store_close(own);
    job_close(j);
}

static void what_makes_no_sense_is_counted_and_left(void **state) {
    (void)state;
    job *j = begin();
    sl_store *own = orderer(j, JOB_KEY);
    int64_t longest = INT64_MAX;
    assert_ok(sl_store_append(own, SL_LOG_ORDERS, "no json", 7, 100));
    order(own, "hold", 0, json_pack("{s:o}", "until", until(job_now() + SL_SECOND)));
    order(own, "profile", 4,
          json_pack("{s:o,s:I}", "until", until(job_now() + SL_SECOND), "length", (json_int_t)longest));
    order(own, "profile", 5,
          json_pack("{s:o,s:I}", "until", until(job_now() + SL_SECOND), "length", (json_int_t)-5));
    job_run(j, SL_SECOND / 2);
    assert_int_equal(refused(j)->odd, 4);
    order(own, "hold", 12, json_pack("{s:o}", "until", until(job_now() + 2 * SL_SECOND)));
    order(own, "look", 12, json_pack("{s:i,s:[[i,i]]}", "look", 1, "raises", 0, 1));
    order(own, "look", 12, json_pack("{s:I,s:[]}", "look", (json_int_t)longest, "raises"));
    job_run(j, SL_SECOND / 2);
    assert_int_equal(refused(j)->odd, 6);
    sl_store_close(own);
    job_close(j);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "healthcheck") == 0)
        return be_member();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_order_nothing),
        cmocka_unit_test(no_more_validating_processes_are_started_than_the_node_has_ranks),
        cmocka_unit_test(what_makes_no_sense_is_counted_and_left),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
