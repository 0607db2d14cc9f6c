/* Accelerators, by their device files and tools, listed and tested. Whether the trainer can use one is a
 * finding of its own (arithmetic.c). */
#include "doctor/doctor.h"

#include "base/find.h"
#include "notice/gpu/gpu.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT (20 * SL_SECOND)

static const char means[] =
    "device.kind: cuda trains on NVIDIA's, if the finding CUDA is present; watch follows "
    "NCCL programs; slackline.adapt measures PyTorch's devices";

static int count_files(const char *pattern) {
    glob_t found;
    int count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* ---- tests ---- */

#define WINDOW (60 * SL_MS)
static const char *const names[] = {"GPU 0",  "GPU 1",  "GPU 2",  "GPU 3", "GPU 4",  "GPU 5",
                                    "GPU 6",  "GPU 7",  "GPU 8",  "GPU 9", "GPU 10", "GPU 11",
                                    "GPU 12", "GPU 13", "GPU 14", "GPU 15"};
enum { NAMES = sizeof names / sizeof names[0] };
enum { WELL, FAULTY, NOT_TESTED };

static int print_count(void *argument) {
    int count = 0;
    (void)argument;
    sl_gpu_count(&count);
    printf("count: %d\n", count);
    return 0;
}

static int print_test(void *index) {
    sl_gpu_result r;
    char cause[96], why[200];
    sl_gpu_test(*(int *)index, WINDOW, &r);
    sl_gpu_faults(&r, cause, sizeof cause, why, sizeof why);
    printf("found: %s", r.state.name);
    for (int i = 0; i < SL_GPU_RATES; i++)
        if (r.rates.rate[i] > 0)
            printf(", %s %.3g %s", sl_gpu_rate_name[i], r.rates.rate[i], sl_gpu_rate_unit[i]);
    printf("%s%s\nwhy: %s\n", r.rates.why[0] ? ", " : "", r.rates.why, why);
    return why[0] ? FAULTY : r.rates.rate[SL_GPU_F32] > 0 ? WELL : NOT_TESTED;
}

static void test(sl_doctor *d, int index) {
    sl_child child;
    char found[300] = "", why[300] = "";
    sl_status status = sl_child_call(print_test, &index, LIMIT, &child);
    sl_child_line(&child, "found: ", found, sizeof found);
    sl_child_line(&child, "why: ", why, sizeof why);
    if (status == SL_OK && child.exit_code == WELL)
        sl_finding_add(d, names[index], SL_PRESENT, "%s", found);
    else if (status == SL_OK && child.exit_code == FAULTY)
        sl_finding_report(d, names[index], SL_BROKEN, found,
                          "see nvidia-smi -q; the GPU may need a reset or a repair", "%s", why);
    else if (status == SL_OK && child.exit_code == NOT_TESTED)
        sl_finding_report(d, names[index], SL_LIMITED, "healthcheck and watch cannot test it", "", "%s",
                          found);
    else {
        sl_child_reason(&child, why, sizeof why);
        sl_finding_report(d, names[index], SL_BROKEN, "its driver ends programs or does not answer",
                          "see nvidia-smi", "%s", why);
    }
}

static void test_all(sl_doctor *d) {
    sl_child child;
    char text[16] = "0";
    if (sl_child_call(print_count, NULL, LIMIT, &child) == SL_OK)
        sl_child_line(&child, "count: ", text, sizeof text);
    const int count = atoi(text);
    for (int i = 0; i < count && i < NAMES; i++)
        test(d, i);
}

/* ---- what is there ---- */

static void ask(sl_doctor *d, int devices) {
    const char *const argv[] = {"nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                                "--format=csv,noheader", NULL};
    sl_child child;
    char why[400];
    if (sl_child_run(argv, NULL, LIMIT, &child) == SL_OK && child.exit_code == 0) {
        int length = (int)strcspn(child.text, "\n");
        sl_finding_report(d, "GPU", SL_PRESENT, means, "", "%d: %.*s", devices, length, child.text);
        test_all(d);
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
        sl_finding_report(d, "GPU", SL_ABSENT, "slackline trains on processors", "", "no device file%s",
                          has_tool ? ", though nvidia-smi is there" : "");
}
