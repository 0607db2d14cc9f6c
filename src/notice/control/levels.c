#include "notice/control/controller_inside.h"

#include "base/memory.h"
#include "base/numbers.h"
#include "notice/control/iteration_samples.h"
#include <stdio.h>
#include <stdlib.h>

#define STABLE 20   /* samples at one level, before a reference is taken */
#define MEMORY 8192 /* samples that are remembered; a power of two */
#define INTERRUPTIONS 16

typedef struct interruption {
    sl_time begin, end; /* end SL_TIME_NEVER: not over */
} interruption;

typedef struct past_sample {
    int64_t iteration;
    sl_time start;
    double bytes; /* of an iteration */
} past_sample;

struct sl_levels {
    sl_store_position position;
    sl_iteration_samples *samples;
    sl_detector *detector;
    int64_t sample;       /* given to the detector since it was opened */
    int64_t since_change; /* of them */
    past_sample past[MEMORY];
    sl_time taken_over;
    interruption interruption[INTERRUPTIONS];
    int interruptions;
};

sl_status sl_levels_open(sl_control_core *c) {
    SL_TRY(sl_alloc(&c->levels, 1, sizeof *c->levels));
    SL_TRY(sl_iteration_samples_open(&c->levels->samples));
    return sl_detector_open(SL_CHANGE_BOCD_V, &c->levels->detector);
}

void sl_levels_close(sl_control_core *c) {
    if (!c->levels)
        return;
    sl_iteration_samples_close(c->levels->samples);
    sl_detector_close(c->levels->detector);
    sl_free(c->levels);
}

void sl_levels_take_over(sl_control_core *c) {
    c->levels->taken_over = c->now;
}

void sl_levels_resume(sl_control_core *c) {
    struct sl_levels *l = c->levels;
    if (!l->taken_over || l->sample == 0)
        return;
    l->taken_over = 0;
    if (c->view.slow)
        sl_control_feed(c, SL_IN_ONSET, 0);
}

void sl_levels_lose(sl_control_core *c, int rank) {
    sl_iteration_samples_lost(c->levels->samples, rank);
}

/* ---- interruptions ---- */

void sl_levels_interrupt(sl_control_core *c) {
    c->levels->interruption[c->levels->interruptions++ % INTERRUPTIONS] =
        (interruption){.begin = c->now, .end = SL_TIME_NEVER};
}

void sl_levels_continue(sl_control_core *c) {
    for (int i = 0; i < INTERRUPTIONS && i < c->levels->interruptions; i++)
        if (c->levels->interruption[i].end == SL_TIME_NEVER)
            c->levels->interruption[i].end = c->now;
}

static int interrupted(const struct sl_levels *l, const sl_sample *sample) {
    for (int i = 0; i < INTERRUPTIONS && i < l->interruptions; i++) {
        const interruption *one = &l->interruption[i];
        if (sample->start < one->end && sample->end > one->begin)
            return 1;
    }
    return 0;
}

/* ---- levels ---- */

static past_sample *past(struct sl_levels *l, int64_t sample) {
    return &l->past[sample & (MEMORY - 1)];
}

/* The period was found, or it or the work of an iteration is another one: levels start over. */
static void begin_levels(sl_control_core *c, const sl_sample *sample, const char *why) {
    char seen[96];
    const char *decided = c->view.period ? "levels start over" : "";
    struct sl_levels *l = c->levels;
    sl_detector_close(l->detector);
    l->detector = NULL;
    if (sl_detector_open(SL_CHANGE_BOCD_V, &l->detector) != SL_OK)
        c->failed = SL_ENOMEM;
    l->sample = l->since_change = 0;
    snprintf(seen, sizeof seen, "an iteration has %d calls and takes %.4g ms", sample->period,
             sample->time_ms);
    c->view.period = sample->period;
    c->view.slow = 0;
    c->view.healthy_ms = 0;
    c->view.onset = -1;
    sl_control_report(c, SL_EVENT_TRACKED, seen, decided, why);
    sl_control_feed(c, c->view.phase < SL_PHASE_TRACKING ? SL_IN_PERIOD : SL_IN_PERIOD_CHANGED, 0);
}

static void became_slow(sl_control_core *c, const sl_change *change, int64_t iteration, int history) {
    if (!c->view.slow || c->view.healthy_ms <= 0)
        c->view.healthy_ms = change->before;
    c->view.slow = 1;
    c->view.onset = iteration;
    c->view.onsets++;
    if (history)
        return;
    char decided[64];
    snprintf(decided, sizeof decided, "profiling %d iterations", SL_PROFILE_ITERATIONS);
    sl_control_report_change(c, change, iteration, decided);
    sl_control_feed(c, SL_IN_ONSET, sl_references_onset(c, past(c->levels, change->index)->start));
}

void sl_levels_slow(sl_control_core *c) {
    char decided[64];
    c->view.slow = 1;
    c->view.onset = c->view.iteration;
    c->view.onsets++;
    snprintf(decided, sizeof decided, "profiling %d iterations", SL_PROFILE_ITERATIONS);
    sl_control_report(c, SL_EVENT_ONSET, "ranks compute longer than before iterations changed", decided,
                      NULL);
    sl_control_note(c, SL_IN_ONSET, 1);
}

