/* The few entry points of librdkafka that the load generator calls, resolved at run time from the library that the
   confluent-kafka package carries: no headers or development package needed, and the same modern version everywhere.
   Types and constants are those of librdkafka's stable ABI (rdkafka.h of 1.x and 2.x). */
#ifndef BENCH_RDKAFKA_H
#define BENCH_RDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_data;
} rd_kafka_message_t;

enum { RD_PRODUCER = 0, RD_CONSUMER = 1 };
enum { RD_MSG_F_COPY = 2 };
enum { RD_ERR_PARTITION_EOF = -191, RD_ERR_QUEUE_FULL = -184 };

struct rdkafka {
    const char *(*version_str)(void);
    rd_kafka_conf_t *(*conf_new)(void);
    int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
    void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
    void (*conf_set_error_cb)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, int, const char *, void *));
    rd_kafka_t *(*new_)(int, rd_kafka_conf_t *, char *, size_t);
    void (*destroy)(rd_kafka_t *);
    rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
    void (*topic_destroy)(rd_kafka_topic_t *);
    int (*produce)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
    int (*last_error)(void);
    const char *(*err2str)(int);
    int (*poll)(rd_kafka_t *, int);
    int (*flush)(rd_kafka_t *, int);
    int (*outq_len)(rd_kafka_t *);
    rd_kafka_queue_t *(*queue_new)(rd_kafka_t *);
    int (*consume_start_queue)(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
    int (*consume_stop)(rd_kafka_topic_t *, int32_t);
    ssize_t (*consume_batch_queue)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
    void (*message_destroy)(rd_kafka_message_t *);
};

/* Loads --library; exits when it or a symbol is missing. */
struct rdkafka load_rdkafka(void);

/* A client with bootstrap.servers = 127.0.0.1:port and the settings of --set "key=value,key=value". */
rd_kafka_conf_t *rdkafka_conf(const struct rdkafka *rd, int port, const char *settings);

#endif
