#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <stdio.h>

struct sl_references {
    sl_call_profile *healthy;
    sl_time healthy_until;  /* end of its window */
    sl_call_profile *slow;  /* the last one compared with the healthy one; NULL: none */
    sl_call_profile *usual; /* replaces a missing reference for onsets after usual_until: its iterations may
                               have been slow already */
    sl_time usual_until, onset;
    sl_call_profile *former; /* healthy until iterations changed: it still shows how long ranks compute */
    int usual_is_now;        /* it is of this slow phase */
    int doubtful;            /* the last profile was compared with `usual` */
    double taken[SL_STATUS_SUSPECTS];
    double *lost, *starved, *stopped; /* [ranks of the job], in one allocation */
    int transfers;                    /* as of sl_call_profile_weigh */
};

sl_status sl_references_open(sl_control_core *c) {
    return sl_alloc(&c->references, 1, sizeof *c->references);
}

static void forget(struct sl_references *r) {
    sl_call_profile_close(r->healthy);
    sl_call_profile_close(r->usual);
    sl_call_profile_close(r->slow);
    sl_call_profile_close(r->former);
    r->healthy = r->usual = r->slow = r->former = NULL;
}

void sl_references_close(sl_control_core *c) {
    if (!c->references)
        return;
    forget(c->references);
    SL_FREE(c->references->lost, c->references);
}

void sl_references_drop(sl_control_core *c) {
    struct sl_references *r = c->references;
    sl_call_profile *former = r->healthy ? r->healthy : r->former;
    if (r->healthy)
        r->healthy = NULL;
    else
        r->former = NULL;
    forget(r);
    r->former = former;
}

/* The suspects of `now`; writes why there are none into reason[size]. */
static int find_suspects(sl_control_core *c, const sl_call_profile *now, const sl_call_profile *before,
                         char *reason, size_t size) {
    size_t count = 0;
    int64_t error = sl_nodes_clock_error(&c->nodes);
    if (!now)
        return 0;
    sl_status status = sl_call_profile_compare(now, before, error, c->view.suspect, SL_STATUS_SUSPECTS,
                                               &count, reason, size);
    if (status == SL_ENOMEM)
        c->failed = status;
    else if (status != SL_OK) /* the reference is of another shape: without it then */
        status = sl_call_profile_compare(now, NULL, error, c->view.suspect, SL_STATUS_SUSPECTS, &count,
                                         reason, size);
    return status == SL_OK ? (int)count : 0;
}

static int are_devices(const sl_suspect *suspect, int count) {
    for (int i = 0; i < count; i++)
        if (suspect[i].component != SL_COMPONENT_DEVICE)
            return 0;
    return count > 0;
}

/* The profile of iterations that were of another shape, if it shows that ranks compute longer (of transfers,
 * and of how long an iteration takes, it says nothing); NULL. */
static const sl_call_profile *former_that_shows(sl_control_core *c, const sl_call_profile *now) {
    const sl_call_profile *former = c->references->former;
    char reason[256];
    int repeats = 0;
    if (!now || !former)
        return NULL;
    if (sl_call_profile_repeats(now, former, &repeats) != SL_OK)
        c->failed = SL_ENOMEM;
    int count = repeats ? find_suspects(c, now, former, reason, sizeof reason) : 0;
    return are_devices(c->view.suspect, count) ? former : NULL;
}

void sl_references_keep(sl_control_core *c) {
    char seen[128];
    sl_profiled got = sl_profiling_take(c);
    if (former_that_shows(c, got.profile)) {
        snprintf(seen, sizeof seen, "%zu calls of %d iterations", got.calls, got.iterations);
        sl_control_report(c, SL_EVENT_PROFILED, seen, "not kept as the healthy reference",
                          "ranks compute longer than before iterations changed");
        sl_call_profile_close(got.profile);
        sl_levels_slow(c);
        return;
    }
    forget(c->references);
    c->references->healthy = got.profile;
    c->references->healthy_until = got.end;
    snprintf(seen, sizeof seen, "%zu calls of %d iterations on %d ranks", got.calls, got.iterations,
             got.complete);
    sl_control_report_fact(c, SL_EVENT_PROFILED, seen, "kept as the healthy reference", NULL, "reference",
                           json_true());
}

/* A further slowdown may still be compared with a reference that was slow already. */
int sl_references_onset(sl_control_core *c, sl_time start) {
    struct sl_references *r = c->references;
    r->onset = start;
    if (!r->healthy || start >= r->healthy_until)
        return 0;
    sl_call_profile_close(r->usual);
    r->usual = r->healthy;
    r->usual_until = r->healthy_until;
    r->usual_is_now = 0;
    r->healthy = NULL;
    return 1;
}

void sl_references_clear(sl_control_core *c) {
    c->references->usual_is_now = 0;
}

