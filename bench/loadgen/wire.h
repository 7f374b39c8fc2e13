/* Kafka's wire primitives, record batches (magic 2) and the requests the load generator sends. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum api_key { API_PRODUCE = 0, API_FETCH = 1, API_LIST_OFFSETS = 2, API_METADATA = 3, API_VERSIONS = 18 };

#define BATCH_HEADER_BYTES 61
#define CORRELATION_OFFSET 8 /* of the correlation id in a frame that starts with its 4-byte size */

struct writer {
    uint8_t *data;
    size_t length, capacity;
};

void put_i8(struct writer *w, int8_t value);
void put_i16(struct writer *w, int16_t value);
void put_i32(struct writer *w, int32_t value);
void put_i64(struct writer *w, int64_t value);
void put_bytes(struct writer *w, const void *data, size_t length);
void put_uvarint(struct writer *w, uint32_t value);
void put_varint(struct writer *w, int32_t value); /* zigzag */
void put_string(struct writer *w, const char *text);
void put_compact_string(struct writer *w, const char *text);
void patch_i32(uint8_t *at, int32_t value);
void patch_i64(uint8_t *at, int64_t value);

/* A request frame: begin writes size placeholder and header, end patches the size. */
size_t begin_request(struct writer *w, int16_t key, int16_t version, int flexible, int32_t correlation_id);
void end_request(struct writer *w, size_t start);

/* `bad` is set when a read passes the end; every later read then gives 0. */
struct reader {
    const uint8_t *at, *end;
    int bad;
};

int8_t get_i8(struct reader *r);
int16_t get_i16(struct reader *r);
int32_t get_i32(struct reader *r);
int64_t get_i64(struct reader *r);
uint32_t get_uvarint(struct reader *r);
const uint8_t *get_bytes(struct reader *r, size_t length);
void skip_string(struct reader *r);
void skip_compact_string(struct reader *r);
void skip_tags(struct reader *r);
int32_t peek_i32(const uint8_t *at);
int64_t peek_i64(const uint8_t *at);

/* One uncompressed batch of `records` records whose values are `value_bytes` long, without keys. */
void put_batch(struct writer *w, int records, int value_bytes, int64_t timestamp_ms);
/* Of a batch of one record as put_batch writes it: where its value starts. */
size_t single_value_offset(int value_bytes);
/* Recomputes the CRC of the batch at `batch`, whose total length is `length`. */
void seal_batch(uint8_t *batch, size_t length);

#endif
