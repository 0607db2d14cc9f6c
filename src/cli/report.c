/* slackline report: a run's or a watch's folder as one page. */
#include "report/report.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/planning.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct asked {
    const char *folder, *file, *pictures;
    int iteration;
} asked;

static const sl_option options[] = {SL_OPTION("output", TEXT, asked, file, .letter = 'o'),
                                    SL_OPTION("iteration", INT, asked, iteration, .most = INT_MAX - 1),
                                    SL_OPTION("svg", TEXT, asked, pictures),
                                    SL_OPTION("", ONCE, asked, folder, .words = "give one folder of a run"),
                                    SL_OPTIONS_END};

static sl_status write_pictures(const asked *a) {
    int written;
    SL_TRY(sl_report_draw(a->folder, a->iteration, a->pictures, &written));
    if (written == 0)
        return sl_error(SL_ENONE, "%s: there is nothing to draw", a->folder);
    fprintf(stderr, "%s: %d pictures\n", a->pictures, written);
    return SL_OK;
}

static sl_status write_page(const asked *a) {
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

static sl_status report(const asked *a) {
    if (!a->folder)
        return sl_error(SL_EINVAL, "report: give one folder of a run; see slackline report --help");
    if (a->file && a->pictures)
        return sl_error(SL_EINVAL, "report: --svg writes pictures instead of the page: give -o or --svg");
    return a->pictures ? write_pictures(a) : write_page(a);
}

int sl_command_report(int argc, char **argv) {
    asked a = {.iteration = SL_REPORT_SLOWEST};
    sl_status status = sl_subcommand_options(argc, argv, options, &a);
    return sl_planning_end(status == SL_OK ? report(&a) : status);
}
