/* The vendor of mpirun, and whether two ranks started the way `train` starts them can exchange a message. */
#include "doctor/doctor.h"

#include "base/build.h"
#include "base/file.h"
#include "base/find.h"
#include "launch/attempt.h"
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>

#define VERSION_LIMIT (20 * SL_SECOND)
#define TEST_LIMIT (30 * SL_SECOND)

static const char no_training[] = "train and healthcheck cannot start ranks; all else works";
static const char get_it[] = "Debian: apt install openmpi-bin";

/* "mpirun (Open MPI) 4.1.4", or Hydra's "    Version:       4.0.2". Nonzero for Open MPI. */
static int read_version(const sl_child *said, char *name, size_t size) {
    char version[64];
    if (sl_child_line(said, "mpirun (Open MPI) ", version, sizeof version)) {
        snprintf(name, size, "Open MPI %s", version);
        return 1;
    }
    const char *hydra = strstr(said->text, "HYDRA"), *at = strstr(said->text, "Version:");
    if (hydra && at)
        snprintf(name, size, "MPICH %.*s", (int)strcspn(at + 8 + strspn(at + 8, " \t"), " \n"),
                 at + 8 + strspn(at + 8, " \t"));
    else
        snprintf(name, size, "of an unknown kind: %.60s", said->text);
    return 0;
}

/* Nonzero if ranks can be started through it. */
static int look_at_mpirun(sl_doctor *d) {
    char path[PATH_MAX], name[128], why[400];
    sl_child said;
    if (!sl_find_program("mpirun", SL_FIND_ABSOLUTE, path)) {
        sl_finding_report(d, "mpirun", SL_ABSENT, no_training, get_it, "not in PATH");
        return 0;
    }
    const char *const argv[] = {path, "--version", NULL};
    if (sl_child_run(argv, NULL, VERSION_LIMIT, &said) != SL_OK || said.exit_code != 0) {
        sl_child_reason(&said, why, sizeof why);
        sl_finding_report(d, "mpirun", SL_BROKEN, no_training, get_it, "%.200s: %s", path, why);
        return 0;
    }
    if (!read_version(&said, name, sizeof name)) {
        sl_finding_report(d, "mpirun", SL_LIMITED,
                          "train and healthcheck start ranks by Open MPI's mpirun; watch works with any",
                          "put Open MPI's mpirun first in PATH (Debian: apt install openmpi-bin)",
                          "%s, %.200s", name, path);
        return 0;
    }
    sl_finding_add(d, "mpirun", SL_PRESENT, "%s, %.200s", name, path);
    return 1;
}

typedef struct ranks {
    char *worker;
    const sl_launch_folder *folder;
} ranks;

/* In a child: prints the ranks' output, and after a '!' the reason of a failure. */
static int exchange(void *argument) {
    const ranks *r = argument;
    char option[] = "--exchange", started[] = SL_BUILD_OPTION, build[SL_BUILD_WORDS], log[PATH_MAX + 16];
    sl_build_words(build);
    char *const argv[] = {r->worker, option, started, build, NULL};
    snprintf(log, sizeof log, "%s/mpirun.log", r->folder->path);
    sl_launch_signals signals;
    sl_launch_config config = {.directory = r->folder->path, .ranks = 2, .worker = argv, .grace = SL_SECOND};
    sl_attempt_result attempt = {.signals = &signals, .log = log, .limit = TEST_LIMIT};
    sl_launch_signals_block(&signals);
    sl_status status = sl_launch_attempt(&config, r->folder, &attempt);
    sl_launch_signals_restore(&signals);
    if (status != SL_OK)
        printf("!%s\n", sl_error_text());
    return status == SL_OK ? attempt.exit_code : 1;
}

static void report_ranks(sl_doctor *d, const sl_child *child) {
    char library[160] = "", why[400] = "";
    int well = child->exit_code == 0 && strstr(child->text, "exchange: 2 ranks\n") != NULL;
    sl_child_line(child, "library: ", library, sizeof library);
    if (well) {
        sl_finding_add(d, "two ranks", SL_PRESENT, "exchanged messages, by %s", library);
        return;
    }
    if (!sl_child_line(child, "!", why, sizeof why))
        sl_child_reason(child, why, sizeof why);
    sl_finding_report(d, "two ranks", SL_BROKEN, no_training,
                      "mpirun and the library of slackline-worker must be of one Open MPI; rebuild "
                      "slackline if it has changed",
                      "%s", why);
}

static void try_ranks(sl_doctor *d) {
    char path[PATH_MAX];
    sl_launch_folder folder;
    sl_child child;
    if (sl_doctor_folder(PATH_MAX, path, sizeof path) != SL_OK) {
        sl_doctor_not_tried(d, "two ranks");
        return;
    }
    sl_status status = sl_launch_folder_open(path, &folder);
    ranks r = {.worker = d->worker, .folder = &folder};
    SL_THEN(status, sl_child_call(exchange, &r, TEST_LIMIT + 10 * SL_SECOND, &child));
    if (status == SL_OK)
        report_ranks(d, &child);
    else
        sl_finding_add(d, "two ranks", SL_BROKEN, "%s", sl_error_text());
    sl_launch_folder_close(&folder);
    sl_path_remove(path);
}

void sl_doctor_mpi(sl_doctor *d) {
    int can_start = look_at_mpirun(d);
    if (!can_start || !*d->worker)
        sl_finding_add(d, "two ranks", SL_ABSENT, "not tried, because %s",
                       can_start ? "slackline-worker is not there" : "Open MPI's mpirun is not there");
    else if (sl_launch_inside())
        sl_finding_add(d, "two ranks", SL_ABSENT,
                       "not tried: this is a rank itself, which mpirun or srun has started");
    else
        try_ranks(d);
}
