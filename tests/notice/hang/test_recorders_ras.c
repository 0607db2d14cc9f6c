/* Whose answer of NCCL's RAS service counts: several jobs of a node may listen at one port, so that the
 * kernel gives a question to any of them (as seen with NCCL 2.28.9, where a watch got the answer of the job
 * next to its own). Children stand in for ranks: NCCL's library is mapped and the address of the service is
 * in their environment. */
#include "check.h"
#include "notice/hang/recorders.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2 };
static char folder[] = "/tmp/slackline-ras-XXXXXX", library[64], address[64];
static int listener, asked, others; /* the first `others` questions meet another job */
static int pid[RANKS];

/* ---- ranks ---- */

static int rank_main(const char *name) {
    int file = open(name, O_RDONLY);
    if (file < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
        return 1;
    printf("ready\n");
    fflush(stdout);
    pause();
    return 0;
}

static void start_rank(int i) {
    int line[2];
    char text[8];
    assert_int_equal(pipe(line), 0);
    pid[i] = fork();
    if (pid[i] == 0) {
        char *const words[] = {(char *)(uintptr_t) "rank", library, NULL}, *const environment[] = {address,
                                                                                                   NULL};
        dup2(line[1], 1);
        execve("/proc/self/exe", words, environment);
        _exit(127);
    }
    close(line[1]);
    assert_true(read(line[0], text, sizeof text) > 0);
    close(line[0]);
}

/* ---- the service ---- */

static void answer(FILE *to, int first, int second) {
    fprintf(
        to,
        "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": \"0x1\", \"size\": 2, \"ranks\": [");
    for (int i = 0; i < RANKS; i++)
        fprintf(to,
                "%s{\"rank\": %d, \"host\": \"127.0.0.1\", \"pid\": %d, \"status\": {}, "
                "\"collective_counts\": {\"AllReduce\": %d}}",
                i ? ", " : "", i, i ? second : first, 7 - i);
    fprintf(to, "], \"missing_ranks\": []}]}\n");
}

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        char line[256];
        int file = accept(listener, NULL, NULL);
        if (file < 0)
            return NULL;
        FILE *from = fdopen(file, "r"), *to = fdopen(dup(file), "w");
        while (fgets(line, sizeof line, from)) {
            if (strcmp(line, "VERBOSE STATUS\n") == 0) {
                if (asked++ < others)
                    answer(to, 1, 2); /* processes of another job */
                else
                    answer(to, pid[0], pid[1]);
                break;
            }
            fputs(strncmp(line, "SET", 3) == 0 ? "OK\n" : "SERVER PROTOCOL 2\n", to);
            fflush(to);
        }
        fclose(to);
        fclose(from);
    }
}

static int set_up(void **state) {
    pthread_t thread;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/libnccl.so.2", folder);
    int file = open(library, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(file, 4096), 0);
    close(file);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    snprintf(address, sizeof address, "NCCL_RAS_ADDR=127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    pthread_detach(thread);
    for (int i = 0; i < RANKS; i++)
        start_rank(i);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    unlink(library);
    rmdir(folder);
    return 0;
}

/* Ranks of the answer that was taken; 0: none was. */
static size_t taken(int strangers) {
    sl_hang_rank ranks[RANKS] = {{.rank = 0, .pid = pid[0], .still_s = 10},
                                 {.rank = 1, .pid = pid[1], .still_s = 10}};
    const sl_hang_job job = {.rank = ranks, .ranks = RANKS, .size = RANKS};
    sl_hang_recorders *r;
    sl_hang_job torch, ras;
    asked = 0;
    others = strangers;
    assert_ok(sl_hang_recorders_start(&job, 0, &r));
    while (!sl_hang_recorders_done(r))
        usleep(10000);
    sl_hang_recorders_take(r, &torch, &ras);
    sl_hang_recorders_close(r);
    const size_t found = ras.ranks;
    for (size_t i = 0; i < found; i++)
        assert_int_equal(ras.rank[i].pid, pid[i]);
    sl_hang_job_free(&torch);
    sl_hang_job_free(&ras);
    return found;
}

static void the_own_jobs_answer_is_taken(void **state) {
    (void)state;
    assert_int_equal(taken(0), RANKS);
    assert_int_equal(asked, 1);
}

static void anothers_answer_is_not_and_the_question_is_repeated(void **state) {
    (void)state;
    assert_int_equal(taken(3), RANKS);
    assert_int_equal(asked, 4);
}

static void a_job_whose_service_never_answers_has_no_answer(void **state) {
    (void)state;
    assert_int_equal(taken(1000), 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[0], "rank") == 0)
        return rank_main(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_own_jobs_answer_is_taken),
                                       cmocka_unit_test(anothers_answer_is_not_and_the_question_is_repeated),
                                       cmocka_unit_test(a_job_whose_service_never_answers_has_no_answer)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
