/* What stands in the place of the agents' surroundings when the program is linked: the clock, the rings and
 * gates of the simulated ranks, and the processes that test devices and links. These are a model without
 * errors of measurement: they report what is slow while they end. */
#include "fleet_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "notice/agent/holds.h"
#include "notice/agent/rings.h"
#include "notice/detect/suspect.h"
#include "notice/message/clocks.h"
#include "notice/record/probe_folder.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TESTS_PATIENCE (2 * SL_SECOND) /* for members that do not come */
#define FLUKE 1.7                      /* times as slow as it is */

sl_time __wrap_sl_now(void);
sl_time __wrap_sl_now(void) {
    return fleet_clock(fleet_current);
}

/* ---- clocks of nodes ---- */

void __wrap_sl_clock_identity(char *identity, size_t size);
void __wrap_sl_clock_identity(char *identity, size_t size) {
    snprintf(identity, size, "clock %d", fleet_current->plan->clocks ? fleet_current->actor : 0);
}

/* The agent begins to answer; what it answers is said while the controller waits. */
sl_status __wrap_sl_clock_answer(sl_store *store, const char *node, int64_t round);
sl_status __wrap_sl_clock_answer(sl_store *store, const char *node, int64_t round) {
    fleet *f = fleet_current;
    (void)store, (void)node;
    f->agent[f->actor].answers = round;
    f->agent[f->actor].answers_to = f->local + SL_CLOCK_PATIENCE;
    return SL_OK;
}

/* As sl_clock_answer: the last question that was asked, with the time of this clock. */
static void answer_question(fleet *f, fleet_agent *own, const char *answered) {
    const sl_store_entry *entry;
    size_t count;
    int64_t ping[3] = {-1, 0, 0}; /* round, trip, time */
    char asked[48];
    sl_time trip = 50000 + (sl_time)(sl_random_mix(f->random += SL_RANDOM_STEP) % 400000);
    snprintf(asked, sizeof asked, "clock-asked:%s", own->name);
    if (sl_store_read(own->store, asked, &own->asked, 64, 0, &entry, &count) != SL_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (entry[i].size == sizeof ping)
            memcpy(ping, entry[i].bytes, sizeof ping);
    if (ping[0] != own->answers)
        return;
    model_pass(trip / 3);
    ping[2] = fleet_clock(f);
    (void)sl_store_append(own->store, answered, ping, sizeof ping, 64);
    model_pass(trip - trip / 3);
}

/* The controller waits at "slackline:job:clock-answered:nN" for the answer to its last question, which is
 * the only one: the agent looks for orders meanwhile, and answers with the time of its clock. */
void model_await(const char *log) {
    fleet *f = fleet_current;
    const char *name = strstr(log, "clock-answered:n");
    const int client = f->store.client, actor = f->actor;
    int node = name ? atoi(name + strlen("clock-answered:n")) : -1;
    if (node < 0 || node >= f->job->nodes || !f->agent[node].agent)
        return;
    fleet_agent *own = &f->agent[node];
    f->actor = f->store.client = node;
    if (own->answers_to < f->local) {
        sl_time next;
        model_pass(20 * SL_MS); /* until it looks */
        if (sl_agent_step(own->agent, fleet_clock(f), &next) != SL_OK)
            abort();
        fleet_later(f, f->local, FLEET_RETRY, node);
    }
    if (own->answers_to >= f->local)
        answer_question(f, own, name);
    f->store.client = client;
    f->actor = actor;
}

/* A controller numbers its orders from its process and the time; a seed must repeat the same job. */
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void) {
    return 7;
}

/* ---- gates ---- */

void *__wrap_sl_folder_map(const char *folder, const char *name, int writable, size_t least, size_t *bytes);
void *__wrap_sl_folder_map(const char *folder, const char *name, int writable, size_t least, size_t *bytes) {
    (void)folder, (void)writable, (void)least;
    void *gate = job_model_map_gate(fleet_current->job, name, bytes);
    errno = gate ? 0 : ENOENT;
    return gate;
}

void __real_sl_gate_release(sl_gate *gate);
void __wrap_sl_gate_release(sl_gate *gate);
void __wrap_sl_gate_release(sl_gate *gate) {
    if (!fleet_current->killing)
        __real_sl_gate_release(gate);
}

/* ---- rings ---- */

/* Of the node whose agent opened them: each rank is one process with one ring. */
struct sl_rings {
    int first, count, turn;
    uint64_t *read; /* [count] */
    uint64_t calls, lost;
    double fullest;
    sl_call *call; /* [room] handed out */
};

sl_status __wrap_sl_rings_open(const char *folder, sl_rings **rings);
void __wrap_sl_rings_close(sl_rings *rings);
sl_status __wrap_sl_rings_look(sl_rings *rings);
size_t __wrap_sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls);
int __wrap_sl_rings_ended(sl_rings *rings, uint64_t *process);
void __wrap_sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost);
double __wrap_sl_rings_fullest(sl_rings *rings);
const char *__wrap_sl_rings_trouble(const sl_rings *rings);

