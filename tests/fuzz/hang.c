/* What is read of a job that stands: dumps of PyTorch's flight recorder, pickled and as JSON, NCCL's answers,
 * the state that each node leaves. What is read can be diagnosed, and its JSON reads back as the same. */
#include "fuzz.h"

#include "base/memory.h"
#include "notice/hang/ask.h"
#include "notice/hang/diagnosis.h"
#include "notice/hang/nccl_ras.h"
#include "notice/hang/pickle.h"
#include "notice/hang/torch_dump.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void diagnose(const sl_hang_job *job) {
    sl_hang_verdict verdict;
    fuzz_must(sl_hang_diagnose(job, 0, &verdict) == SL_OK && verdict.rank < job->size);
}

static void diagnose_twice(sl_hang_job *job) {
    sl_hang_job again = {.from_dumps = job->from_dumps};
    if (job->size >= 64)
        return;
    diagnose(job);
    json_t *json = sl_hang_job_json(job);
    if (json && sl_hang_job_read(json, &again) == SL_OK)
        diagnose(&again);
    json_decref(json);
    sl_hang_job_free(&again);
}

static int read_dump(const uint8_t *data, size_t size) {
    sl_hang_job job = {0};
    (void)sl_torch_dump_is((const char *)data, size);
    sl_status status = sl_torch_dump_add("rank_1", (const char *)data, size, &job);
    if (status == SL_OK && job.size < 64) {
        fuzz_must(sl_torch_dump_finish(&job) == SL_OK);
        diagnose_twice(&job);
    }
    sl_hang_job_free(&job);
    return status == SL_OK;
}

static int write_dump(int number, FILE *out) {
    const char *const all[] = {
        "{\"version\": \"2.4\", \"pg_config\": {\"0\": {\"name\": \"0\", \"desc\": \"default_pg\", "
        "\"ranks\": \"[0, 1, 2]\"}}, \"entries\": [{\"frames\": "
        "[{\"name\": \"step\", \"filename\": \"/a/train.py\", \"line\": 3}], \"record_id\": 0, \"pg_id\": 0, "
        "\"process_group\": [\"0\", \"default_pg\"], "
        "\"collective_seq_id\": 1, \"p2p_seq_id\": 0, \"op_id\": 1, \"profiling_name\": \"nccl:all_reduce\", "
        "\"time_created_ns\": 1, \"input_sizes\": [[4]], "
        "\"output_sizes\": [[4]], \"input_dtypes\": [\"Float\"], \"output_dtypes\": [\"Float\"], \"state\": "
        "\"started\", \"time_discovered_started_ns\": 5, "
        "\"retired\": false, \"is_p2p\": false}, {\"process_group\": [\"0\", \"default_pg\"], "
        "\"profiling_name\": \"nccl:send 1->0\", \"is_p2p\": true, "
        "\"p2p_seq_id\": 1, \"state\": \"scheduled\"}]}",
        "{\"size\": 2, \"ranks\": [{\"rank\": 0, \"pid\": 7, \"host\": \"a\", \"threads\": [{\"inside\": 1, "
        "\"call\": \"MPI_Recv\", \"peer\": 1, "
        "\"state\": \"S\", \"for_s\": 5, \"waits\": []}], \"channels\": [], \"collectives\": []}]}"};
    return number < 2 && fuzz_say(out, all[number]);
}

static int read_state(const uint8_t *data, size_t size) {
    sl_hang_job job = {0};
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    sl_status status = sl_hang_job_read(json, &job);
    if (status == SL_OK)
        diagnose_twice(&job);
    json_decref(json);
    sl_hang_job_free(&job);
    return status == SL_OK;
}

/* As a node writes it: a thread inside a collective, and one that waits for a message. */
static int write_state(int number, FILE *out) {
    sl_hang_wait waits[] = {{{5, -1, -1, -1, SL_CHANNEL_COLLECTIVE}, 3, 0},
                            {{5, 1, 0, 7, SL_CHANNEL_POINT}, 1, 1}};
    sl_hang_thread threads[] = {{.inside = 1,
                                 .call = "MPI_Allreduce",
                                 .peer = -1,
                                 .for_s = 9,
                                 .state = 'S',
                                 .wait = waits,
                                 .waits = 1},
                                {.inside = 1,
                                 .call = "MPI_Wait",
                                 .peer = 1,
                                 .for_s = 9,
                                 .state = 'R',
                                 .frames = "a.c:3",
                                 .wait = waits + 1,
                                 .waits = 1}};
    sl_hang_channel channels[] = {{{5, -1, -1, -1, SL_CHANNEL_COLLECTIVE}, 3, 0},
                                  {{5, 1, 0, 7, SL_CHANNEL_POINT}, 1, 0}};
    sl_hang_collective collectives[] = {
        {.communicator = 5, .number = 3, .call = "MPI_Allreduce", .root = -1, .sized = 1, .bytes = 8}};
    sl_hang_rank ranks[2] = {{.rank = 0,
                              .pid = 7,
                              .host = "a",
                              .thread = threads,
                              .threads = 2,
                              .channel = channels,
                              .channels = 2,
                              .collective = collectives,
                              .collectives = 1},
                             {.rank = 1, .pid = 8, .host = "b", .ended = 1}};
    const sl_hang_job job = {.rank = ranks, .ranks = 2, .size = 2};
    if (number > 0)
        return 0;
    json_t *json = sl_hang_job_json(&job);
    fuzz_must(json && json_dumpf(json, out, 0) == 0);
    json_decref(json);
    return 1;
}

