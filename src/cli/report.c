/* slackline report: a run's folder as one page. */
#include "report/report.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/planning.h"
#include "cli/suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: slackline report DIR [-o FILE]\n"
    "\n"
    "Draws the run whose folder is DIR as one HTML file, DIR/report.html: iteration time with events and "
    "decisions,\n"
    "what each change gained, loss, the Gantt chart of any recorded iteration (predicted above measured), "
    "links and\n"
    "devices over the run, configuration. The file needs nothing else, prints, and reads without colour. Of "
    "a run that\n"
    "goes on or was killed it shows what is there, and says what is missing or damaged.\n"
    "\n"
    "  -o, --output FILE  another file; - is standard output\n"
    "\n"
    "Example: slackline report runs/slow-link\n";

static sl_status parse(int argc, char **argv, const char **folder, const char **file, int *help) {
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    static const char *const names[] = {"output", "help", NULL};
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":ho:", options, NULL)) != -1;) {
        const char *word = argv[optind - 1];
        const char *near = strncmp(word, "--", 2) == 0 ? sl_suggest(word + 2, names) : NULL;
        if (option == 'h') {
            *help = 1;
            return SL_OK;
        }
        if (option == ':')
            return sl_error(SL_EINVAL, "report: a value is missing after '%s'; see slackline report --help",
                            word);
        if (option != 'o')
            return sl_error(SL_EINVAL, "report: unknown option '%s'%s%s%s", word,
                            near ? "; did you mean '--" : "", near ? near : "; see slackline report --help",
                            near ? "'?" : "");
        *file = optarg;
    }
    if (optind + 1 != argc)
        return sl_error(SL_EINVAL, "report: give one folder of a run; see slackline report --help");
    *folder = argv[optind];
    return SL_OK;
}

static sl_status write_report(const char *folder, const char *file) {
    char *text, *path = NULL;
    size_t size;
    SL_TRY(sl_report_make(folder, &text, &size));
    if (file && strcmp(file, "-") == 0) {
        fwrite(text, 1, size, stdout);
        free(text);
        return SL_OK;
    }
    const size_t room = strlen(folder) + sizeof "/report.html";
    sl_status status = file ? sl_copy_text(&path, file) : sl_alloc(&path, room, 1);
    if (status == SL_OK && !file)
        snprintf(path, room, "%s/report.html", folder);
    if (status == SL_OK)
        status = sl_file_write(path, text, size);
    if (status == SL_OK)
        fprintf(stderr, "%s: %.1f MB\n", path, (double)size / 1e6);
    sl_free(path);
    free(text);
    return status;
}

int sl_command_report(int argc, char **argv) {
    const char *folder = NULL, *file = NULL;
    int help = 0;
    sl_status status = parse(argc, argv, &folder, &file, &help);
    if (status == SL_OK && help)
        fputs(usage, stdout);
    if (status == SL_OK && !help)
        status = write_report(folder, file);
    return sl_planning_end(status);
}
