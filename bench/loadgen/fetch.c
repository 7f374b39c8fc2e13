/* Raw fetch: one request in flight per connection, one partition per connection. Batch headers are read and
   checked (magic, contiguous offsets); bodies are discarded in the kernel by MSG_TRUNC, so that reading costs
   less than sending, except for each n-th batch, which is received and its CRC verified. */
#include "fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "crc32c.h"
#include "options.h"

#define BUFFER_BYTES 32768
#define PREFIX_BYTES 256

enum state { PREFIX, HEADER, BODY, CHECKED_BODY, TAIL, IDLE };

struct connection {
    int fd, partition;
    enum state state;
    int32_t correlation_id, session_id, session_epoch;
    int64_t offset, start_offset, end_offset;
    size_t frame_left;   /* bytes of the answer not yet consumed, its size field excluded */
    size_t records_left; /* of them, record bytes */
    size_t body_left;
    uint32_t crc, expected_crc;
    int empty_in_a_row;
    uint64_t sent_at_ns, batches, answered_bytes;
    uint8_t buffer[BUFFER_BYTES];
    size_t at, filled;
    struct writer request;
};

static void ask(struct fetch_load *load, struct connection *c) {
    struct fetch_request fetch = {.version = load->version, .max_wait_ms = 500, .min_bytes = 1,
                                  .max_bytes = load->max_bytes, .session_id = c->session_id,
                                  .session_epoch = c->session_epoch, .partition = c->partition, .offset = c->offset};
    c->request.length = 0;
    put_fetch(&c->request, &load->topic, &fetch, ++c->correlation_id);
    c->sent_at_ns = now_ns();
    c->at = c->filled = 0;
    c->state = PREFIX;
    if (send(c->fd, c->request.data, c->request.length, MSG_NOSIGNAL) != (ssize_t)c->request.length)
        die("fetch request: %s", strerror(errno));
}

/* 1 when the prefix is complete and was consumed. */
static int take_prefix(struct fetch_load *load, struct connection *c) {
    size_t have = c->filled - c->at;
    if (have < 8) return 0;
    size_t size = (size_t)peek_i32(c->buffer + c->at);
    if (have < 4 + size && have < PREFIX_BYTES) return 0;
    struct reader r = {c->buffer + c->at + 4, c->buffer + c->filled, 0};
    if (get_i32(&r) != c->correlation_id) die("a Fetch answer with another correlation id");
    struct fetch_answer answer = read_fetch_prefix(&r, load->version, c->partition);
    if (r.bad) die("a malformed Fetch answer");
    size_t consumed = (size_t)(r.at - (c->buffer + c->at)) - 4;
    if (c->session_epoch == 0) c->session_id = answer.session_id;
    else if (answer.session_id != c->session_id) die("the fetch session changed");
    if (c->session_id) c->session_epoch++;
    if (consumed + answer.records_bytes > size) die("records longer than their answer");
    c->at += consumed + 4;
    c->frame_left = size - consumed;
    c->records_left = c->answered_bytes = answer.records_bytes;
    c->state = HEADER;
    return 1;
}

static void take_header(struct fetch_load *load, struct connection *c) {
    const uint8_t *batch = c->buffer + c->at;
    int64_t base_offset = peek_i64(batch);
    size_t total = (size_t)peek_i32(batch + 8) + 12;
    if (batch[16] != 2) die("a batch with magic %d", batch[16]);
    if (base_offset != c->offset) die("partition %d: offset %lld where %lld was due", c->partition,
                                      (long long)base_offset, (long long)c->offset);
    c->body_left = total - BATCH_HEADER_BYTES;
    c->state = BODY;
    if (total > c->records_left) { /* cut off by max bytes: a legal end */
        c->body_left = c->records_left - BATCH_HEADER_BYTES;
    } else {
        c->offset = base_offset + peek_i32(batch + 23) + 1;
        c->empty_in_a_row = 0;
        if (load->verify_every && c->batches++ % (uint64_t)load->verify_every == 0) {
            c->state = CHECKED_BODY;
            c->expected_crc = (uint32_t)peek_i32(batch + 17);
            c->crc = crc32c(0, batch + 21, BATCH_HEADER_BYTES - 21);
        }
    }
    c->at += BATCH_HEADER_BYTES;
    c->frame_left -= BATCH_HEADER_BYTES;
    c->records_left -= BATCH_HEADER_BYTES;
}

