#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define AHEAD (100 * SL_MS) /* of a profile's window: every agent reads its orders until then */
#define SHORTEST                                                                                             \
    SL_SECOND /* window of a profile: a quota stops a rank every 100 ms, and one pause is not evidence */
#define ALL_TESTED 32 /* in jobs of at most this many ranks, all are tested */
#define TESTS_END 700 /* ms before the hold's deadline */
#define STRETCH_MAX 9
#define REST 3 /* times the length of a hold until the next */
#define LONGEST_WINDOW (600 * SL_SECOND)

void sl_controller_note(sl_controller *c, sl_phase_input input, int64_t number) {
    if (c->inputs < SL_INPUTS) {
        c->input[c->inputs].input = input;
        c->input[c->inputs++].number = number;
    }
}

int sl_controller_order(sl_controller *c, const char *kind, int64_t round, json_t *order) {
    if (!order) {
        c->failed = SL_ENOMEM;
        return 0;
    }
    json_object_set_new(order, "kind", json_string(kind));
    json_object_set_new(order, "round", json_integer((json_int_t)round));
    sl_status status = sl_json_append(c->config.store, SL_LOG_ORDERS, order, SL_KEEP_ORDERS);
    if (status == SL_ENOMEM)
        c->failed = status;
    return status == SL_OK;
}

