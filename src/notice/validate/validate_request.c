#include "notice/validate/validate_request.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A program is held meanwhile, usually for 5 s. */
#define HELD (3 * SL_SECOND)

static const sl_value topologies[] = {{"ring", NULL}, {"tree", NULL}, {"all", NULL}, {NULL, NULL}};
static const sl_value kinds[] = {{"devices", NULL}, {"links", NULL}, {NULL, NULL}};

static sl_status take_topology(const sl_options *o, void *argument) {
    sl_validate_request *r = argument;
    int chosen = 0;
    SL_TRY(sl_option_choice(o, &chosen));
    r->topology = (sl_validate_topology)chosen;
    r->topology_said = 1;
    return SL_OK;
}

static sl_status take_kind(const sl_options *o, void *argument) {
    sl_validate_request *r = argument;
    int chosen = 0;
    SL_TRY(sl_option_choice(o, &chosen));
    r->devices = chosen == 0;
    r->wires = chosen == 1;
    return SL_OK;
}

static sl_status take_time(const sl_options *o, void *time) {
    double ms;
    SL_TRY(sl_option_real(o, "ms", 1, 86400000, &ms));
    *(sl_time *)time = sl_from_ms(ms);
    return SL_OK;
}

#define MAX_MEMBERS 1000000
#define MAX_IDS (1 << 30)