int sl_references_conclude(sl_control_core *c, int found) {
    struct sl_references *r = c->references;
    if (!r->usual || !r->usual_is_now)
        return 0;
    if (!found)
        return 1;
    sl_call_profile_close(r->usual);
    r->usual = NULL;
    return 0;
}

sl_profile_comparison sl_references_last(const sl_control_core *c) {
    const struct sl_references *r = c->references;
    return (sl_profile_comparison){.healthy = r->healthy,
                                   .slow = r->slow,
                                   .taken = r->taken,
                                   .lost = r->lost,
                                   .starved = r->lost ? r->starved : NULL,
                                   .stopped = r->lost ? r->stopped : NULL,
                                   .transfers = r->lost ? r->transfers : -1,
                                   .doubtful = r->doubtful};
}

/* ---- comparing ---- */

static const sl_call_profile *to_compare_with(const struct sl_references *r) {
    if (r->healthy)
        return r->healthy;
    return r->onset >= r->usual_until ? r->usual : NULL;
}

/* Slow iterations in whose calls nothing is slow replace a missing reference. */
static void keep_or_close(struct sl_references *r, sl_profiled now, int nothing) {
    if (now.profile && r->healthy) {
        sl_call_profile_close(r->slow);
        r->slow = now.profile;
        return;
    }
    if (!now.profile || !nothing || to_compare_with(r)) {
        sl_call_profile_close(now.profile);
        return;
    }
    sl_call_profile_close(r->usual);
    r->usual = now.profile;
    r->usual_until = now.end;
    r->usual_is_now = 1;
}

static void note_lost(sl_control_core *c, const sl_call_profile *now, const sl_call_profile *before) {
    struct sl_references *r = c->references;
    int world = sl_nodes_world(&c->nodes);
    sl_free(r->lost);
    r->lost = NULL;
    if (!now || world <= 0 || now->ranks != world)
        return;
    if (before && before->ranks != world)
        before = NULL;
    if (sl_alloc(&r->lost, 3 * (size_t)world, sizeof *r->lost) != SL_OK ||
        sl_call_profile_weigh(now, before, sl_nodes_clock_error(&c->nodes), r->lost, &r->transfers) !=
            SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    r->starved = r->lost + world;
    r->stopped = r->starved + world;
    for (int rank = 0; rank < world; rank++) {
        r->starved[rank] = before ? sl_call_profile_starved(now, before, rank) : -1;
        r->stopped[rank] = before ? sl_call_profile_stopped(now, before, rank) : -1;
    }
}

/* Nothing but the former profile had shown that iterations are slow, and now it does not. */
static void withdraw(sl_control_core *c) {
    struct sl_references *r = c->references;
    sl_call_profile_close(r->former);
    r->former = NULL;
    sl_levels_not_slow(c);
}

void sl_references_compare(sl_control_core *c) {
    struct sl_references *r = c->references;
    sl_profiled now = sl_profiling_take(c);
    const sl_call_profile *before = to_compare_with(r);
    if (!before)
        before = former_that_shows(c, now.profile);
    if (!before && c->view.healthy_ms <= 0) {
        sl_call_profile_close(now.profile);
        withdraw(c);
        return;
    }
    r->doubtful = before && before != r->healthy;
    const char *why = !r->doubtful          ? NULL
                      : before == r->former ? "compared with iterations of another shape"
                                            : "compared with iterations that may have been slow already";
    char reason[256] = "", seen[256];
    if (now.profile && before == r->healthy)
        now.profile->missing = sl_control_missing(c);
    int count = find_suspects(c, now.profile, before, reason, sizeof reason);
    note_lost(c, now.profile, before);
    for (int i = 0; i < count; i++)
        r->taken[i] = sl_call_profile_taken(now.profile, before, &c->view.suspect[i]);
    keep_or_close(r, now, count == 0);
    if (count == 0 && c->given.hold) { /* something is slow: tests may see what the calls do not show */
        r->taken[0] = -1;
        c->view.suspect[0] =
            (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
        snprintf(c->view.suspect[0].why, sizeof c->view.suspect[0].why, "%s",
                 reason[0] ? reason : "the profile shows no suspect");
        count = 1;
    }
    c->view.suspects = count;
    if (count > 0)
        sl_suspects_text(c->view.suspect, count, seen, sizeof seen);
    else
        snprintf(seen, sizeof seen, "no suspect among %d ranks", now.ranks);
    sl_control_report(c, SL_EVENT_PROFILED, seen,
                      count > 0 && c->given.hold ? "trying to hold the job" : "no hold",
                      count > 0 ? why : reason);
    if (!c->given.hold)
        sl_control_because(c, "holds are disabled");
    sl_control_note(c, SL_IN_SUSPECTS, count);
}
