#include "plan/trace/label.h"

#include <ctype.h>
#include <string.h>

/* The words before the = of a mapping. */
static const struct label_word {
    const char *name;
    sl_label_kind kind;
    int op; /* sl_op_kind */
} words[] = {
    {"F", SL_LABEL_OP, SL_F},        {"I", SL_LABEL_OP, SL_I},           {"W", SL_LABEL_OP, SL_W},
    {"B", SL_LABEL_OP, SL_B},        {"SEND_F", SL_LABEL_SEND, SL_F},    {"RECV_F", SL_LABEL_RECEIVE, SL_F},
    {"SEND_B", SL_LABEL_SEND, SL_B}, {"RECV_B", SL_LABEL_RECEIVE, SL_B}, {"iteration", SL_LABEL_ITERATION, 0},
    {"action", SL_LABEL_NONE, 0},
};
enum { F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, ITERATION, ACTION, WORDS };

/* The built-in patterns. */
static const sl_pattern known[] = {
    {ACTION, "PP:{action}"}, /* PyTorch's _PipelineScheduleRuntime and schedules built on it */
    {ACTION, "{action}"},
    {F, "Forward {microbatch}"}, /* PyTorch's ScheduleGPipe */
    {B, "Backward {microbatch}"},
    {F, "F{microbatch}"}, /* slackline's timeline.json, and its plans as traces */
    {I, "I{microbatch}"},
    {W, "W{microbatch}"},
    {B, "B{microbatch}"},
    {F, "*pipelining/stage.py(*): forward_one_chunk"}, /* PyTorch's Schedule1F1B, with_stack=True */
    {B, "*pipelining/stage.py(*): backward_one_chunk"},
    {W, "*pipelining/stage.py(*): backward_weight_one_chunk"},
    {F, "forward-step"}, /* Megatron: schedules.py, and its timers */
    {F, "forward_step"},
    {F, "*.forward_step"},
    {F, "*schedules.py(*): forward_step"},
    {F, "forward-compute"},
    {B, "backward-step"},
    {B, "backward_step"},
    {B, "*.backward_step"},
    {B, "*schedules.py(*): backward_step"},
    {B, "backward-compute"},
    {SEND_F, "forward-send"},
    {SEND_F, "send_forward"},
    {RECV_F, "forward-recv"},
    {RECV_F, "recv_forward"},
    {SEND_B, "backward-send"},
    {SEND_B, "send_backward"},
    {RECV_B, "backward-recv"},
    {RECV_B, "recv_backward"},
    {ITERATION, "ProfilerStep#{iteration}"},
};

static const char *const fields[] = {"{stage}", "{microbatch}", "{mb}", "{iteration}", "{action}", NULL};
enum { FIELD_STAGE, FIELD_MICROBATCH, FIELD_MB, FIELD_ITERATION, FIELD_ACTION, NO_FIELD };

static int field_of(const char *pattern) {
    int field = 0;
    while (fields[field] && strncmp(pattern, fields[field], strlen(fields[field])) != 0)
        field++;
    return field;
}

/* Up to nine digits; *text moves past them. */
static int read_number(const char **text, int32_t *number) {
    int digits = 0;
    int32_t value = 0;
    for (; isdigit((unsigned char)**text) && digits < 9; digits++)
        value = value * 10 + (*(*text)++ - '0');
    *number = value;
    return digits > 0;
}

/* ---- actions of PyTorch's pipelining ---- */

static const struct label_action {
    const char *name;
    sl_label_kind kind;
    int op;
    int of_microbatch;
} actions[] = {
    /* longer names before their prefixes */
    {"REDUCE_GRAD", SL_LABEL_COLLECTIVE, SL_REDUCE, 0},
    {"SEND_F", SL_LABEL_SEND, SL_F, 1},
    {"SEND_B", SL_LABEL_SEND, SL_B, 1},
    {"RECV_F", SL_LABEL_RECEIVE, SL_F, 1},
    {"RECV_B", SL_LABEL_RECEIVE, SL_B, 1},
    {"F", SL_LABEL_OP, SL_F, 1},
    {"I", SL_LABEL_OP, SL_I, 1},
    {"W", SL_LABEL_OP, SL_W, 1},
    {"B", SL_LABEL_OP, SL_B, 1},
    {NULL, SL_LABEL_NONE, 0, 0},
};

/* One action at *text, which moves past it. */
static int read_single(const char **text, sl_label *label) {
    int32_t stage, microbatch = -1;
    if (!read_number(text, &stage))
        return 0;
    const struct label_action *a = actions;
    while (a->name && strncmp(*text, a->name, strlen(a->name)) != 0)
        a++;
    if (!a->name)
        return 0;
    *text += strlen(a->name);
    if (a->of_microbatch && !read_number(text, &microbatch))
        return 0;
    label->kind = a->kind;
    label->op = (sl_op){.stage = stage, .microbatch = microbatch, .kind = a->op};
    return 1;
}

