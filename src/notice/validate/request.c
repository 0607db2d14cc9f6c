#include "notice/validate/request.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char sl_validate_usage[] =
    "Usage: slackline validate [--ranks N] [--topology ring|tree|all] [--only devices|links] [--repeat N]\n"
    "                          [--expect FILE] [--format text|json]\n"
    "\n"
    "Tests devices (matrix products) and links (TCP between the processes: latency, and bandwidth in each\n"
    "direction) and names what is slow, with the cause where the system shows it. Inside mpirun or srun "
    "each\n"
    "rank is one of its processes; elsewhere it starts them itself, on this host.\n"
    "\n"
    "  --ranks N          processes to start (default: one a processor, at least 4)\n"
    "  --topology T       links that are tested: ring (default), tree, or all\n"
    "  --links LIST|FILE  these links instead: 0-1,1-2 or a file of such pairs\n"
    "  --only KIND        devices or links alone\n"
    "  --repeat N         repeats (default 5); how much they vary is in the report\n"
    "  --window MS        products of one repeat run so long (default 100)\n"
    "  --threads N        threads of a device (default 1)\n"
    "  --expect FILE      compare with an earlier result (JSON), not with the median of the same kind\n"
    "  --deadline MS      no new repeat when it could end behind this\n"
    "  --address ADDRESS  where this process is reached (default: any address of its host)\n"
    "  --format F         text (default) or json\n"
    "\n"
    "Beside a program that is held (started by slackline watch):\n"
    "  --join URL         the store of that job; @FILE reads it from a file\n"
    "  --key KEY          the key of that job, 16 to 256 characters; @FILE reads it from a file\n"
    "  --job JOB          its name\n"
    "  --round NAME       of the members that test together; the first that is there puts the JSON report\n"
    "                     under the key validation:NAME of the job\n"
    "  --member I         this one's number, from 0\n"
    "  --members N        of the round\n"
    "  --rank RANK        of the job, beside which this one runs\n"
    "  --pid PID          of its process, whose surroundings are looked at\n"
    "  --gemm             its device is suspect: test it, too\n"
    "\n"
    "With --join the deadline is 3000 ms unless --deadline says otherwise.\n"
    "\n"
    "Exit code: 0 nothing is slow, 1 something is slow or cannot be told, or the validation failed, 2 a "
    "wrong\n"
    "request.\n"
    "\n"
    "Example: slackline validate --ranks 4 --format json > healthy.json\n";

/* A program is held meanwhile, usually for 5 s. */
#define HELD (3 * SL_SECOND)

enum {
    RANKS = 256,
    TOPOLOGY,
    LINKS,
    ONLY,
    REPEAT,
    WINDOW,
    THREADS,
    EXPECT,
    DEADLINE,
    ADDRESS,
    FORMAT,
    JOIN,
    KEY,
    JOB,
    ROUND,
    MEMBER,
    MEMBERS,
    RANK,
    PID,
    GEMM,
    RESULT
};

