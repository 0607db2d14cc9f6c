/* bench_fleet_load NODES RANKS_PER_NODE [PROCESSES [SECONDS [clocks]]]: a real redis-server on a Unix socket,
 * the real controller in a process of its own, and the real agents of NODES nodes in PROCESSES processes
 * (default 2). The agents' rings are made up: an allreduce and a barrier per iteration of 200 ms, each rank
 * 1% early or late, and from half of the time on one rank that computes twice as long. `clocks`: each node
 * has a clock of its own, as the hosts of a cluster have; otherwise all share one.
 *
 * Prints a line of JSON: requests and bytes of the store per second, processor seconds per second of store,
 * controller and agents, and the seconds to each step of the verdict. The job is not held. */
#include "base/clock.h"
#include "base/random.h"
#include "launch/redis.h"
#include "notice/agent/agent.h"
#include "notice/agent/rings.h"
#include "notice/control/controller.h"
#include "notice/message/clocks.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERIOD (200 * SL_MS)
#define WORK (150 * SL_MS) /* before the allreduce; of the slow rank twice as much */
#define ALLREDUCE (8 * SL_MS)
#define COMMUNICATOR 7
#define KEY "the-key-of-the-measured-job"
#define MOST_PROCESSES 16
#define MOST_ROUND 256 /* calls handed out at once */

enum { NODES_JOINED, TRACKED, REFERENCE, ONSET, SUSPECTS, VERDICT, STEPS };
static const char *const step_names[STEPS] = {"joined", "tracked",  "reference",
                                              "onset",  "suspects", "verdict"};

/* Of all processes of the measurement. Each word has one writer; readers only print. */
typedef struct shared {
    sl_time begin, onset;
    _Atomic int64_t reached[STEPS];                             /* ns since the begin; 0: not yet */
    _Atomic int64_t controller_cpu, agents_cpu[MOST_PROCESSES]; /* ns */
    _Atomic int64_t late[MOST_PROCESSES]; /* ns by which the latest step of the last second came late */
    _Atomic int64_t controller_late;
    _Atomic int nodes, ranks, right, abstained, wrong, refused;
    _Atomic int stop;
} shared;

static shared *all;
static int nodes, per_node, own_clocks;
static int64_t actor; /* the node whose agent is opened */

static int64_t cpu_of(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SL_SECOND +
           (int64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

/* ---- the rings ---- */

struct sl_rings {
    int first;
    int64_t *read; /* [per_node] calls handed out */
    int turn;
    uint64_t calls;
    sl_call call[MOST_ROUND];
};

static double jitter(int rank, int64_t iteration) {
    return sl_random_unit(sl_random_mix((uint64_t)rank << 32 ^ (uint64_t)iteration)) * 0.02 - 0.01;
}

static int slow_rank(void) {
    return nodes * per_node / 3;
}

/* The start of an iteration, and how long the slowest rank computes in it. */
static sl_time start_of(int64_t iteration, sl_time *longest) {
    int64_t slow = (all->onset - all->begin) / PERIOD;
    *longest = iteration < slow ? WORK + WORK / 100 : 2 * WORK + WORK / 50;
    sl_time extra = iteration < slow ? 0 : (iteration - slow) * (WORK + WORK / 100);
    return all->begin + iteration * PERIOD + extra;
}

static void make_call(int rank, int64_t number, sl_call *call) {
    int64_t iteration = number / 2;
    sl_time longest, begin = start_of(iteration, &longest), next;
    next = start_of(iteration + 1, &(sl_time){0});
    sl_time meet = begin + longest + ALLREDUCE;
    double work = WORK * (1 + jitter(rank, iteration));
    if (rank == slow_rank() && longest > WORK * 3 / 2)
        work *= 2;
    *call = (sl_call){.kind = SL_RECORD_CALL,
                      .tag = SL_TAG_NONE,
                      .rank = rank,
                      .peer = SL_PEER_NONE,
                      .communicator = COMMUNICATOR,
                      .device = -1,
                      .sequence = (uint64_t)number};
    if (number % 2 == 0) {
        call->call = SL_CALL_MPI_Allreduce;
        call->bytes = 1 << 20;
        call->start = begin + (sl_time)work;
        call->end = meet;
    } else {
        call->call = SL_CALL_MPI_Barrier;
        call->start = meet + (next - meet) * (90 + (int)(100 * jitter(rank, -iteration))) / 100;
        call->end = next;
    }
}

sl_status __wrap_sl_rings_open(const char *folder, sl_rings **rings);
void __wrap_sl_rings_close(sl_rings *rings);
sl_status __wrap_sl_rings_look(sl_rings *rings);
size_t __wrap_sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls);
int __wrap_sl_rings_ended(sl_rings *rings, uint64_t *process);
void __wrap_sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost);
double __wrap_sl_rings_fullest(sl_rings *rings);
const char *__wrap_sl_rings_trouble(const sl_rings *rings);
void __real_sl_clock_identity(char *identity, size_t size);
void __wrap_sl_clock_identity(char *identity, size_t size);

