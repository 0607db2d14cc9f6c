/* Conversations through the store: allgathers of validating processes, and clocks of nodes. */
#include "real_redis.h"

#include "base/memory.h"
#include "notice/message/clocks.h"
#include "notice/validate/allgather.h"

#include <string.h>

/* Entries for the log, a length before each; then this process takes part. */
static void put_entries(sl_store *store, const char *log, const uint8_t *data, size_t size) {
    for (int i = 0; size > 0 && i < SL_CLOCK_TRIPS; i++) {
        size_t length = (size_t)fuzz_take(&data, &size, 1);
        length = length < size ? length : size;
        fuzz_must(sl_store_append(store, log, data, length, 100) == SL_OK);
        data += length;
        size -= length;
    }
}

static int read_allgather(const uint8_t *data, size_t size) {
    sl_store *own = fuzz_store_open(1), *store = fuzz_store_open(0);
    sl_allgather allgather;
    int whole = 1;
    put_entries(own, "validation:1:talk", data, size);
    fuzz_must(sl_allgather_open_store(store, "1", 2, 0, &allgather) == SL_OK);
    for (int step = 0; step < 2; step++) {
        sl_allgather_parts parts;
        sl_status status = allgather.gather_all(allgather.context, "own", 3, 2 * SL_MS, &parts);
        for (int i = 0; status == SL_OK && i < 2; i++)
            fuzz_must(!parts.part[i] || ((const char *)parts.part[i])[parts.size[i]] == 0);
        whole &= status == SL_OK && parts.part[1] != NULL;
        sl_allgather_parts_free(&parts);
    }
    allgather.close(allgather.context);
    sl_store_close(store);
    sl_store_close(own);
    return whole;
}

/* The other member's part of both steps, as it writes them. */
static int write_allgather(int number, FILE *out) {
    sl_store *store = fuzz_store_open(1);
    sl_allgather other;
    sl_allgather_parts parts;
    sl_store_position position = {""};
    const sl_store_entry *entry;
    size_t count;
    if (number == 0) {
        fuzz_must(sl_allgather_open_store(store, "1", 2, 1, &other) == SL_OK);
        for (int step = 0; step < 2; step++) {
            (void)other.gather_all(other.context, "other", 5, 2 * SL_MS, &parts);
            sl_allgather_parts_free(&parts);
        }
        other.close(other.context);
        fuzz_must(sl_store_read(store, "validation:1:talk", &position, 100, 0, &entry, &count) == SL_OK &&
                  count > 1);
        for (size_t i = 0; i < count; i++)
            if (entry[i].size > 16) { /* a part, not its end */
                fputc((int)entry[i].size, out);
                fwrite(entry[i].bytes, 1, entry[i].size, out);
            }
    }
    sl_store_close(store);
    return number == 0;
}

/* Answers to all questions of round 1: their times. */
static int read_clock(const uint8_t *data, size_t size) {
    sl_store *own = fuzz_store_open(1), *store = fuzz_store_open(0);
    sl_offset estimate = {0};
    for (int64_t trip = 0; trip < SL_CLOCK_TRIPS; trip++) {
        const int64_t ping[3] = {1, trip, (int64_t)fuzz_take(&data, &size, 8) | 1};
        fuzz_must(sl_store_append(own, "clock-answered:a", ping, sizeof ping, 64) == SL_OK);
    }
    sl_status status = sl_clock_ask(store, "a", 1, &estimate);
    fuzz_must(status == SL_OK || status == SL_EPEER);
    sl_store_close(store);
    sl_store_close(own);
    return estimate.trips > 0;
}

static int write_clock(int number, FILE *out) {
    for (int64_t i = 0; number == 0 && i < SL_CLOCK_TRIPS; i++)
        fwrite(&(int64_t){i * SL_SECOND}, 1, 8, out);
    return number == 0;
}

const fuzz_reader fuzz_talk[] = {
    {"allgather", "sl_allgather_open_store", NULL, write_allgather, NULL, read_allgather},
    {"clock", "sl_clock_ask sl_offset_add", NULL, write_clock, NULL, read_clock},
    {0}};