static int read_pickle(const uint8_t *data, size_t size) {
    json_t *json = NULL;
    sl_status status = sl_pickle_read("fuzz", data, size, &json);
    fuzz_must((status == SL_OK) == (json != NULL));
    json_decref(json);
    return status == SL_OK;
}

static int write_pickle(int number, FILE *out) {
    static const char plain[] =
        "\x80\x02}q\x00(X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01J\xfe\xff\xff\xffM,"
        "\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01N"
        "\x88G?\xe0\x00\x00\x00\x00\x00\x00\x65X\x01\x00\x00\x00\x62q\x03X\x01\x00\x00\x00xq\x04}"
        "q\x05K\x03X\x01\x00\x00\x00yq\x06s\x86q\x07u.";
    return number == 0 && fwrite(plain, 1, sizeof plain - 1, out) == sizeof plain - 1;
}

static int read_ras(const uint8_t *data, size_t size) {
    sl_hang_job job = {0};
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    sl_status status = sl_nccl_ras_is(json) ? sl_nccl_ras_add("fuzz", json, &job) : SL_EINVAL;
    if (status == SL_OK)
        diagnose_twice(&job);
    json_decref(json);
    sl_hang_job_free(&job);
    return status == SL_OK;
}

#define RANK(number, count)                                                                                  \
    "{\"rank\": " number ", \"host\": \"10.0.0.1\", \"pid\": 7, \"status\": {\"init_state\": 0, "            \
    "\"finalize_called\": false, \"abort_flag\": false}, "                                                   \
    "\"collective_counts\": {\"Broadcast\": 1, \"AllReduce\": " count "}}"

static int write_ras(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(out,
                    "{\"nccl_version\": \"2.28.3\", \"communicators_count\": 1, \"communicators\": "
                    "[{\"hash\": \"0x11\", \"size\": 3, "
                    "\"ranks_count\": 2, \"missing_ranks_count\": 1, \"ranks\": [" RANK("0", "5") ", " RANK(
                        "1", "6") "], "
                                  "\"missing_ranks\": [{\"rank\": 2, \"host\": \"b\", \"pid\": 8, "
                                  "\"status\": {\"unresponsive\": true, "
                                  "\"considered_dead\": true}}]}], \"ras\": {\"timeouts_count\": 0}}");
}

/* Whatever a service says until it closes. */
static int read_service(const uint8_t *data, size_t size) {
    int pair[2];
    char *bytes = NULL;
    size_t got = 0;
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    fuzz_must(send(pair[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size);
    close(pair[1]);
    sl_status status = sl_ask_read(pair[0], "fuzz", &bytes, &got);
    fuzz_must(status != SL_OK || (got == size && memcmp(bytes, data, size) == 0));
    sl_free(bytes);
    close(pair[0]);
    return status == SL_OK;
}

static int write_service(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "words");
}

const fuzz_reader fuzz_hang[] = {
    {"dump", "sl_torch_dump_is sl_torch_dump_add sl_torch_dump_finish", NULL, write_dump,
     "entries pg_config ranks profiling_name collective_seq_id p2p_seq_id process_group state is_p2p "
     "nccl:all_reduce gloo: completed scheduled",
     read_dump},
    {"hang_state", "sl_hang_job_read sl_hang_rank_read", NULL, write_state, NULL, read_state},
    {"pickle", "sl_pickle_read", NULL, write_pickle, NULL, read_pickle},
    {"nccl_ras", "sl_nccl_ras_is sl_nccl_ras_add", NULL, write_ras,
     "communicators missing_ranks collective_counts AllGather", read_ras},
    {"service", "sl_ask_read", NULL, write_service, NULL, read_service},
    {0}};
