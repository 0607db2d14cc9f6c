#include "job_model.h"

#include "base/random.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define US ((sl_time)1000)
enum { MICROBATCHES = 4 };

static void *need(void *memory) {
    if (!memory)
        abort();
    return memory;
}

const char *job_shape_name(job_shape shape) {
    static const char *const name[] = {"data parallel", "ring", "pipeline", "experts"};
    return name[shape];
}

static double draw(job_model *j) {
    return sl_random_unit(sl_random_mix(*j->random += SL_RANDOM_STEP));
}

static sl_time jittered(job_model *j, double time) {
    double off = (draw(j) + draw(j) + draw(j) - 1.5) * 2 * j->jitter;
    return (sl_time)(time * (1 + off));
}

/* ---- the program ---- */

static void add(job_model *j, int rank, job_op op) {
    job_rank *r = &j->rank[rank];
    if (r->ops == r->room) {
        r->room = r->room ? 2 * r->room : 8;
        r->op = need(realloc(r->op, (size_t)r->room * sizeof *r->op));
    }
    r->op[r->ops++] = op;
}

static void work(job_model *j, int rank, sl_time time) {
    add(j, rank, (job_op){.kind = JOB_WORK, .time = time});
}

static void meet(job_model *j, int rank, int group, int call, uint64_t bytes) {
    add(j, rank, (job_op){.kind = JOB_MEET, .call = call, .group = group, .bytes = bytes});
}

static int find_slot(const job_model *j, int from, int to) {
    uint64_t at = sl_random_mix((uint64_t)from << 32 | (uint64_t)to);
    int slot = (int)(at & (uint64_t)(j->channel_slots - 1));
    while (j->channel_of[slot] >= 0 &&
           (j->channel[j->channel_of[slot]].from != from || j->channel[j->channel_of[slot]].to != to))
        slot = (slot + 1) & (j->channel_slots - 1);
    return slot;
}

static int channel(job_model *j, int from, int to) {
    int slot = find_slot(j, from, to);
    if (j->channel_of[slot] >= 0)
        return j->channel_of[slot];
    if (j->channels == j->channel_room)
        abort();
    j->channel[j->channels] = (job_channel){.from = from, .to = to, .slow = 1, .room = 64};
    j->channel[j->channels].arrival = need(calloc(64, sizeof(sl_time)));
    return j->channel_of[slot] = j->channels++;
}

static void message(job_model *j, int rank, job_op_kind kind, int to, int from, uint64_t bytes) {
    const int call = kind == JOB_SEND      ? SL_CALL_MPI_Send
                     : kind == JOB_RECEIVE ? SL_CALL_MPI_Recv
                                           : SL_CALL_MPI_Sendrecv;
    add(j, rank,
        (job_op){.kind = kind,
                 .call = call,
                 .to = kind == JOB_RECEIVE ? -1 : channel(j, rank, to),
                 .from = kind == JOB_SEND ? -1 : channel(j, from, rank),
                 .bytes = bytes});
}

/* A group of the ranks first, first + step, ...; its number. */
static int group(job_model *j, int first, int step, int members, sl_time time) {
    j->group = need(realloc(j->group, (size_t)(j->groups + 1) * sizeof *j->group));
    job_group *g = &j->group[j->groups];
    *g = (job_group){.members = members, .time = time, .slowest = 1};
    g->member = need(calloc((size_t)members, sizeof *g->member));
    for (int i = 0; i < members; i++)
        g->member[i] = first + i * step;
    return j->groups++;
}

static void make_data_parallel(job_model *j, sl_time time) {
    int all = group(j, 0, 1, j->ranks, 8 * SL_MS);
    for (int r = 0; r < j->ranks; r++) {
        work(j, r, time / 2);
        meet(j, r, all, SL_CALL_MPI_Allreduce, 1 << 20);
        work(j, r, time / 2 - 2 * SL_MS);
        meet(j, r, all, SL_CALL_MPI_Barrier, 0);
    }
}

static void make_ring(job_model *j, sl_time time) {
    int all = group(j, 0, 1, j->ranks, 2 * SL_MS);
    for (int r = 0; r < j->ranks; r++) {
        int next = (r + 1) % j->ranks, before = (r + j->ranks - 1) % j->ranks;
        work(j, r, time * 2 / 3);
        message(j, r, JOB_EXCHANGE, next, before, 1 << 20);
        work(j, r, time / 3);
        message(j, r, JOB_EXCHANGE, before, next, 1 << 20);
        meet(j, r, all, SL_CALL_MPI_Allreduce, 8);
    }
}

