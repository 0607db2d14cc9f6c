#include "base/signals.h"

#include <stddef.h>

/* Of the process; written only by sl_signals_begin, before there are threads. */
static struct {
    int known;
    sigset_t ignored, blocked;
} inherited;

static int is_the_users(int signal) {
    return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP ||
           signal == SIGTTIN || signal == SIGTTOU;
}

static void set(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void sl_signals_begin(const sigset_t *blocked) {
    sigset_t none;
    struct sigaction found;
    sigemptyset(&inherited.ignored);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &found) == 0 && found.sa_handler == SIG_IGN) {
            sigaddset(&inherited.ignored, number);
            if (!is_the_users(number))
                set(number, SIG_DFL);
        }
    set(SIGXFSZ, SIG_IGN);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, blocked ? blocked : &none, &inherited.blocked);
    inherited.known = 1;
}

int sl_signals_were_ignored(int signal) {
    return inherited.known && sigismember(&inherited.ignored, signal) == 1;
}

void sl_signals_give_back(void) {
    if (!inherited.known)
        return;
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&inherited.ignored, number) == 1)
            set(number, SIG_IGN);
        else
            set(number, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &inherited.blocked, NULL);
}

int sl_thread_start(pthread_t *thread, void *(*work)(void *object), void *object) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, work, object);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
