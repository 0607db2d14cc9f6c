/* Where slackline-delegate is. */
#include "base/find.h"
#include "carry/carry.h"

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

sl_status sl_carry_program(const char *named, char path[PATH_MAX]) {
    static const char *const folders[] = {"", "/../bin", NULL};
    char variable[PATH_MAX];
    if (named)
        return take_named(named, "the options name", path);
    SL_TRY(sl_find_named("SLACKLINE_DELEGATE", variable));
    if (*variable)
        return take_named(variable, "SLACKLINE_DELEGATE names", path);
    sl_status status = sl_find_near(folders, PROGRAM, path);
    if (status != SL_ENONE)
        return status;
    if (sl_find_program(PROGRAM, SL_FIND_ABSOLUTE, path))
        return sl_find_trust(path);
    return sl_error(SL_ESYS, PROGRAM " is not next to libslackline_transport or the running program, not in "
                                     "PATH and not in SLACKLINE_DELEGATE");
}