/* (0F7;7B3)OVERLAP_F_B */
static int read_pair(const char **text, sl_label *label) {
    sl_label first = *label, second = *label;
    (*text)++;
    if (!read_single(text, &first) || *(*text)++ != ';' || !read_single(text, &second))
        return 0;
    if (strncmp(*text, ")OVERLAP_F_B", 12) != 0 || first.kind != SL_LABEL_OP || second.kind != SL_LABEL_OP ||
        first.op.kind != SL_F || second.op.kind != SL_B)
        return 0;
    *text += 12;
    label->kind = SL_LABEL_PAIR;
    label->op = first.op;
    label->second = second.op;
    return 1;
}

static int read_action(const char **text, sl_label *label) {
    return **text == '(' ? read_pair(text, label) : read_single(text, label);
}

/* ---- patterns ---- */

static int read_field(int field, const char **name, sl_label *label) {
    int32_t number;
    if (field == FIELD_ACTION)
        return read_action(name, label);
    if (!read_number(name, &number))
        return 0;
    if (field == FIELD_STAGE)
        label->op.stage = number;
    else if (field == FIELD_ITERATION)
        label->iteration = number;
    else
        label->op.microbatch = number;
    return 1;
}

/* Matches a field, or one character, of both; 0: they differ there. */
static int match_one(const char **pattern, const char **name, sl_label *label) {
    const int field = **pattern == '{' ? field_of(*pattern) : NO_FIELD;
    if (field != NO_FIELD) {
        *pattern += strlen(fields[field]);
        return read_field(field, name, label);
    }
    return **pattern && *(*pattern)++ == *(*name)++;
}

/* Text between two stars is matched at its first occurrence, which leaves most to the rest. So only the last
 * star is ever moved, and the time is the product of the two lengths for any pattern. */
static int matches(const char *pattern, const char *name, sl_label *label) {
    const char *star = NULL, *from = NULL; /* after the last star; the start of its match in the name */
    sl_label before = *label;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
            before = *label;
        } else if (!*pattern && !*name) {
            return 1;
        } else if (!*name || !match_one(&pattern, &name, label)) {
            if (!star || !*from)
                return 0;
            pattern = star;
            name = ++from;
            *label = before;
        }
    }
}

static int try_pattern(const sl_pattern *pattern, const char *name, sl_label *label) {
    const struct label_word *word = &words[pattern->what];
    *label = (sl_label){.kind = word->kind, .op = {-1, -1, word->op, 0, 0}, .iteration = -1};
    if (!matches(pattern->text, name, label))
        return 0;
    return label->kind != SL_LABEL_NONE;
}

/* Whether patterns were given for this one's group. */
static int is_replaced(const sl_label_map *map, const sl_label *label) {
    switch (label->kind) {
    case SL_LABEL_SEND:
    case SL_LABEL_RECEIVE:
        return map->messages > 0;
    case SL_LABEL_ITERATION:
        return map->iterations > 0;
    default:
        return map->ops > 0;
    }
}

sl_label sl_label_read(const sl_label_map *map, const char *name) {
    sl_label label;
    for (int i = 0; i < map->count; i++)
        if (try_pattern(&map->pattern[i], name, &label))
            return label;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (try_pattern(&known[i], name, &label) && !is_replaced(map, &label))
            return label;
    return (sl_label){.kind = SL_LABEL_NONE, .iteration = -1};
}

static sl_status check_fields(const char *assignment, const char *pattern, int what) {
    for (const char *at = strchr(pattern, '{'); at; at = strchr(at + 1, '{')) {
        int field = field_of(at);
        if (field == NO_FIELD)
            return sl_error(SL_EINVAL,
                            "--map '%s': '%.20s' is not a field; {stage}, {microbatch}, {iteration} and "
                            "{action} are",
                            assignment, at);
        if ((field == FIELD_ACTION) != (what == ACTION) || (field == FIELD_ITERATION) != (what == ITERATION))
            return sl_error(SL_EINVAL, "--map '%s': %s does not belong to '%s'", assignment, fields[field],
                            words[what].name);
    }
    if (what == ACTION && !strstr(pattern, "{action}"))
        return sl_error(SL_EINVAL, "--map '%s': a pattern of 'action' needs {action}", assignment);
    return SL_OK;
}

sl_status sl_label_map_add(sl_label_map *map, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    int what = 0;
    while (equals && what < WORDS &&
           (strlen(words[what].name) != (size_t)(equals - assignment) ||
            strncmp(words[what].name, assignment, (size_t)(equals - assignment)) != 0))
        what++;
    if (!equals || what == WORDS || !equals[1])
        return sl_error(SL_EINVAL,
                        "--map takes WHAT=PATTERN with F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, iteration "
                        "or action as WHAT, got '%s'",
                        assignment);
    SL_TRY(check_fields(assignment, equals + 1, what));
    if (map->count == SL_MAX_PATTERNS)
        return sl_error(SL_EINVAL, "--map: at most %d patterns", SL_MAX_PATTERNS);
    map->pattern[map->count++] = (sl_pattern){what, equals + 1};
    map->ops += what <= B || what == ACTION;
    map->messages += (what >= SEND_F && what <= RECV_B) || what == ACTION;
    map->iterations += what == ITERATION;
    return SL_OK;
}

const char *sl_label_known(int index, char *text, size_t size) {
    text[0] = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].what == index) {
            const size_t used = strlen(text);
            snprintf(text + used, size - used, "%s'%s'", used ? ", " : "", known[i].text);
        }
    return index < WORDS ? words[index].name : NULL;
}
