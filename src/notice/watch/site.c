#include "notice/watch/site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_in(const sl_site *site, const char *name) {
    char path[sizeof site->directory.path + 32];
    snprintf(path, sizeof path, "%s/%s", site->directory.path, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The probe's first process reports at its end if there was no call; here the agent reports that, once for
 * all ranks, so it is used instead of the first process's. */
static void take_root(const sl_site *site) {
    int file = open_in(site, "root");
    if (file >= 0)
        close(file);
}

int sl_site_claim(sl_site *site) {
    struct stat found;
    char text[16];
    int file = open_in(site, "agent.lock");
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0 || fstat(file, &found) != 0 || found.st_size > 0) {
        if (file >= 0)
            close(file);
        return 0;
    }
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    (void)!write(file, text, (size_t)length);
    if (site->member >= 0)
        close(site->member);
    site->member = -1;
    site->agent = file;
    return site->is_agent = 1;
}

static void be_member(sl_site *site) {
    site->member = open_in(site, "members.lock");
    while (site->member >= 0 && flock(site->member, LOCK_SH) != 0 && errno == EINTR)
        ;
}

/* As in the launcher's environment; others claim later, because one launcher's host may be several nodes. */
static int is_first(const sl_launch_position *position) {
    return position->local_rank == 0 || position->rank == 0;
}

sl_status sl_site_open(const sl_launch_position *position, sl_site *site) {
    char name[200];
    site->directory.lock = site->agent = site->member = -1;
    site->is_agent = 0;
    if (is_first(position))
        sl_launch_directory_clear(NULL);
    sl_launch_position_folder(position, name, sizeof name);
    SL_TRY(sl_launch_directory_join(name, &site->directory));
    take_root(site);
    if (!is_first(position) || !sl_site_claim(site))
        be_member(site);
    return SL_OK;
}

void sl_site_close(sl_site *site) {
    if (site->agent >= 0)
        close(site->agent);
    if (site->member >= 0)
        close(site->member);
    sl_launch_directory_leave(&site->directory);
}

int sl_site_alone(const sl_site *site) {
    int file = open_in(site, "members.lock"); /* another open file than any member's */
    int alone = file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0;
    if (file >= 0)
        close(file);
    return alone;
}
