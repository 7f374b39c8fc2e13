/* Closed-loop produce over raw sockets: every connection keeps `in-flight` requests unanswered. Frames are built
   once; only the correlation id changes, so a request costs the generator little more than its share of a send. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "histogram.h"
#include "options.h"

struct connection {
    int fd, waiting, in_flight, writable_wanted;
    int32_t next_id, expected_id;
    uint8_t *frames;             /* in_flight frames of equal size, sent as a ring */
    size_t frame_size, ring_size, send_at, unsent;
    uint64_t *sent_at_ns;        /* by slot = id % in_flight */
    int64_t *last_offset;        /* by partition */
    uint8_t *in;
    size_t in_length;
};

static struct topic topic;
static int version, acks, records, value_bytes, per_request, busy_poll, epoll_fd;
static size_t in_capacity;
static uint64_t acked_partitions, acked_requests, stop_at_partitions;
static int recording;
static struct histogram latency;
static struct writer ready; /* the batch of --batch; empty: uncompressed ones are made */

static void read_batch(const char *path) {
    uint8_t piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file) die("%s: %s", path, strerror(errno));
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) put_bytes(&ready, piece, got);
    if (ferror(file) || ready.length < BATCH_HEADER_BYTES) die("%s is no batch", path);
    fclose(file);
}

/* Slot `slot` of connection `index` writes to its own block of `per_request` partitions. */
static void build_frames(struct connection *c, int index, int connections) {
    struct writer w = {0}, batch = {0};
    if (ready.length) put_bytes(&batch, ready.data, ready.length);
    else put_batch(&batch, records, value_bytes, wall_clock_ms());
    for (int slot = 0; slot < c->in_flight; slot++) {
        int first = (index + slot * connections) * per_request;
        size_t start = begin_produce(&w, version, &topic, acks, per_request);
        for (int i = 0; i < per_request; i++)
            put_produce_partition(&w, version, (first + i) % topic.partitions, batch.data, batch.length);
        end_produce(&w, version, start);
        c->frame_size = w.length - start;
    }
    free(batch.data);
    c->frames = w.data;
    c->ring_size = w.length;
}

