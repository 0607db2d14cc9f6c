/* The one status type. Everything that can fail returns sl_status; results go through pointers.
 *
 * The code that detects the failure formats the reason once with sl_error(); callers pass it on with SL_TRY,
 * or prepend to it: sl_error(status, "%s: %s", file, sl_error_text()). The text is thread-local, so the
 * library never writes to standard error: the command prints sl_error_text() at its end. */
#pragma once

typedef enum sl_status {
    SL_OK = 0,
    SL_EINVAL, /* a wrong request: file, key, argument (exit 2) */
    SL_ENONE,  /* a valid request without an answer, such as a limit that no schedule meets (exit 1) */
    SL_ENOMEM, /* out of memory, or over a hard limit of the device arena (exit 1) */
    SL_ESYS,   /* a system call or library failed (exit 1) */
    SL_EPEER,  /* another process of the run is gone or misbehaves (exit 1) */
    SL_DONE    /* no failure: help was requested and printed; nothing else to do (exit 0) */
} sl_status;

/** Formats the reason of a failure into the thread's error text and returns `status`. */
sl_status sl_error(sl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** As sl_error, with strerror(errno) appended. */
sl_status sl_error_errno(sl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The reason of this thread's last failure; never NULL. Owned by the library, valid until the next failure.
 */
const char *sl_error_text(void);

/** The exit code that the command gives for a status: 0, 1 or 2. */
int sl_exit_code(sl_status status);

#define SL_TRY(call)                                                                                         \
    do {                                                                                                     \
        sl_status sl_try_status_ = (call);                                                                   \
        if (sl_try_status_ != SL_OK)                                                                         \
            return sl_try_status_;                                                                           \
    } while (0)

/* As SL_TRY, for a function that has acquired something: sets `status`, and if that is an error jumps to
 * `label`, where it is released. Labels release in the reverse order of acquisition. */
#define SL_TRY_GOTO(label, status, ...)                                                                      \
    do {                                                                                                     \
        (status) = (__VA_ARGS__);                                                                            \
        if ((status) != SL_OK)                                                                               \
            goto label;                                                                                      \
    } while (0)

/* For a function that frees something at its end after any failure: makes the next call only while `status`
 * is SL_OK. */
#define SL_THEN(status, ...)                                                                                 \
    do {                                                                                                     \
        if ((status) == SL_OK)                                                                               \
            (status) = (__VA_ARGS__);                                                                        \
    } while (0)