sl_status __wrap_sl_rings_open(const char *folder, sl_rings **rings) {
    sl_rings *r = calloc(1, sizeof *r);
    (void)folder;
    if (!r || !(r->read = calloc((size_t)per_node, sizeof *r->read)))
        abort();
    r->first = (int)actor * per_node;
    *rings = r;
    return SL_OK;
}

void __wrap_sl_rings_close(sl_rings *rings) {
    if (rings)
        free(rings->read);
    free(rings);
}

sl_status __wrap_sl_rings_look(sl_rings *rings) {
    (void)rings;
    return SL_OK;
}

size_t __wrap_sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls) {
    sl_time now = sl_now();
    for (int tried = 0; tried < per_node; tried++) {
        int i = rings->turn++ % per_node, rank = rings->first + i;
        size_t count = 0;
        while (count < MOST_ROUND && count < most) {
            make_call(rank, rings->read[i], &rings->call[count]);
            if (rings->call[count].end > now)
                break;
            rings->read[i]++;
            count++;
        }
        if (count == 0)
            continue;
        rings->calls += count;
        *source =
            (sl_ring_source){.process = {.id = sl_random_mix((uint64_t)rank + 1), .pid = 5000000 + rank},
                             .pid = 5000000 + rank,
                             .rank = rank,
                             .size = nodes * per_node};
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
    *lost = 0;
}

double __wrap_sl_rings_fullest(sl_rings *rings) {
    (void)rings;
    return 0;
}

const char *__wrap_sl_rings_trouble(const sl_rings *rings) {
    (void)rings;
    return "";
}

void __wrap_sl_clock_identity(char *identity, size_t size) {
    if (own_clocks)
        snprintf(identity, size, "clock of node %d", (int)actor);
    else
        __real_sl_clock_identity(identity, size);
}

/* ---- the processes ---- */

static void must(sl_status status, const char *what) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, sl_error_text());
    _exit(1);
}

static sl_store *open_store(const char *url) {
    sl_store *store;
    must(sl_store_open(url, "job", 5 * SL_SECOND, &store), "a store");
    must(sl_store_seal(store, KEY), "a key");
    return store;
}

static void run_agents(const char *url, int first, int end, int process) {
    int count = end - first;
    sl_agent **agent = calloc((size_t)count, sizeof *agent);
    sl_time *due = calloc((size_t)count, sizeof *due);
    char(*name)[16] = calloc((size_t)count, sizeof *name);
    if (!agent || !due || !name)
        _exit(1);
    for (int i = 0; i < count; i++) {
        actor = first + i;
        snprintf(name[i], sizeof name[i], "n%d", first + i);
        const sl_agent_config config = {
            .folder = "/nowhere", .node = name[i], .store = open_store(url), .key = KEY, .job = "job"};
        must(sl_agent_open(&config, &agent[i]), "an agent");
        due[i] = sl_now() + (sl_time)(sl_random_mix((uint64_t)actor) % (uint64_t)(50 * SL_MS));
    }
    for (sl_time report = 0, latest = 0; !atomic_load(&all->stop);) {
        sl_time earliest = sl_now() + 50 * SL_MS;
        for (int i = 0; i < count; i++) {
            sl_time now = sl_now();
            if (now >= due[i]) {
                latest = now - due[i] > latest ? now - due[i] : latest;
                must(sl_agent_step(agent[i], now, &due[i]), "an agent's step");
            }
            earliest = due[i] < earliest ? due[i] : earliest;
        }
        if (sl_now() > report) {
            report = sl_now() + SL_SECOND;
            atomic_store(&all->agents_cpu[process], cpu_of(RUSAGE_SELF));
            atomic_store(&all->late[process], latest);
            latest = 0;
        }
        sl_clock_sleep_until(sl_clock_real(), earliest);
    }
    _exit(0);
}

