/* The detection thread: it has the stores and steps the node's agent and a controller, which is in charge of
 * the job if it wins the election. All waiting for Redis is here, away from the program's own business.
 *
 * Its findings go to the first thread as notes in order; a file becomes readable when there are some. The
 * queue is bounded: a newer view replaces an older one, and events have limited room. */
#pragma once

#include "base/event.h"
#include "notice/control/job_status.h"
#include "notice/watch/rendezvous.h"

typedef enum sl_note_kind {
    SL_NOTE_VIEW,     /* the current state has changed */
    SL_NOTE_EVENT,    /* an event of the controller */
    SL_NOTE_LEADS,    /* this process's controller is in charge: its events and views count */
    SL_NOTE_REPLACED, /* another one has taken over */
    SL_NOTE_TROUBLE,  /* `text`, for the user: why something is not detected */
    SL_NOTE_REMARK,   /* the same, without consequences */
    SL_NOTE_STANDING, /* state of ranks and links, for the folder: `standing`; ownership passes to the
                         receiver */
    SL_NOTE_HANG,     /* what all ranks of a job do that hangs or stalls: `standing`, as above */
    SL_NOTE_DONE      /* the thread has ended; `calls` is final */
} sl_note_kind;

typedef struct sl_note {
    sl_note_kind kind;
    sl_event event;
    sl_status_view view;
    char text[400];
    char *standing; /* free(); NULL: none */
    int calls;      /* done: the agent saw any */
    int first;      /* of a new leader: the job had none before */
} sl_note;

typedef struct sl_noticing_config {
    sl_rendezvous *rendezvous;
    const sl_launch_position *position;
    const char *folder;  /* of the node */
    const char *record;  /* NULL: none */
    const char *program; /* the watched program, for viewers of the store */
    int hold, validate;
    sl_time hang_after; /* 0: hangs are not noticed */
} sl_noticing_config;

typedef struct sl_noticing sl_noticing;

/** Starts the thread; what `config` points at must outlive it. SL_ENOMEM, SL_ESYS. */
sl_status sl_noticing_start(const sl_noticing_config *config, sl_noticing **noticing);

/** Readable while there are notes. */
int sl_noticing_file(const sl_noticing *noticing);
/** Takes the oldest note; 0: none. */
int sl_noticing_take(sl_noticing *noticing, sl_note *note);

/** An event made by the first thread (advice): goes to the store with the controller's. It is lost there if
 * memory or room is missing. */
void sl_noticing_pass(sl_noticing *noticing, const sl_event *event);

/** The program's exit code, for viewers of the store; before sl_noticing_stop. */
void sl_noticing_ended(sl_noticing *noticing, int exit_code);

/** Asks the thread to end: it reads and reports everything, then sends SL_NOTE_DONE. */
void sl_noticing_stop(sl_noticing *noticing);
/** Waits for its end. NULL is fine. */
void sl_noticing_close(sl_noticing *noticing);
