/* slackline train: checks the request, then starts the run's processes (or becomes one inside an allocation).
 */
#include "cli/command.h"
#include "cli/plan_request.h"

#include "base/build.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "launch/run_folder.h"
#include "plan/family/family.h"
#include "report/report.h"
#include "run/file/run.h"
#include "run/file/run_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A scheduler kills much earlier; this only ends a hanging run. */
#define WARNING (300 * SL_SECOND)

typedef struct train_request {
    const char *file, *out, *hosts;
    sl_texts set;
    int resume, overwrite;
    char folder[3072];
} train_request;

/* The parts of the run file that are needed to start it. */
typedef struct train_shape {
    int ranks, restarts, saves;
    char *hosts; /* in the form of sl_launch_hosts_read; NULL: not given */
    sl_run run;
    char
        layout[SL_RUN_LAYOUT_TEXT]; /* of an elastic run: an argument of the ranks, set before each attempt */
} train_shape;

static const sl_option options[] = {
    SL_OPTION_SET(train_request, set, sl_run_visit_keys, "RUN"),
    SL_OPTION("out", TEXT, train_request, out, "DIR", "the run's folder", .letter = 'o',
              .completes = SL_COMPLETES_FOLDER),
    SL_OPTION("resume", FLAG, train_request, resume, NULL,
              "resumes from the latest complete checkpoint in DIR, or starts over if none exists"),
    SL_OPTION("overwrite", FLAG, train_request, overwrite, NULL,
              "replaces a finished run in DIR; without it or --resume, such a DIR is refused"),
    SL_OPTION("hosts", TEXT, train_request, hosts, "LIST|FILE",
              "where ranks run: a:4,b:4, or a hostfile (lines: host slots=4); key hosts of RUN",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION("", ONCE, train_request, file, "RUN", NULL, .words = "one run file at a time",
              .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTIONS_END};

/* runs/<file name without its ending>, unless --out is given. */
static sl_status choose_folder(train_request *request) {
    if (!request->file)
        return sl_error(SL_EINVAL, "train: no run file; see slackline train --help");
    const char *name = strrchr(request->file, '/');
    name = name ? name + 1 : request->file;
    int length = (int)(strrchr(name, '.') && strrchr(name, '.') > name ? strrchr(name, '.') - name
                                                                       : (long)strlen(name));
    if (strcmp(name, "-") == 0)
        return sl_error(SL_EINVAL, "train: the run file must be a file, because every rank reads it");
    int written = request->out ? snprintf(request->folder, sizeof request->folder, "%s", request->out)
                               : snprintf(request->folder, sizeof request->folder, "runs/%.*s", length, name);
    if (written < 1 || (size_t)written >= sizeof request->folder)
        return sl_error(SL_EINVAL, "train: '%s' is not the path of a folder", request->out);
    return SL_OK;
}

/* A finished run is not changed, unless it is to be continued or replaced. Ranks that a launcher started must
 * all find the same folder, so they do not get another one. */
static sl_status keep_finished(train_request *request) {
    char finished[sizeof request->folder];
    if (request->resume)
        return request->out ? SL_OK : sl_launch_folder_number(request->folder, sizeof request->folder, 1);
    if (request->overwrite || !sl_launch_folder_is_finished(request->folder))
        return SL_OK;
    if (request->out || sl_launch_inside())
        return sl_error(SL_EINVAL,
                        "train: %s holds a finished run; --overwrite replaces it, --resume continues it",
                        request->folder);
    snprintf(finished, sizeof finished, "%s", request->folder);
    SL_TRY(sl_launch_folder_number(request->folder, sizeof request->folder, 0));
    fprintf(stderr, "slackline: %s holds a finished run; this run is written to %s\n", finished,
            request->folder);
    return SL_OK;
}

/* The hosts of the option, else those of the run file: entries, or the path of a file. */
static sl_status choose_hosts(const train_request *request, const sl_run *run, char **hosts) {
    size_t size = 1, used = 0;
    if (request->hosts)
        return sl_copy_text(hosts, request->hosts);
    if (run->hosts == 0)
        return SL_OK;
    for (int i = 0; i < run->hosts; i++)
        size += strlen(run->host[i]) + 1;
    SL_TRY(sl_alloc(hosts, size, 1));
    for (int i = 0; i < run->hosts; i++)
        used += (size_t)snprintf(*hosts + used, size - used, "%s%s", i ? "," : "", run->host[i]);
    return SL_OK;
}

static sl_status check_hosts(const train_request *request, const sl_document *document,
                             const train_shape *shape) {
    sl_launch_hosts hosts;
    if (!shape->hosts)
        return SL_OK;
    sl_status status = sl_launch_hosts_read(shape->hosts, &hosts);
    int slots = sl_roster_slots(&hosts);
    sl_run_layout layout;
    sl_launch_hosts_free(&hosts);
    if (status == SL_OK && slots < shape->ranks && shape->run.elastic.on) {
        if (sl_run_layout_fit(&shape->run, slots, &layout) != SL_OK)
            status = sl_error(SL_EINVAL, "the hosts have %d slots, but %s", slots, sl_error_text());
    } else if (status == SL_OK && slots < shape->ranks)
        status =
            sl_error(SL_EINVAL, "the hosts have %d slots, but the run has %d ranks", slots, shape->ranks);
    if (status == SL_OK || request->hosts)
        return status;
    return sl_yaml_error(sl_yaml_find(document->root, "hosts"), "cannot be used: %s", sl_error_text());
}

static sl_status shape_of(const train_request *request, const sl_document *document, train_shape *shape) {
    const sl_run *run = &shape->run;
    shape->ranks = sl_run_ranks(run);
    shape->restarts = sl_run_restarts(run);
    shape->saves = sl_run_saves(run);
    SL_TRY(choose_hosts(request, run, &shape->hosts));
    if (run->elastic.on && !shape->hosts && !sl_launch_inside())
        return sl_yaml_error(sl_yaml_find(document->root, "elastic"),
                             "needs a list of hosts, whose slots may be lost (key hosts, or --hosts)");
    return check_hosts(request, document, shape);
}

static sl_status refuse_schedule(const sl_document *document, const char *name) {
    const char *names[64] = {"auto"};
    for (int i = 0; i < 62 && sl_families[i].name; i++)
        names[i + 1] = sl_families[i].name;
    const char *near = sl_suggest(name, names);
    return sl_yaml_error(sl_yaml_find(document->root, "schedule"),
                         "must be auto, the name of a schedule family or a readable file, got '%s'%s%s%s",
                         name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Finds all errors that are detectable before a process starts. */
static sl_status check_run(const train_request *request, train_shape *shape) {
    char *delegate = NULL;
    sl_document document;
    sl_run *run = &shape->run;
    sl_status status;
    SL_TRY_GOTO(out, status, sl_document_read(request->file, &document));
    SL_TRY_GOTO(out, status, sl_document_set_all(&document, request->set.text, request->set.count));
    SL_TRY_GOTO(out, status, sl_run_read(&document, run));
    if (strcmp(run->schedule, "auto") != 0 && !sl_family_find(run->schedule) &&
        access(run->schedule, R_OK) != 0)
        SL_TRY_GOTO(out, status, refuse_schedule(&document, run->schedule));
    if (sl_run_may_delegate(run))
        SL_TRY_GOTO(out, status, sl_launch_program("slackline-delegate", &delegate));
    status = shape_of(request, &document, shape);
out:
    sl_free(delegate);
    sl_document_close(&document);
    return status;
}

/* argv of a rank, one allocation; `build`: the starting program (base/build.h), `layout`: of an elastic run,
 * else NULL, `resume`: it continues. */
static sl_status make_worker(const train_request *request, char *worker, char *build, char *layout,
                             int resume, char ***argv) {
    SL_TRY(sl_alloc(argv, (size_t)(request->set.count + 9), sizeof **argv));
    int n = 0;
    (*argv)[n++] = worker;
    (*argv)[n++] = (char *)(uintptr_t)request->file;
    (*argv)[n++] = (char *)(uintptr_t)request->folder;
    if (resume)
        (*argv)[n++] = (char *)(uintptr_t) "--resume";
    if (layout) {
        (*argv)[n++] = (char *)(uintptr_t)SL_RUN_LAYOUT_OPTION;
        (*argv)[n++] = layout;
    }
    for (int i = 0; i < request->set.count; i++)
        (*argv)[n++] = (char *)(uintptr_t)request->set.text[i];
    (*argv)[n++] = (char *)(uintptr_t)SL_BUILD_OPTION;
    (*argv)[n++] = build;
    return SL_OK;
}

/* Quotes a word for a shell. */
static void write_word(FILE *out, const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"; /* as Python's shlex */
    if (*word && word[strspn(word, plain)] == 0) {
        fprintf(out, " %s", word);
        return;
    }
    fputs(" '", out);
    for (; *word; word++)
        *word == '\'' ? fputs("'\\''", out) : fputc(*word, out);
    fputc('\'', out);
}

/* The command that continues this run. Free with free. */
static sl_status write_continued(const train_request *request, char **text) {
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the command line");
    fputs("slackline train", out);
    write_word(out, request->file);
    for (int i = 0; i < request->set.count; i++) {
        fputs(" --set", out);
        write_word(out, request->set.text[i]);
    }
    if (request->hosts) {
        fputs(" --hosts", out);
        write_word(out, request->hosts);
    }
    fputs(" --out", out);
    write_word(out, request->folder);
    fputs(" --resume", out);
    return fclose(out) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the command line");
}

/* The last output of a complete run. The run is valid without it. */
static void write_report(const char *folder) {
    if (sl_report_leave(folder) != SL_OK)
        fprintf(stderr, "slackline: the run is complete, but its report could not be written: %s\n",
                sl_error_text());
}

/* An elastic run's layout on so many slots. */
static sl_status fit_layout(const void *context, int slots, sl_launch_layout *layout) {
    const sl_run *run = context;
    sl_run_layout fits;
    SL_TRY(sl_run_layout_fit(run, slots, &fits));
    layout->ranks = sl_run_layout_ranks(run, fits);
    sl_run_layout_write(fits, layout->argument);
    sl_run_layout_words(fits, layout->words, sizeof layout->words);
    return SL_OK;
}

static sl_status supervise(const train_request *request, train_shape *shape, char **argv, char **again,
                           int *exit_code) {
    char *continued = NULL;
    SL_TRY(write_continued(request, &continued));
    sl_launch_config config = {.directory = request->folder,
                               .ranks = shape->ranks,
                               .worker = argv,
                               .again = again,
                               .resumed = request->resume,
                               .hosts = shape->hosts,
                               .restarts = shape->restarts,
                               .warning = shape->saves ? WARNING : 0,
                               .continued = continued};
    if (shape->run.elastic.on) {
        config.fit = fit_layout;
        config.fit_context = &shape->run;
        config.argument = shape->layout;
        config.test_every = sl_from_ms(1e3 * shape->run.elastic.test_every_s);
    }
    sl_status status = sl_launch_run(&config, exit_code);
    if (status == SL_OK && *exit_code == 0)
        write_report(request->folder);
    free(continued);
    return status;
}

static sl_status start(const train_request *request, train_shape *shape, int *exit_code) {
    char *worker, **argv = NULL, **again = NULL, build[SL_BUILD_WORDS];
    SL_TRY(sl_launch_program("slackline-worker", &worker));
    sl_build_words(build);
    sl_status status;
    char *layout = shape->run.elastic.on && !sl_launch_inside() ? shape->layout : NULL;
    SL_TRY_GOTO(out, status, make_worker(request, worker, build, layout, request->resume, &argv));
    SL_TRY_GOTO(out, status, make_worker(request, worker, build, layout, 1, &again));
    if (sl_launch_inside()) {
        execv(worker, argv);
        status = sl_error_errno(SL_ESYS, "%s: cannot be started", worker);
    } else {
        sl_terminal_offer();
        status = supervise(request, shape, argv, again, exit_code);
    }
out:
    SL_FREE(argv, again, worker);
    return status;
}

static sl_status train(train_request *request, train_shape *shape, int *exit_code) {
    SL_TRY(choose_folder(request));
    SL_TRY(check_run(request, shape));
    SL_TRY(keep_finished(request));
    return start(request, shape, exit_code);
}

static int run(int argc, char **argv) {
    train_request request = {0};
    train_shape shape = {0};
    int exit_code = 0;
    sl_status status = sl_command_options(argc, argv, &request);
    SL_THEN(status, train(&request, &shape, &exit_code));
    SL_FREE(request.set.text, shape.hosts);
    sl_run_free(&shape.run);
    if (status == SL_OK || status == SL_DONE)
        return exit_code;
    sl_terminal_clear_line(stderr);
    const int code = sl_plan_request_end(status);
    return exit_code ? exit_code : code;
}

const sl_command sl_command_train = {
    .name = "train",
    .summary = "train a model on pipeline ranks and adapt to slow links",
    .about =
        "Trains the model of the run file RUN (YAML) on its ranks, adapts the schedule to slow links and "
        "writes metrics, events, checkpoints, timeline and summary into DIR (default: runs/<name of RUN>, "
        "or runs/<name of RUN>-2, -3, ... if that holds a finished run). Starts mpirun itself; inside "
        "mpirun or srun it is one of the ranks.",
    .options = options,
    .notes =
        "If a rank is killed, or a host or a link is lost, the ranks restart from the latest checkpoint, at "
        "most `restarts` times (default 3 if the run file has `checkpoint`, else 0); hosts that then fail a "
        "test are excluded, and a run with `elastic` continues on fewer slots. If interrupted (Ctrl-C) it "
        "ends at once. On SIGTERM or SIGUSR1, a scheduler's "
        "warning, a run that writes checkpoints finishes its iteration, writes one and ends; a second "
        "signal ends it at once.",
    .exit_code = "0 trained, 1 failed or ended by a signal, 2 a wrong request.",
    .example = "slackline train examples/slow-link.yaml --set iterations=40 --out /tmp/run",
    .run = run};