static void reach(int step) {
    int64_t none = 0;
    atomic_compare_exchange_strong(&all->reached[step], &none, sl_now() - all->begin);
}

static void on_event(void *context, const sl_event *event) {
    (void)context;
    if (getenv("SL_SHOW")) {
        char *line = NULL;
        if (event->kind != SL_EVENT_NODE && sl_event_line(event, &line) == SL_OK)
            fputs(line, stderr);
        free(line);
    }
    if (event->kind == SL_EVENT_TRACKED)
        reach(TRACKED);
    else if (event->kind == SL_EVENT_PROFILED)
        reach(atomic_load(&all->reached[ONSET]) ? SUSPECTS : REFERENCE);
    else if (event->kind == SL_EVENT_ONSET)
        reach(ONSET);
    else if (event->kind == SL_EVENT_VERDICT) {
        reach(VERDICT);
        atomic_fetch_add(event->rank == slow_rank()            ? &all->right
                         : strstr(event->facts, "\"unknown\"") ? &all->abstained
                                                               : &all->wrong,
                         1);
    }
}

static void run_controller(const char *url) {
    sl_controller *controller;
    sl_time next = 0, report = 0, latest = 0;
    actor = 0;
    const sl_controller_config config = {.store = open_store(url), .job = "job", .event = on_event};
    must(sl_controller_open(&config, &controller), "the controller");
    while (!atomic_load(&all->stop)) {
        sl_time now = sl_now();
        latest = next && now - next > latest ? now - next : latest;
        must(sl_controller_step(controller, now, &next), "the controller's step");
        sl_time took = sl_now() - now;
        latest = took > latest ? took : latest;
        const sl_status_view *view = sl_controller_status(controller);
        atomic_store(&all->nodes, view->nodes);
        atomic_store(&all->ranks, view->ranks);
        atomic_store(&all->refused, (int)view->refused);
        if (view->nodes == nodes)
            reach(NODES_JOINED);
        if (sl_now() > report) {
            report = sl_now() + SL_SECOND;
            atomic_store(&all->controller_cpu, cpu_of(RUSAGE_SELF));
            atomic_store(&all->controller_late, latest);
            latest = 0;
        }
        sl_clock_sleep_until(sl_clock_real(), next);
    }
    _exit(0);
}

static pid_t start_redis(const char *folder, char *url, size_t size) {
    char path[PATH_MAX], socket[128];
    must(sl_redis_find(path), "redis-server");
    snprintf(socket, sizeof socket, "%s/redis.sock", folder);
    snprintf(url, size, "unix:%s", socket);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        execl(path, path, "--port", "0", "--unixsocket", socket, "--maxclients", "20000", "--save", "",
              "--appendonly", "no", (char *)NULL);
        _exit(1);
    }
    return child;
}

static int64_t redis_number(redisContext *redis, const char *section, const char *field) {
    redisReply *reply = redisCommand(redis, "INFO %s", section);
    const char *found = reply && reply->str ? strstr(reply->str, field) : NULL;
    double value = found ? atof(found + strlen(field)) : 0;
    int64_t number = (int64_t)(strstr(field, "cpu") ? value * 1e9 : value);
    if (reply)
        freeReplyObject(reply);
    return number;
}

typedef struct sample {
    int64_t requests, in, out, store, controller, agents, memory;
    sl_time time;
} sample;

static sample take(redisContext *redis) {
    sample s = {.time = sl_now(),
                .requests = redis_number(redis, "stats", "total_commands_processed:"),
                .in = redis_number(redis, "stats", "total_net_input_bytes:"),
                .out = redis_number(redis, "stats", "total_net_output_bytes:"),
                .store = redis_number(redis, "cpu", "used_cpu_sys:") +
                         redis_number(redis, "cpu", "used_cpu_user:"),
                .memory = redis_number(redis, "memory", "used_memory_peak:"),
                .controller = atomic_load(&all->controller_cpu)};
    for (int i = 0; i < MOST_PROCESSES; i++)
        s.agents += atomic_load(&all->agents_cpu[i]);
    return s;
}

