#include "notice/validate/waves.h"
#include "base/memory.h"

/* A wave of one host: the member on each processor, 1 + member; 0: none. */
typedef struct cores_of_wave {
    int owner[SL_CORES];
} cores_of_wave;

/* A processor for `member`, moving others to free ones (an augmenting path of a bipartite matching). */
static int take(const sl_wave_member *all, int member, cores_of_wave *s, char *seen) {
    for (int core = 0; core < SL_CORES; core++) {
        if (!sl_core_set_has(&all[member].cores, core) || seen[core])
            continue;
        seen[core] = 1;
        if (!s->owner[core] || (s->owner[core] != member + 1 && take(all, s->owner[core] - 1, s, seen))) {
            s->owner[core] = member + 1;
            return 1;
        }
    }
    return 0;
}

static int fits(const sl_wave_member *all, int member, cores_of_wave *s, int fresh) {
    cores_of_wave before = *s;
    int most = sl_core_set_count(&all[member].cores), wanted = all[member].threads;
    for (int i = 0; i < wanted && i < most; i++) {
        char seen[SL_CORES] = {0};
        if (!take(all, member, s, seen) && !fresh) {
            *s = before;
            return 0;
        }
    }
    return 1;
}

/* The members of one host, in order, each into the first wave that has room. */
static sl_status fill_host(const sl_wave_member *all, int members, int host, int *wave, int *waves) {
    cores_of_wave *s = NULL;
    size_t room = 0;
    int used = 0;
    sl_status status = SL_OK;
    for (int i = 0; i < members; i++) {
        if (all[i].host != host || all[i].threads < 1)
            continue;
        int at = 0;
        while (at < used && !fits(all, i, &s[at], 0))
            at++;
        if (at == used) {
            SL_TRY_GOTO(done, status, sl_grow(&s, &room, (size_t)used + 1, sizeof *s));
            fits(all, i, &s[used++], 1);
        }
        wave[i] = at;
    }
    *waves = used > *waves ? used : *waves;
done:
    sl_free(s);
    return status;
}

sl_status sl_waves(const sl_wave_member *member, int members, int *wave, int *waves) {
    *waves = 0;
    for (int i = 0; i < members; i++)
        wave[i] = -1;
    for (int i = 0; i < members; i++) {
        int first = 1;
        for (int before = 0; before < i && first; before++)
            first = member[before].host != member[i].host;
        if (first)
            SL_TRY(fill_host(member, members, member[i].host, wave, waves));
    }
    return SL_OK;
}
