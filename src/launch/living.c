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
    char failed[600] = "";
    for (int i = 0; i < living->hosts.count; i++) {
        const sl_launch_host *host = &living->hosts.host[i];
        size_t used = strlen(failed);
        if (host->why[0])
            snprintf(failed + used, sizeof failed - used, "%s%s (%s)", used ? ", " : "", host->name,
                     host->why);
    }
    return sl_error(SL_ENONE,
                    "%d ranks need as many slots, but %d are left: these hosts failed their test: %s",
                    living->config->ranks, sl_roster_slots(&living->hosts), failed);
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
    for (int i = 0; i < living->hosts.count; i++)
        if (living->hosts.host[i].why[0] && !living->hosts.host[i].slow[0])
            say_failed(living, &living->hosts.host[i], iteration);
    if (sl_roster_slots(&living->hosts) < config->ranks && has_left_some(living)) {
        SL_TRY(sl_launch_hosts_test(&living->hosts, SL_LAUNCH_LEFT_ONES, config->worker[0], living->folder,
                                    signals, patience, signal));
        if (*signal)
            return SL_OK;
        take_back(living, iteration);
    }
    if (sl_roster_slots(&living->hosts) < config->ranks)
        return too_few(living);
    return choose(living);
}

/* ---- from attempt to attempt ---- */

sl_status sl_living_open(sl_living *living, const sl_launch_config *config, const sl_launch_folder *folder,
                         sl_time started) {
    *living = (sl_living){.config = config, .folder = folder, .started = started, .hosts = sl_roster_empty()};
    if (!config->hosts)
        return SL_OK;
    SL_TRY(sl_launch_hosts_read(config->hosts, &living->hosts));
    if (sl_roster_slots(&living->hosts) < config->ranks)
        return sl_error(SL_EINVAL, "the hosts have %d slots, but the run has %d ranks",
                        sl_roster_slots(&living->hosts), config->ranks);
    gethostname(living->hosts.local, sizeof living->hosts.local - 1);
    return choose(living);
}

void sl_living_close(sl_living *living) {
    sl_roster_free(&living->hosts);
    sl_free(living->text);
    living->text = NULL;
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
    return living->config->hosts ? choose(living) : SL_OK;
}

void sl_living_begin(sl_living *living) {
    if (!living->config->hosts)
        return;
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

int sl_living_left(sl_living *living) {
    sl_roster said;
    int left = 0;
    if (!living->config->hosts)
        return 0;
    living->hosts.move = sl_roster_empty().move;
    if (sl_roster_read(living->folder->path, &said) == SL_OK) {
        living->hosts.last = said.last;
        left = carry_out(living, &said);
    }
    if (left) {
        living->hosts.move = said.move;
        living->hosts.move.ended = sl_roster_now();
        take_back(living, said.move.iteration);
        left = choose(living) == SL_OK;
    }
    sl_roster_free(&said);
    return left;
}

void sl_living_forget(sl_living *living) {
    if (living->config->hosts && !living->found)
        sl_roster_remove(living->folder->path);
}
