#include "launch/living.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const sl_time patience = 30 * SL_SECOND; /* for the test of a host */

/* ---- saying it ---- */

void sl_living_report(const sl_living *living, const sl_event *event) {
    if (sl_launch_folder_event(living->folder, event) != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
}

static void report_host(const sl_living *living, const sl_launch_host *host, int iteration, const char *seen,
                        int used, const char *why) {
    sl_event event = sl_event_of(SL_EVENT_HOST, sl_now() - living->started, iteration);
    sl_event_say(&event, seen, used ? "used again" : "left out", why);
    sl_event_fact(&event, "host", json_string(host->name));
    sl_event_fact(&event, "used", json_boolean(used));
    sl_living_report(living, &event);
}

static void say_failed(const sl_living *living, const sl_launch_host *host, int iteration) {
    char seen[256];
    snprintf(seen, sizeof seen, "host %.200s failed its test", host->name);
    sl_terminal_clear_line(stderr); /* of a progress line */
    fprintf(stderr, "slackline: host %s failed its test and is left out: %s\n", host->name, host->why);
    report_host(living, host, iteration, seen, 0, host->why);
}

static void say_left(const sl_living *living, const sl_launch_host *host, int iteration) {
    char seen[256];
    snprintf(seen, sizeof seen, "the run has left host %.200s", host->name);
    sl_terminal_clear_line(stderr);
    fprintf(stderr, "slackline: host %s is left out from iteration %d on: %s\n", host->name, iteration,
            host->slow);
    report_host(living, host, iteration, seen, 0, host->slow);
}

static void say_back(const sl_living *living, const sl_launch_host *host, const char *was, int without,
                     int iteration) {
    char seen[256], why[256];
    snprintf(seen, sizeof seen, "the run had left host %.200s", host->name);
    snprintf(why, sizeof why, "%d ranks need as many slots, and %d are left without it",
             living->config->ranks, without);
    sl_terminal_clear_line(stderr);
    fprintf(stderr, "slackline: host %s is used again: %s (it was left out: %s)\n", host->name, why, was);
    report_host(living, host, iteration, seen, 1, why);
}

static void say_regained(const sl_living *living, const sl_launch_host *host, int iteration) {
    char seen[256];
    snprintf(seen, sizeof seen, "host %.200s passes its test", host->name);
    sl_terminal_clear_line(stderr);
    fprintf(stderr, "slackline: host %s passes its test and is used again\n", host->name);
    report_host(living, host, iteration, seen, 1, "it had failed an earlier one");
}

/* The lost hosts, with their reasons. */
static void list_lost(const sl_living *living, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < living->hosts.count && used + 1 < size; i++) {
        const sl_launch_host *host = &living->hosts.host[i];
        if (host->why[0])
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", host->name,
                                     host->why);
    }
}

static void say_layout(const sl_living *living, int before, int iteration, const char *why) {
    const sl_launch_layout *layout = &living->layout;
    const int slots = sl_roster_slots(&living->hosts), grows = layout->ranks > before;
    sl_event event = sl_event_of(SL_EVENT_LAYOUT, sl_now() - living->started, iteration);
    char seen[96];
    snprintf(seen, sizeof seen, "%d slots %s", slots, grows ? "are available again" : "are left");
    sl_terminal_clear_line(stderr);
    fprintf(stderr, "slackline: %s: the run continues with %s\n", seen, layout->words);
    sl_event_say(&event, seen, layout->words, why);
    sl_event_fact(&event, "layout", json_string(layout->argument));
    sl_event_fact(&event, "ranks", json_integer(layout->ranks));
    sl_event_fact(&event, "ranks_before", json_integer(before));
    sl_event_fact(&event, "slots", json_integer(slots));
    sl_living_report(living, &event);
}

/* ---- the layout ---- */

