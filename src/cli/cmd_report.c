/* slackline report: a run's or a watch's folder as one page. */
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/picture.h"
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
    SL_OPTION("output", TEXT, report_options, file, "FILE", "another file; - is standard output",
              .letter = 'o', .completes = SL_COMPLETES_FILE),
    SL_OPTION("iteration", INT, report_options, iteration, "N",
              "the recorded iteration shown first (default: the slowest)", .most = INT_MAX - 1),
    SL_OPTION("svg", TEXT, report_options, pictures, "FOLDER",
              "write the charts as SVG files into FOLDER, for papers, instead of the page",
              .completes = SL_COMPLETES_FOLDER),
    SL_OPTION("", ONCE, report_options, folder, "DIR", NULL, .words = "give one folder of a run",
              .completes = SL_COMPLETES_FOLDER, .required = 1),
    SL_OPTIONS_END};

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
    sl_status status;
    SL_TRY_GOTO(out, status, a->file ? sl_copy_text(&path, a->file) : sl_alloc(&path, room, 1));
    if (!a->file)
        snprintf(path, room, "%s/report.html", a->folder);
    status = sl_file_write(path, text, size);
    if (status == SL_ESYS && !a->file)
        status = sl_error(status, "%s; -o FILE writes it elsewhere", sl_error_text());
    if (status == SL_OK)
        fprintf(stderr, size < 1000000 ? "%s: %.0f kB\n" : "%s: %.1f MB\n", path,
                (double)size / (size < 1000000 ? 1e3 : 1e6));
out:
    sl_free(path);
    free(text);
    return status;
}

static sl_status report(const report_options *a) {
    if (!a->folder)
        return sl_error(SL_EINVAL, "report: give one folder of a run; see slackline report --help");
    const char *dot = a->file ? strrchr(a->file, '.') : NULL;
    if (sl_picture_form(a->file) || (dot && strcmp(dot, ".svg") == 0))
        return sl_error(SL_EINVAL,
                        "report: %.200s: a report is a page, such as report.html; --svg FOLDER writes its charts",
                        a->file);
    if (a->file && a->pictures)
        return sl_error(SL_EINVAL, "report: --svg writes pictures instead of the page: give -o or --svg");
    return a->pictures ? write_pictures(a) : write_page(a);
}

static int run(int argc, char **argv) {
    report_options a = {.iteration = SL_REPORT_SLOWEST};
    sl_status status = sl_command_options(argc, argv, &a);
    return sl_plan_request_end(status == SL_OK ? report(&a) : status);
}

const sl_command sl_command_report = {
    .name = "report",
    .summary = "a run's folder as one page: charts, events, gains",
    .about =
        "Draws the run in the folder DIR as one HTML file, DIR/report.html: iteration time with events and "
        "decisions, the gain of each change, loss, the Gantt chart of any recorded iteration (predicted "
        "above measured), links and devices over the run, configuration. The file is self-contained, "
        "printable and readable without color. It works on running and killed runs and lists missing or "
        "damaged files. For a folder of slackline watch it shows iteration time, phases with suspects and "
        "verdicts, events, advice, ranks and links of the watched program.",
    .options = options,
    .example = "slackline report runs/slow-link",
    .run = run};
