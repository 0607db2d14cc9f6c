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

static const char usage[] =
    "Usage: slackline report DIR [-o FILE] [--iteration N] [--svg FOLDER]\n"
    "\n"
    "Draws the run whose folder is DIR as one HTML file, DIR/report.html: iteration time with events and "
    "decisions,\n"
    "what each change gained, loss, the Gantt chart of any recorded iteration (predicted above measured), "
    "links and\n"
    "devices over the run, configuration. The file needs nothing else, prints, and reads without colour. Of "
    "a run that\n"
    "goes on or was killed it shows what is there, and says what is missing or damaged. A folder of "
    "slackline "
    "watch gives\n"
    "iteration time, phases with suspects and verdicts, events, advice, ranks and links of the watched "
    "program.\n"
    "\n"
    "  -o, --output FILE  another file; - is standard output\n"
    "  --iteration N      the recorded iteration that is shown first (default: the slowest)\n"
    "  --svg FOLDER       the pictures as SVG files into FOLDER, for papers, instead of the page\n"
    "\n"
    "Example: slackline report runs/slow-link\n";

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
    sl_options o = {.command = "report", .table = options, .argc = argc, .argv = argv, .usage = usage};
    sl_status status = sl_options_take(&o, &a);
    return sl_planning_end(status == SL_OK && !o.help ? report(&a) : status);
}