const sl_option sl_validate_options[] = {
    SL_OPTION("ranks", INT, sl_validate_request, ranks, "N",
              "processes to start (default: one per processor, at least 4)", .least = 1, .most = 10000),
    SL_OPTION_OWN("topology", take_topology, NULL, "links that are tested (default ring)",
                  .values = topologies),
    SL_OPTION("links", TEXT, sl_validate_request, links, "LIST|FILE",
              "these links instead: 0-1,1-2 or a file of such pairs", .completes = SL_COMPLETES_FILE),
    SL_OPTION_OWN("only", take_kind, NULL, "devices or links alone", .values = kinds),
    SL_OPTION("repeat", INT, sl_validate_request, repeat, "N", "repeats; the report shows their variation",
              .least = 1, .most = 1000, .standard = "5"),
    SL_OPTION("window", OWN, sl_validate_request, window, "MS", "duration of the products of one repeat",
              .take = take_time, .standard = "100"),
    SL_OPTION("threads", INT, sl_validate_request, threads, "N", "threads of a device", .least = 1,
              .most = 1024, .standard = "1"),
    SL_OPTION("expect", TEXT, sl_validate_request, expect, "FILE",
              "compare with an earlier result (JSON), not with the median of the same kind",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION("deadline", OWN, sl_validate_request, deadline, "MS",
              "no new repeat if it might finish after this", .take = take_time),
    SL_OPTION("address", TEXT, sl_validate_request, address, "ADDRESS",
              "where this process is reached (default: any address of its host)"),
    SL_OPTION_TEXT_OR_JSON(sl_validate_request, json),
    SL_OPTION("join", SECRET, sl_validate_request, join, "URL",
              "the store of that job; @FILE reads it from a file", .most = SL_STORE_URL,
              .heading = "Next to a program on hold (started by slackline watch)"),
    SL_OPTION("key", SECRET, sl_validate_request, key, "KEY",
              "the key of that job, 16 to 256 characters; @FILE reads it from a file", .most = SL_STORE_KEY),
    SL_OPTION("job", TEXT, sl_validate_request, job, "JOB", "its name"),
    SL_OPTION("round", TEXT, sl_validate_request, round, "NAME",
              "of the members that test together; the first one stores the JSON report under the key "
              "validation:NAME of the job"),
    SL_OPTION("member", INT, sl_validate_request, member, "I", "this one's number, from 0",
              .most = MAX_MEMBERS),
    SL_OPTION("members", INT, sl_validate_request, members, "N", "of the round", .least = 1,
              .most = MAX_MEMBERS),
    SL_OPTION("rank", INT, sl_validate_request, rank, "RANK", "of the job, next to which this one runs",
              .most = MAX_IDS),
    SL_OPTION("pid", INT, sl_validate_request, pid, "PID", "of its process, whose environment is examined",
              .least = -1, .most = MAX_IDS),
    SL_OPTION("gemm", FLAG, sl_validate_request, gemm, NULL, "its device is suspect: test it, too"),
    SL_OPTION("result", TEXT, sl_validate_request, result, "FILE",
              NULL), /* from the command to its processes */
    SL_OPTIONS_END};

/* A member gives its identity, and whether its device is suspect. */
static sl_status check_member(sl_validate_request *r) {
    if (!r->join[0]) {
        if (r->key[0] || r->job || r->round || r->member >= 0 || r->members || r->rank >= 0 || r->pid)
            return sl_error(
                SL_EINVAL,
                "healthcheck: --key, --job, --round, --member, --members, --rank and --pid go with --join");
        r->gemm = r->devices;
        return SL_OK;
    }
    if (!r->job || !r->round || r->member < 0 || !r->members || r->rank < 0)
        return sl_error(SL_EINVAL,
                        "healthcheck: --join needs --job, --round, --member, --members and --rank");
    if (r->member >= r->members)
        return sl_error(SL_EINVAL, "healthcheck: member %d is not one of %d (counted from 0)", r->member,
                        r->members);
    if (r->ranks)
        return sl_error(SL_EINVAL, "healthcheck: --ranks starts processes, --join is one: not both");
    r->gemm &= r->devices;
    if (r->deadline == 0)
        r->deadline = HELD;
    return SL_OK;
}

sl_status sl_validate_request_read(int argc, char **argv, sl_validate_request *request) {
    *request = (sl_validate_request){.devices = 1, .wires = 1, .member = -1, .rank = -1};
    sl_options o = {.command = "healthcheck", .table = sl_validate_options, .argc = argc, .argv = argv};
    SL_TRY(sl_options_take(&o, request));
    if (request->links && request->topology_said)
        return sl_error(SL_EINVAL, "healthcheck: give --links or --topology, not both");
    return check_member(request);
}

/* ---- links that are asked for ---- */

static sl_status read_pairs(const char *text, const char *where, sl_member_pair **pair, int *count) {
    size_t room = 0;
    *pair = NULL;
    *count = 0;
    SL_TRY(sl_alloc(pair, 0, sizeof **pair));
    for (const char *at = text; *(at += strspn(at, " \t\r\n,;"));) {
        int a, b, used = 0;
        if (*at == '#') {
            at += strcspn(at, "\n");
            continue;
        }
        if (sscanf(at, "%9d %*[-] %9d%n", &a, &b, &used) != 2 && sscanf(at, "%9d %9d%n", &a, &b, &used) != 2)
            return sl_error(SL_EINVAL, "%s: invalid link '%.*s'; a link is two ranks: 0-1", where,
                            (int)strcspn(at, ",;\n"), at);
        if (a < 0 || b < 0 || a == b)
            return sl_error(SL_EINVAL, "%s: %d-%d is not a link between two ranks", where, a, b);
        SL_TRY(sl_grow(pair, &room, (size_t)*count + 1, sizeof **pair));
        (*pair)[(*count)++] = (sl_member_pair){a, b, 0};
        at += used;
    }
    return *count > 0 ? SL_OK : sl_error(SL_EINVAL, "%s: has no links", where);
}

sl_status sl_links_read(const char *text, sl_member_pair **pair, int *count) {
    char *content = NULL, where[160];
    size_t size;
    int listed = text[strspn(text, "0123456789-, ")] == 0;
    *pair = NULL;
    *count = 0;
    snprintf(where, sizeof where, listed ? "links '%.100s'" : "%.150s", text);
    if (!listed)
        SL_TRY(sl_file_read_max(text, 16 << 20, &content, &size));
    sl_status status = read_pairs(content ? content : text, where, pair, count);
    sl_free(content);
    if (status != SL_OK) {
        sl_free(*pair);
        *pair = NULL;
    }
    return status;
}
