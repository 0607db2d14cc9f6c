/* The control plane: what agents, the controller and viewers read of each other, directly and through a store
 * that anybody may have written to. */
#include "real_redis.h"

#include "base/memory.h"
#include "dashboard/cluster.h"
#include "notice/agent/agent_inside.h"
#include "notice/control/closing.h"
#include "notice/control/collection.h"
#include "notice/control/controller.h"
#include "notice/control/iteration_samples.h"
#include "notice/control/nodes.h"
#include "notice/control/standing.h"
#include "notice/control/traffic.h"
#include "notice/detect/call_profile.h"
#include "notice/message/clocks.h"
#include "notice/message/messages.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- messages: a head and packed structs */

typedef struct readers {
    sl_nodes nodes;
    sl_iteration_samples *samples;
    sl_standing standing;
    sl_collection collection;
    sl_closing closing;
} readers;

/* Of a node with this process's clock: otherwise the controller asks for its time, and waits. */
static const char *beat(void) {
    static char text[640];
    char clock[SL_CLOCK_NAME];
    if (!text[0]) {
        sl_clock_identity(clock, sizeof clock);
        snprintf(
            text, sizeof text,
            "{\"node\": \"a\", \"clock\": \"%s\", \"calls\": 5, \"lost\": 0, \"validate\": 1, \"ranks\": ["
            "{\"rank\": 0, \"pid\": 7, \"size\": 2, \"period\": 4}, {\"rank\": 1, \"pid\": 8, \"size\": 2, "
            "\"period\": 4}]}",
            clock);
    }
    return text;
}

static sl_job_node *hear(sl_nodes *nodes, const char *text, size_t size, sl_time now) {
    sl_job_node *node = NULL;
    int change;
    json_t *json = json_loadb(text, size, 0, NULL);
    fuzz_must(sl_nodes_hear(nodes, json, now, &node, &change) == SL_OK);
    json_decref(json);
    return node;
}

static void take_blocks(readers *r, const sl_message_head *head, const sl_message_block *blocks) {
    sl_sample sample;
    for (uint32_t i = 0; i < head->count; i++) {
        fuzz_must(sl_iteration_samples_add(r->samples, &blocks[i], i) == SL_OK);
        fuzz_must(sl_standing_block(&r->standing, &blocks[i]) == SL_OK);
        while (sl_iteration_samples_take(r->samples, i, &sample))
            fuzz_must(sample.count > 0 && sample.ranks > 0);
    }
}

static void take_calls(readers *r, const sl_message_head *head, const sl_call *calls) {
    fuzz_must(sl_traffic_take(&r->standing.traffic, head, calls, head->look) == SL_OK);
    fuzz_must(sl_collection_add(&r->collection, &r->nodes, head, calls) == SL_OK);
}

static void profile(readers *r) {
    sl_call_profile *made;
    sl_suspect suspect[4];
    double lost[2];
    size_t count;
    int transfers;
    char why[256];
    sl_collection_settle(&r->collection);
    if (sl_call_profile_make(r->collection.call, r->collection.calls, 2, 1000, &made) != SL_OK)
        return;
    fuzz_must(sl_call_profile_compare(made, NULL, 1000, suspect, 4, &count, why, sizeof why) == SL_OK &&
              count <= 4);
    fuzz_must(sl_call_profile_weigh(made, NULL, 1000, lost, &transfers) == SL_OK);
    sl_call_profile_close(made);
}

static int take_message(readers *r, sl_message_kind kind, const uint8_t *data, size_t size) {
    const void *body;
    char *bytes = fuzz_text(data, size);
    const sl_store_entry entry = {bytes, size};
    const sl_message_head *head = sl_message_read(&entry, kind, &body);
    sl_cut_verdict verdict;
    json_t *raises;
    if (head && kind == SL_MESSAGE_ITERATIONS)
        take_blocks(r, head, body);
    else if (head && kind == SL_MESSAGE_CALLS)
        take_calls(r, head, body);
    else if (head) {
        sl_closing_add(&r->closing, head, body);
        if (sl_closing_ready(&r->closing)) {
            fuzz_must(sl_closing_step(&r->closing, r->closing.look, &verdict, &raises) == SL_OK);
            json_decref(raises);
        }
    }
    free(bytes);
    return head != NULL;
}

