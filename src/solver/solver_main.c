/* slackline-solver LIBRARY PARENT --started-by 'BUILD PATH': solves one model with CP-SAT and ends. Started
 * by sl_solver_run, which documents the exchange on standard input and output. It never outlives its parent
 * and leaves no core. */
#include "base/build.h"
#include "base/build_id.h"
#include "base/signals.h"
#include "plan/exact/solver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* ortools/sat/c_api/cp_solver_c.h */
typedef void solve_function(const void *model, int model_size, const void *parameters, int parameters_size,
                            void **response, int *response_size);

static int put(int line, const void *bytes, size_t size) {
    for (const unsigned char *next = bytes; size > 0;) {
        ssize_t done = write(line, next, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        next += done;
        size -= (size_t)done;
    }
    return 1;
}

static int get(int line, void *bytes, size_t size) {
    for (unsigned char *next = bytes; size > 0;) {
        ssize_t done = read(line, next, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        next += done;
        size -= (size_t)done;
    }
    return 1;
}

static int answer(int line, unsigned char letter, const void *bytes, size_t size) {
    unsigned char header[SL_SOLVER_HEADER] = {letter};
    for (int i = 0; i < 8; i++)
        header[1 + i] = (unsigned char)((uint64_t)size >> 8 * i);
    return put(line, header, sizeof header) && put(line, bytes, size);
}

static int fail(int line, const char *what, const char *why) {
    char text[900];
    snprintf(text, sizeof text, "%s: %s", what, why ? why : "unknown");
    answer(line, SL_SOLVER_REASON, text, strlen(text));
    return 1;
}

static int refuse(int line) {
    answer(line, SL_SOLVER_OTHER, sl_error_text(), strlen(sl_error_text()));
    return 1;
}

/* NULL when the parent is gone or says something else. */
static unsigned char *read_blob(int line, unsigned char letter, size_t *size) {
    unsigned char header[SL_SOLVER_HEADER], *bytes;
    uint64_t length = 0;
    if (!get(line, header, sizeof header) || header[0] != letter)
        return NULL;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)header[1 + i] << 8 * i;
    if (length > SL_SOLVER_MAX || !(bytes = malloc((size_t)length + 1)))
        return NULL;
    *size = (size_t)length;
    if (get(line, bytes, *size))
        return bytes;
    free(bytes);
    return NULL;
}

static void end_with(pid_t parent) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before */
        _exit(1);
}

/* Standard input and output are the socket: moved to a file number that no print uses. */
static int take_line(void) {
    int line = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (line < 0 || null < 0)
        return -1;
    for (int standard = 0; standard < 3; standard++)
        dup2(null, standard);
    close(null);
    return line;
}

static int solve(int line, const char *path) {
    size_t model_size, parameters_size;
    unsigned char *model = read_blob(line, SL_SOLVER_MODEL, &model_size);
    unsigned char *parameters = model ? read_blob(line, SL_SOLVER_PARAMETERS, &parameters_size) : NULL;
    if (!parameters) {
        free(model);
        return 1;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *response = NULL;
    int status, response_size = 0;
    solve_function *function = NULL;
    if (library)
        *(void **)&function = dlsym(library, "SolveCpModelWithParameters");
    if (!function)
        status = fail(line, library ? path : "cannot load the solver", dlerror());
    else {
        function(model, (int)model_size, parameters, (int)parameters_size, &response, &response_size);
        status = !response || response_size < 0
                     ? fail(line, path, "the solver gave no response")
                     : !answer(line, SL_SOLVER_RESPONSE, response, (size_t)response_size);
    }
    free(model);
    free(parameters);
    return status;
}

int main(int count, char **arguments) {
    sl_signals_begin(NULL);
    if (count == 2 && strcmp(arguments[1], "--version") == 0)
        return printf("slackline-solver %s\n", sl_build_id()) < 0;
    const char *starter = sl_build_take(&count, arguments);
    if (count != 3) {
        fprintf(stderr, "usage: slackline-solver LIBRARY PARENT " SL_BUILD_OPTION
                        " 'VERSION PATH' (it is started by the planner)\n");
        return 2;
    }
    end_with((pid_t)strtol(arguments[2], NULL, 10));
    int line = take_line();
    /* Ends at once: OR-tools' own shutdown is not needed and takes time. */
    if (line < 0)
        _exit(1);
    _exit(sl_build_check(starter) == SL_OK ? solve(line, arguments[1]) : refuse(line));
}