static void open_connection(struct connection *c, int index, int connections, int in_flight, int port) {
    c->fd = connect_to(port);
    if (c->fd < 0) die("connection %d refused", index);
    /* Kafka's listen backlog is 50: one that overflows costs a second of SYN retransmission. */
    if (index % 32 == 31 && ask_api_versions(c->fd)) die("connection %d is not served", index);
    make_nonblocking(c->fd);
    c->in_flight = in_flight;
    build_frames(c, index, connections);
    c->sent_at_ns = calloc((size_t)in_flight, sizeof *c->sent_at_ns);
    c->last_offset = malloc((size_t)topic.partitions * sizeof *c->last_offset);
    for (int i = 0; i < topic.partitions; i++) c->last_offset[i] = -records;
    c->in = malloc(in_capacity);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void flush(struct connection *c) {
    while (c->unsent) {
        size_t piece = c->ring_size - c->send_at < c->unsent ? c->ring_size - c->send_at : c->unsent;
        ssize_t sent = send(c->fd, c->frames + c->send_at, piece, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) die("send: %s", strerror(errno));
        c->send_at = (c->send_at + (size_t)sent) % c->ring_size;
        c->unsent -= (size_t)sent;
    }
    if ((c->unsent > 0) != c->writable_wanted) {
        c->writable_wanted = c->unsent > 0;
        struct epoll_event event = {.events = EPOLLIN | (c->writable_wanted ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
    }
}

static void submit(struct connection *c, int requests, uint64_t now) {
    for (; requests > 0; requests--) {
        int slot = c->next_id % c->in_flight;
        patch_i32(c->frames + (size_t)slot * c->frame_size + CORRELATION_OFFSET, c->next_id);
        c->sent_at_ns[slot] = now;
        c->next_id++;
        c->waiting++;
        c->unsent += c->frame_size;
    }
    flush(c);
}

static void accept_answer(struct connection *c, const uint8_t *frame, size_t size, uint64_t now) {
    struct reader r = {frame, frame + size, 0};
    if (get_i32(&r) != c->expected_id) die("answers out of order");
    acked_partitions += (uint64_t)check_produce(&r, version, &topic, records, c->last_offset);
    acked_requests++;
    if (recording) histogram_add(&latency, now - c->sent_at_ns[c->expected_id % c->in_flight]);
    c->expected_id++;
    c->waiting--;
}

/* Reads what is there; returns the number of answers completed. */
static int receive(struct connection *c) {
    ssize_t got = recv(c->fd, c->in + c->in_length, in_capacity - c->in_length, 0);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("the broker closed a connection");
    uint64_t now = now_ns();
    c->in_length += (size_t)got;
    size_t at = 0;
    int answers = 0;
    while (c->in_length - at >= 4) {
        size_t size = (size_t)peek_i32(c->in + at);
        if (size > in_capacity - 4) die("an answer of %zu bytes", size);
        if (c->in_length - at < 4 + size) break;
        accept_answer(c, c->in + at + 4, size, now);
        at += 4 + size;
        answers++;
    }
    memmove(c->in, c->in + at, c->in_length - at);
    c->in_length -= at;
    return answers;
}

/* Until `deadline`, or until nothing is in flight any more when `refill` is 0. */
static void run_until(uint64_t deadline, int refill) {
    struct epoll_event events[256];
    for (uint64_t last_progress = now_ns(), now = last_progress;;) {
        int ready = epoll_wait(epoll_fd, events, 256, busy_poll ? 0 : 100), waiting = 0;
        if (busy_poll && !ready) sched_yield();
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            int answers = events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? receive(c) : 0;
            waiting += c->waiting;
            if (answers) last_progress = now_ns();
            if (refill) submit(c, answers, last_progress);
            else flush(c);
        }
        now = now_ns();
        if (now > last_progress + 30 * SECOND_NS) die("no answer for 30 s");
        if (now >= deadline || (!refill && !ready && !waiting)) return;
        if (refill && stop_at_partitions && acked_partitions >= stop_at_partitions) return;
    }
}

/* The first appends to a partition create and flush files: every block must have been written `rounds` times
   before time counts. */
static void warm_up(const struct connection *c, int connections, uint64_t deadline, int rounds) {
    for (int cold = 1; cold; deadline = now_ns() + SECOND_NS / 10) {
        run_until(deadline, 1);
        cold = 0;
        for (int i = 0; i < connections; i++) cold |= c[i].expected_id < c[i].in_flight * rounds;
    }
}

static int still_waiting(const struct connection *c, int connections) {
    int waiting = 0;
    for (int i = 0; i < connections; i++) waiting += c[i].waiting;
    return waiting;
}

int command_produce(void) {
    int port = (int)option_int("port", 0), connections = (int)option_int("connections", 50);
    int in_flight = (int)option_int("in-flight", 1), warm_rounds = (int)option_int("warm-rounds", 2);
    double warm_seconds = option_number("warm", 1), seconds = option_number("seconds", 3);
    topic.name = option_text("topic", NULL);
    version = (int)option_int("produce-version", 12);
    acks = (int)option_int("acks", -1);
    records = (int)option_int("records", 1);
    value_bytes = (int)option_int("value-bytes", 100);
    per_request = (int)option_int("partitions-per-request", 1);
    busy_poll = (int)option_int("busy-poll", 0);
    const char *batch_path = option_text("batch", "");
    uint64_t max_bytes = (uint64_t)option_int("max-bytes", 0);
    options_done();
    if (*batch_path) read_batch(batch_path);
    allow_files(connections + 32);
    int control = connect_to(port);
    if (control < 0) die("nobody listens on port %d", port);
    open_topic(control, &topic);
    in_capacity = 16384 + (size_t)per_request * 128;
    int64_t end_before = sum_of_end_offsets(control, &topic);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct connection *c = calloc((size_t)connections, sizeof *c);
    for (int i = 0; i < connections; i++) open_connection(&c[i], i, connections, in_flight, port);
    uint64_t batch_bytes = c[0].frame_size / (uint64_t)per_request;

    uint64_t start = now_ns();
    for (int i = 0; i < connections; i++) submit(&c[i], in_flight, start);
    if (warm_seconds > 0) warm_up(c, connections, start + (uint64_t)(warm_seconds * 1e9), warm_rounds);
    stop_at_partitions = max_bytes ? acked_partitions + max_bytes / batch_bytes : 0;
    announce("begin");
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns(), partitions_before = acked_partitions, requests_before = acked_requests;
    recording = 1;
    run_until(begin + (uint64_t)(seconds * 1e9), 1);
    recording = 0;
    double elapsed = (double)(now_ns() - begin) / 1e9;
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    uint64_t batches = acked_partitions - partitions_before, requests = acked_requests - requests_before;
    for (uint64_t give_up = now_ns() + 30 * SECOND_NS; still_waiting(c, connections);) {
        run_until(now_ns() + SECOND_NS / 20, 0);
        if (now_ns() > give_up) die("requests were never answered");
    }
    int64_t appended = sum_of_end_offsets(control, &topic) - end_before;
    if (appended != (int64_t)acked_partitions * records)
        die("%lld records acknowledged, the log grew by %lld", (long long)acked_partitions * records,
            (long long)appended);
    printf("{\"requests\": %llu, \"records\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f, "
           "\"latency_us\": ",
           (unsigned long long)requests, (unsigned long long)batches * (unsigned long long)records,
           (unsigned long long)(batches * batch_bytes), elapsed, cpu);
    histogram_print_json(stdout, &latency);
    puts("}");
    return 0;
}
