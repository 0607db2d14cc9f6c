#include "launch/redis.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/find.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/subprocess.h"
#include "launch/directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char program[] = "redis-server";

enum { TEXT = 4096 }; /* of its configuration: paths of a folder, addresses and little else */

/* Permissions of clients: the store's commands, on its own keys. Everything else (CONFIG, MODULE, DEBUG,
 * SAVE, SHUTDOWN, REPLICAOF, EVAL, MIGRATE, FLUSHALL, ACL ...) would let a client write files or end the
 * server. */
#define ALLOWED "~slackline:* resetchannels -@all +get +set +del +scan +xadd +xread +select\n"

sl_status sl_redis_find(char path[PATH_MAX]) {
    static const char *const here[] = {"", NULL};
    if (sl_find_program(program, SL_FIND_ABSOLUTE, path))
        return SL_OK;
    sl_status status = sl_find_near(here, program, path); /* a wheel brings one */
    if (status != SL_ENONE)
        return status;
    return sl_error(SL_ENONE,
                    "%s is not installed (Debian: apt install redis-server); install it, or give "
                    "the URL of a server with --redis",
                    program);
}

/* A port that is free now. If another process takes it before the server does, the server ends. */
static sl_status find_port(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof address;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = file < 0 || bind(file, (struct sockaddr *)&address, size) != 0 ||
                 getsockname(file, (struct sockaddr *)&address, &size) != 0;
    if (file >= 0)
        close(file);
    *port = ntohs(address.sin_port);
    return failed ? sl_error_errno(SL_ESYS, "no free port for %s", program) : SL_OK;
}

/* Where the server will be. */
static sl_status choose_address(const char *addresses, sl_redis *redis) {
    if (addresses) {
        if (strlen(addresses) >= sizeof redis->addresses)
            return sl_error(SL_EINVAL, "%s cannot listen on so many addresses", program);
        snprintf(redis->addresses, sizeof redis->addresses, "%s", addresses);
        SL_TRY(find_port(&redis->port));
        return sl_random_text(redis->password, 32, "random password");
    }
    int used = snprintf(redis->path, sizeof redis->path, "%s/redis.sock", redis->folder);
    return used < 0 || (size_t)used >= sizeof redis->path
               ? sl_error(SL_EINVAL, "%s: the path is too long for a socket", redis->folder)
               : SL_OK;
}

static void configure(const sl_redis *redis, char text[TEXT]) {
    int used =
        redis->path[0]
            ? snprintf(text, TEXT, "port 0\nunixsocket \"%s\"\nunixsocketperm 700\nuser default on nopass ",
                       redis->path)
            : snprintf(text, TEXT, "port %d\n", redis->port);
    if (!redis->path[0]) {
        used += snprintf(text + used, TEXT - (size_t)used, "bind 127.0.0.1");
        for (const char *at = redis->addresses; *(at += strspn(at, " ")); at += strcspn(at, " "))
            used += snprintf(text + used, TEXT - (size_t)used, " -%.*s", (int)strcspn(at, " "), at);
        used += snprintf(text + used, TEXT - (size_t)used, "\nuser default on >%s ", redis->password);
    }
    snprintf(
        text + used, TEXT - (size_t)used,
        ALLOWED
        "save \"\"\nmaxclients 65000\nappendonly no\ndaemonize no\ndir \"%s\"\nlogfile \"%s/redis.log\"\n",
        redis->folder, redis->folder);
}

/* In the child: only calls that are safe after fork of a process with threads. */
_Noreturn static void become_server(const char *server, int input, pid_t parent, char *const *environment) {
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int silent = open("/dev/null", O_RDWR);
    setpgid(0, 0); /* the program handles a terminal's interrupt, and still stores its last messages */
    if (getppid() != parent || silent < 0 || dup2(input, 0) < 0 || dup2(silent, 1) < 0 || dup2(silent, 2) < 0)
        _exit(126);
    char *const argv[] = {(char *)program, (char *)"-", NULL};
    execve(server, argv, environment);
    _exit(127);
}

/* This environment, with SLACKLINE_RUN naming `folder`, so that the next start finds a server left behind,
 * and without preloaded libraries. */
