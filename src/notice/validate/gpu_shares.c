#include "notice/validate/gpu_shares.h"

#include <string.h>

void sl_gpu_shares(const uint64_t *claimed, const int *machine, int members, uint64_t *tests) {
    memset(tests, 0, (size_t)members * sizeof *tests);
    for (int first = 0; first < members; first++) {
        int seen = 0;
        for (int i = 0; i < first; i++)
            seen |= machine[i] == machine[first];
        for (int gpu = 0; gpu < 64 && !seen && machine[first] >= 0; gpu++) {
            int claims = 0, turn = 0;
            for (int i = first; i < members; i++)
                claims += machine[i] == machine[first] && (claimed[i] >> gpu & 1);
            for (int i = first; i < members; i++)
                if (machine[i] == machine[first] && (claimed[i] >> gpu & 1) && turn++ == gpu % claims)
                    tests[i] |= UINT64_C(1) << gpu;
        }
    }
}
