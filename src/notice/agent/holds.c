#include "notice/agent/holds.h"

#include "base/memory.h"
#include <stdio.h>
#include <sys/mman.h>

/* The gate of exactly this process; NULL: `trouble` has the reason. */
static sl_gate *map(const char *folder, const sl_process_id *process, char *trouble, size_t trouble_size) {
    char name[SL_FILE_NAME], versions[160];
    size_t bytes;
    sl_gate_name(process, name);
    sl_gate *gate = sl_folder_map(folder, name, 1, sizeof gate->head, &bytes);
    sl_probe_file kind = gate ? sl_gate_read(gate, bytes, versions, sizeof versions) : SL_FILE_FOREIGN;
    if (kind == SL_FILE_OURS && gate->head.process.id == process->id)
        return gate;
    if (kind == SL_FILE_OTHER)
        snprintf(trouble, trouble_size, "its gate is %s", versions);
    else
        snprintf(trouble, trouble_size, "process %d has no gate", process->pid);
    if (gate)
        munmap(gate, bytes);
    return NULL;
}

sl_status sl_holds_begin(sl_holds *h, int64_t round, const sl_process_id *process, size_t processes,
                         sl_time deadline, char *trouble, size_t trouble_size) {
    sl_holds_end(h);
    trouble[0] = 0;
    if (!h->view)
        SL_TRY(sl_alloc(&h->view, 1, sizeof *h->view));
    SL_TRY(sl_grow(&h->gate, &h->capacity, processes, sizeof *h->gate));
    for (size_t i = 0; i < processes && !trouble[0]; i++) {
        sl_gate *gate = map(h->folder, &process[i], trouble, trouble_size);
        if (gate)
            h->gate[h->gates++] = (struct sl_held_gate){.gate = gate};
    }
    h->round = round;
    for (size_t i = 0; i < h->gates && !trouble[0]; i++)
        sl_gate_hold(h->gate[i].gate, (uint32_t)round, deadline);
    if (trouble[0])
        sl_holds_end(h);
    return SL_OK;
}

static int64_t cell(const json_t *row, size_t column) {
    return (int64_t)json_integer_value(json_array_get(row, column));
}

static int are_raises(const json_t *raises) {
    size_t i;
    const json_t *row;
    if (!json_is_array(raises))
        return 0;
    json_array_foreach(raises, i, row) {
        for (size_t column = 0; column < 7; column++)
            if (!json_is_integer(json_array_get(row, column)))
                return 0;
        for (size_t column = 2; column < 6; column++)
            if (cell(row, column) < INT32_MIN || cell(row, column) > UINT32_MAX)
                return 0;
    }
    return 1;
}

int sl_holds_raise(sl_holds *h, const json_t *raises) {
    size_t i;
    const json_t *row;
    if (!are_raises(raises))
        return -1;
    json_array_foreach(raises, i, row) {
        sl_channel_key key = {.communicator = (uint64_t)cell(row, 1),
                              .source = (int32_t)cell(row, 2),
                              .destination = (int32_t)cell(row, 3),
                              .tag = (int32_t)cell(row, 4),
                              .kind = (uint32_t)cell(row, 5)};
        for (size_t g = 0; g < h->gates; g++)
            if (h->gate[g].gate->rank == cell(row, 0))
                sl_gate_raise(h->gate[g].gate, &key, (uint64_t)cell(row, 6));
    }
    for (size_t g = 0; json_array_size(raises) > 0 && g < h->gates; g++)
        sl_gate_wake(h->gate[g].gate);
    return 0;
}

sl_status sl_holds_look(sl_holds *h, sl_store *store, const char *node, int look, size_t keep) {
    for (size_t g = 0; g < h->gates; g++) {
        size_t size;
        sl_gate_look(h->gate[g].gate, h->view);
        SL_TRY(sl_view_pack(h->view, &h->bytes, &h->bytes_capacity, &size));
        sl_message_head head = {.kind = SL_MESSAGE_VIEW,
                                .count = (uint32_t)size,
                                .round = h->round,
                                .rank = h->view->rank,
                                .look = look};
        SL_TRY(sl_message_append(store, SL_LOG_VIEWS, &head, node, h->bytes, size, keep));
    }
    return SL_OK;
}

void sl_holds_end(sl_holds *h) {
    for (size_t g = 0; g < h->gates; g++) {
        /* a later hold by another process is not ended here */
        if (atomic_load(&h->gate[g].gate->hold) == (uint32_t)h->round)
            sl_gate_release(h->gate[g].gate);
        munmap(h->gate[g].gate, sizeof(sl_gate));
    }
    h->gates = 0;
    h->round = 0;
}

void sl_holds_close(sl_holds *h) {
    sl_holds_end(h);
    SL_FREE(h->gate, h->view, h->bytes);
    *h = (sl_holds){.folder = h->folder};
}
