#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

#define ALL_TESTED 32             /* in jobs of at most this many ranks, all are tested */
#define TESTS_END 700             /* ms before the hold's deadline */
#define POLL (50 * SL_MS)         /* of the result */
#define PAUSE (200 * SL_MS)       /* before a second test */
#define AGAIN_MIN 1500            /* ms that it has */
#define PATIENCE (10 * SL_SECOND) /* for its result */

struct sl_validating {
    int64_t round;           /* 0: none */
    int members, released;   /* released: the hold ended before the tests */
    int under_way;           /* a result is awaited */
    sl_time begin, next;     /* next: of the next look at the store */
    sl_time again, until;    /* of the second test: its start (0: it has none, or was started), its limit */
    sl_second_test repeated; /* what it tests */
    json_t *result, *second; /* NULL: none */
};

sl_status sl_validating_open(sl_control_core *c) {
    return sl_alloc(&c->validating, 1, sizeof *c->validating);
}

void sl_validating_close(sl_control_core *c) {
    if (c->validating) {
        json_decref(c->validating->result);
        json_decref(c->validating->second);
    }
    sl_free(c->validating);
}

int sl_validating_now(const sl_control_core *c) {
    return c->validating->under_way;
}

const json_t *sl_validating_result(const sl_control_core *c, int *released) {
    if (released)
        *released = c->validating->released;
    return c->validating->result;
}

const json_t *sl_validating_second(const sl_control_core *c) {
    return c->validating->second;
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

static void add_member(json_t *members, const sl_job_node *node, int rank, int pid, int gemm) {
    json_array_append_new(
        members, json_pack("{s:s,s:i,s:i,s:i}", "node", node->name, "rank", rank, "pid", pid, "gemm", gemm));
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
        add_member(members, node, rank, pid, gemm);
    }
    return members;
}

static int has(const int *rank, int count, int one) {
    for (int i = 0; i < count; i++)
        if (rank[i] == one)
            return 1;
    return 0;
}

/* Those of a second test. */
static json_t *choose_again(sl_control_core *c, const sl_second_test *test) {
    json_t *members = json_array();
    for (int rank = 0; members && rank < sl_nodes_world(&c->nodes); rank++) {
        int pid;
        const sl_job_node *node = sl_nodes_of_rank(&c->nodes, rank, &pid);
        const int gemm = has(test->device, test->devices, rank);
        if (node && node->validate &&
            (gemm || has(test->from, test->links, rank) || has(test->to, test->links, rank)))
            add_member(members, node, rank, pid, gemm);
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

/* Takes `members`. */
static void order(sl_control_core *c, json_t *members, const char *links, int64_t least) {
    struct sl_validating *v = c->validating;
    char key[48];
    v->round = ++c->round;
    v->members = (int)json_array_size(members);
    v->begin = v->next = c->now;
    v->under_way = 1;
    snprintf(key, sizeof key, "validation:%lld", (long long)v->round);
    sl_store_remove(c->given.store, key);
    int64_t left = (sl_holding_until(c) - c->now) / SL_MS - TESTS_END;
    json_t *request = json_pack("{s:s,s:I,s:o,s:o}", "links", links, "deadline_ms",
                                (json_int_t)(left > least ? left : least), "until",
                                sl_nodes_times(&c->nodes, c->now + SL_VALIDATION_TIME), "members", members);
    sl_control_order(c, "validate", v->round, request);
}

void sl_validating_begin(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    char links[2048];
    json_t *members = choose_members(c);
    json_decref(v->result);
    json_decref(v->second);
    *v = (struct sl_validating){.begin = c->now};
    if (json_array_size(members) == 0) {
        json_decref(members);
        sl_control_because(c, "no node starts validation processes");
        sl_control_note(c, SL_IN_VERDICT, 0);
        return;
    }
    choose_links(c, members, links, sizeof links);
    order(c, members, links, 500);
    sl_control_because(c, "the validation has not ended in time");
}

static void begin_again(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    char links[2048] = "";
    for (int i = 0; i < v->repeated.links; i++)
        add_link(v->repeated.from[i], v->repeated.to[i], links, sizeof links);
    json_t *members = choose_again(c, &v->repeated);
    v->again = 0;
    v->until = c->now + (json_array_size(members) > 0 ? PATIENCE : 0);
    if (json_array_size(members) > 0)
        order(c, members, links, AGAIN_MIN);
    else
        json_decref(members);
}

void sl_validating_end(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    if (v->round)
        sl_control_order(c, "dismiss", v->round, json_object());
    json_decref(v->result);
    json_decref(v->second);
    *v = (struct sl_validating){0};
    sl_levels_continue(c);
}

/* ---- the result ---- */

static void report_result(sl_control_core *c, const json_t *result, const char *decided) {
    const struct sl_validating *v = c->validating;
    char seen[160], gpus[40] = "";
    const size_t tested = json_array_size(json_object_get(result, "gpus"));
    if (tested > 0)
        snprintf(gpus, sizeof gpus, ", %zu GPU%s", tested, tested > 1 ? "s" : "");
    snprintf(seen, sizeof seen, "%zu processors%s and %zu links (TCP) tested by %d processes in %.0f ms",
             json_array_size(json_object_get(result, "devices")), gpus,
             json_array_size(json_object_get(result, "links")), v->members, sl_to_ms(c->now - v->begin));
    sl_control_report(c, SL_EVENT_VALIDATED, seen, decided,
                      v->released ? "the hold ended early: partly while the program ran"
                                  : "while the program was held");
}

/* The result in the store; NULL: none yet. */
static json_t *look(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    char key[48];
    void *bytes;
    size_t size;
    if (c->now < v->next)
        return NULL;
    v->next = c->now + POLL;
    snprintf(key, sizeof key, "validation:%lld", (long long)v->round);
    if (!sl_control_answered(c, sl_store_get(c->given.store, key, &bytes, &size)) || !bytes)
        return NULL;
    json_t *result = json_loadb(bytes, size, 0, NULL);
    sl_free(bytes);
    return result;
}

/* The first result, or the second. */
static void take(sl_control_core *c, json_t *result) {
    struct sl_validating *v = c->validating;
    v->released = !sl_holding_now(c);
    if (v->result) {
        v->second = result;
        report_result(c, result, NULL);
        return;
    }
    v->result = result;
    if (sl_control_doubts(c, &v->repeated))
        v->again = c->now + PAUSE;
    report_result(c, result, v->again ? "only the tests name something: a second test of it" : NULL);
}

void sl_validating_read(sl_control_core *c) {
    struct sl_validating *v = c->validating;
    if (c->view.phase != SL_PHASE_VALIDATING || !v->under_way)
        return;
    if (v->again) {
        if (c->now >= v->again)
            begin_again(c);
        return;
    }
    json_t *result = look(c);
    if (result)
        take(c, result);
    if (v->again || (!result && (!v->until || c->now < v->until)))
        return;
    v->under_way = 0;
    sl_control_note(c, SL_IN_VERDICT, 0);
    sl_control_feed(c, SL_IN_TICK, 0); /* and then the verdict */
}
