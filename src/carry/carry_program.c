/* Where slackline-delegate is. */
#include "base/find.h"
#include "carry/carry.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "slackline-delegate"

static sl_status take_named(const char *named, const char *who, char path[PATH_MAX]) {
    char full[PATH_MAX];
    if (!realpath(named, full) || !sl_find_is_file(full) || access(full, X_OK) != 0)
        return sl_error(SL_ESYS, "%s '%s', which is not a program", who, named);
    SL_TRY(sl_find_trust(full));
    strcpy(path, full);
    return SL_OK;
}

/* The folder above; 0: there is none. */
static int cut(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash)
        return 0;
    *slash = 0;
    return 1;
}

/* Next to this library, or in bin next to its folder. SL_ENONE: in neither. */
static sl_status look_beside_library(char path[PATH_MAX]) {
    static const char *const below[] = {"", "/bin"};
    char folder[PATH_MAX];
    Dl_info about;
    if (!dladdr((const void *)below, &about) || !realpath(about.dli_fname, folder))
        return SL_ENONE;
    for (int i = 0; i < 2 && cut(folder); i++) {
        int length = snprintf(path, PATH_MAX, "%s%s/" PROGRAM, folder, below[i]);
        if (length < PATH_MAX && sl_find_is_file(path))
            return sl_find_trust(path);
    }
    return SL_ENONE;
}

sl_status sl_carry_program(const char *named, char path[PATH_MAX]) {
    static const char *const places[] = {"", "/../bin", NULL};
    char variable[PATH_MAX];
    if (named)
        return take_named(named, "the options name", path);
    SL_TRY(sl_find_named("SLACKLINE_DELEGATE", variable));
    if (*variable)
        return take_named(variable, "SLACKLINE_DELEGATE names", path);
    sl_status status = look_beside_library(path);
    if (status == SL_ENONE)
        status = sl_find_beside(places, PROGRAM, path);
    if (status != SL_ENONE)
        return status;
    if (sl_find_program(PROGRAM, SL_FIND_ABSOLUTE, path))
        return sl_find_trust(path);
    return sl_error(SL_ESYS, PROGRAM " is not next to libslackline_transport or the running program, not in "
                                     "PATH and not in SLACKLINE_DELEGATE");
}
