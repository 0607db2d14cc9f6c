#include "base/scan.h"
#include "base/memory.h"

#include <string.h>

typedef enum scan_state { BEGIN, KEY, COLON, VALUE, ITEMS, END } scan_state;

/* The item that is being copied as text, up to its end. */
typedef enum scan_take { TAKE_NOTHING, TAKE_KEY, TAKE_MEMBER, TAKE_ITEM } scan_take;

struct sl_scanner {
    char *name;
    sl_scan_sink sink;
    const sl_scan_form *form;
    scan_state state;
    scan_take take;
    int bare;      /* a list without an object around it */
    int separated; /* the next item follows a comma or the beginning */
    int list;      /* the present one, of the form's */
    unsigned seen; /* bits: lists that have begun */
    int depth, in_string, escaped;
    int mark;         /* bytes of a byte order mark seen so far */
    long line, begun; /* current line; line where the item began */
    char *text;
    size_t used, room;
    char key[64];
};

sl_status sl_scan_open(const char *name, const sl_scan_form *form, const sl_scan_sink *sink,
                       sl_scanner **scanner) {
    sl_scanner *s;
    SL_TRY(sl_alloc(&s, 1, sizeof *s));
    s->sink = *sink;
    s->form = form;
    s->line = 1;
    s->separated = 1;
    sl_status status = sl_copy_text(&s->name, name);
    if (status != SL_OK) {
        sl_free(s);
        return status;
    }
    *scanner = s;
    return SL_OK;
}