void sl_levels_not_slow(sl_control_core *c) {
    c->view.slow = 0;
    c->view.onset = -1;
    c->view.reliefs++;
    sl_control_report(c, SL_EVENT_RELIEF, "ranks compute as long as before iterations changed", "", NULL);
    sl_control_note(c, SL_IN_RELIEF, 0);
}

static void became_fast(sl_control_core *c, const sl_change *change, int64_t iteration, int history) {
    int was_slow = c->view.slow;
    int known = c->view.healthy_ms > 0; /* else any relief may be a whole one: another profile will show */
    int whole = !was_slow || !known || change->after <= c->view.healthy_ms * (1 + SL_CHANGE_MIN);
    const char *decided = !was_slow ? "" : whole ? "the verdict is cleared" : "still slow: profiling again";
    c->view.slow = !whole;
    c->view.reliefs++;
    if (whole) {
        c->view.healthy_ms = 0;
        c->view.onset = -1;
    }
    if (history)
        return;
    sl_control_report_change(c, change, iteration, decided);
    sl_control_feed(c, whole ? SL_IN_RELIEF : SL_IN_EASED, 0);
}

/* Median bytes of an iteration over samples [first, end), at most 15 of them. */
static double usual_bytes(struct sl_levels *l, int64_t first, int64_t end) {
    double bytes[15];
    size_t count = 0;
    for (int64_t i = first < 0 ? 0 : first; i < end && count < 15; i++)
        bytes[count++] = past(l, i)->bytes;
    qsort(bytes, count, sizeof *bytes, sl_ascending_numbers);
    return count ? bytes[count / 2] : 0;
}

/* A change of time together with a change of the messages' bytes is the program's: other work, not slower
 * hardware. Writes that into why[size]. */
static int work_changed(struct sl_levels *l, const sl_change *change, char *why, size_t size) {
    double before = usual_bytes(l, change->index - 15, change->index);
    double after = usual_bytes(l, change->index, l->sample);
    double more = before > 0 ? after / before - 1 : 0;
    snprintf(why, size, "its messages carry %+.1f%%: other work", 100 * more);
    return change->kind == SL_CHANGE_ONSET ? more >= SL_CHANGE_MIN : more <= -SL_CHANGE_MIN;
}

static void take_sample(sl_control_core *c, const sl_sample *sample) {
    struct sl_levels *l = c->levels;
    sl_change change;
    int history = sample->end < l->taken_over;
    if (sample->restarted)
        begin_levels(c, sample, NULL);
    c->view.iteration = sample->iteration + sample->count - 1;
    int held = interrupted(l, sample);
    if (sl_standing_iteration(&c->standing, c->view.iteration, sample->slowest_ms, held) != SL_OK)
        c->failed = SL_ENOMEM;
    if (held || !l->detector)
        return;
    c->view.time_ms = sample->slowest_ms;
    *past(l, l->sample++) = (past_sample){sample->iteration, sample->start, sample->bytes};
    l->since_change++;
    int changed = sl_detector_add(l->detector, sample->time_ms, &change);
    c->view.level_ms = sl_detector_level(l->detector);
    if (!changed) {
        if (l->since_change >= STABLE && !c->view.slow && !history && sl_nodes_asked(&c->nodes))
            sl_control_feed(c, SL_IN_STABLE, 0);
        return;
    }
    char why[96];
    if (work_changed(l, &change, why, sizeof why)) {
        begin_levels(c, sample, why);
        return;
    }
    int64_t iteration = past(l, change.index)->iteration;
    l->since_change = l->sample - change.index;
    if (change.kind == SL_CHANGE_ONSET)
        became_slow(c, &change, iteration, history);
    else
        became_fast(c, &change, iteration, history);
}

static void add_blocks(sl_control_core *c, const sl_message_head *head, const sl_message_block *blocks) {
    const sl_job_node *node = sl_nodes_find(&c->nodes, head->node);
    if (!node || (!node->same_clock && node->offset.trips == 0))
        return; /* invalid times */
    for (uint32_t i = 0; i < head->count; i++) {
        sl_message_block block = blocks[i];
        block.start = sl_node_time(node, block.start);
        block.end = sl_node_time(node, block.end);
        if (sl_iteration_samples_add(c->levels->samples, &block, c->now) != SL_OK ||
            sl_standing_block(&c->standing, &block) != SL_OK)
            c->failed = SL_ENOMEM;
    }
}

void sl_levels_read(sl_control_core *c) {
    struct sl_levels *l = c->levels;
    const sl_store_entry *entry;
    size_t count;
    do {
        if (!sl_control_read(c, SL_LOG_ITERATIONS, &l->position, SL_READ_MAX, &entry, &count))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_control_message(c, &entry[i], SL_MESSAGE_ITERATIONS, &body);
            if (head)
                add_blocks(c, head, body);
        }
        sl_sample sample; /* entries are invalid from here: the rest uses the store */
        while (!c->failed && sl_iteration_samples_take(l->samples, c->now, &sample))
            take_sample(c, &sample);
    } while (count == SL_READ_MAX && !c->failed);
}