static void because(sl_controller *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void because(sl_controller *c, const char *format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(c->reason, sizeof c->reason, format, more);
    va_end(more);
}

/* ---- interruptions ---- */

static void interrupt(sl_controller *c) {
    c->interruption[c->interruptions++ % SL_INTERRUPTIONS] =
        (sl_interruption){.begin = c->now, .end = SL_TIME_NEVER};
}

static void interruption_over(sl_controller *c) {
    for (int i = 0; i < SL_INTERRUPTIONS && i < c->interruptions; i++)
        if (c->interruption[i].end == SL_TIME_NEVER)
            c->interruption[i].end = c->now;
}

/* ---- profiles ---- */

static void cancel_profile(sl_controller *c) {
    if (c->profile.collection.round)
        sl_controller_order(c, "cancel", c->profile.collection.round, json_object());
    sl_collection_end(&c->profile.collection);
}

/* All of K iterations are within a window of K + 1. */
static void ask_for_profile(sl_controller *c) {
    sl_time level = sl_from_ms(c->view.level_ms > 0.001 ? c->view.level_ms : 0.001);
    int64_t iterations = SL_PROFILE_ITERATIONS, most = SL_PROFILE_CALLS / (c->view.period + 1);
    if (level * iterations < SHORTEST)
        iterations = SHORTEST / level;
    if (iterations > most)
        iterations = most;
    if (iterations > LONGEST_WINDOW / level)
        iterations = LONGEST_WINDOW / level;
    iterations = iterations < 1 ? 1 : iterations;
    c->profile.iterations = (int)iterations;
    c->profile.from = c->now + AHEAD;
    c->profile.to = c->profile.from + (iterations + 1) * level * c->profile.stretch;
    c->phases.until = c->profile.to + 8 * SL_SECOND;
    int world = sl_nodes_world(&c->nodes);
    if (world <= 0 || sl_collection_begin(&c->profile.collection, ++c->round, world) != SL_OK) {
        c->failed = world <= 0 ? c->failed : SL_ENOMEM;
        return;
    }
    json_t *order = json_pack("{s:o,s:I}", "until", sl_nodes_times(&c->nodes, c->profile.to), "length",
                              (json_int_t)(c->profile.to - c->profile.from));
    sl_controller_order(c, "profile", c->round, order);
}

int sl_controller_profile_again(sl_controller *c) {
    const sl_collection *got = &c->profile.collection;
    int64_t expected = (int64_t)c->view.period * c->profile.iterations * got->tolds;
    if ((int64_t)got->calls >= expected / 3 || c->profile.stretch >= STRETCH_MAX)
        return 0;
    c->profile.stretch *= 3;
    ask_for_profile(c);
    return 1;
}

static sl_call_profile *make_profile(sl_controller *c) {
    sl_call_profile *made = NULL;
    sl_collection *got = &c->profile.collection;
    sl_collection_settle(got);
    sl_status status = got->ranks > 0 ? sl_call_profile_make(got->call, got->calls, got->ranks,
                                                             sl_nodes_clock_error(&c->nodes), &made)
                                      : SL_OK;
    if (status != SL_OK)
        c->failed = status == SL_ENOMEM ? status : c->failed;
    for (int r = 0; made && r < made->ranks; r++)
        made->rank[r].starved = got->starved[r];
    return made;
}

void sl_controller_drop_reference(sl_controller *c) {
    sl_call_profile_close(c->reference);
    sl_call_profile_close(c->usual);
    sl_call_profile_close(c->slow);
    c->reference = c->usual = c->slow = NULL;
}

static void keep_reference(sl_controller *c) {
    char seen[128];
    snprintf(seen, sizeof seen, "%zu calls of %d iterations on %d ranks", c->profile.collection.calls,
             c->profile.iterations, c->profile.collection.tolds);
    sl_controller_drop_reference(c);
    c->reference = make_profile(c);
    c->reference_until = c->profile.to;
    sl_controller_tell(c, SL_EVENT_PROFILED, seen, "kept as the healthy reference", NULL);
    sl_collection_end(&c->profile.collection);
}

static const sl_call_profile *to_compare_with(const sl_controller *c) {
    if (c->reference)
        return c->reference;
    return c->onset_at >= c->usual_until ? c->usual : NULL;
}

/* Slow iterations in whose calls nothing is slow replace a missing reference. */
static void keep_or_close(sl_controller *c, sl_call_profile *now, int nothing) {
    if (now && c->reference) {
        sl_call_profile_close(c->slow);
        c->slow = now;
        return;
    }
    if (!now || !nothing || to_compare_with(c)) {
        sl_call_profile_close(now);
        return;
    }
    sl_call_profile_close(c->usual);
    c->usual = now;
    c->usual_until = c->profile.to;
    c->usual_is_now = 1;
}

static void note_starved(sl_controller *c, const sl_call_profile *now, const sl_call_profile *before) {
    int world = sl_nodes_world(&c->nodes);
    sl_free(c->starved);
    c->starved = NULL;
    if (!now || world <= 0)
        return;
    if (sl_alloc(&c->starved, (size_t)world, sizeof *c->starved) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    for (int r = 0; r < world; r++)
        c->starved[r] = sl_call_profile_starved(now, before, r);
}

static void compare(sl_controller *c) {
    size_t count = 0;
    sl_call_profile *now = make_profile(c);
    const sl_call_profile *before = to_compare_with(c);
    const char *why =
        before && before == c->usual ? "compared with iterations that may have been slow already" : NULL;
    c->profile_reason[0] = 0;
    c->view.suspects = 0;
    if (now) {
        sl_status status =
            sl_call_profile_compare(now, before, sl_nodes_clock_error(&c->nodes), c->view.suspect,
                                    SL_STATUS_SUSPECTS, &count, c->profile_reason, sizeof c->profile_reason);
        if (status == SL_ENOMEM)
            c->failed = status;
        else if (status != SL_OK) /* the reference is of another shape: without it then */
            status = sl_call_profile_compare(now, NULL, sl_nodes_clock_error(&c->nodes), c->view.suspect,
                                             SL_STATUS_SUSPECTS, &count, c->profile_reason,
                                             sizeof c->profile_reason);
        if (status != SL_OK)
            count = 0;
    }
    note_starved(c, now, before);
    for (size_t i = 0; i < count; i++)
        c->taken[i] = sl_call_profile_taken(now, before, &c->view.suspect[i]);
    keep_or_close(c, now, count == 0);
    if (count == 0 && c->config.hold) { /* something is slow: tests may see what the calls do not show */
        c->taken[0] = -1;
        c->view.suspect[0] =
            (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
        snprintf(c->view.suspect[0].why, sizeof c->view.suspect[0].why, "%s",
                 c->profile_reason[0] ? c->profile_reason : "the profile shows no suspect");
        count = 1;
    }
    c->view.suspects = (int)count;
    char seen[256], decided[128];
    if (count > 0)
        sl_suspects_text(c->view.suspect, (int)count, seen, sizeof seen);
    else
        snprintf(seen, sizeof seen, "no suspect among %d ranks", c->profile.collection.ranks);
    snprintf(decided, sizeof decided, "%s", count > 0 && c->config.hold ? "a hold is tried" : "no hold");
    sl_controller_tell(c, SL_EVENT_PROFILED, seen, decided, count > 0 ? why : c->profile_reason);
    if (!c->config.hold)
        because(c, "holds are disabled");
    else if (count == 0)
        because(c, "%s", c->profile_reason[0] ? c->profile_reason : "the profile shows no suspect");
    sl_collection_end(&c->profile.collection);
    sl_controller_note(c, SL_IN_SUSPECTS, (int64_t)count);
}

/* ---- holds ---- */

/* Why the job cannot be asked to hold; NULL: it can. */
static const char *not_to_hold(const sl_controller *c) {
    if (!sl_nodes_whole(&c->nodes))
        return "not every rank has exactly one watched process";
    if (!sl_nodes_timed(&c->nodes))
        return "the clock of a node is unknown";
    return NULL;
}

static void hold(sl_controller *c) {
    const char *why = not_to_hold(c);
    sl_time again = !why && c->now < c->hold.rested ? c->hold.rested : 0;
    int world = sl_nodes_world(&c->nodes), period = c->view.period;
    sl_cut_limits limits = {.calls = 6 * (uint64_t)(period > 0 ? period : 0)}; /* a call may count on two
                                                                                  channels */
    c->view.holds++;
    c->hold.round = 0;
    c->hold.closed = 0;
    c->hold.begin = c->now;
    c->hold.until = c->now + c->deadline;
    if (again)
        because(c, "the job was held a short while ago: once more in %.1f s, if it is still slow",
                sl_to_ms(again - c->now) / 1000);
    else if (why)
        because(c, "%s", why);
    if (again || why) {
        sl_controller_note(c, SL_IN_OPEN, again);
        return;
    }
    if (sl_closing_begin(&c->hold.closing, ++c->round, world, limits) != SL_OK) {
        c->failed = SL_ENOMEM;
        return;
    }
    c->hold.round = c->round;
    interrupt(c);
    json_t *order = json_pack("{s:o}", "until", sl_nodes_times(&c->nodes, c->hold.until));
    if (!sl_controller_order(c, "hold", c->round, order)) {
        because(c, "the store is lost");
        sl_controller_note(c, SL_IN_OPEN, 0);
    }
}

static void release(sl_controller *c) {
    char seen[96], why[256];
    int closed = c->hold.closed != 0;
    sl_closing_end(&c->hold.closing);
    if (!c->hold.round) {
        sl_controller_tell(c, SL_EVENT_HELD, "the job was not held", NULL, c->reason);
        return;
    }
    sl_controller_order(c, "release", c->hold.round, json_object());
    double held = sl_to_ms(c->now - c->hold.begin);
    c->view.held_ms += held;
    c->hold.rested = c->now + REST * (c->now - c->hold.begin);
    c->hold.round = 0;
    snprintf(seen, sizeof seen, "held for %.1f ms", held);
    if (closed && c->validation.round && !c->validation.result) {
        c->validation.beside = 1;
        snprintf(why, sizeof why, "the validation continues while the program runs");
    } else {
        snprintf(why, sizeof why, "%s", closed ? "" : c->reason);
        interruption_over(c);
    }
    if (!closed)
        sl_controller_tell(c, SL_EVENT_HELD, "no cut closed", "released", c->reason);
    sl_controller_tell(c, SL_EVENT_RELEASED, seen, NULL, why);
}

/* ---- validation ---- */

/* Whether a rank is concerned by a suspect. */
static int concerned(const sl_controller *c, int rank) {
    for (int i = 0; i < c->view.suspects; i++) {
        const sl_suspect *s = &c->view.suspect[i];
        if (rank == s->from || rank == s->to || rank == s->rank || s->component == SL_COMPONENT_UNKNOWN ||
            s->component == SL_COMPONENT_GROUP)
            return 1;
        if (s->component == SL_COMPONENT_HOST &&
            sl_nodes_of_rank(&c->nodes, rank, NULL) == sl_nodes_of_rank(&c->nodes, s->rank, NULL))
            return 1;
    }
    return 0;
}

static int devices_concerned(const sl_controller *c) {
    for (int i = 0; i < c->view.suspects; i++)
        if (c->view.suspect[i].component != SL_COMPONENT_LINK)
            return 1;
    return 0;
}

/* Those that are suspect, and others to compare them with. */
static json_t *choose_members(sl_controller *c) {
    json_t *members = json_array();
    int world = sl_nodes_world(&c->nodes), others = 0, gemm = devices_concerned(c);
    for (int rank = 0; members && rank < world; rank++) {
        int pid;
        const sl_job_node *node = sl_nodes_of_rank(&c->nodes, rank, &pid);
        if (!node || !node->validate ||
            (world > ALL_TESTED && !concerned(c, rank) && others++ >= ALL_TESTED / 2))
            continue;
        json_array_append_new(members, json_pack("{s:s,s:i,s:i,s:i}", "node", node->name, "rank", rank, "pid",
                                                 pid, "gemm", gemm));
    }
    return members;
}

/* Adds a link unless it is already in the list, in either direction. */
static void add_link(int from, int to, char *text, size_t size) {
    char there[32], back[32], all[2100];
    size_t used = strlen(text);
    snprintf(there, sizeof there, ",%d-%d,", from, to);
    snprintf(back, sizeof back, ",%d-%d,", to, from);
    snprintf(all, sizeof all, ",%s,", text);
    if (from != to && !strstr(all, there) && !strstr(all, back) && used + sizeof there < size)
        snprintf(text + used, size - used, "%s%d-%d", used ? "," : "", from, to);
}

/* The suspected links and a ring of the members, as "0-1,1-2"; "" without suspected links. */
static void choose_links(const sl_controller *c, const json_t *members, char *text, size_t size) {
    size_t count = json_array_size(members);
    text[0] = 0;
    for (int i = 0; i < c->view.suspects; i++)
        if (c->view.suspect[i].component == SL_COMPONENT_LINK)
            add_link(c->view.suspect[i].from, c->view.suspect[i].to, text, size);
    for (size_t i = 0; text[0] && i < count; i++)
        add_link((int)sl_json_int(json_array_get(members, i), "rank", 0),
                 (int)sl_json_int(json_array_get(members, (i + 1) % count), "rank", 0), text, size);
}

static void validate(sl_controller *c) {
    char key[48], links[2048];
    json_t *members = choose_members(c);
    c->validation.round = 0;
    c->validation.beside = 0;
    c->validation.begin = c->now;
    c->validation.members = (int)json_array_size(members);
    json_decref(c->validation.result);
    c->validation.result = NULL;
    if (c->validation.members == 0) {
        json_decref(members);
        because(c, "no node starts validation processes");
        sl_controller_note(c, SL_IN_VERDICT, 0);
        return;
    }
    c->validation.round = ++c->round;
    c->validation.next = c->now;
    snprintf(key, sizeof key, "validation:%lld", (long long)c->round);
    sl_store_remove(c->config.store, key);
    choose_links(c, members, links, sizeof links);
    int64_t left = (c->hold.until - c->now) / SL_MS - TESTS_END;
    json_t *order = json_pack(
        "{s:s,s:I,s:o,s:o}", "links", links, "deadline_ms", (json_int_t)(left > 500 ? left : 500), "until",
        sl_nodes_times(&c->nodes, c->now + c->phases.limits.validation), "members", members);
    sl_controller_order(c, "validate", c->round, order);
    because(c, "the validation has not ended in time");
}

void sl_controller_end_validation(sl_controller *c) {
    if (c->validation.round)
        sl_controller_order(c, "dismiss", c->validation.round, json_object());
    c->validation.round = 0;
    json_decref(c->validation.result);
    c->validation.result = NULL;
    interruption_over(c);
}

static void clear(sl_controller *c) {
    c->usual_is_now = 0;
    c->view.suspects = c->view.verdicts = 0;
    c->reason[0] = 0;
}

static void act(sl_controller *c, sl_phase_action action) {
    switch (action) {
    case SL_DO_REFERENCE:
        c->profile.stretch = 1;
        ask_for_profile(c);
        break;
    case SL_DO_PROFILE:
        clear(c);
        because(c, "no profile came in time");
        c->profile.stretch = 1;
        ask_for_profile(c);
        break;
    case SL_DO_CANCEL_PROFILE:
        cancel_profile(c);
        break;
    case SL_DO_KEEP_REFERENCE:
        keep_reference(c);
        break;
    case SL_DO_DROP_REFERENCE:
        sl_controller_drop_reference(c);
        break;
    case SL_DO_COMPARE:
        compare(c);
        break;
    case SL_DO_HOLD:
        hold(c);
        break;
    case SL_DO_RELEASE:
        release(c);
        break;
    case SL_DO_VALIDATE:
        validate(c);
        break;
    case SL_DO_CANCEL_VALIDATION:
        sl_controller_end_validation(c);
        break;
    case SL_DO_VERDICT_PROFILE:
        sl_controller_verdict_by_profile(c);
        break;
    case SL_DO_VERDICT:
        sl_controller_verdict_by_validation(c);
        break;
    case SL_DO_CLEAR_VERDICT:
        clear(c);
        break;
    }
}

void sl_controller_act(sl_controller *c, const sl_phase_actions *actions) {
    for (int i = 0; i < actions->count; i++)
        act(c, actions->action[i]);
}
