/* fuzz_replay [NAME]...: reads the examples of all readers, and random changes of them, without a fuzzer.
 * Each reader must accept one example or more; otherwise its examples would say nothing. SL_SEED chooses the
 * changes, SL_SECONDS the time for each reader. */
#include "fuzz.h"

#include "base/clock.h"
#include "base/random.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES = 40, MOST = 4, LONGEST = 64, CHANGED = MOST * LONGEST };

typedef struct replay {
    const fuzz_reader *reader;
    uint64_t seed;
    sl_time until;
    int examples, accepted, changes;
} replay;

static uint64_t draw(uint64_t *seed, uint64_t below) {
    return sl_random_mix(*seed += SL_RANDOM_STEP) % below;
}

/* Each change is a byte, a bit, a piece left out, or a piece doubled. `bytes` has room for CHANGED more. */
static size_t change(uint64_t *seed, uint8_t *bytes, size_t size) {
    for (uint64_t n = 1 + draw(seed, MOST); n > 0 && size > 0; n--) {
        size_t at = draw(seed, size), length = draw(seed, size - at) % LONGEST;
        switch (draw(seed, 4)) {
        case 0:
            bytes[at] = (uint8_t)draw(seed, 256);
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1 << draw(seed, 8));
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default:
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
        }
    }
    return size;
}

static void take(void *object, const char *name, const uint8_t *data, size_t size) {
    replay *r = object;
    uint8_t *bytes = malloc(size + CHANGED);
    r->examples++;
    r->accepted += r->reader->read(data, size) > 0;
    (void)name;
    for (int i = 0; i < CHANGES && sl_now() < r->until; i++) {
        memcpy(bytes, data, size);
        r->reader->read(bytes, change(&r->seed, bytes, size));
        r->changes++;
    }
    free(bytes);
}

static int is_wanted(int count, char **words, const char *name) {
    for (int i = 1; i < count; i++)
        if (strcmp(words[i], name) == 0)
            return 1;
    return count == 1;
}

int main(int count, char **words) {
    const char *seed = getenv("SL_SEED"), *seconds = getenv("SL_SECONDS");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : (uint64_t)sl_now();
    sl_time each = seconds ? sl_from_ms(1000 * atof(seconds)) : 200 * SL_MS;
    int readers = 0, failed = 0;
    signal(SIGPIPE, SIG_IGN);
    printf("SL_SEED=%llu\n", (unsigned long long)first);
    for (int i = 0; fuzz_table(i); i++)
        for (const fuzz_reader *reader = fuzz_table(i); reader->name; reader++) {
            if (!is_wanted(count, words, reader->name))
                continue;
            replay r = {.reader = reader, .seed = first, .until = sl_now() + each};
            printf("%s: ", reader->name);
            fflush(stdout); /* if it crashes, its name is known */
            fuzz_examples(reader, take, &r);
            printf("%d of %d examples accepted, %d changes\n", r.accepted, r.examples, r.changes);
            failed += r.accepted == 0;
            readers++;
        }
    if (failed)
        printf("%d of %d readers accept none of their examples\n", failed, readers);
    return failed || readers == 0;
}