static sl_status environment_for(const char *folder, char *named, size_t size, char ***result) {
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **all;
    SL_TRY(sl_alloc(&all, count + 2, sizeof *all));
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
            strncmp(environ[i], SL_LAUNCH_VARIABLE "=", sizeof SL_LAUNCH_VARIABLE) != 0)
            all[kept++] = environ[i];
    snprintf(named, size, "%s=%s", SL_LAUNCH_VARIABLE, folder);
    all[kept] = named;
    *result = all;
    return SL_OK;
}

sl_status sl_redis_restart(sl_redis *redis) {
    char text[TEXT], named[512], server[PATH_MAX], **environment;
    int input[2];
    sl_redis_stop(redis);
    SL_TRY(sl_redis_find(server));
    configure(redis, text);
    SL_TRY(environment_for(redis->folder, named, sizeof named, &environment));
    if (pipe2(input, O_CLOEXEC) != 0) {
        sl_free(environment);
        return sl_error_errno(SL_ESYS, "%s cannot be started", program);
    }
    (void)!write(input[1], text, strlen(text)); /* a pipe holds more than that */
    close(input[1]);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_server(server, input[0], parent, environment);
    int error = errno;
    close(input[0]);
    sl_free(environment);
    errno = error;
    if (pid < 0)
        return sl_error_errno(SL_ESYS, "%s cannot be started", program);
    redis->pid = pid;
    return SL_OK;
}

sl_status sl_redis_start(const char *folder, const char *addresses, sl_redis *redis) {
    memset(redis, 0, sizeof *redis);
    if (strlen(folder) >= sizeof redis->folder)
        return sl_error(SL_EINVAL, "%s: the path is too long for redis-server", folder);
    snprintf(redis->folder, sizeof redis->folder, "%s", folder);
    SL_TRY(choose_address(addresses, redis));
    return sl_redis_restart(redis);
}

/* Whether a process accepts a connection there. */
static int answers(const sl_redis *redis) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in net = {.sin_family = AF_INET, .sin_port = htons((uint16_t)redis->port)};
    net.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(local.sun_path, redis->path, sizeof redis->path);
    int is_local = redis->path[0] != 0;
    int file = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int well = file >= 0 && connect(file, is_local ? (struct sockaddr *)&local : (struct sockaddr *)&net,
                                    is_local ? sizeof local : sizeof net) == 0;
    if (file >= 0)
        close(file);
    return well;
}

static int has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

static sl_status explain(const sl_redis *redis, const char *what) {
    char *content = NULL, why[300] = "", path[sizeof redis->folder + 16];
    size_t size;
    snprintf(path, sizeof path, "%s/redis.log", redis->folder);
    if (sl_file_read(path, &content, &size) == SL_OK) {
        while (size > 0 && content[size - 1] == '\n')
            content[--size] = 0;
        const char *line = strrchr(content, '\n');
        snprintf(why, sizeof why, ": %.290s", line ? line + 1 : content);
    }
    sl_free(content);
    return sl_error(SL_ESYS, "%s %s%s", program, what, why);
}

sl_status sl_redis_wait(const sl_redis *redis, sl_time limit) {
    sl_clock *clock = sl_clock_real();
    sl_time deadline = sl_clock_now(clock) + limit;
    for (sl_time pause = SL_MS;; pause += pause < 20 * SL_MS ? SL_MS : 0) {
        if (has_ended(redis->pid))
            return explain(redis, "ended at its start");
        if (answers(redis))
            return SL_OK;
        sl_time now = sl_clock_now(clock);
        if (now >= deadline)
            return explain(redis, "does not answer");
        sl_clock_sleep_until(clock, now + pause);
    }
}

void sl_redis_url(const sl_redis *redis, const char *host, char *text, size_t size) {
    if (redis->path[0])
        snprintf(text, size, "unix:%s", redis->path);
    else
        snprintf(text, size, strchr(host, ':') ? "redis://:%s@[%s]:%d" : "redis://:%s@%s:%d", redis->password,
                 host, redis->port);
}

void sl_redis_stop(sl_redis *redis) {
    if (redis->pid <= 0)
        return;
    /* killed at once: it has nothing to save */
    sl_subprocess server = sl_subprocess_take(redis->pid);
    if (sl_subprocess_end(&server, 1, &(sl_subprocess_ending){.what = program}, NULL) != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    redis->pid = 0;
}