/* Messages one after the other: kind, length, bytes. */
static int read_messages(const uint8_t *data, size_t size) {
    readers r = {0};
    int taken = 0;
    fuzz_must(sl_iteration_samples_open(&r.samples) == SL_OK);
    fuzz_must(sl_collection_begin(&r.collection, 3, 2) == SL_OK);
    fuzz_must(sl_closing_begin(&r.closing, 3, 2, (sl_cut_limits){0}) == SL_OK);
    fuzz_must(hear(&r.nodes, beat(), strlen(beat()), 1) != NULL);
    for (int i = 0; size > 0 && i < 64; i++) {
        sl_message_kind kind = (sl_message_kind)(1 + fuzz_take(&data, &size, 1) % 3);
        size_t length = (size_t)fuzz_take(&data, &size, 2);
        length = length < size ? length : size;
        taken += take_message(&r, kind, data, length);
        data += length;
        size -= length;
    }
    profile(&r);
    sl_closing_end(&r.closing);
    sl_collection_end(&r.collection);
    sl_standing_close(&r.standing);
    sl_iteration_samples_close(r.samples);
    sl_nodes_close(&r.nodes);
    return taken;
}

static void put_message(FILE *out, sl_message_kind kind, int rank, const void *body, size_t size,
                        uint32_t count) {
    sl_message_head head = {.magic = SL_MESSAGE_MAGIC,
                            .version = SL_MESSAGE_VERSION,
                            .kind = kind,
                            .count = count,
                            .round = 3,
                            .rank = rank,
                            .look = kind == SL_MESSAGE_CALLS,
                            .node = "a"};
    size_t length = sizeof head + size;
    fputc((int)kind - 1, out);
    fputc((int)(length & 255), out);
    fputc((int)(length >> 8), out);
    fwrite(&head, 1, sizeof head, out);
    fwrite(body, 1, size, out);
}

static void put_blocks(FILE *out) {
    for (int rank = 0; rank < 2; rank++) {
        sl_message_block blocks[3];
        for (int i = 0; i < 3; i++)
            blocks[i] = (sl_message_block){.rank = rank,
                                           .process = 1,
                                           .count = 1,
                                           .period = 4,
                                           .number = i,
                                           .start = 100 * i + 10,
                                           .end = 100 * i + 90,
                                           .time = 80,
                                           .bytes = 64};
        put_message(out, SL_MESSAGE_ITERATIONS, rank, blocks, sizeof blocks, 3);
    }
}

static void put_calls(FILE *out) {
    for (int rank = 0; rank < 2; rank++) {
        sl_call calls[12];
        memset(calls, 0, sizeof calls);
        for (int i = 0; i < 12; i++) {
            calls[i].rank = rank;
            calls[i].peer = 1 - rank;
            calls[i].bytes = 64;
            calls[i].start = 1000 * i + 10 * rank;
            calls[i].end = calls[i].start + 100;
            calls[i].device = -1;
        }
        put_message(out, SL_MESSAGE_CALLS, rank, calls, sizeof calls, 12);
    }
}

static void put_views(FILE *out) {
    sl_gate_view *view = calloc(1, sizeof *view);
    char *bytes = NULL;
    size_t capacity = 0, size;
    for (int rank = 0; rank < 2; rank++) {
        view->rank = rank;
        view->held = 1;
        view->drained = 1;
        view->threads = view->channels = 1;
        view->thread[0] =
            (sl_gate_view_thread){.state = SL_GATE_PARKED, .serial = 2, .entries = 1, .entry = {{0, 0, 5}}};
        view->channel[0] = (sl_gate_view_channel){
            .key = {1, -1, -1, -1, SL_CHANNEL_COLLECTIVE}, .ready = 1, .announced = 5, .entered = 4};
        fuzz_must(sl_view_pack(view, &bytes, &capacity, &size) == SL_OK);
        put_message(out, SL_MESSAGE_VIEW, rank, bytes, size, (uint32_t)size);
    }
    sl_free(bytes);
    free(view);
}

