/* The advice of a watched job at run time: the ladder's time is the real clock's, actions go to the program
 * of --on-event if there is one, and their results come back. On the caller's thread, which never waits for
 * that program. */
#pragma once

#include "base/loop.h"
#include "notice/watch/advice.h"

typedef struct sl_advising sl_advising;

typedef struct sl_advising_config {
    sl_advice_offer offer;
    const char *program; /* of --on-event; NULL: none */
    sl_time limit;       /* per call */
    const char *job, *directory;
    sl_loop *loop;
    void (*report)(void *context, const sl_event *event); /* advice, hook */
    void (*say)(void *context, const char *text);         /* to the user: trouble */
    void *context;
} sl_advising_config;

/** The texts must outlive it. A program that cannot be run is reported, and is not an error. SL_EINVAL,
 * SL_ENOMEM, SL_ESYS. */
sl_status sl_advising_open(const sl_advising_config *config, sl_advising **advising);
/** Ends a call under way. NULL is fine. */
void sl_advising_close(sl_advising *advising);

/** An event, or a new state; failures are reported. */
void sl_advising_event(sl_advising *advising, const sl_event *event);
void sl_advising_view(sl_advising *advising, const sl_status_view *view);
/** To be called every half second: time has passed. */
void sl_advising_tick(sl_advising *advising);

/** Calls under way or waiting. */
int sl_advising_pending(sl_advising *advising);

/** The current advice. */
const sl_advice *sl_advising_advice(const sl_advising *advising);