static const struct option options[] = {{"ranks", required_argument, NULL, RANKS},
                                        {"topology", required_argument, NULL, TOPOLOGY},
                                        {"links", required_argument, NULL, LINKS},
                                        {"only", required_argument, NULL, ONLY},
                                        {"repeat", required_argument, NULL, REPEAT},
                                        {"window", required_argument, NULL, WINDOW},
                                        {"threads", required_argument, NULL, THREADS},
                                        {"expect", required_argument, NULL, EXPECT},
                                        {"deadline", required_argument, NULL, DEADLINE},
                                        {"address", required_argument, NULL, ADDRESS},
                                        {"format", required_argument, NULL, FORMAT},
                                        {"join", required_argument, NULL, JOIN},
                                        {"key", required_argument, NULL, KEY},
                                        {"job", required_argument, NULL, JOB},
                                        {"round", required_argument, NULL, ROUND},
                                        {"member", required_argument, NULL, MEMBER},
                                        {"members", required_argument, NULL, MEMBERS},
                                        {"rank", required_argument, NULL, RANK},
                                        {"pid", required_argument, NULL, PID},
                                        {"gemm", no_argument, NULL, GEMM},
                                        {"result", required_argument, NULL, RESULT},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static sl_status take_member(const sl_options *o, sl_validate_request *r) {
    switch (o->option) {
    case JOIN:
        return sl_option_secret(o, r->join, sizeof r->join);
    case KEY:
        return sl_option_secret(o, r->key, sizeof r->key);
    case JOB:
        r->job = o->value;
        return SL_OK;
    case ROUND:
        r->round = o->value;
        return SL_OK;
    case MEMBER:
        return sl_option_int(o, 0, 1000000, &r->member);
    case MEMBERS:
        return sl_option_int(o, 1, 1000000, &r->members);
    case RANK:
        return sl_option_int(o, 0, 1 << 30, &r->rank);
    case PID:
        return sl_option_int(o, -1, 1 << 30, &r->pid);
    case RESULT:
        r->result = o->value;
        return SL_OK;
    default:
        return sl_option_too_much(o);
    }
}

static sl_status take_time(const sl_options *o, sl_time *value) {
    double ms;
    SL_TRY(sl_option_real(o, "ms", 1, 86400000, &ms));
    *value = sl_from_ms(ms);
    return SL_OK;
}

static sl_status take(const sl_options *o, void *argument) {
    static const char *const topologies[] = {"ring", "tree", "all", NULL};
    static const char *const kinds[] = {"devices", "links", NULL};
    static const char *const formats[] = {"text", "json", NULL};
    sl_validate_request *r = argument;
    int chosen = 0;
    switch (o->option) {
    case RANKS:
        return sl_option_int(o, 1, 10000, &r->ranks);
    case TOPOLOGY:
        SL_TRY(sl_option_choice(o, topologies, &chosen));
        r->topology = (sl_validate_topology)chosen;
        r->topology_said = 1;
        return SL_OK;
    case LINKS:
        r->links = o->value;
        return SL_OK;
    case ONLY:
        SL_TRY(sl_option_choice(o, kinds, &chosen));
        r->devices = chosen == 0;
        r->wires = chosen == 1;
        return SL_OK;
    case REPEAT:
        return sl_option_int(o, 1, 1000, &r->repeat);
    case WINDOW:
        return take_time(o, &r->window);
    case THREADS:
        return sl_option_int(o, 1, 1024, &r->threads);
    case EXPECT:
        r->expect = o->value;
        return SL_OK;
    case DEADLINE:
        return take_time(o, &r->deadline);
    case ADDRESS:
        r->address = o->value;
        return SL_OK;
    case FORMAT:
        return sl_option_choice(o, formats, &r->json);
    case GEMM:
        r->gemm = 1;
        return SL_OK;
    default:
        return take_member(o, r);
    }
}

/* A member says who it is, and whether its device is suspect. */
static sl_status check_member(sl_validate_request *r) {
    if (!r->join[0]) {
        if (r->key[0] || r->job || r->round || r->member >= 0 || r->members || r->rank >= 0 || r->pid)
            return sl_error(
                SL_EINVAL,
                "validate: --key, --job, --round, --member, --members, --rank and --pid go with --join");
        r->gemm = r->devices;
        return SL_OK;
    }
    if (!r->job || !r->round || r->member < 0 || !r->members || r->rank < 0)
        return sl_error(SL_EINVAL, "validate: --join needs --job, --round, --member, --members and --rank");
    if (r->member >= r->members)
        return sl_error(SL_EINVAL, "validate: member %d is none of %d (they count from 0)", r->member,
                        r->members);
    if (r->ranks)
        return sl_error(SL_EINVAL, "validate: --ranks starts processes, --join is one: not both");
    r->gemm &= r->devices;
    if (r->deadline == 0)
        r->deadline = HELD;
    return SL_OK;
}

sl_status sl_validate_request_read(int argc, char **argv, sl_validate_request *request) {
    *request = (sl_validate_request){
        .repeat = 5, .threads = 1, .devices = 1, .wires = 1, .window = 100 * SL_MS, .member = -1, .rank = -1};
    sl_options o = {.command = "validate", .table = options, .argc = argc, .argv = argv};
    SL_TRY(sl_options_take(&o, take, request));
    request->help = o.help;
    if (o.help)
        return SL_OK;
    if (request->links && request->topology_said)
        return sl_error(SL_EINVAL, "validate: give --links or --topology, not both");
    return check_member(request);
}

/* ---- links that are asked for ---- */

static sl_status read_pairs(const char *text, const char *where, sl_pair **pair, int *count) {
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
            return sl_error(SL_EINVAL, "%s: '%.*s' is no link; a link is two ranks: 0-1", where,
                            (int)strcspn(at, ",;\n"), at);
        if (a < 0 || b < 0 || a == b)
            return sl_error(SL_EINVAL, "%s: %d-%d is no link between two ranks", where, a, b);
        SL_TRY(sl_grow(pair, &room, (size_t)*count + 1, sizeof **pair));
        (*pair)[(*count)++] = (sl_pair){a, b, 0};
        at += used;
    }
    return *count > 0 ? SL_OK : sl_error(SL_EINVAL, "%s: names no link", where);
}

sl_status sl_links_read(const char *text, sl_pair **pair, int *count) {
    char *content = NULL, where[160];
    size_t size;
    int listed = text[strspn(text, "0123456789-, ")] == 0;
    *pair = NULL;
    *count = 0;
    snprintf(where, sizeof where, listed ? "links '%.100s'" : "%.150s", text);
    if (!listed)
        SL_TRY(sl_file_read_most(text, 16 << 20, &content, &size));
    sl_status status = read_pairs(content ? content : text, where, pair, count);
    sl_free(content);
    if (status != SL_OK) {
        sl_free(*pair);
        *pair = NULL;
    }
    return status;
}