static void print_rates(const char *what, const sample *a, const sample *b) {
    double s = (double)(b->time - a->time) / 1e9;
    printf(", \"%s\": {\"requests_per_s\": %.0f, \"mb_in_per_s\": %.2f, \"mb_out_per_s\": %.2f, "
           "\"store_cpu\": %.3f, \"controller_cpu\": %.3f, \"agents_cpu\": %.3f}",
           what, (double)(b->requests - a->requests) / s, (double)(b->in - a->in) / s / 1e6,
           (double)(b->out - a->out) / s / 1e6, (double)(b->store - a->store) / 1e9 / s,
           (double)(b->controller - a->controller) / 1e9 / s, (double)(b->agents - a->agents) / 1e9 / s);
}

static void print_result(const sample *calm, const sample *before, const sample *end) {
    printf("{\"nodes\": %d, \"ranks\": %d, \"seen_nodes\": %d, \"seen_ranks\": %d, \"clocks\": %d", nodes,
           nodes * per_node, atomic_load(&all->nodes), atomic_load(&all->ranks), own_clocks ? nodes : 1);
    for (int i = 0; i < STEPS; i++) {
        int64_t at = atomic_load(&all->reached[i]) - (i >= ONSET ? all->onset - all->begin : 0);
        if (atomic_load(&all->reached[i]))
            printf(", \"%s_s\": %.2f", step_names[i], (double)at / 1e9);
    }
    int64_t late = 0;
    for (int i = 0; i < MOST_PROCESSES; i++)
        late = atomic_load(&all->late[i]) > late ? atomic_load(&all->late[i]) : late;
    printf(", \"right\": %d, \"abstained\": %d, \"wrong\": %d, \"refused\": %d, \"agents_late_ms\": %.1f, "
           "\"controller_late_ms\": %.1f, "
           "\"store_peak_mb\": %.0f",
           atomic_load(&all->right), atomic_load(&all->abstained), atomic_load(&all->wrong),
           atomic_load(&all->refused), (double)late / 1e6, (double)atomic_load(&all->controller_late) / 1e6,
           (double)end->memory / 1e6);
    print_rates("calm", calm, before);
    print_rates("slow", before, end);
    printf("}\n");
}

int main(int count, char **argument) {
    if (count < 3) {
        fprintf(stderr, "bench_fleet_load NODES RANKS_PER_NODE [PROCESSES [SECONDS [clocks]]]\n");
        return 2;
    }
    nodes = atoi(argument[1]);
    per_node = atoi(argument[2]);
    int processes = count > 3 ? atoi(argument[3]) : 2, seconds = count > 4 ? atoi(argument[4]) : 60;
    own_clocks = count > 5 && strcmp(argument[5], "clocks") == 0;
    if (nodes < 1 || per_node < 1 || processes < 1 || processes >= MOST_PROCESSES || seconds < 10)
        return 2;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    char folder[] = "/tmp/slackline-fleet-XXXXXX", url[160];
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(folder) || all == MAP_FAILED)
        return 1;
    pid_t child[MOST_PROCESSES + 2];
    int children = 0;
    child[children++] = start_redis(folder, url, sizeof url);
    redisContext *redis = NULL;
    for (int i = 0; i < 200 && (!redis || redis->err); i++) {
        if (redis)
            redisFree(redis);
        usleep(50000);
        redis = redisConnectUnix(url + strlen("unix:"));
    }
    if (!redis || redis->err) {
        fprintf(stderr, "redis-server does not answer\n");
        return 1;
    }
    all->begin = sl_now() + SL_SECOND;
    all->onset = all->begin + seconds * SL_SECOND / 2;
    if ((child[children++] = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_controller(url);
    }
    for (int i = 0; i < processes; i++)
        if ((child[children++] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_agents(url, (int)((int64_t)nodes * i / processes),
                       (int)((int64_t)nodes * (i + 1) / processes), i);
        }
    sl_clock_sleep_until(sl_clock_real(), all->onset - seconds * SL_SECOND / 6);
    sample calm = take(redis);
    sl_clock_sleep_until(sl_clock_real(), all->onset);
    sample before = take(redis);
    while (sl_now() < all->begin + seconds * SL_SECOND && !atomic_load(&all->reached[VERDICT]))
        usleep(100000);
    sample end = take(redis);
    print_result(&calm, &before, &end);
    atomic_store(&all->stop, 1);
    for (int i = children; i-- > 1;)
        waitpid(child[i], NULL, 0);
    redisFree(redis);
    kill(child[0], SIGTERM);
    waitpid(child[0], NULL, 0);
    char socket[180];
    snprintf(socket, sizeof socket, "%s/redis.sock", folder);
    unlink(socket);
    rmdir(folder);
    return atomic_load(&all->wrong) > 0;
}
