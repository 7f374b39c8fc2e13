/* A librdkafka consumer that reads a topic once, all partitions; the first part of it is warm-up. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "options.h"
#include "rdkafka.h"

#define AT_ONCE 10000
#define LARGEST_ANSWER (32 << 20) /* mallopt takes no larger threshold */

static struct rdkafka rd;

struct progress {
    uint64_t records, bytes;
    int64_t *next_offset;
};

static void take(rd_kafka_message_t *message, struct progress *progress) {
    if (message->err) die("consume: %s", rd.err2str(message->err));
    if (message->offset != progress->next_offset[message->partition])
        die("partition %d: offset %lld where %lld was due", message->partition, (long long)message->offset,
            (long long)progress->next_offset[message->partition]);
    progress->next_offset[message->partition]++;
    progress->records++;
    progress->bytes += message->len;
}

static void consume_until(rd_kafka_queue_t *queue, struct progress *progress, uint64_t records) {
    static rd_kafka_message_t *messages[AT_ONCE];
    uint64_t last_progress = now_ns();
    while (progress->records < records) {
        uint64_t left = records - progress->records; /* asking for more would wait for the timeout */
        ssize_t count = rd.consume_batch_queue(queue, 1000, messages, left < AT_ONCE ? left : AT_ONCE);
        for (ssize_t i = 0; i < count; i++) {
            take(messages[i], progress);
            rd.message_destroy(messages[i]);
        }
        if (count > 0) last_progress = now_ns();
        if (now_ns() > last_progress + 30 * SECOND_NS) die("nothing consumed for 30 s");
    }
}

/* glibc gives the memory of freed answers back to the kernel whenever two of them happen to be free
 * side by side. Their pages then fault in again, for a third of the client's CPU, or they do not: by
 * chance, and more often for the faster broker. docs/lab/consume.md has the figures. */
static void keep_freed_memory(void) {
    mallopt(M_MMAP_THRESHOLD, LARGEST_ANSWER);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int command_rd_consume(void) {
    struct topic topic = {.name = option_text("topic", NULL)};
    struct progress progress = {0};
    char problem[512];
    int port = (int)option_int("port", 0);
    double warm_part = option_number("warm-part", 0.25);
    const char *settings = option_text("set", "");
    keep_freed_memory();
    rd = load_rdkafka();
    options_done();
    int control = connect_to(port);
    if (control < 0) die("nobody listens on port %d", port);
    open_topic(control, &topic);
    uint64_t total = (uint64_t)sum_of_end_offsets(control, &topic);
    if (!total) die("topic %s is empty", topic.name);
    progress.next_offset = calloc((size_t)topic.partitions, sizeof *progress.next_offset);
    rd_kafka_t *client = rd.new_(RD_CONSUMER, rdkafka_conf(&rd, port, settings), problem, sizeof problem);
    if (!client) die("%s", problem);
    rd_kafka_topic_t *handle = rd.topic_new(client, topic.name, NULL);
    rd_kafka_queue_t *queue = rd.queue_new(client);
    for (int i = 0; i < topic.partitions; i++)
        if (rd.consume_start_queue(handle, i, 0, queue)) die("consume: %s", rd.err2str(rd.last_error()));

    consume_until(queue, &progress, (uint64_t)((double)total * warm_part));
    announce("begin");
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns(), records = progress.records, bytes = progress.bytes;
    consume_until(queue, &progress, total);
    double elapsed = (double)(now_ns() - begin) / 1e9;
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    printf("{\"records\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f}\n",
           (unsigned long long)(progress.records - records), (unsigned long long)(progress.bytes - bytes), elapsed,
           cpu);
    return 0;
}
