#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "options.h"

void put_bytes(struct writer *w, const void *data, size_t length) {
    if (w->length + length > w->capacity) {
        w->capacity = (w->length + length) * 2 + 256;
        w->data = realloc(w->data, w->capacity);
        if (!w->data) die("out of memory");
    }
    memcpy(w->data + w->length, data, length);
    w->length += length;
}

static void put_big_endian(struct writer *w, uint64_t value, int width) {
    uint8_t bytes[8];
    for (int i = 0; i < width; i++) bytes[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    put_bytes(w, bytes, (size_t)width);
}

void put_i8(struct writer *w, int8_t value) { put_big_endian(w, (uint64_t)value, 1); }
void put_i16(struct writer *w, int16_t value) { put_big_endian(w, (uint64_t)value, 2); }
void put_i32(struct writer *w, int32_t value) { put_big_endian(w, (uint64_t)value, 4); }
void put_i64(struct writer *w, int64_t value) { put_big_endian(w, (uint64_t)value, 8); }

void put_uvarint(struct writer *w, uint32_t value) {
    for (; value > 127; value >>= 7) put_i8(w, (int8_t)(value | 128));
    put_i8(w, (int8_t)value);
}

void put_varint(struct writer *w, int32_t value) {
    put_uvarint(w, ((uint32_t)value << 1) ^ (uint32_t)(value >> 31));
}

void put_string(struct writer *w, const char *text) {
    put_i16(w, (int16_t)strlen(text));
    put_bytes(w, text, strlen(text));
}

void put_compact_string(struct writer *w, const char *text) {
    put_uvarint(w, (uint32_t)strlen(text) + 1);
    put_bytes(w, text, strlen(text));
}

void patch_i32(uint8_t *at, int32_t value) {
    uint32_t swapped = __builtin_bswap32((uint32_t)value);
    memcpy(at, &swapped, 4);
}

void patch_i64(uint8_t *at, int64_t value) {
    uint64_t swapped = __builtin_bswap64((uint64_t)value);
    memcpy(at, &swapped, 8);
}

size_t begin_request(struct writer *w, int16_t key, int16_t version, int flexible, int32_t correlation_id) {
    size_t start = w->length;
    put_i32(w, 0);
    put_i16(w, key);
    put_i16(w, version);
    put_i32(w, correlation_id);
    put_string(w, "bench");
    if (flexible) put_i8(w, 0);
    return start;
}

void end_request(struct writer *w, size_t start) {
    patch_i32(w->data + start, (int32_t)(w->length - start - 4));
}

const uint8_t *get_bytes(struct reader *r, size_t length) {
    static const uint8_t zeros[16];
    if (r->bad || (size_t)(r->end - r->at) < length) {
        r->bad = 1;
        return zeros;
    }
    r->at += length;
    return r->at - length;
}

int32_t peek_i32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return (int32_t)__builtin_bswap32(value);
}

int64_t peek_i64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return (int64_t)__builtin_bswap64(value);
}

int8_t get_i8(struct reader *r) { return (int8_t)*get_bytes(r, 1); }

int16_t get_i16(struct reader *r) {
    const uint8_t *at = get_bytes(r, 2);
    return (int16_t)(at[0] << 8 | at[1]);
}

int32_t get_i32(struct reader *r) { return peek_i32(get_bytes(r, 4)); }
int64_t get_i64(struct reader *r) { return peek_i64(get_bytes(r, 8)); }

uint32_t get_uvarint(struct reader *r) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *get_bytes(r, 1);
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    r->bad = 1;
    return 0;
}

void skip_string(struct reader *r) {
    int16_t length = get_i16(r);
    if (length > 0) get_bytes(r, (size_t)length);
}

void skip_compact_string(struct reader *r) {
    uint32_t length = get_uvarint(r);
    if (length > 1) get_bytes(r, length - 1);
}

void skip_tags(struct reader *r) {
    for (uint32_t left = get_uvarint(r); left && !r->bad; left--) {
        get_uvarint(r);
        get_bytes(r, get_uvarint(r));
    }
}

static uint32_t varint_length(uint32_t value) {
    uint32_t length = 1, zigzag = value << 1;
    for (; zigzag > 127; zigzag >>= 7) length++;
    return length;
}

/* attributes, timestamp delta, offset delta, null key, value length, value, no headers */
static uint32_t record_body_length(int index, int value_bytes) {
    return 1 + 1 + varint_length((uint32_t)index) + 1 + varint_length((uint32_t)value_bytes) + (uint32_t)value_bytes + 1;
}

size_t single_value_offset(int value_bytes) {
    return BATCH_HEADER_BYTES + varint_length(record_body_length(0, value_bytes)) + 4 +
           varint_length((uint32_t)value_bytes);
}

void put_batch(struct writer *w, int records, int value_bytes, int64_t timestamp_ms) {
    size_t start = w->length;
    uint8_t *value = malloc((size_t)value_bytes + 1);
    uint32_t noise = 0x9E3779B9u;
    put_i64(w, 0);             /* base offset: the broker's */
    put_i32(w, 0);             /* length, patched below */
    put_i32(w, -1);            /* leader epoch: the broker's */
    put_i8(w, 2);              /* magic */
    put_i32(w, 0);             /* CRC, patched below */
    put_i16(w, 0);             /* attributes */
    put_i32(w, records - 1);   /* last offset delta */
    put_i64(w, timestamp_ms);
    put_i64(w, timestamp_ms);
    put_i64(w, -1);            /* producer id, epoch, sequence: not idempotent */
    put_i16(w, -1);
    put_i32(w, -1);
    put_i32(w, records);
    for (int i = 0; i < records; i++) {
        for (int j = 0; j < value_bytes; j++) {
            noise = noise * 1664525u + 1013904223u;
            value[j] = (uint8_t)(noise >> 24);
        }
        put_varint(w, (int32_t)record_body_length(i, value_bytes));
        put_i8(w, 0);
        put_varint(w, 0);
        put_varint(w, i);
        put_varint(w, -1);
        put_varint(w, value_bytes);
        put_bytes(w, value, (size_t)value_bytes);
        put_varint(w, 0);
    }
    free(value);
    patch_i32(w->data + start + 8, (int32_t)(w->length - start - 12));
    seal_batch(w->data + start, w->length - start);
}

void seal_batch(uint8_t *batch, size_t length) {
    patch_i32(batch + 17, (int32_t)crc32c(0, batch + 21, length - 21));
}