void sl_scan_close(sl_scanner *s) {
    if (!s)
        return;
    SL_FREE(s->name, s->text, s);
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static sl_status refuse(const sl_scanner *s, char c) {
    unsigned char byte = (unsigned char)c;
    if (s->state == BEGIN)
        return sl_error(SL_EINVAL, "%s:%ld: not %s in JSON: it %s", s->name, s->line, s->form->what,
                        s->form->bare ? "begins neither with { nor with [" : "does not begin with {");
    if (byte < 32 || byte > 126)
        return sl_error(SL_EINVAL, "%s:%ld: invalid JSON: byte 0x%02x between values", s->name, s->line,
                        byte);
    return sl_error(SL_EINVAL, "%s:%ld: invalid JSON: '%c' is not expected here", s->name, s->line, c);
}

static sl_status put(sl_scanner *s, char c) {
    if (s->used + 2 > s->room) {
        if (s->used > s->form->most)
            return sl_error(SL_EINVAL, "%s:%ld: %s of more than %zu MB", s->name, s->begun, s->form->item,
                            s->form->most >> 20);
        SL_TRY(sl_grow(&s->text, &s->room, 2 * s->used + 4096, 1));
    }
    s->text[s->used++] = c;
    return SL_OK;
}

static sl_status begin(sl_scanner *s, scan_take take, char c) {
    s->take = take;
    s->used = 0;
    s->depth = c == '{' || c == '[';
    s->in_string = c == '"';
    s->escaped = 0;
    s->begun = s->line;
    s->separated = 0;
    return put(s, c);
}

static sl_status taken(sl_scanner *s) {
    scan_take take = s->take;
    s->take = TAKE_NOTHING;
    s->text[s->used] = 0;
    if (take == TAKE_ITEM)
        return s->sink.item(s->sink.object, s->list, s->text, s->used, s->begun);
    if (take == TAKE_MEMBER) {
        s->state = KEY;
        return s->sink.member(s->sink.object, s->key, s->text, s->used);
    }
    size_t length = s->used - 2 < sizeof s->key - 1 ? s->used - 2 : sizeof s->key - 1;
    memcpy(s->key, s->text + 1, length); /* without its quotes */
    s->key[length] = 0;
    s->state = COLON;
    return SL_OK;
}

/* Adds a byte to the item. *again: the byte belongs to the next item (a number has no end mark). */
static sl_status take_byte(sl_scanner *s, char c, int *again) {
    if (s->in_string) {
        SL_TRY(put(s, c));
        if (s->escaped)
            s->escaped = 0;
        else if (c == '\\')
            s->escaped = 1;
        else if (c == '"')
            s->in_string = 0;
        return !s->in_string && s->depth == 0 ? taken(s) : SL_OK;
    }
    if (s->depth == 0 && (c == ',' || c == '}' || c == ']' || is_blank(c))) {
        *again = 1;
        return taken(s);
    }
    SL_TRY(put(s, c));
    s->in_string = c == '"';
    s->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    return s->depth == 0 && (c == '}' || c == ']') ? taken(s) : SL_OK;
}

static sl_status between_members(sl_scanner *s, char c) {
    if (c == '}') {
        s->state = END;
        return SL_OK;
    }
    if (c == ',' && !s->separated) {
        s->separated = 1;
        return SL_OK;
    }
    return c == '"' && s->separated ? begin(s, TAKE_KEY, c) : refuse(s, c);
}

static sl_status between_items(sl_scanner *s, char c) {
    if (c == ']') {
        s->state = s->bare ? END : KEY;
        s->separated = 0;
        return SL_OK;
    }
    if (c == ',' && !s->separated) {
        s->separated = 1;
        return SL_OK;
    }
    return c == '{' && s->separated ? begin(s, TAKE_ITEM, c) : refuse(s, c);
}

static sl_status begin_value(sl_scanner *s, char c) {
    const char *const *list = s->form->list;
    for (s->list = 0; list[s->list] && strcmp(s->key, list[s->list]) != 0;)
        s->list++;
    if (!list[s->list])
        return c == ',' || c == '}' || c == ']' || c == ':' ? refuse(s, c) : begin(s, TAKE_MEMBER, c);
    if (c != '[')
        return sl_error(SL_EINVAL, "%s:%ld: '%s' must be a list", s->name, s->line, s->key);
    if (!s->form->bare && s->seen >> s->list & 1)
        return sl_error(SL_EINVAL, "%s:%ld: '%s' is there twice", s->name, s->line, s->key);
    s->state = ITEMS;
    s->separated = 1;
    s->seen |= 1u << s->list;
    return SL_OK;
}

static sl_status between(sl_scanner *s, char c) {
    if (is_blank(c))
        return SL_OK;
    switch (s->state) {
    case BEGIN:
        if (s->mark < 3 && c == "\xef\xbb\xbf"[s->mark]) { /* UTF-8 mark, from some editors */
            s->mark++;
            return SL_OK;
        }
        if (c != '{' && !(s->form->bare && c == '['))
            return refuse(s, c);
        s->bare = c == '[';
        s->seen = (unsigned)s->bare;
        s->state = s->bare ? ITEMS : KEY;
        return SL_OK;
    case KEY:
        return between_members(s, c);
    case COLON:
        s->state = VALUE;
        return c == ':' ? SL_OK : refuse(s, c);
    case VALUE:
        return begin_value(s, c);
    case ITEMS:
        return between_items(s, c);
    case END:
        break;
    }
    return refuse(s, c);
}

sl_status sl_scan_feed(sl_scanner *s, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int again = s->take == TAKE_NOTHING;
        if (!again)
            SL_TRY(take_byte(s, bytes[i], &again));
        if (again)
            SL_TRY(between(s, bytes[i]));
        s->line += bytes[i] == '\n';
    }
    return SL_OK;
}

int sl_scan_has(const sl_scanner *s, int list) {
    return (int)(s->seen >> list & 1);
}

sl_status sl_scan_end(sl_scanner *s) {
    if (s->state == BEGIN)
        return sl_error(SL_EINVAL, "%s: not %s: it is empty", s->name, s->form->what);
    if (s->take != TAKE_NOTHING)
        return sl_error(SL_EINVAL, "%s:%ld: the file ends within the value that begins here", s->name,
                        s->begun);
    if (s->form->bare && !(s->seen & 1))
        return sl_error(SL_EINVAL, "%s: not %s: '%s' is missing", s->name, s->form->what, s->form->list[0]);
    if (s->state != END && !s->bare)
        return sl_error(SL_EINVAL, "%s:%ld: the file ends before its last } or ]", s->name, s->line);
    return SL_OK;
}
