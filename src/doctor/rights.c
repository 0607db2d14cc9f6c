/* The rights of this user. */
#include "doctor/doctor.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define LIMIT (10 * SL_SECOND)

/* As reported by the worker, which requests them as its threads do. */
static void look_at_scheduling(sl_doctor *d) {
    char class[64];
    if (!sl_child_line(&d->about, "scheduling: ", class, sizeof class))
        return;
    if (strcmp(class, "normal") != 0) {
        sl_finding_add(d, "scheduling", SL_PRESENT, "threads that must wake on time get %s", class);
        return;
    }
    sl_finding_report(
        d, "scheduling", SL_LIMITED,
        "threads that carry messages wake late where there are more threads than processors: emulated links "
        "take longer than asked for; results stay the same",
        "as root, with CAP_SYS_NICE or `ulimit -r 10`; short slices need Linux 6.12",
        "neither SCHED_FIFO nor a short slice is permitted");
}

static int leave_network(void *argument) {
    (void)argument;
    return unshare(CLONE_NEWNET) == 0 ? 0 : errno;
}

static void look_at_namespaces(sl_doctor *d) {
    sl_child child;
    if (sl_child_call(leave_network, NULL, LIMIT, &child) == SL_OK && child.exit_code == 0) {
        sl_finding_add(d, "network spaces", SL_PRESENT, "can be made");
        return;
    }
    sl_finding_report(d, "network spaces", SL_ABSENT,
                      "tests and benchmarks of several hosts on one machine are skipped; nothing else needs "
                      "them",
                      "as root, or with CAP_SYS_ADMIN", "cannot be made: %s",
                      strerror(child.exit_code > 0 ? child.exit_code : EPERM));
}

void sl_doctor_rights(sl_doctor *d) {
    sl_finding_add(d, "user", SL_PRESENT, "%s",
                   geteuid() == 0 ? "root (mpirun runs with --allow-run-as-root)" : "an ordinary one");
    look_at_scheduling(d);
    look_at_namespaces(d);
}
