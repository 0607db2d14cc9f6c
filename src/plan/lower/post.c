#include "plan/lower/post.h"

/* Pairs start together, so before the second means before the first. */
static int32_t block_of(const sl_rank_program *rank, int32_t step) {
    return step > 0 && rank->step[step - 1].op.paired ? step - 1 : step;
}

/* The latest block, `most` or before, that starts early enough for a message that is sent at `sent`; the
 * starts of a rank's steps ascend. */
static int32_t latest_block(const sl_rank_program *rank, const sl_time *start, int32_t most, sl_time sent,
                            sl_time margin) {
    int32_t low = 0, high = most; /* start[low] is early enough, or low is 0 */
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (start[middle] < sent - margin)
            low = middle;
        else
            high = middle - 1;
    }
    return block_of(rank, low);
}

sl_status sl_program_post(const sl_program *program, const sl_time *start, const sl_time *sent,
                          sl_time margin, int32_t *post) {
    int64_t first = 0; /* of the rank's steps in `start` */
    for (int r = 0; r < program->ranks; r++) {
        const sl_rank_program *rank = &program->rank[r];
        for (int q = SL_RECEIVE_NEXT; q <= SL_RECEIVE_PREVIOUS; q++) {
            int32_t most = rank->steps;
            for (int i = rank->queued[q] - 1; i >= 0; i--) { /* never after a later message of the link */
                int32_t m = rank->queue[q][i], consumer = block_of(rank, program->message[m].consumer);
                most = consumer < most ? consumer : most;
                most = post[m] = latest_block(rank, start + first, most, sent[m], margin);
            }
        }
        first += rank->steps;
    }
    return SL_OK;
}