static sl_status fit(const sl_living *living, int slots, sl_launch_layout *layout) {
    const sl_launch_config *config = living->config;
    *layout = (sl_launch_layout){.ranks = config->ranks};
    return config->fit ? config->fit(config->fit_context, slots, layout) : SL_OK;
}

/* That for the slots that are left. */
static sl_status settle(sl_living *living) {
    sl_launch_layout layout;
    SL_TRY(fit(living, sl_roster_slots(&living->hosts), &layout));
    living->layout = layout;
    if (living->config->argument)
        memcpy(living->config->argument, layout.argument, sizeof layout.argument);
    return SL_OK;
}

int sl_living_is_reduced(const sl_living *living) {
    return living->layout.ranks < living->config->ranks;
}

int sl_living_would_grow(const sl_living *living, const char *back) {
    sl_launch_layout layout;
    int slots = sl_roster_slots(&living->hosts);
    for (int i = 0; i < living->hosts.count; i++)
        slots += living->lost[i] && back[i] ? living->hosts.host[i].slots : 0;
    return fit(living, slots, &layout) == SL_OK && layout.ranks > living->layout.ranks;
}

/* Announces a change of layout, whose time the next attempt measures. */
static sl_status resize(sl_living *living, int iteration, const sl_roster_move *move, const char *why) {
    const int before = living->layout.ranks;
    SL_TRY(settle(living));
    if (living->layout.ranks == before)
        return SL_OK;
    living->hosts.move = *move;
    living->hosts.move.grow = 0;
    living->hosts.move.iteration = iteration;
    sl_text_fit(living->hosts.move.why, sizeof living->hosts.move.why, why);
    memcpy(living->hosts.move.layout, living->layout.words, sizeof living->hosts.move.layout);
    say_layout(living, before, iteration, why);
    return SL_OK;
}

/* ---- choosing ---- */

static sl_status choose(sl_living *living) {
    sl_free(living->text);
    living->text = NULL;
    return sl_launch_hosts_text(&living->hosts, &living->text);
}

/* Takes back as many of the left hosts as needed, if that is enough. */
static void take_back(sl_living *living, int iteration) {
    sl_launch_hosts *hosts = &living->hosts;
    int slots = sl_roster_slots(hosts), most = slots;
    for (int i = 0; i < hosts->count; i++)
        most += hosts->host[i].slow[0] && !hosts->host[i].why[0] ? hosts->host[i].slots : 0;
    for (int i = 0; i < hosts->count && slots < living->config->ranks && most >= living->config->ranks; i++) {
        sl_launch_host *host = &hosts->host[i];
        char was[sizeof host->slow];
        if (!host->slow[0] || host->why[0])
            continue;
        memcpy(was, host->slow, sizeof was);
        host->slow[0] = 0;
        say_back(living, host, was, slots, iteration);
        slots += host->slots;
    }
}

static sl_status too_few(const sl_living *living) {
    char failed[600];
    list_lost(living, failed, sizeof failed);
    return sl_error(SL_ENONE,
                    "%d ranks need as many slots, but %d are left: these hosts failed their test: %s",
                    living->config->ranks, sl_roster_slots(&living->hosts), failed);
}

/* `smallest`: the reason why no layout fits. */
static sl_status too_few_for_any(const sl_living *living, const char *smallest) {
    char failed[600];
    list_lost(living, failed, sizeof failed);
    return sl_error(SL_ENONE, "%s, but %d are left: these hosts failed their test: %s", smallest,
                    sl_roster_slots(&living->hosts), failed);
}

/* After all hosts were tested. An elastic run names a host when it is lost and when it is back, other runs
 * name it after each failure. */
static void compare_with_before(sl_living *living, int iteration) {
    const int elastic = living->config->fit != NULL;
    for (int i = 0; i < living->hosts.count; i++) {
        const sl_launch_host *host = &living->hosts.host[i];
        if (host->slow[0])
            continue;
        if (host->why[0] && !(elastic && living->lost[i]))
            say_failed(living, host, iteration);
        if (!host->why[0] && elastic && living->lost[i])
            say_regained(living, host, iteration);
        living->lost[i] = host->why[0] != 0;
    }
}