static int write_messages(int number, FILE *out) {
    if (number > 3)
        return 0;
    if (number == 0 || number == 3)
        put_blocks(out);
    if (number == 1 || number == 3)
        put_calls(out);
    if (number == 2)
        put_views(out);
    return 1;
}

/* ---- heartbeats, a line each */

static int read_beats(const uint8_t *data, size_t size) {
    sl_nodes nodes = {.clock = "c"};
    char *text = fuzz_text(data, size);
    int heard = 0, pid;
    sl_time now = 0;
    sl_standing standing = {0};
    for (char *line = text; *line; now += SL_SECOND) {
        size_t length = strcspn(line, "\n");
        sl_job_node *node = hear(&nodes, line, length, now);
        heard += node != NULL;
        line += length + (line[length] == '\n');
        while (sl_nodes_expired(&nodes, now))
            ;
        if (sl_nodes_alive(&nodes) > 0 && sl_nodes_whole(&nodes))
            for (int rank = 0; rank < sl_nodes_world(&nodes) && rank < 100; rank++)
                fuzz_must(sl_nodes_of_rank(&nodes, rank, &pid));
        fuzz_must(sl_standing_positions(&standing, &nodes) == SL_OK);
    }
    json_t *times = sl_nodes_times(&nodes, now);
    json_decref(times);
    sl_standing_close(&standing);
    sl_nodes_close(&nodes);
    free(text);
    return heard;
}

static int write_beats(int number, FILE *out) {
    if (number > 0)
        return 0;
    fprintf(out,
            "%s\n{\"node\": \"b\", \"clock\": \"d\", \"calls\": 0, \"lost\": 1, \"validate\": 0, "
            "\"trouble\": \"x\", \"ranks\": []}\n%s\n",
            beat(), beat());
    return 1;
}

/* ---- orders, a line each, to an agent with a gate */

/* The folder of a process that never runs again, with its gate. */
static const char *gates(sl_process_id *process) {
    static char folder[] = "/tmp/slackline-fuzz-XXXXXX";
    static sl_process_id own;
    char name[SL_FILE_NAME];
    if (!own.id) {
        fuzz_must(mkdtemp(folder));
        sl_process_find(&own);
        sl_gate_name(&own, name);
        sl_gate *gate = sl_folder_make(folder, name, sizeof *gate);
        fuzz_must(gate);
        sl_gate_init(gate, 0, &own);
        fuzz_must(sl_folder_publish(folder, name, name) == 0);
    }
    *process = own;
    return folder;
}

static int read_orders(const uint8_t *data, size_t size) {
    sl_process_id process;
    sl_store *store;
    sl_agent *agent;
    int carried = 0;
    fuzz_must(sl_store_open("unix:/nowhere/redis.sock", FUZZ_JOB, SL_MS, &store) == SL_OK);
    const sl_agent_config config = {.folder = gates(&process),
                                    .node = "a",
                                    .store = store,
                                    .store_url = "unix:/nowhere/redis.sock",
                                    .job = FUZZ_JOB,
                                    .validate = 1};
    fuzz_must(sl_agent_open(&config, &agent) == SL_OK);
    fuzz_must(sl_grow(&agent->process, &agent->capacity, 1, sizeof *agent->process) == SL_OK);
    /* rank -1: no order to validate names it, which would start a process */
    agent->process[0] = (sl_watched_process){.process = process, .pid = -1, .rank = -1, .size = 2};
    fuzz_must(sl_track_open(&agent->process[0].track) == SL_OK);
    agent->processes = 1;
    char *text = fuzz_text(data, size);
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        json_t *order = json_loadb(line, length, 0, NULL);
        int64_t before = sl_store_refused_by(store)->odd;
        sl_status status = sl_agent_carry_out(agent, order, SL_SECOND);
        fuzz_must(status == SL_OK || status == SL_EPEER);
        carried += order && sl_store_refused_by(store)->odd == before;
        json_decref(order);
        line += length + (line[length] == '\n');
    }
    free(text);
    sl_agent_close(agent);
    sl_store_close(store);
    return carried;
}

