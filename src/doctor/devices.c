/* Accelerators. Training computes on processors, so none is missing; any found are listed. */
#include "doctor/doctor.h"

#include "base/find.h"

#include <glob.h>
#include <string.h>

#define LIMIT (20 * SL_SECOND)

static const char means[] = "not used: slackline trains on processors, there is no CUDA device yet; watch "
                            "follows NCCL programs; slackline.adapt measures PyTorch's devices, "
                            "untested on a GPU";

static int count_files(const char *pattern) {
    glob_t found;
    int count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static void ask(sl_doctor *d, int devices) {
    const char *const argv[] = {"nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                                "--format=csv,noheader", NULL};
    sl_child child;
    char why[400];
    if (sl_child_run(argv, NULL, LIMIT, &child) == SL_OK && child.exit_code == 0) {
        int length = (int)strcspn(child.text, "\n");
        sl_finding_report(d, "GPU", SL_PRESENT, means, "", "%d: %.*s", devices, length, child.text);
        return;
    }
    sl_child_reason(&child, why, sizeof why);
    sl_finding_report(d, "GPU", SL_BROKEN, means, "the driver and its tools must be of one version",
                      "nvidia-smi: %s", why);
}

void sl_doctor_devices(sl_doctor *d) {
    char path[PATH_MAX];
    int nvidia = count_files("/dev/nvidia[0-9]*"), amd = count_files("/dev/kfd");
    int has_tool = sl_find_program("nvidia-smi", SL_FIND_ABSOLUTE, path);
    if (nvidia > 0 && has_tool)
        ask(d, nvidia);
    else if (nvidia > 0 || amd > 0)
        sl_finding_report(d, "GPU", SL_PRESENT, means, "", "%d device file%s in /dev", nvidia + amd,
                          nvidia + amd > 1 ? "s" : "");
    else
        sl_finding_report(d, "GPU", SL_ABSENT,
                          "nothing is lost: slackline trains on processors, there is no CUDA device yet", "",
                          "no device file%s", has_tool ? ", though nvidia-smi is there" : "");
}
