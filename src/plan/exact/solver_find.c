/* Finding OR-tools and the program that loads it. */
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
#define IN_VENV "/.venv/lib/python3*/site-packages/ortools/.libs/" SL_SOLVER_LIBRARY
#define DEPTH 12 /* folders below SLACKLINE_ORTOOLS; a wheel has 6 */

/* ---- paths ---- */

static int is_kind(const char *path, mode_t kind) {
    struct stat about;
    return stat(path, &about) == 0 && (about.st_mode & S_IFMT) == kind;
}

/* 0 when it does not fit. */
static int join(char *path, const char *folder, const char *name) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

/* Cuts the last component off; 0 when nothing is left but the root. */
static int to_parent(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    *slash = 0;
    return 1;
}

/* The folder of the running program; 0 where /proc does not say. */
static int own_folder(char *path) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return to_parent(path);
}

/* ---- the library ---- */

/* Depth first, files of a folder before its folders; links to folders are not followed. */
static int search_below(const char *folder, int depth, char *found) {
    DIR *listing;
    if (join(found, folder, SL_SOLVER_LIBRARY) && is_kind(found, S_IFREG))
        return 1;
    if (depth == 0 || !(listing = opendir(folder)))
        return 0;
    char below[PATH_MAX];
    int here = 0;
    for (struct dirent *entry; !here && (entry = readdir(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && join(below, folder, entry->d_name) &&
            is_kind(below, S_IFDIR))
            here = search_below(below, depth - 1, found);
    closedir(listing);
    return here;
}

static int search_venv(const char *folder, char *found) {
    char pattern[PATH_MAX];
    glob_t matches;
    int length = snprintf(pattern, sizeof pattern, "%s%s", folder, IN_VENV), here = 0;
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
    if (is_kind(named, S_IFREG) && strlen(named) < PATH_MAX) {
        strcpy(found, named);
        return SL_OK;
    }
    if (!is_kind(named, S_IFDIR))
        return sl_error(SL_ENONE, "SLACKLINE_ORTOOLS names '%s', which is no file and no folder", named);
    if (!search_below(named, DEPTH, found))
        return sl_error(SL_ENONE, "SLACKLINE_ORTOOLS names '%s', which holds no " SL_SOLVER_LIBRARY, named);
    return SL_OK;
}

static sl_status find_library(char *found) {
    const char *named = getenv("SLACKLINE_ORTOOLS");
    char folder[PATH_MAX];
    if (named && *named)
        return find_named_library(named, found);
    if (search_venv(".", found))
        return SL_OK;
    if (own_folder(folder))
        do
            if (search_venv(folder, found))
                return SL_OK;
        while (to_parent(folder));
    return sl_error(SL_ENONE, "OR-tools is not there: no " SL_SOLVER_LIBRARY
                              " in .venv (pip install --no-deps ortools) and no SLACKLINE_ORTOOLS");
}

/* ---- the program ---- */

static int is_program(const char *path) {
    return is_kind(path, S_IFREG) && access(path, X_OK) == 0;
}

static int search_path(char *found) {
    const char *path = getenv("PATH");
    for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
        int length = snprintf(found, PATH_MAX, "%.*s/" PROGRAM, (int)strcspn(path, ":"), path);
        if (*path == '/' && length < PATH_MAX && is_program(found))
            return 1;
    }
    return 0;
}

static sl_status find_program(char *found) {
    const char *named = getenv("SLACKLINE_SOLVER");
    char folder[PATH_MAX];
    if (named && *named) {
        if (strlen(named) >= PATH_MAX || !is_program(named))
            return sl_error(SL_ENONE, "SLACKLINE_SOLVER names '%s', which is no program", named);
        strcpy(found, named);
        return SL_OK;
    }
    if (own_folder(folder)) {
        if (join(found, folder, PROGRAM) && is_program(found))
            return SL_OK;
        if (to_parent(folder) && join(found, folder, PROGRAM) && is_program(found))
            return SL_OK;
    }
    if (search_path(found))
        return SL_OK;
    return sl_error(SL_ENONE,
                    PROGRAM " is not beside the running program, not in PATH and not in SLACKLINE_SOLVER");
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
    sl_free(solver->program);
    sl_free(solver->library);
    *solver = (sl_solver){0};
}
