#include "notice/control/narrow.h"

#include <stdio.h>
#include <string.h>

static int there(const sl_suspect *s, int node, const int *node_of, int ranks) {
    return s->component == SL_COMPONENT_DEVICE && s->rank >= 0 && s->rank < ranks && node_of[s->rank] == node;
}

/* The contended node of a verdict, whose cause says so (notice/validate/causes.h); -1: it is of something
 * else.
 */
static int contended(const sl_suspect *v, const int *node_of, int ranks) {
    int is = v->component == SL_COMPONENT_HOST && strstr(v->cause, "contention") && v->rank >= 0 &&
             v->rank < ranks;
    return is ? node_of[v->rank] : -1;
}

int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect, int suspects,
                      const int *node_of, int ranks) {
    for (int i = 0; i < count; i++) {
        const sl_suspect host = verdict[i];
        int node = contended(&host, node_of, ranks), devices = 0, all = 0;
        for (int s = 0; node >= 0 && s < suspects; s++)
            devices += there(&suspect[s], node, node_of, ranks);
        for (int r = 0; r < ranks; r++)
            all += node_of[r] == node;
        if (devices == 0 || devices == all || count + devices - 1 > most)
            continue;
        memmove(&verdict[i + devices], &verdict[i + 1], (size_t)(count - i - 1) * sizeof *verdict);
        for (int s = 0, at = i; s < suspects; s++) {
            if (!there(&suspect[s], node, node_of, ranks))
                continue;
            sl_suspect *v = &verdict[at++];
            *v = suspect[s];
            snprintf(v->cause, sizeof v->cause, "%s", host.cause);
            snprintf(v->why, sizeof v->why, "%.120s; %.130s", suspect[s].why, host.why);
        }
        count += devices - 1;
        i += devices - 1;
    }
    return count;
}