static sl_status adjust(sl_living *living, int iteration) {
    const sl_roster_move move = {.began = living->ended, .ordered = living->ended, .ended = living->ended};
    char why[600], smallest[256];
    list_lost(living, why, sizeof why);
    if (resize(living, iteration, &move, why[0] ? why : "the lost hosts are back") == SL_OK)
        return SL_OK;
    snprintf(smallest, sizeof smallest, "%s", sl_error_text());
    return too_few_for_any(living, smallest);
}

static int has_left_some(const sl_living *living) {
    for (int i = 0; i < living->hosts.count; i++)
        if (living->hosts.host[i].slow[0])
            return 1;
    return 0;
}

sl_status sl_living_test(sl_living *living, const sl_launch_signals *signals, int iteration, int *signal) {
    const sl_launch_config *config = living->config;
    *signal = 0;
    if (!config->hosts)
        return SL_OK;
    SL_TRY(sl_launch_hosts_test(&living->hosts, SL_LAUNCH_NOT_LEFT, config->worker[0], living->folder,
                                signals, patience, signal));
    if (*signal)
        return SL_OK;
    compare_with_before(living, iteration);
    if (sl_roster_slots(&living->hosts) < config->ranks && has_left_some(living)) {
        SL_TRY(sl_launch_hosts_test(&living->hosts, SL_LAUNCH_LEFT_ONES, config->worker[0], living->folder,
                                    signals, patience, signal));
        if (*signal)
            return SL_OK;
        take_back(living, iteration);
    }
    if (sl_roster_slots(&living->hosts) < config->ranks && !config->fit)
        return too_few(living);
    SL_TRY(adjust(living, iteration));
    return choose(living);
}

/* ---- from attempt to attempt ---- */

sl_status sl_living_open(sl_living *living, const sl_launch_config *config, const sl_launch_folder *folder,
                         sl_time started) {
    *living = (sl_living){.config = config,
                          .folder = folder,
                          .started = started,
                          .hosts = sl_roster_empty(),
                          .layout = {.ranks = config->ranks}};
    if (!config->hosts)
        return SL_OK;
    SL_TRY(sl_launch_hosts_read(config->hosts, &living->hosts));
    SL_TRY(sl_alloc(&living->lost, (size_t)living->hosts.count, 1));
    SL_TRY(sl_alloc(&living->back, (size_t)living->hosts.count, 1));
    if (sl_roster_slots(&living->hosts) < config->ranks && !config->fit)
        return sl_error(SL_EINVAL, "the hosts have %d slots, but the run has %d ranks",
                        sl_roster_slots(&living->hosts), config->ranks);
    gethostname(living->hosts.local, sizeof living->hosts.local - 1);
    SL_TRY(settle(living));
    return choose(living);
}

void sl_living_close(sl_living *living) {
    sl_roster_free(&living->hosts);
    SL_FREE(living->text, living->lost, living->back);
    living->text = living->lost = living->back = NULL;
}

/* The given host of that name; NULL: it is no longer given. */
static sl_launch_host *find(sl_living *living, const char *name) {
    for (int i = 0; i < living->hosts.count; i++)
        if (strcmp(living->hosts.host[i].name, name) == 0)
            return &living->hosts.host[i];
    return NULL;
}

/* Also hosts whose leaving was ordered by an attempt whose end no supervisor saw. */
static void inherit(sl_living *living, const sl_roster *before) {
    int left = 0;
    for (int i = 0; i < before->count; i++) {
        const sl_launch_host *was = &before->host[i];
        sl_launch_host *host = find(living, was->name);
        if (!host || (!was->slow[0] && !was->leave))
            continue;
        memcpy(host->slow, was->leave ? before->move.why : was->slow, sizeof host->slow);
        fprintf(stderr, "slackline: host %s stays left out: %s\n", host->name, host->slow);
        left++;
    }
    living->hosts.last = before->last;
    if (left)
        take_back(living, before->move.iteration > 0 ? before->move.iteration : 0);
}