static void consume_body(struct fetch_load *load, struct connection *c, const uint8_t *data, size_t length) {
    if (c->state == CHECKED_BODY) c->crc = crc32c(c->crc, data, length);
    c->body_left -= length;
    c->frame_left -= length;
    c->records_left -= length;
    if (c->body_left) return;
    if (c->state == CHECKED_BODY) {
        if (c->crc != c->expected_crc) die("a batch before offset %lld fails its CRC", (long long)c->offset);
        load->verified++;
    }
    c->state = HEADER;
}

/* Works off the buffer; 1 when the answer is complete. */
static int take_buffered(struct fetch_load *load, struct connection *c) {
    for (;;) {
        size_t have = c->filled - c->at;
        if (c->state == PREFIX) {
            if (!take_prefix(load, c)) return 0;
        } else if (c->state == HEADER && c->records_left < BATCH_HEADER_BYTES) {
            c->body_left = c->records_left;
            c->state = c->records_left ? BODY : TAIL;
        } else if (c->state == HEADER) {
            if (have < BATCH_HEADER_BYTES) return 0;
            take_header(load, c);
        } else if (c->state == TAIL) {
            if (have < c->frame_left) return 0;
            c->at += c->frame_left;
            return 1;
        } else {
            if (!have && c->body_left) return 0;
            size_t piece = have < c->body_left ? have : c->body_left;
            c->at += piece;
            consume_body(load, c, c->buffer + c->at - piece, piece);
        }
    }
}

/* One recv. 0 when there is nothing more now. */
static int pull(struct fetch_load *load, struct connection *c) {
    ssize_t got;
    int discards = c->state == BODY && c->at == c->filled;
    if (discards) {
        got = recv(c->fd, c->buffer, c->body_left, MSG_TRUNC);
        if (got > 0) consume_body(load, c, NULL, (size_t)got);
    } else {
        memmove(c->buffer, c->buffer + c->at, c->filled - c->at);
        c->filled -= c->at;
        c->at = 0;
        size_t room = BUFFER_BYTES - c->filled;
        if (c->state == PREFIX && load->max_bytes > BUFFER_BYTES / 2) room = PREFIX_BYTES - c->filled;
        else if (c->state == HEADER && c->frame_left > room) room = BATCH_HEADER_BYTES - c->filled;
        else if (c->state == CHECKED_BODY && c->body_left < room) room = c->body_left;
        got = recv(c->fd, c->buffer + c->filled, room, 0);
        if (got > 0) c->filled += (size_t)got;
    }
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("the broker closed a fetching connection");
    return 1;
}

/* After an answer: the next offset, or the next partition of a reader that goes through all of them once. */
static int advance(struct fetch_load *load, struct connection *c, const int64_t *ends) {
    if (!c->answered_bytes) {
        load->empty_answers++;
        if (++c->empty_in_a_row > 100) die("partition %d gives nothing at offset %lld", c->partition,
                                           (long long)c->offset);
    }
    if (c->offset < c->end_offset) return 1;
    c->offset = c->start_offset;
    if (!load->once) return 1;
    c->partition += load->connections;
    if (c->partition >= load->topic.partitions) return 0;
    c->end_offset = ends[c->partition];
    c->session_id = c->session_epoch = 0;
    return 1;
}

