#include "notice/control/controller_inside.h"

int sl_control_answered(sl_control_core *c, sl_status status) {
    if (status == SL_ENOMEM)
        c->failed = status;
    if (status == SL_OK && !c->view.connected) {
        c->view.connected = 1;
        sl_nodes_forgive(&c->nodes, c->now);
        sl_leadership_renew(&c->leadership);
        sl_control_report(c, SL_EVENT_STORE, "the store answers again", NULL, NULL);
        sl_control_feed(c, SL_IN_STORE_BACK, 0);
    } else if (status != SL_OK && c->view.connected) {
        c->view.connected = 0;
        sl_control_report(c, SL_EVENT_STORE, "the store does not answer", "the program runs on",
                          sl_error_text());
        sl_control_because(c, "the store is lost");
        sl_control_feed(c, SL_IN_STORE_LOST, 0);
    }
    return status == SL_OK;
}

int sl_control_read(sl_control_core *c, const char *log, sl_store_position *position, size_t most,
                    const sl_store_entry **entries, size_t *count) {
    return sl_control_answered(c, sl_store_read(c->given.store, log, position, most, 0, entries, count));
}

void sl_control_skip(sl_control_core *c, const char *log, sl_store_position *position) {
    const sl_store_entry *entry;
    size_t count;
    while (sl_control_read(c, log, position, SL_READ_MAX, &entry, &count) && count > 0)
        ;
}

const sl_message_head *sl_control_message(sl_control_core *c, const sl_store_entry *entry,
                                          sl_message_kind kind, const void **body) {
    const sl_message_head *head = sl_message_read(entry, kind, body);
    if (!head)
        sl_store_refuse(c->given.store);
    return head;
}

int sl_control_order(sl_control_core *c, const char *kind, int64_t round, json_t *order) {
    if (!order) {
        c->failed = SL_ENOMEM;
        return 0;
    }
    json_object_set_new(order, "kind", json_string(kind));
    json_object_set_new(order, "round", json_integer((json_int_t)round));
    sl_status status = sl_json_append(c->given.store, SL_LOG_ORDERS, order, SL_KEEP_ORDERS);
    if (status == SL_ENOMEM)
        c->failed = status;
    return status == SL_OK;
}
