/* The help text of a subcommand, as the subcommand prints it. */
#include "cli/help.h"

#include "base/memory.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Runs it with --help while standard output is `file`. */
static int print_into(const sl_subcommand *command, int file) {
    char option[] = "--help", *words[] = {(char *)(uintptr_t)command->name, option, NULL};
    fflush(stdout);
    int before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (before < 0 || dup2(file, STDOUT_FILENO) < 0)
        return -1;
    optind = 0; /* getopt starts anew */
    int code = command->run(2, words);
    int lost = fflush(stdout) != 0;
    optind = 0;
    lost |= dup2(before, STDOUT_FILENO) < 0;
    close(before);
    return code || lost ? -1 : 0;
}

static sl_status read_back(int file, char **text) {
    off_t size = lseek(file, 0, SEEK_END);
    if (size < 0)
        return sl_error_errno(SL_ESYS, "a help text cannot be read");
    SL_TRY(sl_alloc(text, (size_t)size + 1, 1));
    ssize_t got = pread(file, *text, (size_t)size, 0);
    (*text)[got > 0 ? got : 0] = 0;
    return SL_OK;
}

sl_status sl_help_read(const sl_subcommand *command, sl_help *help) {
    char *text = NULL;
    *help = (sl_help){0};
    if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
        return sl_error_errno(SL_ESYS, "standard output cannot be written");
    int file = memfd_create("help", MFD_CLOEXEC);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "the help of %s cannot be kept", command->name);
    sl_status status = print_into(command, file) == 0 ? read_back(file, &text)
                                                      : sl_error(SL_ESYS, "%s --help fails", command->name);
    SL_THEN(status, sl_help_parse(text, help));
    sl_free(text);
    close(file);
    return status;
}
