#include "base/event.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

const sl_event_name sl_event_names[SL_EVENT_KINDS] = {
    [SL_EVENT_START] = {"start", "the run began: its plan and what it runs on"},
    [SL_EVENT_FAULT] =
        {"fault", "the laboratory injected or removed trouble (what, where); detection does not see this"},
    [SL_EVENT_ONSET] = {"onset", "measurements left their healthy level"},
    [SL_EVENT_SWAP] = {"swap", "all ranks changed to a new schedule between two iterations"},
    [SL_EVENT_KEEP] = {"keep", "a change was seen and the running schedule kept, with the reason"},
    [SL_EVENT_RELIEF] = {"relief", "measurements returned to their healthy level"},
    [SL_EVENT_RETURN] = {"return", "all ranks went back to the first schedule"},
    [SL_EVENT_ARRANGE] = {"arrange", "processes took other seats, or replicas other numbers of microbatches, "
                                     "between two iterations; what it took"},
    [SL_EVENT_DELEGATE] = {"delegate", "delegate processes carry the messages from the next iteration on"},
    [SL_EVENT_DIRECT] = {"direct", "the ranks carry their messages themselves again; delegates are stopped"},
    [SL_EVENT_RAIL] = {"rail", "a rail between two hosts was lost, or is used again"},
    [SL_EVENT_STRANGER] = {"stranger", "somebody who is not of this run connected to a rail and was dropped"},
    [SL_EVENT_REPLACED] = {"replaced", "a delegate process died and another took its place"},
    [SL_EVENT_CHECKPOINT_WRITTEN] = {"checkpoint_written", "a checkpoint is whole and on the disk"},
    [SL_EVENT_CHECKPOINT_FAILED] = {"checkpoint_failed",
                                    "a checkpoint could not be written and was removed; training went on"},
    [SL_EVENT_CHECKPOINT_REFUSED] =
        {"checkpoint_refused",
         "a checkpoint is damaged or incomplete and was not resumed from, with the reason"},
    [SL_EVENT_RESUMED] = {"resumed",
                          "training goes on from a checkpoint, or starts anew where there is none"},
    [SL_EVENT_WARNED] = {"warned",
                         "a scheduler's warning (SIGTERM) came; a checkpoint is written and the run ends"},
    [SL_EVENT_RESTART] = {"restart", "an attempt failed and the ranks are started again"},
    [SL_EVENT_FAILED] = {"failed", "the command ended without having trained to the end, with the reason"},
    [SL_EVENT_DECISION] = {"decision", "the ladder of strategies: what it begins, what that brought, what it "
                                       "takes back (decisions.txt has all of it)"},
    [SL_EVENT_HOST] =
        {"host",
         "a host is left out, because it failed its test after a failure or is slow, or is used again"},
    [SL_EVENT_LEAVE] = {"leave",
                        "the run saves itself and is started again without a slow host, or why it is not"},
    [SL_EVENT_LEFT] = {"left", "the run goes on without hosts that it left, and what that took"},
    [SL_EVENT_SUSPECT] = {"suspect", "iterations became slow, and the first of them point at this"},
    [SL_EVENT_TRACKED] = {"tracked", "the iteration of a watched program was found, or another one"},
    [SL_EVENT_PROFILED] = {"profiled",
                           "the calls of some iterations were compared: suspects, or a reference"},
    [SL_EVENT_PROFILE] = {"profile", "the links of a running job were measured, slow or not"},
    [SL_EVENT_HELD] = {"held", "a watched program stands at a consistent cut, or could not be held"},
    [SL_EVENT_RELEASED] = {"released", "a held program goes on"},
    [SL_EVENT_VALIDATED] = {"validated", "suspects were tested, with the evidence"},
    [SL_EVENT_VERDICT] = {"verdict", "what is slow, or why nothing can be told"},
    [SL_EVENT_ADVICE] =
        {"advice", "what would be done about something slow in a watched program, its gain and cost, or "
                   "that it is to be done now"},
    [SL_EVENT_HOOK] = {"hook", "the program of --on-event carried an advice out, or could not"},
    [SL_EVENT_NODE] =
        {"node", "the agent of a node came, was lost, its processes changed, or it cannot read their calls"},
    [SL_EVENT_STORE] = {"store", "the store was lost, or is back; the program runs on"},
    [SL_EVENT_CONTROLLER] = {"controller", "another process controls the job from now on"},
    [SL_EVENT_END] = {"end", "the run ended"},
};

sl_event sl_event_of(sl_event_kind kind, sl_time time, int iteration) {
    return (sl_event){.kind = kind, .time = time, .iteration = iteration, .from = -1, .to = -1, .rank = -1};
}

void sl_event_say(sl_event *event, const char *seen, const char *decided, const char *why) {
    sl_text_fit(event->seen, sizeof event->seen, seen ? seen : "");
    sl_text_fit(event->decided, sizeof event->decided, decided ? decided : "");
    sl_text_fit(event->why, sizeof event->why, why ? why : "");
}

static int put_text(json_t *line, const char *key, const char *text) {
    return text[0] ? json_object_set_new(line, key, json_string(text)) : 0;
}

json_t *sl_event_json(const sl_event *event) {
    json_t *line = json_pack("{s:f, s:i, s:s}", "time_s", (double)event->time / 1e9, "iteration",
                             event->iteration, "kind", sl_event_names[event->kind].name);
    int failed = !line;
    if (line && event->from >= 0)
        failed |= json_object_set_new(line, "link", json_pack("[i,i]", event->from, event->to));
    if (line && event->rank >= 0)
        failed |= json_object_set_new(line, "rank", json_integer(event->rank));
    if (line && event->has_replica)
        failed |= json_object_set_new(line, "replica", json_integer(event->replica));
    if (line)
        failed |= put_text(line, "seen", event->seen) | put_text(line, "decided", event->decided) |
                  put_text(line, "why", event->why);
    if (failed)
        json_decref(line);
    return failed ? NULL : line;
}

sl_status sl_event_line(const sl_event *event, char **line) {
    json_t *object = sl_event_json(event);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    *line = text ? realloc(text, strlen(text) + 2) : NULL;
    if (!*line) {
        free(text);
        return sl_error(SL_ENOMEM, "out of memory for an event");
    }
    strcat(*line, "\n");
    return SL_OK;
}
