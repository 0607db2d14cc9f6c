/* What validating processes read: each other's introductions and samples, an earlier report, pairs of ranks,
 * and the system's files about processors and control groups. */
#include "fuzz.h"

#include "base/memory.h"
#include "notice/validate/introduction.h"
#include "notice/validate/member_samples.h"
#include "notice/validate/readings.h"
#include "notice/validate/reference.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- validating processes: introductions and samples, a length before each */

static int take_parts(const uint8_t **data, size_t *size, sl_allgather_parts *all) {
    fuzz_must(sl_allgather_parts_open(3, all) == SL_OK);
    for (int i = 0; i < 3 && *size > 0; i++) {
        size_t length = (size_t)fuzz_take(data, size, 2);
        length = length < *size ? length : *size;
        if (length > 0)
            fuzz_must(sl_allgather_parts_put(all, i, *data, length) == SL_OK);
        *data += length;
        *size -= length;
    }
    return 1;
}

static int read_parts(const uint8_t *data, size_t size) {
    sl_allgather_parts words, samples;
    sl_round_result result = {0};
    take_parts(&data, &size, &words);
    take_parts(&data, &size, &samples);
    int accepted = sl_membership_open(&words, &result.membership) == SL_OK;
    if (accepted)
        (void)sl_member_samples_join(&samples, &result);
    sl_round_result_free(&result);
    if (!accepted)
        sl_membership_free(&result.membership);
    sl_allgather_parts_free(&words);
    sl_allgather_parts_free(&samples);
    return accepted;
}

static void put_part(FILE *out, const void *bytes, size_t size) {
    fputc((int)(size & 255), out);
    fputc((int)(size >> 8), out);
    fwrite(bytes, 1, size, out);
}

static int write_parts(int number, FILE *out) {
    char *words[] = {(char *)(uintptr_t) "healthcheck"};
    sl_validate_request request;
    const sl_wire_address at = {0};
    sl_member_samples samples;
    void *bytes;
    size_t size;
    if (number > 0)
        return 0;
    fuzz_must(sl_validate_request_read(1, words, &request) == SL_OK);
    for (int i = 0; i < 3; i++) {
        fuzz_must(sl_introduce(&request, i, &at, &bytes, &size) == SL_OK);
        put_part(out, bytes, size);
        sl_free(bytes);
    }
    fuzz_must(sl_member_samples_open(2, 1, 0, &samples) == SL_OK);
    for (int i = 0; i < 3; i++) {
        fuzz_must(sl_member_samples_pack(&samples, &bytes, &size) == SL_OK);
        put_part(out, bytes, size);
        sl_free(bytes);
    }
    sl_member_samples_free(&samples);
    return 1;
}

/* ---- an earlier report, and links */

static int read_reference(const uint8_t *data, size_t size) {
    sl_reference reference;
    char path[64];
    int file = fuzz_file(data, size, path);
    sl_status status = sl_reference_read(path, &reference);
    close(file);
    return status == SL_OK;
}

static int write_reference(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(
               out,
               "{\"format\": \"" SL_VALIDATION_FORMAT "\", \"kinds\": {\"device\": {\"gflops\": 12.5}, "
               "\"between hosts\": {\"latency_ms\": 1.5, \"gb_per_s\": 3}, \"gpu\": {\"name\": \"x\"}}}");
}

static int read_links(const uint8_t *data, size_t size) {
    sl_member_pair *pair;
    int count = 0;
    char *text = fuzz_text(data, size), path[64];
    int file = fuzz_file(data, size, path);
    int accepted = 0;
    if (!strchr(text, '/')) { /* else it may be the name of any file */
        if (sl_links_read(text, &pair, &count) == SL_OK) {
            accepted = 1;
            sl_free(pair);
        }
    }
    if (sl_links_read(path, &pair, &count) == SL_OK) {
        accepted = 1;
        sl_free(pair);
    }
    close(file);
    free(text);
    return accepted;
}

static int write_links(int number, FILE *out) {
    return number < 2 && fuzz_say(out, number ? "0-1,2-3" : "0 1\n2 3\n");
}

/* ---- the system's files */

static int read_system(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size), *half = text, folder[64];
    sl_throttling throttling;
    sl_process_reading process;
    sl_core_set cores = {0};
    size_t mount;
    sl_core_set_add(&cores, 0);
    sl_core_set_add(&cores, 3);
    int got = sl_read_cpu_stat(text, &throttling);
    got |= sl_read_cpu_max(text) > 0;
    got |= sl_read_pressure(text) >= 0;
    got |= sl_read_busy(text, &cores) >= 0;
    got |= sl_read_process(text, &process);
    got |= sl_read_cpuinfo(text, &cores) > 0;
    for (char *at = strchr(text, '%'); at; at = NULL) {
        *at = 0;
        half = at + 1;
    }
    got |= sl_read_cfs_quota(text, half) > 0;
    static const char *const controllers[] = {"", "cpu", "cpuset"};
    for (int i = 0; i < 3; i++)
        got |= sl_read_group(text, half, controllers[i], folder, sizeof folder, &mount);
    free(text);
    return got;
}

static int write_system(int number, FILE *out) {
    const char *const all[] = {
        "nr_periods 5\nnr_throttled 2\nthrottled_usec 77\n",
        "50000 100000\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n",
        "cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu3 1 2 3 4 5 6 7 8 0 0\n",
        "7 (a b) c) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0",
        "processor\t: 0\ncpu MHz\t\t: 2100.5\n\nprocessor\t: 3\ncpu MHz\t\t: 2100.5\n",
        "50000%100000",
        "0::/a/b\n%30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        "3:cpu,cpuacct:/a\n%31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"};
    return number < (int)(sizeof all / sizeof *all) && fuzz_say(out, all[number]);
}

const fuzz_reader fuzz_validate[] = {
    {"validation", "sl_membership_open sl_member_samples_join", NULL, write_parts, NULL, read_parts},
    {"reference", "sl_reference_read", NULL, write_reference, "format kinds device gflops", read_reference},
    {"links", "sl_links_read", NULL, write_links, NULL, read_links},
    {"system",
     "sl_read_cpu_stat sl_read_cpu_max sl_read_cfs_quota sl_read_pressure sl_read_busy sl_read_process "
     "sl_read_cpuinfo sl_read_group",
     NULL, write_system, "nr_throttled throttled_usec throttled_time total= max cgroup2 cpuset processor MHz",
     read_system},
    {0}};
