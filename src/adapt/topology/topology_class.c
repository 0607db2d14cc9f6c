/* Hosts that may be exchanged without any change, and the nearest among equal arrangements. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"
#include "base/random.h"

#include <string.h>

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A hash shared by interchangeable hosts: of the speed and the multisets of their links. */
static uint64_t sign(const sl_cluster *c, int host) {
    size_t n = (size_t)c->hosts, h = (size_t)host;
    uint64_t sum = sl_random_mix(bits_of(c->speed[host]));
    for (size_t k = 0; k < n; k++)
        if (k != h)
            sum +=
                sl_random_mix(bits_of(c->latency[h * n + k]) ^ sl_random_mix(bits_of(c->pace[h * n + k]))) +
                3 * sl_random_mix(bits_of(c->latency[k * n + h]) ^
                                  sl_random_mix(bits_of(c->pace[k * n + h])));
    return sum;
}

/* Whether the columns equal the rows, and so need no examination. */
static int symmetric(const sl_cluster *c) {
    size_t n = (size_t)c->hosts;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (c->latency[i * n + k] != c->latency[k * n + i] || c->pace[i * n + k] != c->pace[k * n + i])
                return 0;
    return 1;
}

static int alike(const sl_cluster *c, int rows, int a, int b) {
    size_t n = (size_t)c->hosts, i = (size_t)a, j = (size_t)b;
    if (c->speed[a] != c->speed[b] || c->latency[i * n + j] != c->latency[j * n + i] ||
        c->pace[i * n + j] != c->pace[j * n + i])
        return 0;
    for (size_t k = 0; k < n; k++)
        if (k != i && k != j &&
            (c->latency[i * n + k] != c->latency[j * n + k] || c->pace[i * n + k] != c->pace[j * n + k] ||
             (!rows &&
              (c->latency[k * n + i] != c->latency[k * n + j] || c->pace[k * n + i] != c->pace[k * n + j]))))
            return 0;
    return 1;
}

sl_status sl_topology_classes(const sl_cluster *c, int *class_of, int *classes) {
    uint64_t *signature;
    int *first;
    int rows = symmetric(c);
    *classes = 0;
    SL_TRY(sl_alloc(&signature, (size_t)c->hosts, sizeof *signature));
    sl_status status = sl_alloc(&first, (size_t)c->hosts, sizeof *first);
    for (int i = 0; i < c->hosts && status == SL_OK; i++) {
        signature[i] = sign(c, i);
        int k = 0;
        while (k < *classes && !(signature[first[k]] == signature[i] && alike(c, rows, first[k], i)))
            k++;
        if (k == *classes)
            first[(*classes)++] = i;
        class_of[i] = k;
    }
    sl_free(signature);
    if (status == SL_OK)
        sl_free(first);
    return status;
}

/* Gives each position a host of the wanted class: those already there, then those with the same weights, then
 * any. position[hosts] by position; taken[hosts] is scratch. Returns the total nearness. */
static long long assign(const sl_cluster *c, const int *class_of, const int *home, const int *wanted,
                        int *assigned, int *taken) {
    long long score = 0;
    for (int i = 0; i < c->hosts; i++) {
        assigned[i] = SL_NO_HOST;
        taken[i] = 0;
    }
    for (int wish = 2; wish >= 1; wish--)
        for (int position = 0; position < c->hosts; position++) {
            int t = sl_position_tensor(c, position), p = sl_position_stage(c, position);
            for (int d = 0; assigned[position] < 0 && d < c->data; d++) {
                int host = home[wish == 2 ? position : sl_position(c, t, d, p)];
                if (taken[host] || class_of[host] != wanted[position])
                    continue;
                assigned[position] = host;
                taken[host] = 1;
                score += wish == 2 ? c->hosts + 2 : c->hosts + 1; /* weights first, then staying */
            }
        }
    for (int position = 0; position < c->hosts; position++)
        for (int host = 0; assigned[position] < 0 && host < c->hosts; host++)
            if (!taken[host] && class_of[host] == wanted[position]) {
                assigned[position] = host;
                taken[host] = 1;
            }
    return score;
}

/* The classes of `host`, rotated by r replicas and q tensor ranks. */
static void rotate(const sl_cluster *c, const int *class_of, const int *host, int r, int q, int *wanted) {
    for (int position = 0; position < c->hosts; position++)
        wanted[position] = class_of[host[sl_position(c, (sl_position_tensor(c, position) + q) % c->tensor,
                                                     (sl_position_replica(c, position) + r) % c->data,
                                                     sl_position_stage(c, position))]];
}

/* How near a rotation is if no host is exchanged, quickly. */
static long long nearness(const sl_cluster *c, const int *class_of, const int *wanted) {
    long long score = 0;
    for (int position = 0; position < c->hosts; position++)
        score += class_of[c->present[position]] == wanted[position];
    return score;
}

sl_status sl_topology_settle(const sl_cluster *c, const sl_best *best, int *host) {
    int *room;
    const int *class_of = best->class_of;
    size_t n = (size_t)c->hosts;
    SL_TRY(sl_alloc(&room, 3 * n, sizeof *room));
    int *wanted = room, *assigned = room + n, *taken = room + 2 * n;
    long long nearest = -1;
    int best_r = 0, best_q = 0;
    for (int r = 0; r < c->data; r++)
        for (int q = 0; q < c->tensor; q++) {
            rotate(c, class_of, host, r, q, wanted);
            long long score = c->hosts <= 64 ? assign(c, class_of, c->present, wanted, assigned, taken)
                                             : nearness(c, class_of, wanted);
            if (score > nearest) {
                nearest = score;
                best_r = r;
                best_q = q;
            }
        }
    rotate(c, class_of, host, best_r, best_q, wanted);
    assign(c, class_of, c->present, wanted, assigned, taken);
    memcpy(host, assigned, n * sizeof *host);
    sl_free(room);
    return SL_OK;
}
