/* The processor, and the worker's libraries for computation and communication, as the worker reports them. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <string.h>

/* "model name	: ..." */
static void look_at_processor(sl_doctor *d) {
    char line[512], name[512] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !*name && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1);
    }
    if (file)
        fclose(file);
    sl_finding_add(d, "processor", SL_PRESENT, "%s", *name ? name + strspn(name, " ") : "of unknown name");
}

static void look_at_onednn(sl_doctor *d) {
    char version[64] = "", isa[64] = "", bf16[8] = "";
    sl_child_line(&d->about, "oneDNN: ", version, sizeof version);
    sl_child_line(&d->about, "isa: ", isa, sizeof isa);
    sl_child_line(&d->about, "bf16: ", bf16, sizeof bf16);
    int has_bf16 = strcmp(bf16, "yes") == 0;
    sl_finding_add(d, "oneDNN", SL_PRESENT, "%s, computes with %s", version, isa);
    sl_finding_report(d, "bf16", has_bf16 ? SL_PRESENT : SL_ABSENT,
                      !has_bf16 ? "device.precision: bf16 is refused; f32 works" : "",
                      !has_bf16 ? "a processor with AVX512_BF16 (Intel since Cooper Lake, AMD since Zen 4)"
                                : "",
                      "%s", has_bf16 ? "AVX512_BF16" : "this processor has no AVX512_BF16");
}

static void look_at_card(sl_doctor *d) {
    char said[256] = "";
    if (sl_child_line(&d->about, "CUDA: ", said, sizeof said))
        sl_finding_add(d, "CUDA", SL_PRESENT, "%s", said);
    else if (sl_child_line(&d->about, "CUDA is not there: ", said, sizeof said))
        sl_finding_report(d, "CUDA", SL_ABSENT, "device.kind: cuda is refused; cpu works",
                          "an NVIDIA GPU with its driver, and a build with -DSLACKLINE_CUDA=ON", "%s", said);
}

static void look_at_ucx(sl_doctor *d) {
    static const char means[] = "no rails ucx:INTERFACE in network.rails; TCP works";
    char said[256] = "";
    if (sl_child_line(&d->about, "UCX fails: ", said, sizeof said))
        sl_finding_report(d, "UCX", SL_BROKEN, means, "Debian: apt install libucx0", "%s", said);
    else if (sl_child_line(&d->about, "UCX: ", said, sizeof said))
        sl_finding_add(d, "UCX", SL_PRESENT, "%s", said);
    else if (sl_child_line(&d->about, "UCX is not there: ", said, sizeof said))
        sl_finding_report(d, "UCX", SL_ABSENT, means, "Debian: apt install libucx0", "%s", said);
    else
        sl_finding_report(d, "UCX", SL_ABSENT, means, "Debian: apt install libucx-dev, and build again",
                          "built without it");
}

static void look_at_library(sl_doctor *d, const char *name) {
    char title[32], version[64];
    snprintf(title, sizeof title, "%s: ", name);
    if (sl_child_line(&d->about, title, version, sizeof version))
        sl_finding_add(d, name, SL_PRESENT, "%s", version);
}

void sl_doctor_arithmetic(sl_doctor *d) {
    look_at_processor(d);
    if (!*d->worker) {
        sl_finding_add(d, "oneDNN", SL_ABSENT, "not known without slackline-worker");
        return;
    }
    look_at_onednn(d);
    look_at_card(d);
    look_at_library(d, "hwloc");
    look_at_library(d, "xxHash");
    look_at_ucx(d);
}
