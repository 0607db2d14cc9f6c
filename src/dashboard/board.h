/* The state of a run or a watched job for a live page, as one plain value: the follower writes it; the page's
 * texts (page_updates.h) and the metrics (dashboard_metrics.h) are made from it. Its size is bounded whatever
 * it receives: old iterations, events and lines are dropped.
 *
 * Times in ms; NaN: not known. Changes since the last update of the page are marked, so that an update costs
 * as much as has changed. Not thread-safe: threads that share it need a lock (dashboard.c). */
#pragma once

#include "folder/row.h"

typedef enum sl_board_state {
    SL_BOARD_WAITING,  /* nothing is there yet */
    SL_BOARD_STARTING, /* active, but nothing reported yet */
    SL_BOARD_RUNNING,
    SL_BOARD_RESTARTING,
    SL_BOARD_ENDED,
    SL_BOARD_FAILED, /* or interrupted, or killed */
    SL_BOARD_SILENT, /* the data shown is old: the store does not answer, the folder is gone */
    SL_BOARD_STATES
} sl_board_state;

/** "waiting", ... */
const char *sl_board_state_name(sl_board_state state);

typedef enum sl_board_health {
    SL_BOARD_UNKNOWN, /* not measured yet */
    SL_BOARD_OK,
    SL_BOARD_SUSPECT = 3, /* pages know the numbers; 2 is no longer used; named, not certain */
    SL_BOARD_SLOW,        /* a verdict names it */
    SL_BOARD_GONE,        /* its node does not report */
    SL_BOARD_HEALTHS
} sl_board_health;

const char *sl_board_health_name(sl_board_health health);

enum { SL_BOARD_FIRST = 9 }; /* number of values that define the usual one */

/* A quantity and its usual value: the median of its first values, without the very first. */
typedef struct sl_board_value {
    float now, usual, data;
    float first[SL_BOARD_FIRST];
    int firsts; /* counted from -1: the first one is cold */
} sl_board_value;

typedef struct sl_board_rank {
    sl_board_value time; /* of a run: the time of its ops; of a job: its iteration */
    int blamed, gone;    /* 0, or SL_BOARD_SUSPECT, SL_BOARD_SLOW */
    int host;            /* index into `host`; -1: not known */
    int pid;
    int sent_health, changed;
} sl_board_rank;

typedef struct sl_board_link {
    int from, to, replica; /* replica -1: the run has only one */
    float latency, transfer;
    sl_board_value time;     /* both together */
    int64_t messages, bytes; /* of a job: in the last profile; -1: not known */
    int blamed, sent_health, changed;
} sl_board_link;

typedef struct sl_board_row {
    int64_t iteration;
    float time, predicted;
    double loss;
    short schedule, phase; /* into `name`; -1 */
    unsigned char late, delegates;
} sl_board_row;

/* A named component. */
typedef struct sl_board_blame {
    int verdict; /* 0: a suspect */
    int rank, from, to, both, replica;
    int host; /* all ranks of the host of `rank` */
    int64_t iteration;
    char component[12], text[480];
} sl_board_blame;

typedef struct sl_board {
    int is_cluster;
    char *source; /* the folder, or the server and its job */
    sl_board_state state;
    char why[480];

    /* layout; 0: not known. Ranks below are replica * pipeline + rank of a run, world ranks of a job */
    int pipeline, data, tensor, microbatches, iterations, stages, adapt; /* adapt -1: not given */
    char placement[24], model[24], program[200];

    /* the last iteration */
    int64_t iteration; /* -1: none */
    double time, predicted, healthy, level, loss, validation, tokens;
    int schedule, phase, delegates, late;
    int64_t schedule_since; /* iteration */
    int slow;
    int64_t onset, onsets, reliefs, swaps, restarts;
    int nodes, period, connected, holds, closed;
    int64_t calls, lost;
    double held;   /* ms */
    double caught; /* share of a file that has been read; 1: all */

    sl_board_rank *rank;
    size_t ranks, rank_room;
    sl_board_link *link;
    size_t links, link_room;
    char **host;
    size_t hosts, host_room;
    char **name; /* of schedules and phases */
    size_t names, name_room;

    char *excerpt; /* of a job: calls of one iteration, a JSON object (dashboard_watch.h); NULL: not known */
    int excerpt_changed;

    sl_board_row *row;
    size_t rows, row_room, rows_sent;
    char **event; /* JSON objects */
    size_t events, event_room, events_sent;
    int64_t event_number; /* total number */
    char **line;          /* of decisions.txt */
    size_t lines, line_room, lines_sent;
    sl_board_blame *blame;
    size_t blames, blame_room;

    float healthy_first[20];
    int healthy_firsts, quick; /* successive iterations at the healthy level */
    int64_t damaged;           /* skipped lines */
    char unread[96];           /* names of unreadable files; "" */
    int64_t version;           /* counts changes of the scalars and lists above */
    int renewed;               /* items were dropped or moved: everything must be sent */
} sl_board;

/** Empty. `source` is copied. SL_ENOMEM. */
sl_status sl_board_open(const char *source, int is_cluster, sl_board *board);
void sl_board_close(sl_board *board);

void sl_board_set_state(sl_board *board, sl_board_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Another run, or the same from an earlier iteration: drops iterations, ranks and links. */
void sl_board_forget_iterations(sl_board *board);
/** Drops events, named components, and counts of both. */
void sl_board_forget_events(sl_board *board);
void sl_board_forget_lines(sl_board *board);

/** An iteration of a run. SL_ENOMEM. */
sl_status sl_board_iteration(sl_board *board, const sl_row_iteration *row);
/** An event; its object is kept as is, with a `number`. SL_ENOMEM. */
sl_status sl_board_event(sl_board *board, const sl_row_event *row);
/** A line of decisions.txt. SL_ENOMEM. */
sl_status sl_board_line(sl_board *board, const char *line, size_t length);

/** Ensures at least this many ranks. SL_ENOMEM. */
sl_status sl_board_need_ranks(sl_board *board, size_t ranks);
/** The index of a text in a list that holds each once; too many: -1. SL_ENOMEM. */
sl_status sl_board_name(char ***list, size_t *count, size_t *room, const char *text, int *index);

void sl_board_rank_time(sl_board *board, size_t rank, double ms);
/** Traffic on a link of a job in its last profile, and the time of a message; NaN: not known, for `usual`: to
 * be learned. Links beyond the bound are dropped; `guess` is tried first. SL_ENOMEM. */
sl_status sl_board_traffic(sl_board *board, int from, int to, size_t guess, int64_t messages, int64_t bytes,
                           double ms, double usual);
/** Adds a completed iteration to the drawn ones. SL_ENOMEM. */
sl_status sl_board_add_row(sl_board *board, const sl_board_row *row);

/** Replaces all named components (the board's own: applies them again): marks ranks and links. SL_ENOMEM. */
sl_status sl_board_set_blames(sl_board *board, const sl_board_blame *blame, size_t count);

/** The health of a rank or a link, as reported by the run or the controller. */
sl_board_health sl_board_rank_health(const sl_board_rank *rank);
sl_board_health sl_board_link_health(const sl_board_link *link);
