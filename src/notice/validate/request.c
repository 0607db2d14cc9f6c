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

static const char *const topologies[] = {"ring", "tree", "all", NULL};
static const char *const kinds[] = {"devices", "links", NULL};
static const char *const formats[] = {"text", "json", NULL};

static sl_status take_topology(const sl_options *o, void *argument) {
    sl_validate_request *r = argument;
    int chosen = 0;
    SL_TRY(sl_option_choice(o, topologies, &chosen));
    r->topology = (sl_validate_topology)chosen;
    r->topology_said = 1;
    return SL_OK;
}

static sl_status take_kind(const sl_options *o, void *argument) {
    sl_validate_request *r = argument;
    int chosen = 0;
    SL_TRY(sl_option_choice(o, kinds, &chosen));
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

#define MOST_MEMBERS 1000000
#define MOST_IDS (1 << 30)

static const sl_option options[] = {
    SL_OPTION("ranks", INT, sl_validate_request, ranks, .least = 1, .most = 10000),
    SL_OPTION_OWN("topology", take_topology),
    SL_OPTION("links", TEXT, sl_validate_request, links),
    SL_OPTION_OWN("only", take_kind),
    SL_OPTION("repeat", INT, sl_validate_request, repeat, .least = 1, .most = 1000),
    SL_OPTION("window", OWN, sl_validate_request, window, .take = take_time),
    SL_OPTION("threads", INT, sl_validate_request, threads, .least = 1, .most = 1024),
    SL_OPTION("expect", TEXT, sl_validate_request, expect),
    SL_OPTION("deadline", OWN, sl_validate_request, deadline, .take = take_time),
    SL_OPTION("address", TEXT, sl_validate_request, address),
    SL_OPTION("format", CHOICE, sl_validate_request, json, .names = formats),
    SL_OPTION("join", SECRET, sl_validate_request, join, .most = SL_STORE_URL),
    SL_OPTION("key", SECRET, sl_validate_request, key, .most = SL_STORE_KEY),
    SL_OPTION("job", TEXT, sl_validate_request, job),
    SL_OPTION("round", TEXT, sl_validate_request, round),
    SL_OPTION("member", INT, sl_validate_request, member, .most = MOST_MEMBERS),
    SL_OPTION("members", INT, sl_validate_request, members, .least = 1, .most = MOST_MEMBERS),
    SL_OPTION("rank", INT, sl_validate_request, rank, .most = MOST_IDS),
    SL_OPTION("pid", INT, sl_validate_request, pid, .least = -1, .most = MOST_IDS),
    SL_OPTION("gemm", FLAG, sl_validate_request, gemm),
    SL_OPTION("result", TEXT, sl_validate_request, result),
    SL_OPTIONS_END};

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
    SL_TRY(sl_options_take(&o, request));
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
