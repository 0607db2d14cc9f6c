#include "base/median.h"
#include "notice/control/controller_inside.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX 512 /* entries of one reading */

static int interrupted(const sl_controller *c, const sl_sample *sample) {
    for (int i = 0; i < SL_INTERRUPTIONS && i < c->interruptions; i++) {
        const sl_interruption *one = &c->interruption[i];
        if (sample->start < one->end && sample->end > one->begin)
            return 1;
    }
    return 0;
}

/* The period was found, or it or the work of an iteration is another one: levels start over. */
static void begin_levels(sl_controller *c, const sl_sample *sample, const char *why) {
    char seen[96], decided[64] = "";
    sl_detector_close(c->detector);
    c->detector = NULL;
    if (sl_detector_open(SL_CHANGE_BOCD_V, &c->detector) != SL_OK)
        c->failed = SL_ENOMEM;
    c->sample = c->since = 0;
    if (c->view.period)
        snprintf(decided, sizeof decided, "levels start over");
    snprintf(seen, sizeof seen, "an iteration is %d calls, %.4g ms", sample->period, sample->time_ms);
    c->view.period = sample->period;
    c->view.slow = 0;
    c->view.healthy_ms = 0;
    c->view.onset = -1;
    sl_controller_tell(c, SL_EVENT_TRACKED, seen, decided, why);
    sl_controller_feed(c, c->phases.phase < SL_PHASE_TRACKING ? SL_IN_PERIOD : SL_IN_PERIOD_CHANGED, 0);
}

/* A reference taken when iterations were unnoticed but already slow is not a reference; but a further
 * slowdown may be compared with it. */
static void check_reference(sl_controller *c, const sl_change *change) {
    c->onset_at = c->start_of[change->index & (SL_MEMORY - 1)];
    if (!c->reference || c->onset_at >= c->reference_until)
        return;
    sl_call_profile_close(c->usual);
    c->usual = c->reference;
    c->usual_until = c->reference_until;
    c->usual_is_now = 0;
    c->reference = NULL;
    c->phases.reference = 0;
}

static void became_slow(sl_controller *c, const sl_change *change, int64_t iteration, int history) {
    if (!c->view.slow)
        c->view.healthy_ms = change->before;
    c->view.slow = 1;
    c->view.onset = iteration;
    c->view.onsets++;
    if (history)
        return;
    char decided[64];
    snprintf(decided, sizeof decided, "a profile of %d iterations", SL_PROFILE_ITERATIONS);
    sl_controller_tell_change(c, change, iteration, decided);
    check_reference(c, change);
    sl_controller_feed(c, SL_IN_ONSET, 0);
}

static void became_fast(sl_controller *c, const sl_change *change, int64_t iteration, int history) {
    int was_slow = c->view.slow;
    int whole = !was_slow || change->after <= c->view.healthy_ms * (1 + SL_CHANGE_MIN);
    const char *decided = !was_slow ? "" : whole ? "the verdict is cleared" : "still slow: another profile";
    c->view.slow = !whole;
    c->view.reliefs++;
    if (whole) {
        c->view.healthy_ms = 0;
        c->view.onset = -1;
    }
    if (history)
        return;
    sl_controller_tell_change(c, change, iteration, decided);
    sl_controller_feed(c, whole ? SL_IN_RELIEF : SL_IN_EASED, 0);
}

/* Median bytes of an iteration over samples [first, end), at most 15 of them. */
static double usual_bytes(const sl_controller *c, int64_t first, int64_t end) {
    double bytes[15];
    size_t count = 0;
    for (int64_t i = first < 0 ? 0 : first; i < end && count < 15; i++)
        bytes[count++] = c->bytes_of[i & (SL_MEMORY - 1)];
    qsort(bytes, count, sizeof *bytes, sl_ascending_numbers);
    return count ? bytes[count / 2] : 0;
}

