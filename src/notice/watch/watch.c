#include "notice/watch/watch.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/subprocess.h"
#include "base/writer.h"
#include "launch/directory.h"
#include "launch/launch.h"
#include "launch/run_folder.h"
#include "notice/store/store.h"
#include "notice/watch/advising.h"
#include "notice/watch/http.h"
#include "notice/watch/noticing.h"
#include "notice/watch/results.h"
#include "notice/watch/site.h"
#include "notice/watch/view.h"
#include "notice/watch/watch_report.h"
#include "notice/watch/watched_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK (SL_SECOND / 2)
#define LINGER (5 * SL_SECOND) /* for the other ranks of the node */
#define LINGER_LOOK (20 * SL_MS)
#define HOOK_LINGER (5 * SL_SECOND) /* for calls under way or waiting when the program has ended */
#define CLAIM_EVERY (SL_SECOND / 2) /* later than the first rank of a node */
#define HANG_GRACE (10 * SL_SECOND) /* between SIGTERM and SIGKILL */
enum { CLAIMS = 4, HANG_EXIT = 124 };

static const char no_calls[] =
    "no MPI or NCCL call was seen: the program is linked statically or without either "
    "library, and ran untouched (PyTorch over Gloo is seen under: python -m slackline watch)";

typedef struct watching {
    const sl_watch_request *request;
    char directory[3072], record[3200];
    char obstacle[512]; /* the obstacle to the probe; "" */
    sl_launch_position position;
    sl_site site;
    sl_rendezvous rendezvous;
    sl_subprocess program; /* none: has ended */
    int exit_code;
    sl_time began, linger;
    sl_time stalled; /* the job makes no progress since then; 0: it does */
    int ending;      /* it was ended for that: 1 politely, 2 by force */
    sl_time force;   /* when */

    sl_loop *loop;
    sl_noticing *noticing; /* NULL: another of this node is its agent */
    int claims;            /* tries to become the agent after all */
    int met;               /* the store has answered once */
    int done, calls;       /* it has sent its last note; it saw calls */

    /* as leader, or outside of a launcher */
    int leads;
    sl_launch_folder folder; /* DIRECTORY, locked; lock -1: not open */
    sl_writer *writer;       /* of all files in DIRECTORY: no disk delays this thread */
    sl_http *http;
    sl_view view;
    sl_watch_report report;
    sl_status_view last;
    sl_advising *advising; /* NULL: none */
    sl_time concluded;     /* when the program had ended and everything was reported; 0: not yet */
} watching;

/* ---- before the program ---- */

/* Only the URL: no answer is needed yet. */
static sl_status check_url(const watching *w) {
    sl_store *store = NULL;
    if (!w->request->redis)
        return SL_OK;
    sl_status status = sl_store_open(w->request->redis, w->position.job, 0, &store);
    sl_store_close(store);
    return status;
}

/* Prepares what an agent needs. Outside of a launcher the folder is locked immediately, inside by the process
 * that becomes the leader. */
