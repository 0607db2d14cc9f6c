/* The thread that notices: it has the stores and steps the node's agent and a controller, which is the job's
 * where it wins the election. Whatever waits for Redis waits here, away from the program's own business.
 *
 * What it finds goes to the first thread as notes in their order; a file becomes readable when there are
 * some. What waits is bounded: a newer view takes the place of an older one, and events have so much room. */
#pragma once

#include "base/event.h"
#include "notice/control/job_status.h"
#include "notice/watch/rendezvous.h"

typedef enum sl_note_kind {
    SL_NOTE_VIEW,     /* what is known now has changed */
    SL_NOTE_EVENT,    /* the controller says something */
    SL_NOTE_SEAT,     /* this process's controller is the job's: its events and views count */
    SL_NOTE_UNSEATED, /* another took the seat */
    SL_NOTE_TROUBLE,  /* `text`, for the user: why something is not noticed */
    SL_NOTE_REMARK,   /* the same, of what changes nothing */
    SL_NOTE_STANDING, /* how ranks and links stand, for the folder: `standing`, whose owner is who takes it */
    SL_NOTE_DONE      /* the thread is at its end; `calls` is final */
} sl_note_kind;

typedef struct sl_note {
    sl_note_kind kind;
    sl_event event;
    sl_status_view view;
    char text[400];
    char *standing; /* free(); NULL: none */
    int calls;      /* done: the agent saw any */
    int first;      /* seat: nobody of the job had it before */
} sl_note;

typedef struct sl_noticing_config {
    sl_rendezvous *rendezvous;
    const sl_launch_position *place;
    const char *folder;  /* of the node */
    const char *record;  /* NULL: none */
    const char *program; /* what is watched, for those who look at the store */
    int hold, validate;
} sl_noticing_config;

typedef struct sl_noticing sl_noticing;

/** Starts the thread; what `config` points at must outlive it. SL_ENOMEM, SL_ESYS. */
sl_status sl_noticing_start(const sl_noticing_config *config, sl_noticing **noticing);

/** Readable while there are notes. */
int sl_noticing_file(const sl_noticing *noticing);
/** Takes the oldest note; 0: there is none. */
int sl_noticing_take(sl_noticing *noticing, sl_note *note);

/** An event that the first thread has made itself (advice): goes where the controller's go in the store. One
 * that finds no memory or room is lost there. */
void sl_noticing_pass(sl_noticing *noticing, const sl_event *event);

/** How the program ended, for those who look at the store; before sl_noticing_stop. */
void sl_noticing_ended(sl_noticing *noticing, int exit_code);

/** Asks the thread to end: what is known is read and said to the last, which SL_NOTE_DONE follows. */
void sl_noticing_stop(sl_noticing *noticing);
/** Waits for its end. NULL is fine. */
void sl_noticing_close(sl_noticing *noticing);
