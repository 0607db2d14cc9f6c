/* Services and libraries slackline talks to: Redis, HTTP, the exact solver. */
#include "doctor/doctor.h"

#include "base/file.h"
#include "base/memory.h"
#include "launch/redis.h"
#include "plan/exact/solver.h"

#include <dirent.h>
#include <microhttpd.h>
#include <slackline_build.h>
#include <stdio.h>
#include <string.h>

#define LIMIT (20 * SL_SECOND)

/* "Redis server v=7.0.15 sha=..." */
static void version_of_redis(const char *path, char *version, size_t size) {
    const char *const argv[] = {path, "--version", NULL};
    sl_child child;
    snprintf(version, size, "version unknown");
    if (sl_child_run(argv, NULL, LIMIT, &child) != SL_OK)
        return;
    const char *at = strstr(child.text, " v=");
    if (at)
        snprintf(version, size, "%.*s", (int)strcspn(at + 3, " \n"), at + 3);
}

/* Starts one on its own socket below `folder`, as `watch` does. */
static sl_status try_redis(const char *folder) {
    sl_redis redis;
    SL_TRY(sl_redis_start(folder, NULL, &redis));
    sl_status status = sl_redis_wait(&redis, LIMIT);
    sl_redis_stop(&redis);
    return status;
}

static void look_at_redis(sl_doctor *d) {
    static const char means[] = "watch starts no server of its own", get[] = "Debian: apt install "
                                                                             "redis-server; or give watch "
                                                                             "the URL of one with --redis";
    char version[64], folder[256], path[PATH_MAX];
    sl_status found = sl_redis_find(path);
    if (found != SL_OK) {
        if (found == SL_ENONE)
            sl_finding_report(d, "redis-server", SL_ABSENT, means, get, "not in PATH");
        else
            sl_finding_report(d, "redis-server", SL_BROKEN, means, get, "%s", sl_error_text());
        return;
    }
    version_of_redis(path, version, sizeof version);
    if (sl_doctor_folder(60, folder, sizeof folder) != SL_OK) { /* a socket's path must be short */
        sl_doctor_not_tried(d, "redis-server");
        return;
    }
    if (try_redis(folder) == SL_OK)
        sl_finding_add(d, "redis-server", SL_PRESENT, "%s, starts and answers", version);
    else
        sl_finding_report(d, "redis-server", SL_BROKEN, means, get, "%s", sl_error_text());
    sl_path_remove(folder);
}

static void look_at_hiredis(sl_doctor *d) {
    int has_tls = SL_BUILD_HIREDIS_TLS;
    sl_finding_report(d, "hiredis", has_tls ? SL_PRESENT : SL_LIMITED,
                      !has_tls ? "watch --redis takes no rediss:// URL" : "",
                      !has_tls ? "install hiredis 1.0 or newer with hiredis_ssl and build again" : "",
                      "%s, %s TLS", SL_BUILD_HIREDIS_VERSION, has_tls ? "with" : "without");
}

/* The version of a wheel is in the name of a neighboring folder: ortools-9.15.6755.dist-info. */
static void version_of_solver(const char *library, char *version, size_t size) {
    char folder[PATH_MAX];
    snprintf(version, size, "version unknown");
    snprintf(folder, sizeof folder, "%s", library);
    for (int up = 0; up < 3; up++) { /* libortools.so.9, .libs, ortools */
        char *slash = strrchr(folder, '/');
        if (!slash)
            return;
        *slash = 0;
    }
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries)) != NULL;) {
        const char *end = strstr(e->d_name, ".dist-info");
        if (strncmp(e->d_name, "ortools-", 8) == 0 && end)
            snprintf(version, size, "%.*s", (int)(end - e->d_name - 8), e->d_name + 8);
    }
    if (entries)
        closedir(entries);
}

static void look_at_solver(sl_doctor *d) {
    static const char means[] = "auto and optimal search without the exact solver: fewer plans are proven",
                      get[] = "pip install --no-deps ortools==9.15.6755 in an active virtual environment, or "
                              "SLACKLINE_ORTOOLS=FOLDER",
                      mend[] = "chmod or chown what is named";
    sl_solver solver = {0};
    sl_blob nothing = {.bytes = NULL, .size = 0}, response = {0};
    char version[64];
    sl_status found = sl_solver_find(&solver);
    if (found == SL_ESYS) {
        sl_finding_report(d, "OR-tools", SL_BROKEN, means, mend, "%s", sl_error_text());
    } else if (found != SL_OK) {
        sl_finding_report(d, "OR-tools", SL_ABSENT, means, get, "%s", sl_error_text());
    } else if (sl_solver_run(&solver, &nothing, &nothing, 20, NULL, &response) != SL_OK) {
        sl_finding_report(d, "OR-tools", SL_BROKEN, means, get, "%s", sl_error_text());
    } else {
        version_of_solver(solver.library, version, sizeof version);
        sl_finding_add(d, "OR-tools", SL_PRESENT, "%s, %s", version, solver.library);
    }
    sl_free(response.bytes);
    sl_solver_free(&solver);
}

void sl_doctor_services(sl_doctor *d) {
    look_at_redis(d);
    look_at_hiredis(d);
    sl_finding_add(d, "libmicrohttpd", SL_PRESENT, "%s", MHD_get_version());
    look_at_solver(d);
}