static void open_connections(struct fetch_load *load, struct connection *c, int epoll_fd, const int64_t *ends) {
    for (int i = 0; i < load->connections; i++) {
        c[i].fd = connect_to(load->port);
        if (c[i].fd < 0) die("fetch connection refused");
        make_nonblocking(c[i].fd);
        c[i].partition = i % load->topic.partitions;
        c[i].end_offset = ends[c[i].partition];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &c[i]};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c[i].fd, &event);
        ask(load, &c[i]);
    }
}

static void finish_answer(struct fetch_load *load, struct connection *c, int recording) {
    load->bytes += c->answered_bytes;
    load->requests++;
    if (recording) histogram_add(&load->latency, now_ns() - c->sent_at_ns);
}

void run_fetch_load(struct fetch_load *load) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), recording = load->warm_seconds == 0, running = load->connections;
    int64_t *ends = calloc((size_t)load->topic.partitions, sizeof *ends);
    int control = connect_to(load->port);
    if (control < 0 || list_offsets(control, &load->topic, -1, ends)) die("no end offsets of %s", load->topic.name);
    for (int i = 0; i < load->topic.partitions; i++)
        if (!ends[i]) die("partition %d of %s is empty", i, load->topic.name);
    struct connection *c = calloc((size_t)load->connections, sizeof *c);
    open_connections(load, c, epoll_fd, ends);
    uint64_t begin = now_ns(), last_progress = begin;
    double cpu = own_cpu_seconds();
    if (recording && load->announces) announce("begin");
    while (running) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll_fd, events, 64, 1000);
        uint64_t now = now_ns();
        if (ready > 0) last_progress = now;
        if (now > last_progress + 30 * SECOND_NS) die("no Fetch answer for 30 s");
        if (!recording && (double)(now - begin) / 1e9 >= load->warm_seconds) {
            load->bytes = load->requests = load->empty_answers = 0;
            if (load->announces) announce("begin");
            recording = 1;
            begin = now = now_ns();
            cpu = own_cpu_seconds();
        }
        if (recording && (double)(now - begin) / 1e9 >= load->seconds) break;
        for (int i = 0; i < ready; i++) {
            struct connection *one = events[i].data.ptr;
            for (int budget = 64; budget && one->state != IDLE && pull(load, one); budget--) {
                if (!take_buffered(load, one)) continue;
                finish_answer(load, one, recording);
                if (advance(load, one, ends)) ask(load, one);
                else {
                    one->state = IDLE;
                    running--;
                }
                break; /* its next answer cannot be here yet */
            }
        }
    }
    load->elapsed = (double)(now_ns() - begin) / 1e9;
    load->client_cpu = own_cpu_seconds() - cpu;
    if (load->announces) announce("end");
    for (int i = 0; i < load->connections; i++) close(c[i].fd);
    close(control);
    load->finished = 1;
}

int command_fetch(void) {
    static struct fetch_load load;
    load.port = (int)option_int("port", 0);
    load.topic.name = option_text("topic", NULL);
    load.connections = (int)option_int("connections", 8);
    load.version = (int)option_int("fetch-version", 16);
    load.max_bytes = (int)option_int("max-bytes", 1 << 20);
    load.once = (int)option_int("once", 0);
    load.verify_every = (int)option_int("verify-every", 256);
    load.warm_seconds = option_number("warm", 1);
    load.seconds = option_number("seconds", 3);
    load.announces = 1;
    options_done();
    if (load.version < 12) die("Fetch from version 12");
    int control = connect_to(load.port);
    if (control < 0) die("nobody listens on port %d", load.port);
    open_topic(control, &load.topic);
    run_fetch_load(&load);
    if (!load.verified) die("no batch was verified");
    printf("{\"requests\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f, \"verified\": %llu, "
           "\"empty\": %llu, \"latency_us\": ",
           (unsigned long long)load.requests, (unsigned long long)load.bytes, load.elapsed, load.client_cpu,
           (unsigned long long)load.verified, (unsigned long long)load.empty_answers);
    histogram_print_json(stdout, &load.latency);
    puts("}");
    return 0;
}
