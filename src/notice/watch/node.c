#include "notice/watch/node.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int open_in(const sl_node *node, const char *name) {
    char path[sizeof node->directory.path + 32];
    snprintf(path, sizeof path, "%s/%s", node->directory.path, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The probe's first process says at its end when there was no call; here that is said by the agent, once for
 * all ranks, so the place of the first process is taken. */
static void take_root(const sl_node *node) {
    int file = open_in(node, "root");
    if (file >= 0)
        close(file);
}

static void choose_agent(const sl_place *place, sl_node *node) {
    int file = place->local_rank <= 0 ? open_in(node, "agent.lock") : -1;
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0) {
        node->agent = file;
        node->is_agent = 1;
        return;
    }
    if (file >= 0)
        close(file);
    node->member = open_in(node, "members.lock");
    while (node->member >= 0 && flock(node->member, LOCK_SH) != 0 && errno == EINTR)
        ;
}

sl_status sl_node_open(const sl_place *place, sl_node *node) {
    char name[200];
    node->directory.lock = node->agent = node->member = -1;
    node->is_agent = 0;
    if (place->local_rank <= 0)
        sl_launch_directory_clear(NULL);
    sl_place_folder(place, name, sizeof name);
    SL_TRY(sl_launch_directory_join(name, &node->directory));
    take_root(node);
    choose_agent(place, node);
    return SL_OK;
}

void sl_node_close(sl_node *node) {
    if (node->agent >= 0)
        close(node->agent);
    if (node->member >= 0)
        close(node->member);
    sl_launch_directory_leave(&node->directory);
}

int sl_node_alone(const sl_node *node) {
    int file = open_in(node, "members.lock"); /* another open file than any member's */
    int alone = file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0;
    if (file >= 0)
        close(file);
    return alone;
}

sl_status sl_node_probe(const sl_node *node, char **probe) {
    char path[sizeof node->directory.path + 32];
    if (!strpbrk(*probe, " :"))
        return SL_OK;
    snprintf(path, sizeof path, "%s/libslackline_probe.so", node->directory.path);
    if (symlink(*probe, path) != 0 && errno != EEXIST)
        return sl_error_errno(SL_ESYS, "%s: cannot be made", path);
    sl_free(*probe);
    *probe = NULL;
    return sl_copy_text(probe, path);
}
