/* The planner, and the programs and the library that belong to the command. */
#include "doctor/doctor.h"

#include "base/build_id.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/launch.h"
#include "notice/watch/watched_program.h"
#include "plan/search/plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT (20 * SL_SECOND)

/* Four ranks, twelve microbatches of 3 * 10 ms: 12 * 30 ms, and 3 * 10 ms until the last rank starts. */
static const char problem_text[] =
    "pipeline: {ranks: 4, microbatches: 12, times_ms: {F: 10, I: 10, W: 10}}\n";
#define PROBLEM_TIME (390 * SL_MS)

static sl_status plan_once(sl_time *makespan, sl_time *bound) {
    sl_document document = {0};
    sl_problem problem = {0};
    sl_plan plan = {0};
    sl_status status = sl_document_parse("doctor", problem_text, &document);
    SL_THEN(status, sl_problem_read(&document, &problem));
    SL_THEN(status, sl_plan_make(&problem, "adaptra", &plan));
    *makespan = plan.makespan;
    *bound = plan.bound;
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    sl_document_close(&document);
    return status;
}

static void look_at_planner(sl_doctor *d) {
    sl_time makespan = 0, bound = 0;
    if (plan_once(&makespan, &bound) != SL_OK)
        sl_finding_add(d, "planner", SL_BROKEN, "fails: %s", sl_error_text());
    else if (makespan != PROBLEM_TIME || bound != PROBLEM_TIME)
        sl_finding_add(d, "planner", SL_BROKEN, "plans %.3f ms, bound %.3f, where 390 is right",
                       (double)makespan / 1e6, (double)bound / 1e6);
    else
        sl_finding_add(d, "planner", SL_PRESENT, "finds the optimum of a test problem, 390 ms");
}

/* Checks a program's output "NAME VERSION" or "version: VERSION". */
static void report_version(sl_doctor *d, const char *name, const char *path, const sl_child *child,
                           const char *title) {
    static const char again[] = "build or install all of slackline again, from one source";
    char version[64] = "", why[400];
    if (child->exit_code != 0) {
        sl_child_reason(child, why, sizeof why);
        sl_finding_report(d, name, SL_BROKEN, "", again, "%s does not run: %s", path, why);
    } else if (!sl_child_line(child, title, version, sizeof version) || strcmp(version, sl_build_id()) != 0) {
        sl_finding_report(d, name, SL_BROKEN, "programs of different builds do not understand each other",
                          again, "%s is of build %s, not %s", path, *version ? version : "unknown",
                          sl_build_id());
    } else {
        sl_finding_add(d, name, SL_PRESENT, "%s, %s", version, path);
    }
}

/* Nonzero, with a finding, if it is there but others could replace it. */
static int is_refused(sl_doctor *d, const char *name, sl_status status) {
    if (status == SL_ESYS)
        sl_finding_report(
            d, name, SL_BROKEN, "",
            "chmod or chown what is named, or install slackline where only you or root may write", "%s",
            sl_error_text());
    return status == SL_ESYS;
}

static void look_at_worker(sl_doctor *d) {
    char *path = NULL;
    sl_status found = sl_launch_program("slackline-worker", &path);
    if (is_refused(d, "slackline-worker", found))
        return;
    if (found != SL_OK) {
        sl_finding_report(
            d, "slackline-worker", SL_ABSENT,
            "no train and no healthcheck, and watch names suspects without testing them; plan, simulate, "
            "compare, "
            "campaign, topology, balance and detect work",
            "build it from slackline's sources, as it is not part of the Python package: tools/install build "
            "installs Open MPI, oneDNN, xxHash and hwloc; tools/build build",
            "not next to slackline");
        return;
    }
    const char *const argv[] = {path, "--about", NULL};
    if (sl_child_run(argv, NULL, LIMIT, &d->about) != SL_OK) {
        sl_finding_add(d, "slackline-worker", SL_BROKEN, "%s", sl_error_text());
    } else {
        report_version(d, "slackline-worker", path, &d->about, "version: ");
        if (d->about.exit_code == 0)
            snprintf(d->worker, sizeof d->worker, "%s", path);
    }
    sl_free(path);
}

/* A program that answers --version with "NAME VERSION". */
static void look_at_program(sl_doctor *d, const char *name, const char *means, const char *remedy) {
    char *path = NULL, title[64];
    sl_child child;
    sl_status found = sl_launch_program(name, &path);
    if (is_refused(d, name, found))
        return;
    if (found != SL_OK) {
        sl_finding_report(d, name, SL_ABSENT, means, remedy, "not next to slackline");
        return;
    }
    const char *const argv[] = {path, "--version", NULL};
    snprintf(title, sizeof title, "%s ", name);
    if (sl_child_run(argv, NULL, LIMIT, &child) == SL_OK)
        report_version(d, name, path, &child, title);
    else
        sl_finding_add(d, name, SL_BROKEN, "%s", sl_error_text());
    sl_free(path);
}

