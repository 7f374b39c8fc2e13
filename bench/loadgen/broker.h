/* Blocking conversation with a broker: what a scenario needs to know before and after the load. */
#ifndef BENCH_BROKER_H
#define BENCH_BROKER_H

#include "wire.h"

#define PRODUCE_TOPIC_IDS_FROM 13
#define FETCH_TOPIC_IDS_FROM 13

struct topic {
    const char *name;
    uint8_t id[16];
    int partitions;
};

/* -1 when nobody listens. The socket has TCP_NODELAY; it blocks unless the caller changes it. */
int connect_to(int port);
void make_nonblocking(int fd);
/* Allows as many open files as the system permits; fails when that is below `wanted`. */
void allow_files(int wanted);

/* Sends a frame, waits for its answer. The reader starts after the correlation id, which is checked;
   its bytes live until the next call. 0 when the connection broke. */
int call_nowait_for_errors(int fd, const struct writer *request, struct reader *answer);
struct reader call(int fd, const struct writer *request);

/* Metadata v12. 0 = every partition has a leader; else a Kafka error code, or -1 for a broken connection. */
int load_topic(int fd, struct topic *topic);
/* load_topic, then ListOffsets, until all partitions answer or 90 s have passed. */
void open_topic(int fd, struct topic *topic);
/* ListOffsets v6 of every partition; timestamp -1 = end, -2 = start. Error code of the first that failed. */
int list_offsets(int fd, const struct topic *topic, int64_t timestamp, int64_t *offsets);
int64_t sum_of_end_offsets(int fd, const struct topic *topic);

/* ApiVersions v3: the error code, -1 for a broken connection. */
int ask_api_versions(int fd);
void put_api_versions(struct writer *w, int32_t correlation_id);

/* Produce request header up to the partition array of `count`; then put_produce_partition each; then end. */
size_t begin_produce(struct writer *w, int version, const struct topic *topic, int acks, int count);
/* Gives the offset of the batch's first byte in w->data. */
size_t put_produce_partition(struct writer *w, int version, int partition, const uint8_t *batch, size_t length);
void end_produce(struct writer *w, int version, size_t start);
/* Checks an answer (reader after the correlation id): error 0, base offset at least last[partition] +
   records. Stores the base offsets; returns the number of partitions acknowledged. */
int check_produce(struct reader *r, int version, const struct topic *topic, int records, int64_t *last);

struct fetch_request {
    int version, max_wait_ms, min_bytes, max_bytes;
    int32_t session_id, session_epoch;
    int partition;
    int64_t offset;
};
void put_fetch(struct writer *w, const struct topic *topic, const struct fetch_request *fetch, int32_t correlation_id);

struct fetch_answer {
    int32_t session_id;
    int64_t high_watermark;
    uint32_t records_bytes; /* the reader is at their first byte */
    int empty;              /* no partition in the answer: nothing new in the session */
};
/* Checks the errors and reads up to the records of the one partition. Not enough bytes: r->bad. */
struct fetch_answer read_fetch_prefix(struct reader *r, int version, int partition);

#endif