/* All forward, then all backward (GPipe); then the gradients of each stage's replicas. */
static void make_pipeline(job_model *j, sl_time time, int stages) {
    int replicas = j->ranks / stages, own = -1;
    sl_time part = time / (3 * (MICROBATCHES + stages));
    for (int stage = 0; stage < stages; stage++) {
        if (replicas > 1)
            own = group(j, stage, stages, replicas, 4 * SL_MS);
        for (int replica = 0; replica < replicas; replica++) {
            int r = replica * stages + stage;
            for (int m = 0; m < MICROBATCHES; m++) {
                if (stage > 0)
                    message(j, r, JOB_RECEIVE, -1, r - 1, 1 << 19);
                work(j, r, part);
                if (stage < stages - 1)
                    message(j, r, JOB_SEND, r + 1, -1, 1 << 19);
            }
            for (int m = 0; m < MICROBATCHES; m++) {
                if (stage < stages - 1)
                    message(j, r, JOB_RECEIVE, -1, r + 1, 1 << 18);
                work(j, r, 2 * part);
                if (stage > 0)
                    message(j, r, JOB_SEND, r - 1, -1, 1 << 18);
            }
            if (replicas > 1)
                meet(j, r, own, SL_CALL_MPI_Allreduce, 1 << 22);
        }
    }
}

static void make_experts(job_model *j, sl_time time, int size) {
    int all = group(j, 0, 1, j->ranks, 6 * SL_MS), own = -1;
    for (int r = 0; r < j->ranks; r++) {
        if (r % size == 0)
            own = group(j, r, 1, size, 4 * SL_MS);
        work(j, r, time / 3);
        meet(j, r, own, SL_CALL_MPI_Alltoall, 1 << 18);
        work(j, r, time / 3 + SL_MS);
        meet(j, r, own, SL_CALL_MPI_Alltoall, 1 << 18);
        work(j, r, time / 3 - SL_MS);
        meet(j, r, all, SL_CALL_MPI_Allreduce, 1 << 22);
    }
}

/* ---- opening and closing ---- */

static void make_gates(job_model *j) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    j->gate_bytes = (sizeof(sl_gate) + page - 1) / page * page;
    j->file = memfd_create("gates", MFD_CLOEXEC);
    size_t all = j->gate_bytes * (size_t)j->ranks;
    if (j->file < 0 || ftruncate(j->file, (off_t)all) != 0)
        abort();
    j->gates = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, j->file, 0);
    if (j->gates == MAP_FAILED)
        abort();
    for (int r = 0; r < j->ranks; r++) {
        job_rank *rank = &j->rank[r];
        rank->gate = (sl_gate *)(void *)(j->gates + (size_t)r * j->gate_bytes);
        sl_gate_init(rank->gate, r, &rank->process);
        sl_gate_join(&rank->caller, rank->gate, NULL);
    }
    for (int g = 0; g < j->groups; g++) /* as the probe: with the communicator */
        for (int i = 0; i < j->group[g].members; i++) {
            const sl_channel_key key = {.communicator = (uint64_t)(JOB_GROUPS + g),
                                        .source = -1,
                                        .destination = -1,
                                        .tag = -1,
                                        .kind = SL_CHANNEL_COLLECTIVE};
            sl_gate_channel_of(j->rank[j->group[g].member[i]].gate, &key);
        }
}

job_model *job_model_open(const job_model_config *config) {
    job_model *j = need(calloc(1, sizeof *j));
    j->shape = config->shape;
    j->ranks = config->ranks;
    j->per_node = config->per_node;
    j->nodes = (j->ranks + j->per_node - 1) / j->per_node;
    j->random = config->random;
    j->call_room = config->call_room;
    j->at = config->at;
    j->context = config->context;
    j->link = 2 * SL_MS;
    j->jitter = 0.01;
    j->rank = need(calloc((size_t)j->ranks, sizeof *j->rank));
    j->channel_room = 4 * j->ranks + 4;
    j->channel = need(calloc((size_t)j->channel_room, sizeof *j->channel));
    for (j->channel_slots = 64; j->channel_slots < 4 * j->channel_room;)
        j->channel_slots *= 2;
    j->channel_of = need(malloc((size_t)j->channel_slots * sizeof *j->channel_of));
    memset(j->channel_of, 0xff, (size_t)j->channel_slots * sizeof *j->channel_of);
    for (int r = 0; r < j->ranks; r++) {
        job_rank *rank = &j->rank[r];
        rank->slow = 1;
        rank->process = (sl_process_id){.id = sl_random_mix(*j->random += SL_RANDOM_STEP) | 1,
                                        .pid = 5000000 + r /* beyond those that a system has */};
        rank->call = need(calloc(j->call_room, sizeof *rank->call));
    }
    if (j->shape == JOB_DATA_PARALLEL)
        make_data_parallel(j, config->work);
    else if (j->shape == JOB_RING)
        make_ring(j, config->work);
    else if (j->shape == JOB_PIPELINE)
        make_pipeline(j, config->work, config->stages);
    else
        make_experts(j, config->work, config->stages);
    make_gates(j);
    return j;
}

