#include "notice/validate/causes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A share of a device's time that is worth a mention: below the 10% from which a device counts as slow. */
#define SHARE 0.05
/* A healthy device starves when some task waited for this share of the time, and this share of its processors
 * was taken. */
#define PRESSED 0.25
#define TAKEN 0.5
/* The clock is the cause when it is as far below as a device must be to be slow. */
#define CLOCK (1 / 1.1)

static void contention(const sl_evidence *e, char *cause, size_t size) {
    if (e->busiest > 0)
        snprintf(cause, size, "CPU contention: co-located load, %s (pid %d)", e->busiest_name, e->busiest);
    else if (e->load > SHARE)
        snprintf(cause, size, "CPU contention: co-located load");
    else
        snprintf(cause, size, "CPU contention");
}

static void clock_words(const sl_evidence *e, double usual, char *cause, size_t size) {
    int length = snprintf(cause, size, "clock: %.0f of %.0f MHz", e->mhz, usual);
    if (e->thermal > 0 && length > 0 && (size_t)length < size)
        snprintf(cause + length, size - (size_t)length, ", throttled by heat (%.0f C)", e->celsius);
    else if (e->celsius > 0 && length > 0 && (size_t)length < size)
        snprintf(cause + length, size - (size_t)length, " at %.0f C", e->celsius);
}

void sl_cause_of_device(const sl_evidence *e, double mhz, char *cause, size_t size) {
    double usual = e->mhz_max > mhz ? e->mhz_max : mhz;
    cause[0] = 0;
    /* a group is stopped only because of its quota; the rest of the waiting is for others */
    if (e->throttled > SHARE && e->throttled > (e->waited - e->throttled))
        snprintf(cause, size, e->quota > 0 ? "cgroup quota: %.3g processors" : "cgroup quota", e->quota);
    else if (e->waited > SHARE)
        contention(e, cause, size);
    else if (e->mhz > 0 && usual > 0 && e->mhz < CLOCK * usual)
        clock_words(e, usual, cause, size);
    else if (e->thermal > 0)
        snprintf(cause, size, "heat: the processor slowed itself (%.0f C)", e->celsius);
}

void sl_cause_of_starving(const sl_evidence *e, char *cause, size_t size) {
    cause[0] = 0;
    if (e->throttled > PRESSED)
        snprintf(cause, size, "cgroup quota");
    else if (e->pressure > PRESSED && e->cores > 0 && e->load > TAKEN * e->cores)
        contention(e, cause, size);
}

void sl_cause_of_link(const sl_link_evidence *from, const sl_link_evidence *to, double mbit, char *cause,
                      size_t size) {
    const sl_link_evidence *end[2] = {from, to};
    cause[0] = 0;
    for (int i = 0; i < 2; i++)
        if (end[i]->mbit > 0 && mbit > 0 && end[i]->mbit < CLOCK * mbit) {
            snprintf(cause, size, "NIC %s runs at %.0f of %.0f Mbit/s", end[i]->interface, end[i]->mbit,
                     mbit);
            return;
        }
    for (int i = 0; i < 2; i++)
        if (end[i]->errors > 0) {
            snprintf(cause, size, "NIC errors: %" PRId64 " on %s", end[i]->errors, end[i]->interface);
            return;
        }
    for (int i = 0; i < 2; i++)
        if (end[i]->drops > 0) {
            snprintf(cause, size, "NIC drops: %" PRId64 " on %s", end[i]->drops, end[i]->interface);
            return;
        }
}

static void say(char *words, size_t size, const char *format, double value) {
    size_t used = strlen(words);
    if (used + 1 < size && used > 0)
        used += (size_t)snprintf(words + used, size - used, ", ");
    if (used + 1 < size)
        snprintf(words + used, size - used, format, value);
}

void sl_evidence_words(const sl_evidence *e, char *words, size_t size) {
    words[0] = 0;
    if (e->throttled > SHARE)
        say(words, size, "throttled %.0f%% of the time", 100 * e->throttled);
    if (e->waited > SHARE)
        say(words, size, "without a processor %.0f%%", 100 * e->waited);
    if (e->load > SHARE)
        say(words, size, "others keep %.2g of its processors busy", e->load);
    if (e->mhz > 0 && e->mhz_max > 0)
        say(words, size, "%.0f MHz", e->mhz);
    if (e->celsius > 0)
        say(words, size, "%.0f C", e->celsius);
}