sl_status __wrap_sl_rings_open(const char *folder, sl_rings **rings) {
    const job_model *job = fleet_current->job;
    sl_rings *r = calloc(1, sizeof *r);
    (void)folder;
    if (!r)
        abort();
    r->first = fleet_current->actor * job->per_node;
    r->count = job->ranks - r->first < job->per_node ? job->ranks - r->first : job->per_node;
    r->read = calloc((size_t)r->count, sizeof *r->read);
    r->call = calloc(job->call_room, sizeof *r->call);
    if (!r->read || !r->call)
        abort();
    *rings = r;
    return SL_OK;
}

void __wrap_sl_rings_close(sl_rings *rings) {
    if (!rings)
        return;
    free(rings->read);
    free(rings->call);
    free(rings);
}

sl_status __wrap_sl_rings_look(sl_rings *rings) {
    (void)rings;
    return SL_OK;
}

size_t __wrap_sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls) {
    const job_model *job = fleet_current->job;
    for (int tried = 0; tried < rings->count; tried++) {
        int i = rings->turn++ % rings->count;
        const job_rank *rank = &job->rank[rings->first + i];
        uint64_t *read = &rings->read[i], waiting = rank->calls - *read;
        if (waiting == 0)
            continue;
        if (waiting >= job->call_room) {
            rings->lost += waiting - job->call_room + 1;
            *read = rank->calls - job->call_room + 1;
            waiting = job->call_room - 1;
        }
        double full = (double)waiting / job->call_room;
        rings->fullest = full > rings->fullest ? full : rings->fullest;
        size_t count = waiting < most ? (size_t)waiting : most;
        for (size_t k = 0; k < count; k++)
            rings->call[k] = rank->call[(*read + k) & (job->call_room - 1)];
        *read += count;
        rings->calls += count;
        *source = (sl_ring_source){
            .process = rank->process, .pid = rank->process.pid, .rank = rings->first + i, .size = job->ranks};
        *calls = rings->call;
        return count;
    }
    return 0;
}

int __wrap_sl_rings_ended(sl_rings *rings, uint64_t *process) {
    (void)rings, (void)process;
    return 0;
}

void __wrap_sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost) {
    *calls = rings->calls;
    *lost = rings->lost;
}

double __wrap_sl_rings_fullest(sl_rings *rings) {
    double fullest = rings->fullest;
    rings->fullest = 0;
    return fullest;
}

const char *__wrap_sl_rings_trouble(const sl_rings *rings) {
    (void)rings;
    return "";
}

/* ---- the processes of a validation ---- */

sl_status __wrap_sl_members_start(sl_members *members, const sl_member *member, sl_time until);
void __wrap_sl_members_look(sl_members *members, sl_time now);
void __wrap_sl_members_end(sl_members *members);
void __wrap_sl_members_close(sl_members *members);

void model_tests_close(fleet *f) {
    free(f->tests.rank);
    free(f->tests.gemm);
    f->tests = (fleet_tests){.serial = f->tests.serial};
}

static void begin_tests(fleet *f, const sl_member *member) {
    int serial = f->tests.serial + 1;
    model_tests_close(f);
    f->tests = (fleet_tests){.round = member->round, .members = member->members, .serial = serial};
    f->tests.rank = malloc((size_t)member->members * sizeof *f->tests.rank);
    f->tests.gemm = calloc((size_t)member->members, sizeof *f->tests.gemm);
    if (!f->tests.rank || !f->tests.gemm)
        abort();
    for (int i = 0; i < member->members; i++)
        f->tests.rank[i] = -1;
    snprintf(f->tests.links, sizeof f->tests.links, "%s", member->links);
    fleet_later(f, f->local + TESTS_PATIENCE + SL_SECOND, FLEET_TESTED, serial);
}

sl_status __wrap_sl_members_start(sl_members *members, const sl_member *member, sl_time until) {
    fleet *f = fleet_current;
    if (f->tests.round != member->round)
        begin_tests(f, member);
    f->tests.rank[member->member] = member->rank;
    f->tests.gemm[member->member] = member->gemm;
    if (++f->tests.started == member->members)
        fleet_later(f, f->local + SL_SECOND / 2 + (sl_time)((uint64_t)member->round % (uint64_t)SL_SECOND),
                    FLEET_TESTED, f->tests.serial);
    members->round = member->round;
    members->until = until;
    return SL_OK;
}

void __wrap_sl_members_look(sl_members *members, sl_time now) {
    (void)members, (void)now;
}

/* The processes of this node end. */
void __wrap_sl_members_end(sl_members *members) {
    fleet *f = fleet_current;
    for (int i = 0; members->round && f->tests.round == members->round && i < f->tests.members; i++)
        if (f->tests.rank[i] >= 0 && f->tests.rank[i] / f->plan->per_node == f->actor)
            f->tests.rank[i] = -1;
    members->round = 0;
}

