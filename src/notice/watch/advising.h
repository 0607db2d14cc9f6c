/* The advice of a watched job beside its other business: the ladder's time is the real clock's, actions go to
 * the program of --on-event where there is one, and what becomes of them comes back. On the caller's thread,
 * which never waits for that program. */
#pragma once

#include "base/loop.h"
#include "notice/watch/advice.h"

typedef struct sl_advising sl_advising;

typedef struct sl_advising_config {
    sl_advice_offer offer;
    const char *program; /* of --on-event; NULL: none */
    sl_time limit;       /* of a call */
    const char *job, *directory;
    sl_loop *loop;
    void (*tell)(void *context, const sl_event *event); /* advice, hook */
    void (*say)(void *context, const char *text);       /* to the user: trouble */
    void *context;
} sl_advising_config;

/** The texts must outlive it. A program that cannot be run is said and no error. SL_EINVAL, SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_advising_open(const sl_advising_config *config, sl_advising **advising);
/** Ends a call that goes on. NULL is fine. */
void sl_advising_close(sl_advising *advising);

/** Something happened, or is known; failures are said. */
void sl_advising_event(sl_advising *advising, const sl_event *event);
void sl_advising_view(sl_advising *advising, const sl_status_view *view);
/** To be called now and then (each half second): time has passed. */
void sl_advising_tick(sl_advising *advising);

/** Calls that go on or wait. */
int sl_advising_pending(sl_advising *advising);

/** What is advised, to be told. */
const sl_advice *sl_advising_advice(const sl_advising *advising);
