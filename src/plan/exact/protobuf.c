#include "plan/exact/protobuf.h"
#include "base/memory.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, SIZED = 2, FIXED32 = 5 }; /* wire types */

void sl_protobuf_free(sl_protobuf *message) {
    sl_free(message->bytes);
    *message = (sl_protobuf){0};
}

void sl_protobuf_clear(sl_protobuf *message) {
    message->size = 0;
}

static void add(sl_protobuf *message, const void *bytes, size_t size) {
    if (message->status == SL_OK)
        message->status = sl_grow(&message->bytes, &message->capacity, message->size + size, 1);
    if (message->status != SL_OK || size == 0)
        return;
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

static size_t put_varint(unsigned char *bytes, uint64_t value) {
    size_t size = 0;
    for (; value >= 128; value >>= 7)
        bytes[size++] = (unsigned char)(value | 128);
    bytes[size++] = (unsigned char)value;
    return size;
}

static void add_varint(sl_protobuf *message, uint64_t value) {
    unsigned char bytes[10];
    add(message, bytes, put_varint(bytes, value));
}

static void add_key(sl_protobuf *message, unsigned field, unsigned type) {
    add_varint(message, (uint64_t)field << 3 | type);
}

void sl_protobuf_int(sl_protobuf *message, unsigned field, int64_t value) {
    add_key(message, field, VARINT);
    add_varint(message, (uint64_t)value);
}

void sl_protobuf_double(sl_protobuf *message, unsigned field, double value) {
    uint64_t bits;
    unsigned char bytes[8];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    add_key(message, field, FIXED64);
    add(message, bytes, sizeof bytes);
}

void sl_protobuf_ints(sl_protobuf *message, unsigned field, const int64_t *values, size_t count) {
    unsigned char bytes[10];
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += put_varint(bytes, (uint64_t)values[i]);
    add_key(message, field, SIZED);
    add_varint(message, size);
    for (size_t i = 0; i < count; i++)
        add_varint(message, (uint64_t)values[i]);
}

void sl_protobuf_text(sl_protobuf *message, unsigned field, const char *text) {
    add_key(message, field, SIZED);
    add_varint(message, strlen(text));
    add(message, text, strlen(text));
}

void sl_protobuf_nest(sl_protobuf *message, unsigned field, const sl_protobuf *nested) {
    if (message->status == SL_OK)
        message->status = nested->status;
    add_key(message, field, SIZED);
    add_varint(message, nested->size);
    add(message, nested->bytes, nested->size);
}

int sl_protobuf_varint(const unsigned char **bytes, size_t *size, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *size > 0; shift += 7) {
        unsigned char byte = **bytes;
        ++*bytes;
        --*size;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return 1;
    }
    return 0;
}

static int take_fixed(const unsigned char **bytes, size_t *size, size_t width, uint64_t *value) {
    if (*size < width)
        return -1;
    *value = 0;
    for (size_t i = 0; i < width; i++)
        *value |= (uint64_t)(*bytes)[i] << 8 * i;
    *bytes += width;
    *size -= width;
    return 1;
}

int sl_protobuf_next(const unsigned char **bytes, size_t *size, sl_protobuf_field *field) {
    uint64_t key, length;
    if (*size == 0)
        return 0;
    if (!sl_protobuf_varint(bytes, size, &key) || key >> 3 == 0 || key >> 32)
        return -1;
    *field = (sl_protobuf_field){.number = (unsigned)(key >> 3)};
    switch (key & 7) {
    case VARINT:
        return sl_protobuf_varint(bytes, size, &field->value) ? 1 : -1;
    case FIXED64:
        return take_fixed(bytes, size, 8, &field->value);
    case FIXED32:
        return take_fixed(bytes, size, 4, &field->value);
    case SIZED:
        if (!sl_protobuf_varint(bytes, size, &length) || length > *size)
            return -1;
        field->bytes = *bytes;
        field->size = (size_t)length;
        *bytes += length;
        *size -= (size_t)length;
        return 1;
    default:
        return -1;
    }
}
