/* Prints what the rings of a folder hold, one record a line, for the tests and benches of the probe:
 * FILE kind sequence call communicator peer tag bytes start end device rank thread; and after a ring "FILE
 * ring pid rank size family program lost untracked". Usage: print_rings FOLDER */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "notice/record/call.h"

static int print_ring(const char *folder, const char *name) {
    char versions[128];
    size_t bytes;
    sl_ring_file *head = sl_folder_map(folder, name, 0, sizeof *head, &bytes);
    if (!head || sl_file_head_read(&head->head, bytes, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT, versions,
                                   sizeof versions) != SL_FILE_OURS)
        return 1;
    const sl_record_ring *ring = (const sl_record_ring *)(head + 1);
    uint32_t capacity = sl_record_ring_capacity(ring, bytes - sizeof *head);
    if (capacity == 0)
        return 1;
    uint64_t position = 0, lost = 0;
    sl_record record;
    while (sl_record_read(ring, capacity, &position, &record, 1, &lost) == 1) {
        sl_call c;
        memcpy(&c, &record, sizeof c);
        printf("%s %s %" PRIu64 " %s %016" PRIx64 " %d %d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64
               " %d %d\n",
               name,
               c.kind == SL_RECORD_CALL         ? "call"
               : c.kind == SL_RECORD_COMPLETION ? "completion"
                                                : "other",
               c.sequence, sl_call_name(c.call), c.communicator, c.peer, c.tag, c.bytes, c.start, c.end,
               c.device, c.rank, c.thread);
    }
    printf("%s ring %d %d %d %u %s %" PRIu64 " %" PRIu64 "\n", name, head->head.process.pid, head->rank,
           head->size, head->family, head->program, lost, head->untracked);
    munmap(head, bytes);
    return 0;
}

int main(int argc, char **argv) {
    DIR *directory = argc == 2 ? opendir(argv[1]) : NULL;
    if (!directory) {
        fprintf(stderr, "usage: print_rings FOLDER\n");
        return 2;
    }
    int wrong = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".ring") == 0 &&
            print_ring(argv[1], entry->d_name)) {
            fprintf(stderr, "print_rings: %s is no ring\n", entry->d_name);
            wrong = 1;
        }
    }
    closedir(directory);
    return wrong;
}
