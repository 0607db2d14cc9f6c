/* SPDX-License-Identifier: Apache-2.0 */
/* Version, status and error text. Every function that can fail returns a status, leaves its result NULL or
 * unchanged, and sets slackline_error() of the same thread; nothing is ever printed. */
#ifndef SLACKLINE_STATUS_H
#define SLACKLINE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; slackline_version() is that of the library. */
#define SLACKLINE_VERSION_MAJOR 0
#define SLACKLINE_VERSION_MINOR 1
#define SLACKLINE_VERSION_PATCH 0

/** "0.1.0". */
const char *slackline_version(void);

typedef enum slackline_status {
    SLACKLINE_OK = 0,
    SLACKLINE_INVALID,   /* a wrong request: a file, a key, an argument, an order that is no schedule */
    SLACKLINE_NO_ANSWER, /* a valid request without an answer: no schedule fits into the memory limit */
    SLACKLINE_NO_MEMORY,
    SLACKLINE_SYSTEM /* a system call or another program failed */
} slackline_status;

/** "invalid", "no memory" and so on, for a status; never NULL. */
const char *slackline_status_name(slackline_status status);

/** The reason of this thread's last failure; never NULL, valid until the next failure. */
const char *slackline_error(void);

/** Frees a text from the library. NULL does nothing. */
void slackline_free(void *pointer);

#ifdef __cplusplus
}
#endif
#endif