void job_model_close(job_model *j) {
    if (!j)
        return;
    for (int r = 0; r < j->ranks; r++) {
        free(j->rank[r].op);
        free(j->rank[r].call);
    }
    for (int g = 0; g < j->groups; g++)
        free(j->group[g].member);
    for (int c = 0; c < j->channels; c++)
        free(j->channel[c].arrival);
    munmap(j->gates, j->gate_bytes * (size_t)j->ranks);
    close(j->file);
    free(j->rank);
    free(j->group);
    free(j->channel);
    free(j->channel_of);
    free(j);
}

void *job_model_map_gate(const job_model *j, const char *name, size_t *bytes) {
    int pid = atoi(name), rank = pid - 5000000;
    char own[SL_FILE_NAME];
    if (rank < 0 || rank >= j->ranks)
        return NULL;
    sl_gate_name(&j->rank[rank].process, own);
    if (strcmp(own, name) != 0)
        return NULL;
    *bytes = sizeof(sl_gate);
    void *gate = mmap(NULL, sizeof(sl_gate), PROT_READ | PROT_WRITE, MAP_SHARED, j->file,
                      (off_t)((size_t)rank * j->gate_bytes));
    return gate == MAP_FAILED ? NULL : gate;
}

/* ---- faults ---- */

static double ring_link(const job_model *j, const job_group *g, int i) {
    int slot = find_slot(j, g->member[i], g->member[(i + 1) % g->members]);
    return j->channel_of[slot] < 0 ? 1 : j->channel[j->channel_of[slot]].slow;
}

void job_model_slow_link(job_model *j, int from, int to, double factor) {
    j->channel[channel(j, from, to)].slow = factor;
    for (int k = 0; k < j->groups; k++) {
        job_group *g = &j->group[k];
        g->slowest = 1;
        for (int i = 0; g->members > 1 && i < g->members; i++)
            if (ring_link(j, g, i) > g->slowest)
                g->slowest = ring_link(j, g, i);
    }
}

int job_model_link(const job_model *j, uint64_t number, int *from, int *to) {
    if (j->channels == 0)
        return 0;
    const job_channel *c = &j->channel[number % (uint64_t)j->channels];
    *from = c->from;
    *to = c->to;
    return 1;
}

/* ---- running ---- */

/* A rank has one time at which it goes on: another one replaces it. */
static void due(job_model *j, int rank, sl_time time) {
    j->rank[rank].due = time;
    j->at(j->context, rank, time);
}

static sl_gate_channel *message_gate(const job_rank *r, const job_channel *c) {
    const sl_channel_key key = {.communicator = JOB_MESSAGES,
                                .source = c->from,
                                .destination = c->to,
                                .tag = JOB_TAG,
                                .kind = SL_CHANNEL_POINT};
    return sl_gate_channel_of(r->gate, &key);
}

static void announce(const job_model *j, job_rank *r, const job_op *op) {
    if (op->kind == JOB_MEET) {
        const sl_channel_key key = {.communicator = (uint64_t)(JOB_GROUPS + op->group),
                                    .source = -1,
                                    .destination = -1,
                                    .tag = -1,
                                    .kind = SL_CHANNEL_COLLECTIVE};
        sl_gate_announce(&r->caller, sl_gate_channel_of(r->gate, &key));
        return;
    }
    if (op->to >= 0)
        sl_gate_announce(&r->caller, message_gate(r, &j->channel[op->to]));
    if (op->from >= 0)
        sl_gate_announce(&r->caller, message_gate(r, &j->channel[op->from]));
}

static void record(job_model *j, int rank, const job_op *op, int kind, int peer, sl_time end) {
    job_rank *r = &j->rank[rank];
    r->call[r->calls & (j->call_room - 1)] =
        (sl_call){.kind = (uint8_t)kind,
                  .call = (uint8_t)op->call,
                  .tag = op->kind == JOB_MEET ? SL_TAG_NONE : JOB_TAG,
                  .rank = rank,
                  .peer = peer,
                  .communicator = op->kind == JOB_MEET ? (uint64_t)(JOB_GROUPS + op->group) : JOB_MESSAGES,
                  .bytes = op->bytes,
                  .start = r->start + r->offset,
                  .end = end + r->offset,
                  .device = -1,
                  .sequence = r->calls};
    r->calls++;
}

