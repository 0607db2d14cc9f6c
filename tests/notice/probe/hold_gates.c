/* Holds a watched program again and again at random moments, through the gates in its probe's folder, as a
 * controller does that has all ranks on its own node. Arguments: folder, ranks, holds, seed, pause (largest
 * time between holds, us), and perhaps `die` (holds once for 400 ms, says so and waits to be killed) or the
 * file of a stand-in device, which begins with 8 counts of what ranks enqueued and 8 of what was done.
 *
 * Says, one a line: holds N, closed N, moved N (holds in which a parked thread went on after closure), over N
 * (calls beyond the cut of a closed hold), ms MEDIAN LONGEST, and every reason of a hold that did not close.
 */
#include "base/random.h"
#include "notice/control/hold_cut.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RANKS 16

static int ranks;
static sl_gate *gates[RANKS];
static int pids[RANKS];
static sl_gate_view *views[RANKS], *later[RANKS];
static uint64_t state;
static _Atomic uint64_t *device;

static uint64_t draw(void) {
    state += SL_RANDOM_STEP;
    return sl_random_mix(state);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void pause_us(uint64_t us) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000},
              NULL);
}

/* Takes every gate of the folder that is complete; 1 when all ranks have one. */
static int look_for_gates(const char *folder) {
    int found = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        char text[128];
        size_t bytes;
        if (length < 6 || strcmp(entry->d_name + length - 5, ".gate") != 0)
            continue;
        sl_gate *gate = sl_folder_map(folder, entry->d_name, 1, sizeof *gate, &bytes);
        if (!gate)
            continue;
        if (sl_gate_read(gate, bytes, text, sizeof text) == SL_FILE_OURS && gate->rank >= 0 &&
            gate->rank < ranks && !gates[gate->rank]) {
            gates[gate->rank] = gate;
            pids[gate->rank] = gate->head.process.pid;
        } else
            munmap(gate, bytes);
    }
    if (directory)
        closedir(directory);
    for (int r = 0; r < ranks; r++)
        found += gates[r] != NULL;
    return found == ranks;
}

static int ended(void) {
    for (int r = 0; r < ranks; r++)
        if (atomic_load(&gates[r]->finished) || kill(pids[r], 0) != 0)
            return 1;
    return 0;
}

static void look(sl_gate_view **into) {
    for (int r = 0; r < ranks; r++)
        sl_gate_look(gates[r], into[r]);
}

/* Threads that were parked have stayed where they were. */
static int somebody_moved(void) {
    int moved = 0;
    for (int r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < views[r]->threads; i++)
            moved |= views[r]->thread[i].state == SL_GATE_PARKED &&
                     views[r]->thread[i].serial != later[r]->thread[i].serial;
    return moved;
}

/* A call that others have a part in was made beyond the cut, outside of a forbidden region. */
static int somebody_is_beyond(void) {
    int beyond = 0;
    for (int r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < later[r]->channels && !later[r]->wild; i++)
            beyond |=
                later[r]->channel[i].ready && later[r]->channel[i].entered > later[r]->channel[i].target;
    return beyond;
}

/* A device has work that is not done. */
static int somebody_is_busy(void) {
    int busy = 0;
    for (int r = 0; device && r < ranks; r++)
        busy |= atomic_load(&device[r]) != atomic_load(&device[8 + r]);
    return busy;
}

/* Where everybody is, on standard error: why a hold did not close (SL_DUMP). */
static void dump(void) {
    static const char *const states[] = {"free", "outside", "moving", "inside", "parked"};
    static const char kinds[] = "?CPWL";
    for (int r = 0; r < ranks; r++) {
        const sl_gate_view *v = views[r];
        fprintf(stderr, "rank %d wild %u drained %d calls %llu\n", r, v->wild, v->drained,
                (unsigned long long)v->calls);
        for (uint32_t t = 0; t < v->threads; t++) {
            fprintf(stderr, "  thread %u %s%s\n", t, states[v->thread[t].state],
                    v->thread[t].forbidden ? ", forbidden" : "");
            for (uint32_t i = 0; i < v->thread[t].entries; i++) {
                const sl_gate_view_entry *e = &v->thread[t].entry[i];
                const sl_gate_view_channel *c = &v->channel[e->channel];
                fprintf(stderr, "    %s %c comm %04x %d -> %d tag %d: number %llu\n",
                        e->need ? "needs" : "call", kinds[c->key.kind],
                        (unsigned)(c->key.communicator & 0xffff), c->key.source, c->key.destination,
                        c->key.tag, (unsigned long long)e->number);
            }
        }
        for (uint32_t i = 0; i < v->channels; i++) {
            const sl_gate_view_channel *c = &v->channel[i];
            fprintf(
                stderr, "  %c comm %04x %d -> %d tag %d: announced %llu entered %llu due %llu target %llu\n",
                kinds[c->key.kind], (unsigned)(c->key.communicator & 0xffff), c->key.source,
                c->key.destination, c->key.tag, (unsigned long long)c->announced,
                (unsigned long long)c->entered, (unsigned long long)c->due, (unsigned long long)c->target);
        }
    }
}