void __wrap_sl_members_close(sl_members *members) {
    __wrap_sl_members_end(members);
}

static int is_tested(const fleet_tests *t, int rank) {
    for (int i = 0; i < t->members; i++)
        if (t->rank[i] == rank)
            return 1;
    return 0;
}

static double link_factor(const fleet *f, int from, int to) {
    for (int i = 0; i < f->plan->faults; i++) {
        const fleet_fault *fault = &f->plan->fault[i];
        if (fault->kind == FLEET_SLOW_LINK && fault->from == from && fault->to == to)
            for (int c = 0; c < f->job->channels; c++)
                if (f->job->channel[c].from == from && f->job->channel[c].to == to)
                    return f->job->channel[c].slow;
    }
    return 1;
}

static void add_suspect(json_t *list, sl_suspect suspect, const char *why) {
    snprintf(suspect.why, sizeof suspect.why, "%s", why);
    json_array_append_new(list, sl_suspect_to_json(&suspect));
}

static void test_direction(const fleet *f, int from, int to, json_t *links, json_t *verdicts) {
    double factor = link_factor(f, from, to) * (from == f->fluke ? FLUKE : 1);
    json_array_append_new(links,
                          json_pack("{s:i,s:i,s:f,s:f,s:f,s:f,s:b}", "from", from, "to", to, "latency_ms",
                                    0.05 * factor, "gb_per_s", 10 / factor, "expected_gb_per_s", 10.0,
                                    "bandwidth_cv", 0.01, "slow", factor > 1.3));
    if (factor > 1.3)
        add_suspect(verdicts,
                    (sl_suspect){.component = SL_COMPONENT_LINK,
                                 .rank = -1,
                                 .from = from,
                                 .to = to,
                                 .measured = 10 / factor,
                                 .expected = 10},
                    "the model measured it");
}

static void test_devices(const fleet *f, json_t *devices, json_t *verdicts) {
    const fleet_tests *t = &f->tests;
    for (int i = 0; i < t->members; i++) {
        if (t->rank[i] < 0 || !t->gemm[i])
            continue;
        double slow = f->job->rank[t->rank[i]].slow * (t->rank[i] == f->fluke ? FLUKE : 1);
        json_array_append_new(devices,
                              json_pack("{s:i,s:f,s:f,s:b,s:{}}", "rank", t->rank[i], "gflops", 100 / slow,
                                        "expected_gflops", 100.0, "slow", slow > 1.2, "evidence"));
        if (slow > 1.2)
            add_suspect(verdicts,
                        (sl_suspect){.component = SL_COMPONENT_DEVICE,
                                     .rank = t->rank[i],
                                     .from = -1,
                                     .to = -1,
                                     .measured = 100 / slow,
                                     .expected = 100},
                        "the model measured it");
    }
}

/* A rank that this validation measures wrong, though all its repeats agree; never two validations in a row.
 */
static void draw_fluke(fleet *f) {
    const fleet_tests *t = &f->tests;
    f->fluke = f->plan->flukes && f->fluke < 0 ? t->rank[(uint64_t)t->round % (uint64_t)t->members] : -1;
}

void model_tests_finish(fleet *f, int serial) {
    const fleet_tests *t = &f->tests;
    json_t *devices = json_array(), *links = json_array(), *verdicts = json_array();
    sl_store *store = NULL;
    char key[48];
    int first = -1, from, to, used;
    for (int i = t->members; i-- > 0;)
        first = t->rank[i] >= 0 ? t->rank[i] : first;
    if (t->serial == serial && t->round && first >= 0) {
        draw_fluke(f);
        test_devices(f, devices, verdicts);
        for (const char *at = t->links; sscanf(at, "%d-%d%n", &from, &to, &used) == 2;
             at += used + (at[used] == ','))
            if (is_tested(t, from) && is_tested(t, to)) {
                test_direction(f, from, to, links, verdicts);
                test_direction(f, to, from, links, verdicts);
            }
        json_t *result = json_pack("{s:O,s:O,s:O}", "devices", devices, "links", links, "verdicts", verdicts);
        char *text = json_dumps(result, JSON_COMPACT);
        snprintf(key, sizeof key, "validation:%lld", (long long)t->round);
        f->store.client = first / f->plan->per_node;
        if (sl_store_open("unix:/the/model", "job", 0, &store) == SL_OK &&
            sl_store_seal(store, "the-key-of-the-simulated-job") == SL_OK)
            (void)sl_store_set(store, key, text, strlen(text), 60 * SL_SECOND);
        sl_store_close(store);
        free(text);
        json_decref(result);
        f->tests.round = 0;
    }
    json_decref(devices);
    json_decref(links);
    json_decref(verdicts);
}
