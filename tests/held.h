/* A process that SIGKILL does not get rid of, made without a broken disk: a tracer holds it, and a dead
 * process whose tracer does not wait for it stays, for its parent cannot reap it before the tracer lets go.
 */
#ifndef SL_TESTS_HELD_H
#define SL_TESTS_HELD_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Has `held` (which may be the caller) held by a tracer, a child of the caller that ends by SIGKILL or after
 * a minute. Returns the tracer's process id; -1: tracing is not allowed here. */
static inline pid_t hold(pid_t held) {
    int go[2], done[2];
    char byte = 0;
    if (pipe(go) != 0 || pipe(done) != 0)
        return -1;
    pid_t tracer = fork();
    if (tracer == 0) {
        close(go[1]);
        close(done[0]);
        byte = read(go[0], &byte, 1) == 1 && ptrace(PTRACE_SEIZE, held, NULL, NULL) == 0;
        (void)!write(done[1], &byte, 1);
        for (int file = 0; file < 64; file++)
            close(file); /* what the caller had open is nobody's reason to wait */
        if (byte)
            sleep(60);
        _exit(0);
    }
    close(go[0]);
    close(done[1]);
    prctl(PR_SET_PTRACER, tracer, 0, 0, 0); /* where Yama asks for it */
    if (write(go[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
        byte = 0;
    close(go[1]);
    close(done[0]);
    return tracer > 0 && byte ? tracer : -1;
}

/* Ends a tracer; what it held can be reaped again. */
static inline void let_go(pid_t tracer) {
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
}

#endif
