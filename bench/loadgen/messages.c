/* Produce and Fetch, the two requests under load. */
#include "broker.h"
#include "options.h"

size_t begin_produce(struct writer *w, int version, const struct topic *topic, int acks, int count) {
    int flexible = version >= 9;
    size_t start = begin_request(w, API_PRODUCE, (int16_t)version, flexible, 0);
    if (flexible) put_i8(w, 0);
    else put_i16(w, -1);
    put_i16(w, (int16_t)acks);
    put_i32(w, 30000);
    if (!flexible) {
        put_i32(w, 1);
        put_string(w, topic->name);
        put_i32(w, count);
        return start;
    }
    put_uvarint(w, 2);
    if (version >= PRODUCE_TOPIC_IDS_FROM) put_bytes(w, topic->id, 16);
    else put_compact_string(w, topic->name);
    put_uvarint(w, (uint32_t)count + 1);
    return start;
}

size_t put_produce_partition(struct writer *w, int version, int partition, const uint8_t *batch, size_t length) {
    put_i32(w, partition);
    if (version >= 9) put_uvarint(w, (uint32_t)length + 1);
    else put_i32(w, (int32_t)length);
    size_t at = w->length;
    put_bytes(w, batch, length);
    if (version >= 9) put_i8(w, 0);
    return at;
}

void end_produce(struct writer *w, int version, size_t start) {
    if (version >= 9) {
        put_i8(w, 0);
        put_i8(w, 0);
    }
    end_request(w, start);
}

static void skip_record_errors(struct reader *r, int flexible) {
    int32_t errors = flexible ? (int32_t)get_uvarint(r) - 1 : get_i32(r);
    for (; errors > 0 && !r->bad; errors--) {
        get_i32(r);
        if (flexible) {
            skip_compact_string(r);
            skip_tags(r);
        } else skip_string(r);
    }
    if (flexible) skip_compact_string(r);
    else skip_string(r);
}

int check_produce(struct reader *r, int version, const struct topic *topic, int records, int64_t *last) {
    int flexible = version >= 9;
    if (flexible) skip_tags(r);
    if ((flexible ? (int32_t)get_uvarint(r) - 1 : get_i32(r)) != 1) die("a Produce answer without its topic");
    if (version >= PRODUCE_TOPIC_IDS_FROM) get_bytes(r, 16);
    else if (flexible) skip_compact_string(r);
    else skip_string(r);
    int count = flexible ? (int)get_uvarint(r) - 1 : get_i32(r);
    for (int i = 0; i < count; i++) {
        int32_t partition = get_i32(r);
        int error = get_i16(r);
        int64_t base_offset = get_i64(r);
        get_i64(r);
        if (version >= 5) get_i64(r);
        if (version >= 8) skip_record_errors(r, flexible);
        if (flexible) skip_tags(r);
        if (r->bad || partition < 0 || partition >= topic->partitions) die("a malformed Produce answer");
        if (error) die("Produce to partition %d: error %d", partition, error);
        if (base_offset < last[partition] + records)
            die("partition %d: base offset %lld after %lld", partition, (long long)base_offset,
                (long long)last[partition]);
        last[partition] = base_offset;
    }
    return count;
}

void put_fetch(struct writer *w, const struct topic *topic, const struct fetch_request *fetch, int32_t correlation_id) {
    size_t start = begin_request(w, API_FETCH, (int16_t)fetch->version, 1, correlation_id);
    if (fetch->version < 15) put_i32(w, -1); /* replica id */
    put_i32(w, fetch->max_wait_ms);
    put_i32(w, fetch->min_bytes);
    put_i32(w, fetch->max_bytes);
    put_i8(w, 0);
    put_i32(w, fetch->session_id);
    put_i32(w, fetch->session_epoch);
    put_uvarint(w, 2);
    if (fetch->version >= FETCH_TOPIC_IDS_FROM) put_bytes(w, topic->id, 16);
    else put_compact_string(w, topic->name);
    put_uvarint(w, 2);
    put_i32(w, fetch->partition);
    put_i32(w, -1); /* current leader epoch */
    put_i64(w, fetch->offset);
    put_i32(w, -1); /* last fetched epoch */
    put_i64(w, -1); /* log start offset */
    put_i32(w, fetch->max_bytes);
    put_i8(w, 0);
    put_i8(w, 0);
    put_uvarint(w, 1); /* nothing forgotten */
    put_compact_string(w, "");
    put_i8(w, 0);
    end_request(w, start);
}

struct fetch_answer read_fetch_prefix(struct reader *r, int version, int partition) {
    struct fetch_answer answer = {0};
    skip_tags(r);
    get_i32(r); /* throttle */
    int error = get_i16(r);
    answer.session_id = get_i32(r);
    if (error) die("Fetch: error %d", error);
    uint32_t topics = get_uvarint(r);
    if (r->bad) return answer;
    if (topics < 2) {
        answer.empty = 1;
        return answer;
    }
    if (version >= FETCH_TOPIC_IDS_FROM) get_bytes(r, 16);
    else skip_compact_string(r);
    if (get_uvarint(r) != 2 && !r->bad) die("a Fetch answer with more than the partition asked for");
    int32_t index = get_i32(r);
    error = get_i16(r);
    answer.high_watermark = get_i64(r);
    get_i64(r);
    get_i64(r);
    for (uint32_t aborted = get_uvarint(r); aborted > 1 && !r->bad; aborted--) {
        get_bytes(r, 16);
        skip_tags(r);
    }
    get_i32(r);
    uint32_t records = get_uvarint(r);
    if (r->bad) return answer;
    if (error) die("Fetch of partition %d: error %d", index, error);
    if (index != partition) die("Fetch of partition %d answered for %d", partition, index);
    if (!records) die("Fetch answered null records");
    answer.records_bytes = records - 1;
    return answer;
}