/* A change of time together with a change of the messages' bytes is the program's: other work, not slower
 * hardware. Writes that into why[size]. */
static int work_changed(const sl_controller *c, const sl_change *change, char *why, size_t size) {
    double before = usual_bytes(c, change->index - 15, change->index);
    double after = usual_bytes(c, change->index, c->sample);
    double more = before > 0 ? after / before - 1 : 0;
    snprintf(why, size, "its messages carry %+.1f%%: other work", 100 * more);
    return change->kind == SL_CHANGE_ONSET ? more >= SL_CHANGE_MIN : more <= -SL_CHANGE_MIN;
}

static void take_sample(sl_controller *c, const sl_sample *sample) {
    sl_change change;
    int history = sample->end < c->taken_over;
    if (sample->anew)
        begin_levels(c, sample, NULL);
    c->view.iteration = sample->iteration + sample->count - 1;
    int held = interrupted(c, sample);
    if (sl_standing_iteration(&c->standing, c->view.iteration, sample->slowest_ms, held) != SL_OK)
        c->failed = SL_ENOMEM;
    if (held || !c->detector)
        return;
    c->view.time_ms = sample->slowest_ms;
    c->iteration_of[c->sample & (SL_MEMORY - 1)] = sample->iteration;
    c->bytes_of[c->sample & (SL_MEMORY - 1)] = sample->bytes;
    c->start_of[c->sample & (SL_MEMORY - 1)] = sample->start;
    c->sample++;
    c->since++;
    int changed = sl_detector_add(c->detector, sample->time_ms, &change);
    c->view.level_ms = sl_detector_level(c->detector);
    if (!changed) {
        if (c->since >= SL_STABLE_SAMPLES && !c->view.slow && !history)
            sl_controller_feed(c, SL_IN_STABLE, 0);
        return;
    }
    char why[96];
    if (work_changed(c, &change, why, sizeof why)) {
        begin_levels(c, sample, why);
        return;
    }
    int64_t iteration = c->iteration_of[change.index & (SL_MEMORY - 1)];
    c->since = c->sample - change.index;
    if (change.kind == SL_CHANGE_ONSET)
        became_slow(c, &change, iteration, history);
    else
        became_fast(c, &change, iteration, history);
}

void sl_controller_read_iterations(sl_controller *c) {
    const sl_store_entry *entry;
    size_t count;
    do {
        if (!sl_controller_answered(c, sl_store_read(c->config.store, SL_LOG_ITERATIONS, &c->at_iterations,
                                                     MAX, 0, &entry, &count)))
            return;
        for (size_t i = 0; i < count; i++) {
            const void *body;
            const sl_message_head *head = sl_message_read(&entry[i], SL_MESSAGE_ITERATIONS, &body);
            if (!head)
                sl_store_refuse(c->config.store);
            const sl_job_node *node = head ? sl_nodes_find(&c->nodes, head->node) : NULL;
            if (!node || (!node->same_clock && node->offset.trips == 0))
                continue; /* invalid times */
            for (uint32_t j = 0; j < head->count; j++) {
                sl_message_block block = ((const sl_message_block *)body)[j];
                block.start = sl_node_time(node, block.start);
                block.end = sl_node_time(node, block.end);
                if (sl_iteration_samples_add(c->samples, &block, c->now) != SL_OK ||
                    sl_standing_block(&c->standing, &block) != SL_OK)
                    c->failed = SL_ENOMEM;
            }
        }
        sl_sample sample; /* entries are invalid from here: the rest uses the store */
        while (!c->failed && sl_iteration_samples_take(c->samples, c->now, &sample))
            take_sample(c, &sample);
    } while (count == MAX && !c->failed);
}

void sl_controller_resume(sl_controller *c) {
    if (!c->taken_over || c->sample == 0)
        return;
    c->taken_over = 0;
    if (c->view.slow)
        sl_controller_feed(c, SL_IN_ONSET, 0);
}