static sl_status prepare_agent(watching *w) {
    SL_TRY(sl_directory_make(w->directory));
    if (access(w->directory, W_OK | X_OK) != 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", w->directory);
    if (!w->position.inside)
        SL_TRY(sl_launch_folder_open(w->directory, &w->folder));
    if (w->request->record)
        SL_TRY(sl_directory_make(w->record));
    return sl_rendezvous_open(&w->rendezvous, &w->position, w->directory, w->site.directory.path,
                              w->request->redis, w->request->key);
}

static void block_signals(sigset_t *heard) {
    static const int signals[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t blocked;
    sigemptyset(heard);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(heard, signals[i]);
    blocked = *heard;
    sigaddset(&blocked, SIGPIPE); /* standard error may go before the program does */
    sigprocmask(SIG_BLOCK, &blocked, NULL);
}

/* ---- leading: the output of the job's controller is kept and shown here ---- */

static void open_http(watching *w) {
    const sl_watch_request *r = w->request;
    if (r->port == 0 || w->http)
        return;
    if (sl_http_open(w->loop, r->host, r->port, r->token, r->tls, &w->http) != SL_OK) {
        sl_view_say(&w->view, "%s; watching continues without it", sl_error_text());
        return;
    }
    char url[320];
    sl_server_url(sl_http_server(w->http), url, sizeof url);
    if (sl_server_port(sl_http_server(w->http)) != r->port)
        sl_view_say(&w->view, "%s (port %d is in use); results in %s", url, r->port, w->directory);
    else
        sl_view_say(&w->view, "%s; results in %s", url, w->directory);
}

static void put(const watching *w, const char *name, sl_writer_how how, const char *text) {
    char path[3200];
    if (!w->writer)
        return;
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    sl_writer_put(w->writer, path, how, text, strlen(text), 0);
}

/* Once for each file. */
static void say_trouble(watching *w) {
    char text[512];
    while (w->writer && sl_writer_trouble(w->writer, text, sizeof text))
        sl_view_say(&w->view, "%s; watching continues", text);
}

static void write_event(watching *w, const sl_event *event) {
    char *line;
    if (w->leads && sl_event_line(event, &line) == SL_OK) {
        put(w, "events.jsonl", SL_WRITER_APPEND, line);
        free(line);
    }
    sl_view_event(&w->view, event);
    (void)sl_watch_report_event(&w->report, event);
}

/* Events of the advice go where the controller's events go. */
static void on_advice(void *context, const sl_event *event) {
    watching *w = context;
    write_event(w, event);
    if (w->noticing)
        sl_noticing_pass(w->noticing, event);
}

static void on_words(void *context, const char *text) {
    watching *w = context;
    sl_view_say(&w->view, "%s", text);
}

static void open_advising(watching *w) {
    const sl_watch_request *r = w->request;
    sl_advising_config config = {.offer = r->offer,
                                 .program = r->on_event,
                                 .limit = (sl_time)(r->on_event_limit * 1e9),
                                 .job = w->position.job,
                                 .directory = w->directory,
                                 .loop = w->loop,
                                 .report = on_advice,
                                 .say = on_words,
                                 .context = w};
    if (!w->advising && sl_advising_open(&config, &w->advising) != SL_OK)
        sl_view_say(&w->view, "%s; watching continues without advice", sl_error_text());
}

static void begin_leading(watching *w, int first) {
    w->leads = 1;
    if (w->folder.lock < 0 && sl_launch_folder_open(w->directory, &w->folder) != SL_OK)
        sl_view_say(&w->view, "%s", sl_error_text());
    static const char *const stale[] = {"watch.json", "hang.json", "report.txt",
                                        "report.json"}; /* of an earlier watch */
    for (size_t i = 0; first && i < sizeof stale / sizeof *stale; i++)
        put(w, stale[i], SL_WRITER_REMOVE, "");
    put(w, "events.jsonl", first ? SL_WRITER_OVER : SL_WRITER_APPEND, "");
    open_http(w);
    open_advising(w);
}

/* The data for viewers of the folder, during the run and afterwards. */
static void keep_standing(watching *w, char *text) {
    if (w->leads || !w->position.inside)
        put(w, "watch.json", SL_WRITER_RENEW, text);
    free(text);
}

static void stop_leading(watching *w) {
    w->leads = 0;
    sl_http_close(w->http);
    w->http = NULL;
    sl_advising_close(w->advising);
    w->advising = NULL;
    if (w->position.inside)
        sl_launch_folder_close(&w->folder);
}

static void keep_decisions(watching *w) {
    char *text = NULL;
    put(w, "decisions.txt", SL_WRITER_REMOVE, ""); /* decisions of an earlier watch */
    if (w->advising && sl_advice_text(sl_advising_advice(w->advising), &text) != SL_OK)
        sl_view_say(&w->view, "%s", sl_error_text());
    if (text)
        put(w, "decisions.txt", SL_WRITER_WHOLE, text);
    free(text);
}

static void keep_report(watching *w) {
    char *text = NULL, *json = NULL;
    sl_status status =
        sl_watch_report_texts(&w->report, w->exit_code, sl_now() - w->began, w->obstacle, &text, &json);
    if (status == SL_OK) {
        put(w, "report.txt", SL_WRITER_WHOLE, text);
        put(w, "report.json", SL_WRITER_WHOLE, json);
    } else {
        sl_view_say(&w->view, "%s", sl_error_text());
    }
    free(text);
    free(json);
}

/* The program has ended, and everything is reported; calls of the hook under way get a little time. */
static sl_status conclude(void *context) {
    watching *w = context;
    int speaks = !w->position.inside || w->leads;
    w->concluded = w->concluded ? w->concluded : sl_now();
    if (speaks && w->advising && sl_advising_pending(w->advising) && sl_now() < w->concluded + HOOK_LINGER)
        return sl_loop_at(w->loop, sl_now() + LINGER_LOOK, conclude, w, NULL);
    if (speaks)
        keep_decisions(w);
    if (speaks && !w->calls && !w->obstacle[0] && w->exit_code < 126) {
        snprintf(w->obstacle, sizeof w->obstacle, "%s", no_calls);
        sl_view_say(&w->view, "%s", no_calls);
    }
    sl_unseen_read(w->site.directory.path, &w->report.unseen);
    for (int i = 0; i < w->report.unseen.count && (speaks || w->site.is_agent); i++)
        sl_view_say(&w->view, "not seen in %d process%s of this node: %s", w->report.unseen.processes[i],
                    w->report.unseen.processes[i] == 1 ? "" : "es", w->report.unseen.text[i]);
    if (speaks)
        keep_report(w);
    sl_loop_stop(w->loop);
    return SL_OK;
}

/* The current advice goes wherever the view is. */
static void show_advice(watching *w) {
    char text[128];
    sl_advice_line(sl_advising_advice(w->advising), text, sizeof text);
    sl_view_advise(&w->view, text);
    if (w->http)
        sl_http_advise(w->http, sl_advice_json(sl_advising_advice(w->advising)));
}

/* ---- --hang kill ---- */

/* The launcher ends the ranks on other nodes. */
static void end_program(watching *w, const char *what) {
    if (w->ending || w->program.pid <= 0)
        return;
    sl_view_say(&w->view, "%s: the program is ended (--hang kill)", what);
    w->ending = 1;
    w->force = sl_now() + HANG_GRACE;
    sl_subprocess_signal(&w->program, SIGTERM);
}

static void take_hang(watching *w, const sl_event *event) {
    if (event->kind == SL_EVENT_MOVES)
        w->stalled = 0;
    else if (!w->stalled)
        w->stalled = sl_now();
    if (event->kind == SL_EVENT_HANG && w->request->hang_kill)
        end_program(w, "the job hangs");
}

static void look_at_hang(watching *w) {
    if (w->request->hang_kill && w->stalled &&
        sl_now() - w->stalled > (sl_time)(w->request->hang_limit * 1e9))
        end_program(w, "the job has stalled for too long");
    if (w->ending == 1 && w->program.pid > 0 && sl_now() > w->force) {
        w->ending = 2;
        sl_subprocess_signal(&w->program, SIGKILL);
    }
}

static void take_event(watching *w, const sl_event *event) {
    if (w->position.inside && !w->leads)
        return; /* the one in charge reports it */
    write_event(w, event);
    if (event->kind == SL_EVENT_HANG || event->kind == SL_EVENT_STALL || event->kind == SL_EVENT_MOVES)
        take_hang(w, event);
    if (w->advising)
        sl_advising_event(w->advising, event);
}

static void take_view(watching *w, const sl_status_view *view) {
    if (w->position.inside && !w->leads)
        return;
    w->last = *view;
    sl_watch_report_view(&w->report, view);
    if (w->http)
        sl_http_set(w->http, view);
    if (w->advising) {
        sl_advising_view(w->advising, view);
        show_advice(w);
    }
    sl_view_show(&w->view, view, sl_now());
}

static sl_status on_notes(void *context, int file) {
    watching *w = context;
    sl_note note;
    (void)file;
    while (sl_noticing_take(w->noticing, &note))
        switch (note.kind) {
        case SL_NOTE_VIEW:
            take_view(w, &note.view);
            break;
        case SL_NOTE_EVENT:
            take_event(w, &note.event);
            break;
        case SL_NOTE_LEADS:
            w->met = 1;
            begin_leading(w, note.first);
            break;
        case SL_NOTE_REPLACED:
            stop_leading(w);
            break;
        case SL_NOTE_STANDING:
            keep_standing(w, note.standing);
            break;
        case SL_NOTE_HANG:
            if (w->leads || !w->position.inside)
                put(w, "hang.json", SL_WRITER_WHOLE, note.standing);
            free(note.standing);
            break;
        case SL_NOTE_TROUBLE:
            sl_view_say(&w->view, "%s", note.text);
            snprintf(w->obstacle, sizeof w->obstacle, "%s", note.text);
            break;
        case SL_NOTE_REMARK:
            sl_view_say(&w->view, "%s", note.text);
            break;
        case SL_NOTE_DONE:
            w->done = 1;
            w->calls = note.calls;
            break;
        }
    return w->done && w->program.pid == 0 ? conclude(w) : SL_OK;
}

/* ---- the program ---- */

static sl_status stop_noticing(watching *w) {
    if (w->noticing)
        sl_noticing_ended(w->noticing, w->exit_code);
    if (!w->noticing)
        sl_loop_stop(w->loop);
    else if (w->done)
        return conclude(w);
    else
        sl_noticing_stop(w->noticing); /* its last note concludes */
    return SL_OK;
}

/* The agent of a node outlives its own rank a little, because the others of the node end at about the same
 * time; not if its rank failed, which its launcher must learn immediately. */
static sl_status linger(void *context) {
    watching *w = context;
    if (w->done || sl_now() >= w->linger || sl_site_alone(&w->site))
        return stop_noticing(w);
    return sl_loop_at(w->loop, sl_now() + LINGER_LOOK, linger, w, NULL);
}

static sl_status fetch_program(watching *w) {
    int status;
    if (w->program.pid <= 0 || !sl_subprocess_await(&w->program, 0))
        return SL_OK;
    if (w->program.file >= 0)
        sl_loop_unwatch(w->loop, w->program.file);
    sl_subprocess_wait(&w->program, 0, &status);
    w->exit_code = w->ending ? HANG_EXIT : sl_program_exit_code(status);
    if (!w->noticing || !w->position.inside || w->exit_code != 0)
        return stop_noticing(w);
    w->linger = sl_now() + LINGER;
    return linger(w);
}

static sl_status on_end(void *context, int file) {
    watching *w = context;
    sl_loop_unwatch(w->loop, file); /* if a debugger holds it, SIGCHLD comes with its release */
    return fetch_program(w);
}

/* A terminal's signal went to the whole group, and so does a launcher's, which makes a group of each rank:
 * the program has already had those. */
static int went_to_group(const watching *w, const siginfo_t *signal) {
    return signal->si_code == SI_KERNEL ||
           (w->position.inside && signal->si_pid == getppid() && getpgrp() == getpid());
}

static sl_status on_signal(void *context, const siginfo_t *signal) {
    watching *w = context;
    if (signal->si_signo == SIGCHLD)
        return fetch_program(w);
    if (w->program.pid == 0)
        w->linger = sl_now();
    else if (!went_to_group(w, signal))
        sl_subprocess_signal(&w->program, signal->si_signo);
    return SL_OK;
}

/* A private server that was killed is started again: the next request finds it. */
static void see_to_server(watching *w) {
    siginfo_t info = {0};
    if (!w->met || w->rendezvous.redis.pid <= 0 ||
        waitid(P_PID, (id_t)w->rendezvous.redis.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    if (sl_redis_restart(&w->rendezvous.redis) == SL_OK)
        sl_view_say(&w->view, "redis-server had ended and was started again");
    else
        sl_view_say(&w->view, "%s", sl_error_text());
}

static sl_status tick(void *context) {
    watching *w = context;
    if (w->http)
        sl_server_tick(sl_http_server(w->http));
    if (w->advising && !w->concluded)
        sl_advising_tick(w->advising);
    look_at_hang(w);
    see_to_server(w);
    say_trouble(w);
    return sl_loop_at(w->loop, sl_now() + TICK, tick, w, NULL);
}

/* ---- the whole ---- */

/* The tests of suspects are processes of slackline-worker: without it, a hold would wait in vain. */
static int can_validate(watching *w) {
    char *worker = NULL;
    if (!w->request->validate || !w->request->hold)
        return 0;
    const int is_there = sl_launch_program("slackline-worker", &worker) == SL_OK;
    sl_free(worker);
    if (!is_there)
        sl_view_say(&w->view, "%s; suspects are named and not tested", sl_error_text());
    return is_there;
}

static sl_status start_noticing(watching *w) {
    sl_noticing_config config = {.rendezvous = &w->rendezvous,
                                 .position = &w->position,
                                 .folder = w->site.directory.path,
                                 .record = w->request->record ? w->record : NULL,
                                 .program = w->request->command[sl_program_word(w->request->command)],
                                 .hold = w->request->hold,
                                 .hang_after = (sl_time)(w->request->hang_after * 1e9),
                                 .validate = can_validate(w)};
    setenv(SL_LAUNCH_VARIABLE, w->site.directory.path, 1); /* later cleanup finds what was started here */
    SL_TRY(sl_noticing_start(&config, &w->noticing));
    SL_TRY(sl_loop_watch(w->loop, sl_noticing_file(w->noticing), on_notes, w));
    return sl_loop_at(w->loop, sl_now() + TICK, tick, w, NULL);
}

/* Another rank of the node claims to be its agent until there is one. */
static sl_status claim_late(void *context) {
    watching *w = context;
    if (w->program.pid == 0 || w->claims++ == CLAIMS)
        return SL_OK;
    if (!sl_site_claim(&w->site))
        return sl_loop_at(w->loop, sl_now() + CLAIM_EVERY, claim_late, w, NULL);
    if (prepare_agent(w) != SL_OK || start_noticing(w) != SL_OK)
        sl_view_say(&w->view, "%s; the ranks of this node run unwatched", sl_error_text());
    return SL_OK;
}

/* The program runs: from here on trouble is reported and not returned. */
static void attend(watching *w) {
    if (sl_writer_open(SL_WRITER_MAX, &w->writer) != SL_OK)
        sl_view_say(&w->view, "%s; nothing is kept", sl_error_text());
    if (w->site.is_agent && w->position.rank == 0) {
        sl_program_examine(w->request->command, w->obstacle, sizeof w->obstacle - 64);
        if (w->obstacle[0]) {
            size_t used = strlen(w->obstacle);
            snprintf(w->obstacle + used, sizeof w->obstacle - used,
                     ": its calls are not seen, and it runs untouched");
            sl_view_say(&w->view, "%s", w->obstacle);
        }
    }
    if (w->site.is_agent) {
        if (start_noticing(w) != SL_OK)
            sl_view_say(&w->view, "%s; the program runs unwatched", sl_error_text());
    } else
        (void)sl_loop_at(w->loop, sl_now() + CLAIM_EVERY, claim_late, w, NULL);
    if (sl_loop_run(w->loop) != SL_OK)
        sl_view_say(&w->view, "%s", sl_error_text());
    int status;
    if (w->program.pid > 0 && sl_subprocess_wait(&w->program, SL_TIME_NEVER, &status)) /* the loop failed */
        w->exit_code = sl_program_exit_code(status);
}

static sl_status start_program(watching *w, const char *probe, const char *plugin) {
    pid_t pid = 0;
    sl_status status =
        sl_program_start(w->request->command, probe, plugin, w->site.directory.path, &pid, &w->exit_code);
    if (status != SL_OK && w->exit_code >= 126) { /* reported as in a shell, with its exit code */
        fprintf(stderr, "slackline: %s\n", sl_error_text());
        return SL_OK;
    }
    SL_TRY(status);
    w->program = sl_subprocess_take(pid);
    if (w->program.pid > 0 && w->program.file >= 0)
        (void)sl_loop_watch(w->loop, w->program.file, on_end, w); /* else SIGCHLD has to do */
    return SL_OK;
}

static sl_status start(watching *w) {
    char *probe = NULL, *plugin = NULL, text[400];
    sigset_t heard;
    SL_TRY(sl_results_choose(w->request->command, w->request->directory, w->request->overwrite, &w->position,
                             w->directory, sizeof w->directory));
    snprintf(w->record, sizeof w->record, "%s/calls", w->directory);
    SL_TRY(check_url(w));
    SL_TRY(sl_program_probe(&probe));
    sl_status status;
    SL_TRY_GOTO(done, status, sl_program_plugin(&plugin, text, sizeof text));
    block_signals(&heard);
    SL_TRY_GOTO(done, status, sl_loop_open(&w->loop));
    SL_TRY_GOTO(done, status, sl_loop_signals(w->loop, &heard, on_signal, w));
    SL_TRY_GOTO(done, status, sl_site_open(&w->position, &w->site));
    if (w->site.is_agent)
        SL_TRY_GOTO(done, status, prepare_agent(w));
    SL_TRY_GOTO(done, status, sl_watch_report_open(&w->report, w->request->command, w->position.job));
    if (text[0] && w->site.is_agent && w->position.rank == 0)
        sl_view_say(&w->view, "%s", text);
    status = start_program(w, probe, plugin);
done:
    SL_FREE(probe, plugin);
    return status;
}

static void finish(watching *w) {
    sl_noticing_close(w->noticing);
    sl_rendezvous_close(&w->rendezvous);
    if (w->writer)
        sl_writer_flush(w->writer, SL_WRITER_PATIENCE);
    say_trouble(w);
    sl_writer_close(w->writer);
    w->writer = NULL;
    stop_leading(w);
    sl_launch_folder_close(&w->folder);
    sl_view_close(&w->view);
    sl_watch_report_close(&w->report);
    sl_site_close(&w->site);
    sl_loop_close(w->loop);
}

sl_status sl_watch_run(const sl_watch_request *request, int *exit_code) {
    watching *w;
    SL_TRY(sl_alloc(&w, 1, sizeof *w));
    w->request = request;
    w->folder.lock = w->site.directory.lock = w->site.agent = w->site.member = -1;
    w->began = sl_now();
    sl_view_open(&w->view, stderr);
    sl_status status = start(w);
    if (status == SL_OK && w->program.pid > 0)
        attend(w);
    *exit_code = w->exit_code;
    finish(w);
    sl_free(w);
    return status;
}
