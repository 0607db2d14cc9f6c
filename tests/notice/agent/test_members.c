/* Validating processes as an agent starts them. This program stands for slackline: started with the command
 * `healthcheck` it writes down what others can see of it, and what it can read itself. */
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "check.h"
#include "notice/agent/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PASSWORD "geheim-7731"
#define URL "redis://:" PASSWORD "@127.0.0.1:1"

#define KEY "a-key-that-nobody-else-has"

static char folder[] = "/tmp/slackline-members-XXXXXX";

static void path_of(const char *name, char *path, size_t size) {
    snprintf(path, size, "%s/%s", getenv("SL_MEMBER_FOLDER"), name);
}

/* A file of /proc as text, its zeros as blanks. */
static void keep(const char *from, const char *name) {
    char *content, path[256];
    size_t size;
    if (sl_file_read(from, &content, &size) != SL_OK)
        _exit(3);
    for (size_t i = 0; i < size; i++)
        content[i] = content[i] ? content[i] : ' ';
    path_of(name, path, sizeof path);
    if (sl_file_write(path, content, size) != SL_OK)
        _exit(3);
    sl_free(content);
}

struct words {
    char join[512], key[512];
    const char *other;
};

static int be_member(int argc, char **argv) {
    static const sl_option options[] = {
        SL_OPTION("join", SECRET, struct words, join, NULL, NULL, .most = 512),
        SL_OPTION("key", SECRET, struct words, key, NULL, NULL, .most = 512),
        SL_OPTION("job", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("round", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("member", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("members", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("rank", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("pid", TEXT, struct words, other, NULL, NULL),
        SL_OPTION("deadline", TEXT, struct words, other, NULL, NULL),
        SL_OPTIONS_END};
    struct words word = {0};
    char path[256], both[1100];
    sl_options o = {.command = "healthcheck", .table = options, .argc = argc - 1, .argv = argv + 1};
    keep("/proc/self/cmdline", "cmdline");
    keep("/proc/self/environ", "environ");
    for (int twice = 0; twice < 2;
         twice++) /* the command reads its options, and the worker that it becomes */
        if (sl_options_take(&o, &word) != SL_OK)
            return 4;
    snprintf(both, sizeof both, "%s %s", word.join, word.key);
    path_of("read", path, sizeof path);
    return sl_file_write(path, both, strlen(both)) == SL_OK ? 0 : 3;
}

static char *kept(const char *name) {
    char *content, path[256];
    size_t size;
    path_of(name, path, sizeof path);
    assert_ok(sl_file_read(path, &content, &size));
    return content;
}

static void neither_password_nor_key_can_be_seen_by_others(void **state) {
    (void)state;
    sl_members members = {0};
    const sl_member member = {.round = 5,
                              .members = 2,
                              .rank = 3,
                              .pid = getpid(),
                              .deadline_ms = 100,
                              .links = "",
                              .store_url = URL,
                              .key = KEY,
                              .job = "job"};
    assert_ok(sl_members_start(&members, &member, SL_TIME_NEVER));
    assert_int_equal(members.children, 1);
    int status;
    assert_int_equal(waitpid(members.child[0].pid, &status, 0), members.child[0].pid);
    assert_int_equal(status, 0);
    members.children = 0;
    sl_members_close(&members);
    char *words = kept("cmdline"), *variables = kept("environ"), *read = kept("read");
    assert_non_null(strstr(words, "--round 5"));
    assert_null(strstr(words, PASSWORD));
    assert_null(strstr(words, KEY));
    assert_null(strstr(variables, PASSWORD));
    assert_null(strstr(variables, KEY));
    assert_string_equal(read, URL " " KEY);
    sl_free(words);
    sl_free(variables);
    sl_free(read);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "healthcheck") == 0)
        return be_member(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_password_nor_key_can_be_seen_by_others),
    };
    if (!mkdtemp(folder))
        return 1;
    setenv("SL_MEMBER_FOLDER", folder, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sl_path_remove(folder);
    return failed;
}