static int moved, over, busy;

/* One hold to its end; 1 closed, 0 released, -1 the program ended meanwhile. */
static int hold(uint32_t number, double *ms) {
    sl_cut *cut;
    sl_cut_verdict verdict;
    if (sl_cut_create(&cut, ranks, (sl_cut_limits){0}) != SL_OK)
        abort();
    int64_t began = now();
    for (int r = 0; r < ranks; r++)
        sl_gate_hold(gates[r], number, began + SL_GATE_DEADLINE);
    do {
        const sl_cut_raise *raises;
        size_t count;
        look(views);
        if (sl_cut_step(cut, (const sl_gate_view *const *)views, now(), &verdict, &raises, &count) != SL_OK)
            abort();
        for (size_t i = 0; i < count; i++)
            sl_gate_raise(gates[raises[i].rank], &raises[i].key, raises[i].target);
        for (int r = 0; r < ranks && count > 0; r++)
            sl_gate_wake(gates[r]);
        if (verdict == SL_CUT_MOVING)
            pause_us(50);
    } while (verdict == SL_CUT_MOVING);
    *ms = (double)(now() - began) / 1e6;
    int end = ended();
    int was_busy = somebody_is_busy();
    if (verdict == SL_CUT_CLOSED && !end) {
        pause_us(500 + draw() % 2000);
        look(later);
        moved += somebody_moved();
        over += somebody_is_beyond();
        busy += was_busy | somebody_is_busy();
    }
    if (verdict != SL_CUT_CLOSED && !end)
        printf("reason %s\n", sl_cut_reason(cut));
    if (verdict != SL_CUT_CLOSED && !end && getenv("SL_DUMP"))
        dump();
    for (int r = 0; r < ranks; r++)
        sl_gate_release(gates[r]);
    sl_cut_destroy(cut);
    return verdict == SL_CUT_CLOSED ? 1 : end ? -1 : 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    ranks = atoi(argv[2]);
    int wanted = atoi(argv[3]), holds = 0, closed = 0;
    uint64_t longest = strtoull(argv[5], NULL, 10);
    state = strtoull(argv[4], NULL, 10);
    double *closure = calloc((size_t)wanted + 1, sizeof *closure);
    for (int r = 0; r < ranks; r++) {
        views[r] = calloc(1, sizeof *views[r]);
        later[r] = calloc(1, sizeof *later[r]);
    }
    for (int tries = 0; !look_for_gates(argv[1]); tries++) {
        if (tries == 60000) {
            printf("no gates\n");
            return 1;
        }
        pause_us(1000);
    }
    if (argc > 6 && strcmp(argv[6], "die") != 0) {
        int file = open(argv[6], O_RDWR | O_CLOEXEC);
        device = mmap(NULL, 16 * sizeof *device, PROT_READ, MAP_SHARED, file, 0);
        if (device == MAP_FAILED)
            abort();
        close(file);
    } else if (argc > 6) {
        pause_us(2000 + draw() % 20000);
        int64_t deadline = now() + INT64_C(400000000);
        for (int r = 0; r < ranks; r++)
            sl_gate_hold(gates[r], 1, deadline);
        printf("held\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    while (holds < wanted && !ended()) {
        double ms;
        pause_us(draw() % longest);
        if (ended())
            break;
        int result = hold((uint32_t)holds + 1, &ms);
        holds += result >= 0;
        if (result > 0)
            closure[closed++] = ms;
    }
    qsort(closure, (size_t)closed, sizeof *closure, ascending);
    printf("holds %d\nclosed %d\nmoved %d\nover %d\nbusy %d\nms %.2f %.2f\n", holds, closed, moved, over,
           busy, closed ? closure[closed / 2] : 0, closed ? closure[closed - 1] : 0);
    free(closure);
    return 0;
}
