#include "cli/version.h"
#include "base/build_id.h"
#include "plan/exact/solver.h"

#include <slackline_build.h>
#include <slackline_commit.h>

const char *sl_version_commit(void) {
    return SL_COMMIT;
}

const char *sl_version_date(void) {
    return SL_COMMIT_DATE;
}

static void print_part(FILE *out, const char *name, const char *value, const char *absent) {
    fprintf(out, "%-14s %s\n", name, *value ? value : absent);
}

/* Found at run time, not at build time. */
static void print_solver(FILE *out) {
    sl_solver solver = {0};
    sl_status status = sl_solver_find(&solver);
    const char *absent = status == SL_ESYS ? sl_error_text() : "not found (looked for at run time)";
    print_part(out, "OR-tools", status == SL_OK ? solver.library : "", absent);
    sl_solver_free(&solver);
}

void sl_version_print(FILE *out) {
    fprintf(out, "slackline %s\n", SL_VERSION);
    fprintf(out, "%-14s %s\n", "id", sl_build_id());
    if (*SL_COMMIT)
        fprintf(out, "%-14s %s of %s\n", "commit", SL_COMMIT, SL_COMMIT_DATE);
    fprintf(out, "%-14s %s, %s\n", "compiler", SL_BUILD_COMPILER, SL_BUILD_PROCESSOR);
    fprintf(out, "%-14s %s%s%s%s\n", "build", SL_BUILD_TYPE, *SL_BUILD_FLAGS ? ", " : "", SL_BUILD_FLAGS,
            SL_BUILD_SANITIZERS);
    print_part(out, "trainer", SL_BUILD_TRAINER, "not built: MPI, oneDNN, xxHash or hwloc is missing");
    print_part(out, "MPI", SL_BUILD_MPI, "none");
    print_part(out, "oneDNN", SL_BUILD_ONEDNN, "none");
    print_part(out, "hiredis", SL_BUILD_HIREDIS, "none");
    print_part(out, "UCX", SL_BUILD_UCX, "none");
    print_part(out, "libmicrohttpd", SL_BUILD_MICROHTTPD, "none");
    print_part(out, "hwloc", SL_BUILD_HWLOC, "none");
    print_part(out, "xxHash", SL_BUILD_XXHASH, "none");
    print_solver(out);
}