sl_status sl_living_continue(sl_living *living) {
    sl_roster before;
    sl_status status = sl_roster_read(living->folder->path, &before);
    living->found = status != SL_ENONE;
    if (!living->config->hosts || !living->config->resumed) {
        sl_roster_remove(living->folder->path);
    } else if (status == SL_OK) {
        inherit(living, &before);
    } else if (status != SL_ENONE) {
        fprintf(stderr, "slackline: warning: the excluded hosts are unknown: %s\n", sl_error_text());
    }
    sl_roster_free(&before);
    if (!living->config->hosts)
        return SL_OK;
    SL_TRY(settle(living));
    return choose(living);
}

void sl_living_begin(sl_living *living) {
    if (!living->config->hosts)
        return;
    memset(living->back, 0, (size_t)living->hosts.count);
    sl_roster_cancel_growth(living->folder->path);
    living->hosts.started = sl_roster_now();
    if (sl_roster_write(living->folder->path, &living->hosts) == SL_OK)
        return;
    fprintf(stderr, "slackline: warning: %s; no host can be left in this attempt\n", sl_error_text());
    sl_roster_remove(living->folder->path);
}

/* Applies the ranks' orders about their hosts. */
static int carry_out(sl_living *living, const sl_roster *said) {
    int left = 0;
    for (int i = 0; i < said->count; i++) {
        sl_launch_host *host = said->host[i].leave ? find(living, said->host[i].name) : NULL;
        if (!host || host->slow[0])
            continue;
        sl_text_fit(host->slow, sizeof host->slow, said->move.why[0] ? said->move.why : "it is slow");
        say_left(living, host, said->move.iteration);
        left++;
    }
    return left;
}

static void regain(sl_living *living, int iteration, const sl_roster_move *move) {
    char why[256] = "";
    size_t used = 0;
    for (int i = 0; i < living->hosts.count; i++) {
        sl_launch_host *host = &living->hosts.host[i];
        if (!living->lost[i] || !living->back[i])
            continue;
        living->lost[i] = host->why[0] = 0;
        if (used + 1 < sizeof why)
            used += (size_t)snprintf(why + used, sizeof why - used, "%s%s",
                                     used ? ", " : "these hosts are back: ", host->name);
        say_regained(living, host, iteration);
    }
    if (resize(living, iteration, move, why) != SL_OK || choose(living) != SL_OK)
        fprintf(stderr, "slackline: warning: %s\n", sl_error_text());
}

void sl_living_regain(sl_living *living, int iteration) {
    const sl_roster_move move = {.began = living->ended, .ordered = living->ended, .ended = living->ended};
    regain(living, iteration, &move);
}

int sl_living_left(sl_living *living) {
    sl_roster said;
    int left = 0, grown = 0;
    if (!living->config->hosts)
        return 0;
    living->ended = sl_roster_now();
    living->hosts.move = sl_roster_empty().move;
    sl_roster_cancel_growth(living->folder->path);
    if (sl_roster_read(living->folder->path, &said) == SL_OK) {
        living->hosts.last = said.last;
        left = carry_out(living, &said);
        grown = said.move.grow;
    }
    if (left) {
        living->hosts.move = said.move;
        living->hosts.move.ended = sl_roster_now();
        take_back(living, said.move.iteration);
        left = settle(living) == SL_OK && choose(living) == SL_OK;
    } else if (grown) {
        said.move.ended = living->ended;
        regain(living, said.move.iteration, &said.move);
    }
    sl_roster_free(&said);
    return left || grown;
}

void sl_living_forget(sl_living *living) {
    if (living->config->hosts && !living->found)
        sl_roster_remove(living->folder->path);
}
