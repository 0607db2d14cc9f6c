/* slackline train: checks the request, then starts the run's processes (or becomes one inside an allocation).
 */
#include "cli/command.h"

#include "base/memory.h"
#include "base/terminal.h"
#include "launch/launch.h"
#include "plan/family/family.h"
#include "run/train/run.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: slackline train RUN [--set KEY=VALUE]... [--out DIR] [--resume]\n"
    "\n"
    "Trains the model of the run file RUN (YAML) on its pipeline ranks, adapts the schedule to slow links "
    "and\n"
    "writes metrics, events, timeline and summary into DIR (default: runs/<name of RUN>).\n"
    "Starts mpirun itself; inside mpirun or srun it is one of the ranks.\n"
    "\n"
    "  --set KEY=VALUE  changes a key of RUN, by its dotted path\n"
    "  --out DIR        the run's folder\n"
    "  --resume         goes on from the newest whole checkpoint in DIR, or starts anew where there is none\n"
    "\n"
    "Example: slackline train examples/slow-link.yaml --set iterations=40 --out /tmp/run\n";

typedef struct train_request {
    const char *file, *out;
    const char **set; /* points into argv */
    int sets, resume;
    char folder[3072];
} train_request;

static sl_status parse_arguments(int argc, char **argv, train_request *request, int *help) {
    static const struct option options[] = {{"set", required_argument, NULL, 's'},
                                            {"out", required_argument, NULL, 'o'},
                                            {"resume", no_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    SL_TRY(sl_alloc(&request->set, (size_t)argc, sizeof *request->set));
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:ho:", options, NULL)) != -1 || optind < argc;) {
        if (option == -1) { /* options may follow the file */
            if (request->file)
                return sl_error(SL_EINVAL, "train: one run file at a time, got '%s' too", argv[optind]);
            request->file = argv[optind++];
        } else if (option == 's') {
            request->set[request->sets++] = optarg;
        } else if (option == 'o') {
            request->out = optarg;
        } else if (option == 'h') {
            *help = 1;
        } else if (option == 'r') {
            request->resume = 1;
        } else {
            return sl_error(SL_EINVAL, "train: %s '%s'",
                            option == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
        }
    }
    if (!request->file && !*help)
        return sl_error(SL_EINVAL, "train: no run file; see slackline train --help");
    return SL_OK;
}

/* runs/<file name without its ending>, unless --out says otherwise. */
static sl_status choose_folder(train_request *request) {
    const char *name = strrchr(request->file, '/');
    name = name ? name + 1 : request->file;
    int length = (int)(strrchr(name, '.') && strrchr(name, '.') > name ? strrchr(name, '.') - name
                                                                       : (long)strlen(name));
    if (strcmp(name, "-") == 0)
        return sl_error(SL_EINVAL, "train: the run file must be a file, because every rank reads it");
    int written = request->out ? snprintf(request->folder, sizeof request->folder, "%s", request->out)
                               : snprintf(request->folder, sizeof request->folder, "runs/%.*s", length, name);
    if (written < 1 || (size_t)written >= sizeof request->folder)
        return sl_error(SL_EINVAL, "train: '%s' is no path of a folder", request->out);
    return SL_OK;
}

/* Everything that can be known to be wrong before a process starts. */
static sl_status check_run(const train_request *request, int *ranks) {
    char *delegate = NULL;
    sl_document document;
    sl_run run = {0};
    sl_status status = sl_document_read(request->file, &document);
    for (int i = 0; i < request->sets && status == SL_OK; i++)
        status = sl_document_set(&document, request->set[i]);
    if (status == SL_OK)
        status = sl_run_read(&document, &run);
    if (status == SL_OK && strcmp(run.schedule, "auto") != 0 && !sl_family_find(run.schedule) &&
        access(run.schedule, R_OK) != 0)
        status = sl_node_error(sl_node_find(document.root, "schedule"),
                               "must be auto, the name of a schedule family or a readable file, got '%s'",
                               run.schedule);
    if (status == SL_OK && sl_run_may_delegate(&run))
        status = sl_launch_program("slackline-delegate", &delegate);
    sl_free(delegate);
    if (status == SL_OK)
        *ranks = sl_run_ranks(&run);
    sl_run_free(&run);
    sl_document_close(&document);
    return status;
}

static sl_status start(const train_request *request, int ranks, int *exit_code) {
    char *worker;
    SL_TRY(sl_launch_program("slackline-worker", &worker));
    char **argv;
    sl_status status = sl_alloc(&argv, (size_t)(request->sets + 5), sizeof *argv);
    if (status == SL_OK) {
        int n = 0;
        argv[n++] = worker;
        argv[n++] = (char *)(uintptr_t)request->file;
        argv[n++] = (char *)(uintptr_t)request->folder;
        if (request->resume)
            argv[n++] = (char *)(uintptr_t) "--resume";
        for (int i = 0; i < request->sets; i++)
            argv[n++] = (char *)(uintptr_t)request->set[i];
        if (sl_launch_inside()) {
            execv(worker, argv);
            status = sl_error_errno(SL_ESYS, "%s: cannot be started", worker);
        } else {
            sl_terminal_offer();
            sl_launch_config config = {.directory = request->folder, .ranks = ranks, .worker = argv};
            status = sl_launch_run(&config, exit_code);
        }
        sl_free(argv);
    }
    sl_free(worker);
    return status;
}

int sl_command_train(int argc, char **argv) {
    train_request request = {0};
    int help = 0, ranks = 0, exit_code = 0;
    sl_status status = parse_arguments(argc, argv, &request, &help);
    if (status == SL_OK && help) {
        fputs(usage, stdout);
        sl_free(request.set);
        return 0;
    }
    if (status == SL_OK)
        status = choose_folder(&request);
    if (status == SL_OK)
        status = check_run(&request, &ranks);
    if (status == SL_OK)
        status = start(&request, ranks, &exit_code);
    sl_free(request.set);
    if (status != SL_OK) {
        sl_terminal_clear_line(stderr);
        fprintf(stderr, "slackline: %s\n", sl_error_text());
        return exit_code ? exit_code : sl_exit_code(status);
    }
    return exit_code;
}
