#include "notice/watch/unseen.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MAX = 4096 };

static void take(sl_unseen *u, const char *line) {
    int slot = 0;
    while (slot < u->count && strcmp(u->text[slot], line) != 0)
        slot++;
    if (slot == SL_UNSEEN_LINES)
        return;
    if (slot == u->count)
        snprintf(u->text[u->count++], sizeof u->text[0], "%s", line);
    u->processes[slot]++;
}

/* As much of a line as fits, without characters that a terminal would interpret. */
static void take_lines(sl_unseen *u, char *content) {
    for (char *next, *line = content; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        if (length >= sizeof u->text[0])
            line[sizeof u->text[0] - 1] = 0;
        for (char *c = line; *c; c++)
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                *c = '?';
        if (*line)
            take(u, line);
    }
}

void sl_unseen_read(const char *folder, sl_unseen *unseen) {
    *unseen = (sl_unseen){.count = 0};
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[4400], *content;
        size_t size, length = strlen(entry->d_name);
        if (length < 8 || strcmp(entry->d_name + length - 7, ".unseen") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (sl_file_read_max(path, MAX, &content, &size) != SL_OK)
            continue;
        take_lines(unseen, content);
        sl_free(content);
    }
    closedir(directory);
}