/* The call has returned. */
static void leave(job_model *j, int rank, sl_time now) {
    job_rank *r = &j->rank[rank];
    const job_op *op = &r->op[r->at];
    sl_gate_leave(&r->caller);
    int peer = op->kind == JOB_MEET ? SL_PEER_NONE
               : op->to >= 0        ? j->channel[op->to].to
                                    : j->channel[op->from].from;
    record(j, rank, op, SL_RECORD_CALL, peer, now);
    if (op->kind == JOB_EXCHANGE)
        record(j, rank, op, SL_RECORD_COMPLETION, j->channel[op->from].from, now);
}

static void next(job_rank *r) {
    r->begun = 0;
    if (++r->at == r->ops) {
        r->at = 0;
        r->iteration++;
    }
}

/* A message sets out; its receiver may wait for it. */
static void send(job_model *j, job_channel *c, sl_time now) {
    if (c->sent - c->taken == c->room) {
        sl_time *more = need(calloc(2 * (size_t)c->room, sizeof *more));
        for (uint32_t i = c->taken; i != c->sent; i++)
            more[i & (2 * c->room - 1)] = c->arrival[i & (c->room - 1)];
        free(c->arrival);
        c->arrival = more;
        c->room *= 2;
    }
    sl_time arrive = now + jittered(j, (double)j->link * c->slow);
    c->arrival[c->sent++ & (c->room - 1)] = arrive;
    job_rank *to = &j->rank[c->to];
    const job_op *op = &to->op[to->at];
    if (to->state == JOB_WAITS && to->begun && op->kind != JOB_MEET && op->kind != JOB_WORK &&
        op->from >= 0 && &j->channel[op->from] == c && c->sent - c->taken == 1)
        due(j, c->to, arrive > now ? arrive : now);
}

/* All have come: it ends for all. */
static void finish_meeting(job_model *j, job_group *g, sl_time now) {
    sl_time end = now + jittered(j, (double)g->time * g->slowest);
    g->came = 0;
    for (int i = 0; i < g->members; i++)
        due(j, g->member[i], end + (sl_time)(draw(j) * 3.0 * (double)US));
}

/* Just past the gate. */
static void enter(job_model *j, int rank, sl_time now) {
    job_rank *r = &j->rank[rank];
    const job_op *op = &r->op[r->at];
    r->begun = 1;
    r->start = now;
    r->state = JOB_WAITS;
    j->admitted++;
    if (op->kind == JOB_MEET) {
        job_group *g = &j->group[op->group];
        if (++g->came == g->members)
            finish_meeting(j, g, now);
        return;
    }
    if (op->kind != JOB_RECEIVE)
        send(j, &j->channel[op->to], now);
    if (op->kind == JOB_SEND) {
        due(j, rank, now + 5 * US);
        return;
    }
    const job_channel *c = &j->channel[op->from];
    if (c->sent != c->taken) {
        sl_time arrive = c->arrival[c->taken & (c->room - 1)];
        due(j, rank, (arrive > now ? arrive : now) + 2 * US);
    }
}

static void try_gate(job_model *j, int rank, sl_time now) {
    job_rank *r = &j->rank[rank];
    r->woken = atomic_load(&r->gate->wake);
    if (sl_gate_try(&r->caller, SL_GATE_BLOCK, now + r->offset)) {
        enter(j, rank, now);
        return;
    }
    if (r->state != JOB_PARKED)
        r->parked = now;
    r->state = JOB_PARKED;
    due(j, rank, atomic_load(&r->gate->deadline) - r->offset);
}

void job_model_run(job_model *j, int rank, sl_time now) {
    job_rank *r = &j->rank[rank];
    if (now != r->due)
        return; /* replaced meanwhile */
    r->due = -1;
    if (r->state == JOB_PARKED) { /* the deadline */
        try_gate(j, rank, now);
        return;
    }
    if (r->begun) {
        const job_op *op = &r->op[r->at];
        if (op->kind == JOB_RECEIVE || op->kind == JOB_EXCHANGE) {
            j->channel[op->from].taken++;
        }
        leave(j, rank, now);
        next(r);
        r->state = JOB_RUNS;
    }
    const job_op *op = &r->op[r->at];
    if (op->kind == JOB_WORK) {
        sl_time time = jittered(j, (double)op->time * r->slow);
        next(r);
        due(j, rank, now + time);
        return;
    }
    announce(j, r, op);
    try_gate(j, rank, now);
}

void job_model_retry(job_model *j, int node, sl_time now) {
    for (int r = node * j->per_node; r < j->ranks && r < (node + 1) * j->per_node; r++)
        if (j->rank[r].state == JOB_PARKED && atomic_load(&j->rank[r].gate->wake) != j->rank[r].woken)
            try_gate(j, r, now);
}

void job_model_begin(job_model *j, sl_time now) {
    for (int r = 0; r < j->ranks; r++)
        due(j, r, now + (sl_time)(draw(j) * (double)SL_MS));
}
