/* Started by test_sum.sh under mpirun: sums in a fixed order against a sum that each rank makes for itself.
 */
#include "run/collective/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float value(int rank, size_t i) {
    unsigned x = (unsigned)rank * 2654435761u + (unsigned)i * 40503u + 12345u;
    x ^= x >> 13;
    x *= 1274126177u;
    /* magnitudes from 1e-4 to 1e4, so that the order of addition shows in the bits */
    static const float scale[] = {1e-4f, 1e-2f, 1.0f, 1e2f, 1e4f};
    return ((float)(x % 2000001u) / 1000000.0f - 1.0f) * scale[x / 7u % 5u];
}

static int check_sum(sl_group *group, size_t count) {
    int size = sl_group_size(group), wrong = 0;
    float *values = calloc(count, sizeof *values),
          *scratch = calloc(2 * (count + (size_t)size), sizeof *scratch);
    for (size_t i = 0; i < count; i++)
        values[i] = value(sl_group_rank(group), i);
    if (sl_group_sum(group, values, count, scratch) != SL_OK)
        wrong = 1;
    for (size_t i = 0; i < count; i++) {
        float expected = value(0, i);
        for (int r = 1; r < size; r++)
            expected += value(r, i);
        wrong |= memcmp(&expected, &values[i], sizeof expected) != 0;
    }
    free(values);
    free(scratch);
    return wrong;
}

static int check_gather(sl_group *group) {
    int rank = sl_group_rank(group), size = sl_group_size(group), wrong = 0;
    char mine[16], all[16 * 16];
    size_t sizes[16];
    memset(mine, 'a' + rank, sizeof mine);
    wrong |= sl_group_gather_all(group, mine, (size_t)rank, all, sizeof all, sizes) !=
             SL_OK; /* rank 0 gives nothing */
    for (int r = 0, at = 0; r < size; at += r, r++)
        for (int i = 0; i < r; i++)
            wrong |= all[at + i] != 'a' + r || sizes[r] != (size_t)r;
    wrong |= size > 2 && sl_group_gather_all(group, mine, 16, all, 8, sizes) != SL_ENOMEM;
    int passed = rank == 0 ? 42 : 0;
    wrong |= sl_group_pass(group, 0, size - 1, &passed, sizeof passed) != SL_OK;
    wrong |= rank == size - 1 && passed != 42;
    return wrong;
}

int main(int argc, char **argv) {
    sl_group *group;
    if (sl_group_open_world(&argc, &argv, &group) != SL_OK)
        return 1;
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 100003};
    int wrong = check_gather(group);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        wrong |= check_sum(group, counts[i]);
    if (wrong)
        printf("rank %d: wrong\n", sl_group_rank(group));
    sl_group_close_world(group);
    return wrong;
}
