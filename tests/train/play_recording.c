/* play_recording MEASUREMENTS: plays a run's measurements.jsonl; prints its decisions as in decisions.txt on
 * standard output, its events as in events.jsonl on standard error. For test_recording.py. */
#include "adapt/orchestrator/orchestrator.h"
#include "adapt/orchestrator/recording.h"

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sl_error_text());
    return 1;
}

int main(int count, char **argument) {
    FILE *in = count == 2 ? fopen(argument[1], "r") : NULL;
    sl_player *player;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (!in || sl_player_open(&player) != SL_OK)
        return failed("play_recording MEASUREMENTS");
    while ((length = getline(&line, &room, in)) > 0) {
        sl_orchestrator_action action;
        if (sl_player_line(player, line, (size_t)length - 1, &action) != SL_OK)
            return failed(argument[1]);
        sl_orchestrator *o = sl_player_orchestrator(player);
        sl_event event;
        while (sl_orchestrator_event(o, &event)) {
            char *text;
            if (sl_event_line(&event, &text) != SL_OK)
                return failed("an event");
            fputs(text, stderr);
            free(text);
        }
        const char *decisions = sl_orchestrator_decisions(o);
        if (decisions)
            fputs(decisions, stdout);
    }
    sl_player_close(player);
    free(line);
    fclose(in);
    return 0;
}
