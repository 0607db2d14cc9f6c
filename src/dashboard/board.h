/* What a live page shows of a run or a watched job, as one plain value: whoever follows writes it, the page's
 * texts (page_updates.h) and the metrics (dashboard_metrics.h) are made from it. It has a bound whatever it
 * is told: old iterations, events and lines go.
 *
 * Times in ms; NaN: not known. What has changed since the page was told last is marked, so that telling it
 * costs as much as has changed. Not for several threads: who shares it has a lock (dashboard.c). */
#pragma once

#include "folder/row.h"

typedef enum sl_board_state {
    SL_BOARD_WAITING,  /* nothing is there yet */
    SL_BOARD_STARTING, /* somebody is at work, and has told nothing yet */
    SL_BOARD_RUNNING,
    SL_BOARD_RESTARTING,
    SL_BOARD_ENDED,
    SL_BOARD_FAILED, /* or interrupted, or killed */
    SL_BOARD_SILENT, /* what is shown is old: the store does not answer, the folder is gone */
    SL_BOARD_STATES
} sl_board_state;

/** "waiting", ... */
const char *sl_board_state_name(sl_board_state state);

typedef enum sl_board_health {
    SL_BOARD_UNKNOWN, /* not measured yet */
    SL_BOARD_OK,
    SL_BOARD_SUSPECT = 3, /* pages know the numbers; there is no 2 any more; named, not sure */
    SL_BOARD_SLOW,        /* a verdict names it */
    SL_BOARD_GONE,        /* its node says nothing */
    SL_BOARD_HEALTHS
} sl_board_health;

const char *sl_board_health_name(sl_board_health health);

enum { SL_BOARD_FIRST = 9 }; /* values that make the usual one */

/* A quantity and what is usual for it: the median of its first values, without the very first. */
typedef struct sl_board_value {
    float now, usual, told;
    float first[SL_BOARD_FIRST];
    int firsts; /* counted from -1: the first one is cold */
} sl_board_value;

typedef struct sl_board_rank {
    sl_board_value time; /* of a run: what its ops took; of a job: its iteration */
    int blamed, gone;    /* 0, or SL_BOARD_SUSPECT, SL_BOARD_SLOW */
    int host;            /* index into `host`; -1: not known */
    int pid;
    int told_health, changed;
} sl_board_rank;

typedef struct sl_board_link {
    int from, to, replica; /* -1: the run has one */
    float latency, transfer;
    sl_board_value time;     /* both together */
    int64_t messages, bytes; /* of a job: in the last profile; -1: not known */
    int blamed, told_health, changed;
} sl_board_link;

typedef struct sl_board_row {
    int64_t iteration;
    float time, predicted;
    double loss;
    short schedule, phase; /* into `name`; -1 */
    unsigned char late, delegates;
} sl_board_row;

/* Somebody who is named. */
typedef struct sl_board_blame {
    int verdict; /* else a suspect */
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
    int pipeline, data, tensor, microbatches, iterations, stages, adapt; /* adapt -1: not said */
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

    sl_board_row *row;
    size_t rows, row_room, row_told;
    char **event; /* JSON objects */
    size_t events, event_room, event_told;
    int64_t event_number; /* of all that there were */
    char **line;          /* of decisions.txt */
    size_t lines, line_room, line_told;
    sl_board_blame *blame;
    size_t blames, blame_room;

    float healthy_first[20];
    int healthy_firsts, quick; /* iterations in a row at the healthy level */
    int64_t damaged;           /* lines that were left out */
    char unread[96];           /* names of files that cannot be read; "" */
    int64_t version;           /* counts changes of the scalars and lists above */
    int renewed;               /* something went, or moved: all is to be told */
} sl_board;

/** Empty. `source` is copied. SL_ENOMEM. */
sl_status sl_board_open(const char *source, int is_cluster, sl_board *board);
void sl_board_close(sl_board *board);

void sl_board_set_state(sl_board *board, sl_board_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Another run, or the same from an earlier iteration: forgets iterations, ranks and links. */
void sl_board_forget_iterations(sl_board *board);
/** Forgets events, those who are named, and counts of both. */
void sl_board_forget_events(sl_board *board);
void sl_board_forget_lines(sl_board *board);

/** An iteration of a run. SL_ENOMEM. */
sl_status sl_board_iteration(sl_board *board, const sl_row_iteration *row);
/** An event; its object is kept as it is, with a `number`. SL_ENOMEM. */
sl_status sl_board_event(sl_board *board, const sl_row_event *row);
/** A line of decisions.txt. SL_ENOMEM. */
sl_status sl_board_line(sl_board *board, const char *line, size_t length);

/** At least so many ranks. SL_ENOMEM. */
sl_status sl_board_need_ranks(sl_board *board, size_t ranks);
/** The index of a text in a list that holds each once; too many: -1. SL_ENOMEM. */
sl_status sl_board_name(char ***list, size_t *count, size_t *room, const char *text, int *index);

void sl_board_rank_time(sl_board *board, size_t rank, double ms);
/** What went over a link of a job in its last profile, and what a message took; NaN: not known, of `usual`:
 * to be learnt. Links beyond the bound are left out; `guess` is tried first. SL_ENOMEM. */
sl_status sl_board_traffic(sl_board *board, int from, int to, size_t guess, int64_t messages, int64_t bytes,
                           double ms, double usual);
/** An iteration is over: added to what is drawn. SL_ENOMEM. */
sl_status sl_board_add_row(sl_board *board, const sl_board_row *row);

/** Who is named from now on, all at once (the board's own: those again): marks ranks and links. SL_ENOMEM. */
sl_status sl_board_set_blames(sl_board *board, const sl_board_blame *blame, size_t count);

/** How a rank or a link is, by what the run or the controller says of it. */
sl_board_health sl_board_rank_health(const sl_board_rank *rank);
sl_board_health sl_board_link_health(const sl_board_link *link);
