#include "run/transport/frame.h"

#include <endian.h>
#include <string.h>

/* As on the wire; the compiler adds no holes (asserted), and memcpy spares us alignment. */
typedef struct wire {
    uint32_t magic, kind, iteration, index;
    uint64_t bytes, sequence, time;
} wire;
_Static_assert(sizeof(wire) == SL_FRAME_BYTES, "the header on the wire");

void sl_frame_encode(const sl_frame *frame, uint8_t bytes[SL_FRAME_BYTES]) {
    wire w = {.magic = htole32(SL_FRAME_MAGIC),
              .kind = htole32((uint32_t)frame->kind),
              .iteration = htole32(frame->iteration),
              .index = htole32(frame->index),
              .bytes = htole64(frame->bytes),
              .sequence = htole64(frame->sequence),
              .time = htole64((uint64_t)frame->time)};
    memcpy(bytes, &w, sizeof w);
}

int sl_frame_decode(const uint8_t bytes[SL_FRAME_BYTES], sl_frame *frame) {
    wire w;
    memcpy(&w, bytes, sizeof w);
    uint32_t kind = le32toh(w.kind);
    if (le32toh(w.magic) != SL_FRAME_MAGIC || kind < SL_FRAME_DATA || kind > SL_FRAME_BYE)
        return -1;
    *frame = (sl_frame){.kind = (sl_frame_kind)kind,
                        .iteration = le32toh(w.iteration),
                        .index = le32toh(w.index),
                        .bytes = le64toh(w.bytes),
                        .sequence = le64toh(w.sequence),
                        .time = (int64_t)le64toh(w.time)};
    return frame->bytes == 0 || frame->kind == SL_FRAME_DATA ? 0 : -1;
}
