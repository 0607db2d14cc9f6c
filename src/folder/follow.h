/* The only reader of the folder of a run or a watch: metrics.jsonl, events.jsonl and decisions.txt as they
 * grow (base/lines.h), run.yaml, profile.yaml, summary.json, watch.json and report.json when they are
 * replaced, and whether a run is active there. A follower gets parsed rows. Reading once to the end (the
 * report) and continuous reading (the dashboard) use the same code and give the same rows, regardless of
 * changes to the files: absent, damaged, truncated or restarted files are not errors. Nothing is ever written
 * there; the lock of a running run (launch/run_folder.h) is only tried, briefly and shared. */
#pragma once

#include "base/lines.h"
#include "base/time.h"
#include "folder/row.h"

#include <sys/stat.h>

typedef enum sl_folder_file {
    SL_FOLDER_METRICS, /* line by line: */
    SL_FOLDER_EVENTS,
    SL_FOLDER_DECISIONS,
    SL_FOLDER_RUN, /* as a whole: */
    SL_FOLDER_PROFILE,
    SL_FOLDER_SUMMARY,
    SL_FOLDER_WATCH,
    SL_FOLDER_REPORT, /* of a watch that has ended; one from an earlier watch is skipped */
    SL_FOLDER_FILES,
    SL_FOLDER_LINES = SL_FOLDER_RUN
} sl_folder_file;

/* From the last event of a run that gives it; for a watch from the exit code in report.json. */
typedef enum sl_folder_state {
    SL_FOLDER_OPEN, /* no end is recorded */
    SL_FOLDER_RESTARTING,
    SL_FOLDER_WARNED, /* a scheduler's warning: saved and ended */
    SL_FOLDER_FAILED,
    SL_FOLDER_ENDED
} sl_folder_state;

/* The receiver of the rows. SL_EINVAL from any but `restarted` counts a line, or a file, as damaged (sl_error
 * gives the file's trouble); other errors end the step. */
typedef struct sl_folder_follower {
    void *context;
    unsigned files; /* the files to read as a whole: 1 << SL_FOLDER_RUN | ... */
    sl_status (*iteration)(void *context, const sl_row_iteration *row); /* of a watch: in ascending order */
    sl_status (*event)(void *context, const sl_row_event *row);
    sl_status (*decision)(void *context, const char *line, size_t length);
    /* `text` may be modified; `object`: of .json files, NULL: damaged */
    sl_status (*text)(void *context, sl_folder_file file, char *text, json_t *object);
    /* rows already handed out of that file (METRICS: the iterations) no longer count; the folder may have
     * become a watch's, or a run's. NULL: ignored */
    void (*restarted)(void *context, sl_folder_file file);
} sl_folder_follower;

/* A file that is read as a whole. */
typedef struct sl_folder_whole {
    struct stat file; /* when it was read; st_ino 0: never */
    int unread;       /* it exists, but is unreadable */
    char trouble[1024];
} sl_folder_whole;

typedef struct sl_folder {
    char *path;
    sl_lines lines[SL_FOLDER_LINES];
    sl_folder_whole whole[SL_FOLDER_FILES];
    int there, shut; /* the folder exists; errno if it is unreadable */
    int is_watch;    /* of a watched program, not of a run */
    int living;      /* a run or watch is active there */
    sl_folder_state state;
    char why[400]; /* reason of the state; of a watch that has ended: "exit code N" */
    sl_folder_follower follower;
    sl_folder_state said; /* from the events, which are a run's or a watch's */
    char said_why[400];
    int exit_code; /* of report.json; -1 */
    int point;     /* the last iteration of watch.json that was handed out; -1 */
    int steps;     /* 0: nothing read yet */
    int lags;      /* there was more than one step reads */
    sl_time grown; /* counts as active until then, as files grew: other machines' locks are not seen */
} sl_folder;

/** The folder may be absent. SL_EINVAL: not a folder. SL_ENOMEM. */
sl_status sl_folder_open(const char *path, const sl_folder_follower *follower, sl_folder **folder);
void sl_folder_close(sl_folder *folder);

/** Reads new data, some megabytes at most; *more: more is there at once. SL_ENOMEM, errors of the follower.
 */
sl_status sl_folder_step(sl_folder *folder, int *more);

/** Reads everything once, also text after a file's last complete line. SL_EINVAL: the folder is absent. */
sl_status sl_folder_read(sl_folder *folder);

/** A sentence on missing or damaged parts of a file, after sl_folder_read; "": none. */
void sl_folder_trouble(const sl_folder *folder, sl_folder_file file, char *text, size_t size);

/** Whether a file exists but is unreadable. */
int sl_folder_is_unread(const sl_folder *folder, sl_folder_file file);

/** "metrics.jsonl", ... */
const char *sl_folder_file_name(sl_folder_file file);
