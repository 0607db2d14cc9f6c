#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

#define ALL_TESTED 32     /* in jobs of at most this many ranks, all are tested */
#define TESTS_END 700     /* ms before the hold's deadline */
#define POLL (50 * SL_MS) /* of the result */

struct sl_validating {
    int64_t round;         /* 0: none */
    int members, released; /* released: the hold ended before the validation */
    sl_time begin, next;
    json_t *result; /* NULL: none yet */
};

sl_status sl_validating_open(sl_control_core *c) {
    return sl_alloc(&c->validating, 1, sizeof *c->validating);
}

void sl_validating_close(sl_control_core *c) {
    if (c->validating)
        json_decref(c->validating->result);
    sl_free(c->validating);
}

int sl_validating_now(const sl_control_core *c) {
    return c->validating->round != 0;
}

const json_t *sl_validating_result(const sl_control_core *c, int *released) {
    if (released)
        *released = c->validating->released;
    return c->validating->result;
}

/* ---- the order ---- */

/* Whether a rank is concerned by a suspect. */
static int concerned(const sl_control_core *c, int rank) {
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

static int devices_concerned(const sl_control_core *c) {
    for (int i = 0; i < c->view.suspects; i++)
        if (c->view.suspect[i].component != SL_COMPONENT_LINK)
            return 1;
    return 0;
}

/* Those that are suspect, and others to compare them with. */
static json_t *choose_members(sl_control_core *c) {
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
static void choose_links(const sl_control_core *c, const json_t *members, char *text, size_t size) {
    size_t count = json_array_size(members);
    text[0] = 0;
    for (int i = 0; i < c->view.suspects; i++)
        if (c->view.suspect[i].component == SL_COMPONENT_LINK)
            add_link(c->view.suspect[i].from, c->view.suspect[i].to, text, size);
    for (size_t i = 0; text[0] && i < count; i++)
        add_link((int)sl_json_int(json_array_get(members, i), "rank", 0),
                 (int)sl_json_int(json_array_get(members, (i + 1) % count), "rank", 0), text, size);
}

void sl_validating_begin(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    char key[48], links[2048];
    json_t *members = choose_members(c);
    json_decref(v->result);
    *v = (struct sl_validating){.begin = c->now, .next = c->now, .members = (int)json_array_size(members)};
    if (v->members == 0) {
        json_decref(members);
        sl_control_because(c, "no node starts validation processes");
        sl_control_note(c, SL_IN_VERDICT, 0);
        return;
    }
    v->round = ++c->round;
    snprintf(key, sizeof key, "validation:%lld", (long long)v->round);
    sl_store_remove(c->given.store, key);
    choose_links(c, members, links, sizeof links);
    int64_t left = (sl_holding_until(c) - c->now) / SL_MS - TESTS_END;
    json_t *order =
        json_pack("{s:s,s:I,s:o,s:o}", "links", links, "deadline_ms", (json_int_t)(left > 500 ? left : 500),
                  "until", sl_nodes_times(&c->nodes, c->now + SL_VALIDATION_TIME), "members", members);
    sl_control_order(c, "validate", v->round, order);
    sl_control_because(c, "the validation has not ended in time");
}

void sl_validating_end(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    if (v->round)
        sl_control_order(c, "dismiss", v->round, json_object());
    v->round = 0;
    json_decref(v->result);
    v->result = NULL;
    sl_levels_continue(c);
}

/* ---- the result ---- */

static void report_result(sl_control_core *c) {
    const struct sl_validating *v = c->validating;
    char seen[160], gpus[40] = "";
    const size_t tested = json_array_size(json_object_get(v->result, "gpus"));
    if (tested > 0)
        snprintf(gpus, sizeof gpus, ", %zu GPU%s", tested, tested > 1 ? "s" : "");
    snprintf(seen, sizeof seen, "%zu processors%s and %zu links (TCP) tested by %d processes in %.0f ms",
             json_array_size(json_object_get(v->result, "devices")), gpus,
             json_array_size(json_object_get(v->result, "links")), v->members, sl_to_ms(c->now - v->begin));
    sl_control_report(c, SL_EVENT_VALIDATED, seen, NULL,
                      v->released ? "the hold ended early: partly while the program ran"
                                  : "while the program was held");
}

void sl_validating_read(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    char key[48];
    void *bytes;
    size_t size;
    if (c->view.phase != SL_PHASE_VALIDATING || !v->round || v->result || c->now < v->next)
        return;
    v->next = c->now + POLL;
    snprintf(key, sizeof key, "validation:%lld", (long long)v->round);
    if (!sl_control_answered(c, sl_store_get(c->given.store, key, &bytes, &size)) || !bytes)
        return;
    v->result = json_loadb(bytes, size, 0, NULL);
    sl_free(bytes);
    if (!v->result)
        return;
    v->released = !sl_holding_now(c);
    report_result(c);
    sl_control_note(c, SL_IN_VERDICT, 0);
    sl_control_feed(c, SL_IN_TICK, 0); /* and then the verdict */
}
