/* A librdkafka producer; every delivery report is checked for errors and growing offsets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "histogram.h"
#include "options.h"
#include "rdkafka.h"

static struct rdkafka rd;
static uint64_t delivered;
static int64_t *last_offset;
static int recording;
static struct histogram latency;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) die("delivery failed: %s", rd.err2str(message->err));
    if (message->offset <= last_offset[message->partition])
        die("partition %d: offset %lld after %lld", message->partition, (long long)message->offset,
            (long long)last_offset[message->partition]);
    last_offset[message->partition] = message->offset;
    delivered++;
    if (recording && message->private_data) histogram_add(&latency, now_ns() - (uint64_t)(uintptr_t)message->private_data);
}

struct feed {
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    uint8_t *value;
    int value_bytes, partitions, run_length; /* run_length messages in a row go to one partition */
    uint64_t produced, limit;
};

/* Each 64th message carries its time: the clock would else be a cost of every message. */
static void feed_until(struct feed *feed, uint64_t deadline) {
    for (uint64_t now = now_ns(); now < deadline && delivered < feed->limit; now = now_ns()) {
        for (int i = 0; i < 64; i++) {
            int32_t partition = (int32_t)(feed->produced / (uint64_t)feed->run_length % (uint64_t)feed->partitions);
            void *stamp = i ? NULL : (void *)(uintptr_t)now;
            while (rd.produce(feed->topic, partition, RD_MSG_F_COPY, feed->value, (size_t)feed->value_bytes, NULL, 0,
                              stamp)) {
                if (rd.last_error() != RD_ERR_QUEUE_FULL) die("produce: %s", rd.err2str(rd.last_error()));
                rd.poll(feed->client, 1);
                if (now_ns() > deadline) return;
            }
            feed->produced++;
        }
        rd.poll(feed->client, 0);
    }
}

int command_rd_produce(void) {
    struct feed feed = {0};
    struct topic topic = {.name = option_text("topic", NULL)};
    char problem[512];
    int port = (int)option_int("port", 0);
    double warm_seconds = option_number("warm", 1), seconds = option_number("seconds", 3);
    const char *settings = option_text("set", "");
    feed.value_bytes = (int)option_int("value-bytes", 100);
    feed.run_length = (int)option_int("run-length", 1000);
    uint64_t max_bytes = (uint64_t)option_int("max-bytes", 0);
    rd = load_rdkafka();
    options_done();
    feed.limit = UINT64_MAX;
    int control = connect_to(port);
    if (control < 0) die("nobody listens on port %d", port);
    open_topic(control, &topic);
    feed.partitions = topic.partitions;
    int64_t end_before = sum_of_end_offsets(control, &topic);
    last_offset = malloc((size_t)topic.partitions * sizeof *last_offset);
    for (int i = 0; i < topic.partitions; i++) last_offset[i] = -1;
    feed.value = malloc((size_t)feed.value_bytes);
    for (int i = 0; i < feed.value_bytes; i++) feed.value[i] = (uint8_t)(i * 73 + 7);
    rd_kafka_conf_t *conf = rdkafka_conf(&rd, port, settings);
    rd.conf_set_dr_msg_cb(conf, on_delivery);
    feed.client = rd.new_(RD_PRODUCER, conf, problem, sizeof problem);
    if (!feed.client) die("%s", problem);
    feed.topic = rd.topic_new(feed.client, topic.name, NULL);

    feed_until(&feed, now_ns() + (uint64_t)(warm_seconds * 1e9));
    announce("begin");
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns(), before = delivered;
    if (max_bytes) feed.limit = delivered + max_bytes / (uint64_t)feed.value_bytes;
    recording = 1;
    feed_until(&feed, begin + (uint64_t)(seconds * 1e9));
    recording = 0;
    double elapsed = (double)(now_ns() - begin) / 1e9;
    uint64_t records = delivered - before;
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    if (rd.flush(feed.client, 30000)) die("messages were not delivered within 30 s");
    if (delivered != feed.produced) die("%llu produced, %llu delivered", (unsigned long long)feed.produced,
                                        (unsigned long long)delivered);
    int64_t appended = sum_of_end_offsets(control, &topic) - end_before;
    if (appended != (int64_t)delivered) die("%llu delivered, the log grew by %lld", (unsigned long long)delivered,
                                            (long long)appended);
    printf("{\"requests\": %llu, \"records\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f, "
           "\"latency_us\": ",
           (unsigned long long)records, (unsigned long long)records,
           (unsigned long long)records * (unsigned long long)feed.value_bytes, elapsed, cpu);
    histogram_print_json(stdout, &latency);
    puts("}");
    return 0;
}