static int write_orders(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(
               out,
               "{\"kind\": \"profile\", \"round\": 1, \"length\": 1000000, \"until\": {\"a\": 2000000000}}\n"
               "{\"kind\": \"cancel\", \"round\": 1}\n{\"kind\": \"hold\", \"round\": 2, \"until\": {\"a\": "
               "2000000000}}\n"
               "{\"kind\": \"look\", \"round\": 2, \"look\": 1, \"raises\": [[0, 1, -1, -1, -1, 1, 5]]}\n"
               "{\"kind\": \"release\", \"round\": 2}\n{\"kind\": \"clock\", \"round\": 3, \"node\": \"b\"}\n"
               "{\"kind\": \"validate\", \"round\": 4, \"deadline_ms\": 10, \"links\": \"0-1\", \"until\": "
               "{\"a\": 2000000000}, "
               "\"members\": [{\"node\": \"a\", \"rank\": 0, \"pid\": 7, \"gemm\": 1}]}\n{\"kind\": "
               "\"dismiss\", \"round\": 4}\n");
}

/* ---- a controller and a viewer, with a store that anybody writes to */

typedef struct put_item {
    const char *log, *key; /* one of them */
    sl_message_kind kind;  /* of a log of messages: the head is made */
} put_item;

static const put_item items[] = {{"nodes", NULL, 0},
                                 {"iterations", NULL, SL_MESSAGE_ITERATIONS},
                                 {"profiles", NULL, SL_MESSAGE_CALLS},
                                 {"views", NULL, SL_MESSAGE_VIEW},
                                 {"events", NULL, 0},
                                 {NULL, "controller", 0},
                                 {NULL, "status", 0},
                                 {NULL, "reported", 0},
                                 {NULL, "validation:1", 0},
                                 {NULL, "node:a", 0},
                                 {"orders", NULL, 0}};
enum { ITEMS = sizeof items / sizeof *items };

static void put(sl_store *store, const put_item *item, const uint8_t *data, size_t size) {
    if (item->key)
        fuzz_must(sl_store_set(store, item->key, data, size, 0) == SL_OK);
    else
        fuzz_must(sl_store_append(store, item->log, data, size, 100) == SL_OK);
}

static void forget_event(void *context, const sl_event *event) {
    (void)context, (void)event;
}

/* Pieces (what, length, bytes) are written to the store; a piece of another kind lets both step. */
static int read_store(const uint8_t *data, size_t size) {
    sl_store *own = fuzz_store_open(1), *store = fuzz_store_open(0);
    sl_watched_cluster *cluster;
    sl_controller *controller;
    sl_board board;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    sl_time now = 1000 * SL_SECOND, next;
    const sl_controller_config config = {.store = store, .job = FUZZ_JOB, .hold = 1, .event = forget_event};
    fuzz_must(sl_controller_open(&config, &controller) == SL_OK);
    fuzz_must(sl_cluster_open(fuzz_redis(), FUZZ_JOB, &cluster) == SL_OK);
    fuzz_must(sl_board_open("fuzz", 1, &board) == SL_OK);
    for (int i = 0; size > 0 && i < 40; i++) {
        size_t what = (size_t)fuzz_take(&data, &size, 1) % (ITEMS + 2),
               length = (size_t)fuzz_take(&data, &size, 2);
        int more;
        if (what >= ITEMS) {
            fuzz_must(sl_controller_step(controller, now += (sl_time)length * SL_MS, &next) == SL_OK);
            sl_status status = sl_cluster_step(cluster, &board, &lock, &more);
            fuzz_must(status == SL_OK || status == SL_EPEER);
            continue;
        }
        length = length < size ? length : size;
        put(own, &items[what], data, length);
        data += length;
        size -= length;
    }
    int known = sl_nodes_alive(sl_controller_nodes(controller)) > 0;
    sl_controller_finish(controller);
    sl_controller_close(controller);
    sl_cluster_close(cluster);
    sl_board_close(&board);
    sl_store_close(store);
    sl_store_close(own);
    return known;
}

static void put_piece(FILE *out, int what, const char *bytes, size_t size) {
    fputc(what, out);
    fputc((int)(size & 255), out);
    fputc((int)(size >> 8), out);
    fwrite(bytes, 1, size, out);
}

