/* slackline report: a run's or a watch's folder as one page. */
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "report/report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct report_options {
    const char *folder, *file, *pictures;
    int iteration;
} report_options;

static const sl_option options[] = {
    SL_OPTION("output", TEXT, report_options, file, .letter = 'o'),
    SL_OPTION("iteration", INT, report_options, iteration, .most = INT_MAX - 1),
    SL_OPTION("svg", TEXT, report_options, pictures),
    SL_OPTION("", ONCE, report_options, folder, .words = "give one folder of a run"), SL_OPTIONS_END};

static sl_status write_pictures(const report_options *a) {
    int written;
    SL_TRY(sl_report_draw(a->folder, a->iteration, a->pictures, &written));
    if (written == 0)
        return sl_error(SL_ENONE, "%s: there is nothing to draw", a->folder);
    fprintf(stderr, "%s: %d pictures\n", a->pictures, written);
    return SL_OK;
}

static sl_status write_page(const report_options *a) {
    char *text, *path = NULL;
    size_t size;
    SL_TRY(sl_report_make(a->folder, a->iteration, &text, &size));
    if (a->file && strcmp(a->file, "-") == 0) {
        fwrite(text, 1, size, stdout);
        free(text);
        return SL_OK;
    }
    const size_t room = strlen(a->folder) + sizeof "/report.html";
    sl_status status = a->file ? sl_copy_text(&path, a->file) : sl_alloc(&path, room, 1);
    if (status == SL_OK && !a->file)
        snprintf(path, room, "%s/report.html", a->folder);
    SL_THEN(status, sl_file_write(path, text, size));
    if (status == SL_ESYS && !a->file)
        status = sl_error(status, "%s; -o FILE writes it elsewhere", sl_error_text());
    if (status == SL_OK)
        fprintf(stderr, size < 1000000 ? "%s: %.0f kB\n" : "%s: %.1f MB\n", path,
                (double)size / (size < 1000000 ? 1e3 : 1e6));
    sl_free(path);
    free(text);
    return status;
}

static sl_status report(const report_options *a) {
    if (!a->folder)
        return sl_error(SL_EINVAL, "report: give one folder of a run; see slackline report --help");
    if (a->file && a->pictures)
        return sl_error(SL_EINVAL, "report: --svg writes pictures instead of the page: give -o or --svg");
    return a->pictures ? write_pictures(a) : write_page(a);
}

int sl_command_report(int argc, char **argv) {
    report_options a = {.iteration = SL_REPORT_SLOWEST};
    sl_status status = sl_subcommand_options(argc, argv, options, &a);
    return sl_plan_request_end(status == SL_OK ? report(&a) : status);
}