/* The library is not loaded here, because it intercepts MPI's calls: its build is in it as text. */
static int version_of_probe(const char *path, char *version, size_t size) {
    static const char title[] = SL_BUILD_MARK;
    char *bytes = NULL;
    size_t length = 0, head = sizeof title - 1;
    int found = 0;
    if (sl_file_read(path, &bytes, &length) != SL_OK)
        return 0;
    const char *at = memmem(bytes, length, title, head); /* ended by a 0, at the latest after the file */
    if (at) {
        snprintf(version, size, "%s", at + head);
        found = 1;
    }
    sl_free(bytes);
    return found;
}

/* Preloads it into the solver, if present: that has no sanitizer, which would have to be first. Nonzero if it
 * was loaded, else *why has the reason. */
static int can_preload(const char *probe, const char *folder, char *why, size_t size) {
    char line[PATH_MAX + 16], *solver = NULL, *path = NULL;
    sl_child child;
    const char *const argv[] = {sl_launch_program("slackline-solver", &solver) == SL_OK ? solver
                                                                                        : "/proc/self/exe",
                                "--version", NULL};
    sl_status status = sl_program_preload(probe, folder, &path);
    snprintf(line, sizeof line, "LD_PRELOAD=%s", path ? path : "");
    SL_THEN(status, sl_child_run(argv, line, LIMIT, &child));
    int well = status == SL_OK && child.exit_code == 0 && !strstr(child.text, "cannot be preloaded");
    if (status == SL_OK)
        sl_child_reason(&child, why, size);
    else
        snprintf(why, size, "%s", sl_error_text());
    SL_FREE(solver, path);
    return well;
}

/* `why` NULL: it was loaded. */
static void report_preload(sl_doctor *d, const char *name, const char *path, const char *version,
                           const char *why) {
    if (why)
        sl_finding_report(d, name, SL_BROKEN, "watch cannot see what a program calls",
                          "build or install all of slackline again", "%s cannot be preloaded: %s", path, why);
    else
        sl_finding_add(d, name, SL_PRESENT, "%s, %s", version, path);
}

static void look_at_probe(sl_doctor *d) {
    static const char name[] = "libslackline_probe", again[] = "build or install all of slackline again";
    char *path = NULL, folder[PATH_MAX], version[64] = "", why[400];
    sl_status found = sl_program_probe(&path);
    if (is_refused(d, name, found))
        return;
    if (found != SL_OK) {
        sl_finding_report(d, name, SL_ABSENT, "watch cannot see what a program calls", again,
                          "neither next to slackline nor in its ../lib");
        return;
    }
    if (!version_of_probe(path, version, sizeof version) || strcmp(version, sl_build_id()) != 0) {
        sl_finding_report(d, name, SL_BROKEN, "watch would not understand what it records", again,
                          "%s is of build %s, not %s", path, *version ? version : "unknown", sl_build_id());
    } else if (sl_doctor_folder(PATH_MAX, folder, sizeof folder) != SL_OK) {
        sl_doctor_not_tried(d, name);
    } else {
        int well = can_preload(path, folder, why, sizeof why);
        sl_path_remove(folder);
        report_preload(d, name, path, version, well ? NULL : why);
    }
    sl_free(path);
}

/* NCCL loads it: here there may be none, and no GPU to try it on. */
static void look_at_plugin(sl_doctor *d) {
    static const char name[] = "NCCL plug-in";
    char *path = NULL, text[400];
    sl_status found = sl_program_plugin(&path, text, sizeof text);
    if (is_refused(d, name, found))
        return;
    if (path)
        sl_finding_add(d, name, SL_PRESENT, "%s", path);
    else if (found == SL_OK && text[0])
        sl_finding_report(d, name, SL_LIMITED,
                          "watch sees when NCCL's calls are enqueued, and not how long they take",
                          "unset NCCL_PROFILER_PLUGIN", "%s", text);
    else
        sl_finding_report(
            d, name, SL_ABSENT, "watch sees when NCCL's calls are enqueued, and not how long they take",
            "build or install all of slackline again", "neither next to slackline nor in its ../lib");
    sl_free(path);
}

/* Reported only if missing: programs are found by it, and many later findings would be unknown. */
static void look_at_proc(sl_doctor *d) {
    if (access("/proc/self/exe", F_OK) != 0)
        sl_finding_report(d, "/proc", SL_ABSENT,
                          "slackline's own programs are not found, memory and quotas are not known: only "
                          "planning works",
                          "mount -t proc proc /proc", "not mounted");
}

void sl_doctor_programs(sl_doctor *d) {
    look_at_planner(d);
    look_at_proc(d);
    look_at_worker(d);
    look_at_program(d, "slackline-delegate", "ranks carry their messages themselves (transport: direct)",
                    "it is built with slackline-worker");
    look_at_program(d, "slackline-solver", "auto and optimal search without the exact solver",
                    "build or install all of slackline");
    look_at_probe(d);
    look_at_plugin(d);
}