static void put_step(FILE *out, int ms) {
    fputc(ITEMS, out);
    fputc(ms & 255, out);
    fputc(ms >> 8, out);
}

/* Messages as of write_messages, whose kinds are the items' numbers less 1. */
static void put_messages(FILE *out, void (*make)(FILE *out)) {
    char *bytes = NULL;
    size_t size = 0, at = 0;
    FILE *made = open_memstream(&bytes, &size);
    make(made);
    fclose(made);
    while (at < size) {
        size_t length = (uint8_t)bytes[at + 1] | (size_t)(uint8_t)bytes[at + 2] << 8;
        put_piece(out, bytes[at] + 1, bytes + at + 3, length);
        at += 3 + length;
    }
    free(bytes);
}

static int write_store(int number, FILE *out) {
    static const char event[] = "{\"time_s\": 1.5, \"kind\": \"onset\", \"iteration\": 3, \"seen\": \"x\", "
                                "\"decided\": \"\", \"why\": \"\"}",
                      status[] = "{\"state\": \"tracking\", \"iterations\": 5, \"iteration_ms\": 1.5, "
                                 "\"program\": \"a\", \"nodes\": 1}";
    if (number > 0)
        return 0;
    put_step(out, 100); /* takes charge */
    put_piece(out, 9, beat(), strlen(beat()));
    put_piece(out, 0, beat(), strlen(beat()));
    put_step(out, 100);
    put_messages(out, put_blocks);
    put_messages(out, put_calls);
    put_messages(out, put_views);
    put_piece(out, 4, event, strlen(event));
    put_piece(out, 6, status, strlen(status));
    put_step(out, 1000);
    put_piece(out, 8, "{\"exit_code\": 0, \"kinds\": []}", 29);
    put_piece(out, 7, "{\"exit_code\": 0}", 16);
    put_step(out, 1000);
    return 1;
}

/* ---- suspects */

static int read_suspect(const uint8_t *data, size_t size) {
    sl_suspect suspect, again;
    char text[512], other[512];
    json_t *json = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    sl_status status = sl_suspect_from_json(json, &suspect);
    json_decref(json);
    if (status != SL_OK)
        return 0;
    json = sl_suspect_to_json(&suspect);
    fuzz_must(sl_suspect_from_json(json, &again) == SL_OK);
    json_decref(json);
    sl_suspect_text(&suspect, text, sizeof text);
    sl_suspect_text(&again, other, sizeof other);
    fuzz_must(strcmp(text, other) == 0);
    return 1;
}

static int write_suspect(int number, FILE *out) {
    const char *const all[] = {"{\"component\": \"link\", \"link\": [0, 1], \"both\": true, \"measured\": "
                               "2.5, \"expected\": 1, \"cause\": \"\", \"why\": \"x\"}",
                               "{\"component\": \"device\", \"rank\": 3, \"measured\": 2, \"expected\": 1, "
                               "\"cause\": \"clock\", \"why\": \"y\"}",
                               "{\"component\": \"group\", \"group\": \"00000000000000ab\", \"why\": \"z\"}"};
    return number < 3 && fuzz_say(out, all[number]);
}

const fuzz_reader fuzz_control[] = {
    {"messages",
     "sl_message_read sl_view_unpack sl_iteration_samples_add sl_traffic_take sl_collection_add "
     "sl_closing_add",
     NULL, write_messages, NULL, read_messages},
    {"heartbeats", "sl_nodes_hear sl_beat_is", NULL, write_beats,
     "node clock ranks rank pid size period calls lost validate trouble", read_beats},
    {"orders", "sl_agent_carry_out sl_holds_raise", NULL, write_orders,
     "kind profile cancel hold look raises release validate dismiss clock until length members links "
     "deadline_ms gemm",
     read_orders},
    {"job_store",
     "sl_controller_step sl_cluster_step sl_control_read sl_levels_read sl_profiling_read sl_holding_read "
     "sl_validating_read",
     NULL, write_store, NULL, read_store},
    {"suspect", "sl_suspect_from_json", NULL, write_suspect,
     "component device host link group unknown workload imbalance about both cause why", read_suspect},
    {0}};
