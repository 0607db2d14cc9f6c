/* Finding OR-tools and the program that loads it. */
#include "base/find.h"
#include "base/memory.h"
#include "plan/exact/solver.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM "slackline-solver"
#define IN_PACKAGES "/ortools/.libs/" SL_SOLVER_LIBRARY
#define IN_ENVIRONMENT "/lib/python3*/site-packages" IN_PACKAGES
#define DEPTH 12 /* folders below SLACKLINE_ORTOOLS; a wheel has 6 */

/* Next to the running program, and one folder above: a test's program, a build in its source tree. The Python
 * package has it in bin, next to the folder of its library. */
static const char *const folders[] = {"", "/..", "/../bin", NULL};
/* From a folder of the installed Python package, where the environment's other packages are. */
static const char *const packages[] = {"/../..", NULL};

static int is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* 0 if it does not fit. */
static int join(char *path, const char *folder, const char *name) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

/* ---- the library ---- */

/* Depth first, files of a folder before its folders; links to folders are not followed. */
static int search_below(const char *folder, int depth, char *found) {
    DIR *listing;
    if (join(found, folder, SL_SOLVER_LIBRARY) && sl_find_is_file(found))
        return 1;
    if (depth == 0 || !(listing = opendir(folder)))
        return 0;
    char below[PATH_MAX];
    int here = 0;
    for (struct dirent *entry; !here && (entry = readdir(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && join(below, folder, entry->d_name) &&
            is_folder(below))
            here = search_below(below, depth - 1, found);
    closedir(listing);
    return here;
}

/* In the Python environment `folder`. */
static int search_environment(const char *folder, char *found) {
    char pattern[PATH_MAX];
    glob_t matches;
    int length = snprintf(pattern, sizeof pattern, "%s" IN_ENVIRONMENT, folder), here = 0;
    if (length < 0 || length >= (int)sizeof pattern)
        return 0;
    if (glob(pattern, 0, NULL, &matches) == 0) {
        here = matches.gl_pathc > 0 && strlen(matches.gl_pathv[0]) < PATH_MAX;
        if (here)
            strcpy(found, matches.gl_pathv[0]);
        globfree(&matches);
    }
    return here;
}

static sl_status find_named_library(const char *named, char *found) {
    if (sl_find_is_file(named)) {
        strcpy(found, named);
        return SL_OK;
    }
    if (!is_folder(named))
        return sl_error(SL_ENONE, "SLACKLINE_ORTOOLS names '%s', which is neither a file nor a folder",
                        named);
    if (!search_below(named, DEPTH, found))
        return sl_error(SL_ENONE, "SLACKLINE_ORTOOLS names '%s', which holds no " SL_SOLVER_LIBRARY, named);
    return SL_OK;
}

/* In .venv next to the running program or one folder above, then in the active environment, then in the one
 * that the Python package is installed in. */
static sl_status search_library(char *found) {
    char folder[PATH_MAX];
    const char *active = secure_getenv("VIRTUAL_ENV");
    for (int i = 0; folders[i]; i++)
        if (sl_find_folder(folders[i], folder) == SL_OK &&
            strlen(folder) + sizeof "/.venv" <= sizeof folder &&
            search_environment(strcat(folder, "/.venv"), found))
            return SL_OK;
    if (active && *active == '/' && search_environment(active, found))
        return SL_OK;
    sl_status status = sl_find_near(packages, &IN_PACKAGES[1], found);
    if (status != SL_ENONE)
        return status;
    return sl_error(SL_ENONE,
                    "OR-tools is not there: no " SL_SOLVER_LIBRARY
                    " in the active Python environment (VIRTUAL_ENV%s), "
                    "in .venv next to slackline or one folder above, nor in SLACKLINE_ORTOOLS",
                    active && *active && *active != '/' ? " is not an absolute path" : "");
}

static sl_status find_library(char *found) {
    char named[PATH_MAX];
    SL_TRY(sl_find_named("SLACKLINE_ORTOOLS", named));
    SL_TRY(*named ? find_named_library(named, found) : search_library(found));
    return sl_find_trust(found);
}

static sl_status find_program(char *found) {
    SL_TRY(sl_find_named("SLACKLINE_SOLVER", found));
    if (*found) {
        if (!sl_find_is_file(found) || access(found, X_OK) != 0)
            return sl_error(SL_ENONE, "SLACKLINE_SOLVER names '%s', which is not a program", found);
        return sl_find_trust(found);
    }
    sl_status status = sl_find_near(folders, PROGRAM, found);
    if (status != SL_ENONE)
        return status;
    if (sl_find_program(PROGRAM, SL_FIND_ABSOLUTE, found))
        return sl_find_trust(found);
    return sl_error(SL_ENONE,
                    PROGRAM " is not next to the running program, not in PATH and not in SLACKLINE_SOLVER");
}

sl_status sl_solver_find(sl_solver *solver) {
    char found[PATH_MAX];
    *solver = (sl_solver){0};
    SL_TRY(find_library(found));
    SL_TRY(sl_copy_text(&solver->library, found));
    SL_TRY(find_program(found));
    return sl_copy_text(&solver->program, found);
}

void sl_solver_free(sl_solver *solver) {
    SL_FREE(solver->program, solver->library);
    *solver = (sl_solver){0};
}
