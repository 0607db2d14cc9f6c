#include "notice/message/clocks.h"

#include "base/clock.h"
#include "notice/message/messages.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct ping {
    int64_t round, trip, time; /* time: the writer's */
} ping;

void sl_clock_identity(char *identity, size_t size) {
    char boot[64] = "", space[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = 0;
        fclose(file);
    }
    boot[strcspn(boot, "\n")] = 0;
    ssize_t length = readlink("/proc/self/ns/time", space, sizeof space - 1); /* none before Linux 5.6 */
    space[length > 0 ? length : 0] = 0;
    snprintf(identity, size, "%s%s", boot, boot[0] ? space : "");
}

static void names(const char *node, char *asked, char *answered, size_t size) {
    snprintf(asked, size, "clock-asked:%s", node);
    snprintf(answered, size, "clock-answered:%s", node);
}

sl_status sl_clock_answer(sl_store *store, const char *node, int64_t round) {
    char asked[256], answered[256];
    sl_store_position position = {.id = ""};
    names(node, asked, answered, sizeof asked);
    for (sl_time until = sl_now() + SL_CLOCK_PATIENCE, left; (left = until - sl_now()) > 0;) {
        const sl_store_entry *entry;
        size_t count;
        SL_TRY(sl_store_read(store, asked, &position, 64, left, &entry, &count));
        ping last = {.round = -1};
        for (size_t i = 0; i < count; i++)
            if (entry[i].size == sizeof last)
                memcpy(&last, entry[i].bytes, sizeof last);
        if (last.round != round)
            continue;
        last.time = sl_now();
        SL_TRY(sl_store_append(store, answered, &last, sizeof last, 64));
        if (last.trip == SL_CLOCK_TRIPS - 1)
            break;
    }
    return SL_OK;
}

/* Waits for the answer to one question; 0 when patience runs out. */
static sl_status await(sl_store *store, const char *answered, sl_store_position *position, const ping *sent,
                       sl_time until, int64_t *replied) {
    *replied = 0;
    for (sl_time left; !*replied && (left = until - sl_now()) > 0;) {
        const sl_store_entry *entry;
        size_t count;
        SL_TRY(sl_store_read(store, answered, position, 64, left, &entry, &count));
        for (size_t i = 0; i < count; i++) {
            ping got;
            if (entry[i].size != sizeof got)
                continue;
            memcpy(&got, entry[i].bytes, sizeof got);
            if (got.round == sent->round && got.trip == sent->trip && got.time <= SL_MAX_TIME)
                *replied = got.time > 0 ? got.time : 0;
        }
    }
    return SL_OK;
}

sl_status sl_clock_ask(sl_store *store, const char *node, int64_t round, sl_offset *estimate) {
    char asked[256], answered[256];
    sl_store_position position = {.id = ""};
    names(node, asked, answered, sizeof asked);
    sl_time until = sl_now() + SL_CLOCK_PATIENCE;
    for (int64_t trip = 0; trip < SL_CLOCK_TRIPS; trip++) {
        ping question = {.round = round, .trip = trip, .time = sl_now()};
        int64_t replied;
        SL_TRY(sl_store_append(store, asked, &question, sizeof question, 64));
        SL_TRY(await(store, answered, &position, &question, until, &replied));
        if (!replied)
            break;
        sl_offset_add(estimate, question.time, replied, sl_now(), 0);
    }
    return SL_OK;
}
