/* Open-loop produce at a fixed rate: latency counts from the moment a request was due, not from when it left, so a
   stalled broker cannot hide. With --consumer 1 a long-polling fetch measures end to end through the record's value.
   With --cold-topic a second client reads that topic from its start meanwhile. With --watch-stops 1 the latencies of
   those acks are given apart that the host's stops of a processor did not touch. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "fetch.h"
#include "histogram.h"
#include "options.h"
#include "stops.h"

#define FIFO 65536 /* due times of unanswered requests; a power of two */

struct producer {
    int fd;
    uint32_t sent, answered;
    uint64_t due_ns[FIFO];
    struct writer frame;
    size_t batch_at, batch_bytes;
    int64_t *last_offset;
    uint8_t in[65536];
    size_t in_length;
};

struct consumer {
    int fd;
    int32_t correlation_id;
    int64_t next_offset;
    uint8_t *in;
    size_t in_length, in_capacity;
    uint64_t records;
};

static struct topic topic;
static int version, fetch_version, value_bytes, acks, recording, watched;
static struct histogram ack_latency, end_to_end, lateness;
static uint64_t acked;

static void open_producer(struct producer *p, int port, int index, int epoll_fd) {
    struct writer batch = {0};
    p->fd = connect_to(port);
    if (p->fd < 0) die("connection refused");
    make_nonblocking(p->fd);
    put_batch(&batch, 1, value_bytes, wall_clock_ms());
    size_t start = begin_produce(&p->frame, version, &topic, acks, 1);
    p->batch_at = put_produce_partition(&p->frame, version, index % topic.partitions, batch.data, batch.length);
    end_produce(&p->frame, version, start);
    p->batch_bytes = batch.length;
    free(batch.data);
    p->last_offset = malloc((size_t)topic.partitions * sizeof *p->last_offset);
    for (int i = 0; i < topic.partitions; i++) p->last_offset[i] = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, p->fd, &event);
}

static void send_due(struct producer *p, uint64_t due_ns) {
    uint8_t *batch = p->frame.data + p->batch_at;
    if (p->sent - p->answered == FIFO) die("%d requests unanswered", FIFO);
    patch_i32(p->frame.data + CORRELATION_OFFSET, (int32_t)p->sent);
    patch_i64(batch + single_value_offset(value_bytes), (int64_t)due_ns);
    seal_batch(batch, p->batch_bytes);
    p->due_ns[p->sent++ % FIFO] = due_ns;
    for (size_t done = 0; done < p->frame.length;) {
        ssize_t sent = send(p->fd, p->frame.data + done, p->frame.length - done, MSG_NOSIGNAL);
        if (sent > 0) done += (size_t)sent;
        else if (errno != EAGAIN) die("send: %s", strerror(errno));
        else if (poll(&(struct pollfd){.fd = p->fd, .events = POLLOUT}, 1, 30000) != 1) die("the broker reads nothing");
    }
    if (recording) histogram_add(&lateness, now_ns() - due_ns);
}

static void receive_acks(struct producer *p) {
    ssize_t got = recv(p->fd, p->in + p->in_length, sizeof p->in - p->in_length, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the broker closed a connection");
    uint64_t now = now_ns();
    size_t at = 0;
    p->in_length += (size_t)got;
    while (p->in_length - at >= 4) {
        size_t size = (size_t)peek_i32(p->in + at);
        if (size > sizeof p->in - 4) die("an answer of %zu bytes", size);
        if (p->in_length - at < 4 + size) break;
        struct reader r = {p->in + at + 4, p->in + at + 4 + size, 0};
        if (get_i32(&r) != (int32_t)p->answered) die("answers out of order");
        acked += (uint64_t)check_produce(&r, version, &topic, 1, p->last_offset);
        if (recording) histogram_add(&ack_latency, now - p->due_ns[p->answered % FIFO]);
        if (recording && watched) stops_add(p->due_ns[p->answered % FIFO], now);
        p->answered++;
        at += 4 + size;
    }
    memmove(p->in, p->in + at, p->in_length - at);
    p->in_length -= at;
}

static void ask(struct consumer *c) {
    struct writer w = {0};
    struct fetch_request fetch = {.version = fetch_version, .max_wait_ms = 500, .min_bytes = 1, .max_bytes = 1 << 20,
                                  .session_epoch = -1, .partition = 0, .offset = c->next_offset};
    put_fetch(&w, &topic, &fetch, ++c->correlation_id);
    if (send(c->fd, w.data, w.length, MSG_NOSIGNAL) != (ssize_t)w.length) die("fetch request: %s", strerror(errno));
    free(w.data);
}

static void open_consumer(struct consumer *c, int port, int epoll_fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (topic.partitions != 1) die("end to end works on a topic of one partition");
    c->fd = connect_to(port);
    if (c->fd < 0 || list_offsets(c->fd, &topic, -1, &c->next_offset)) die("no end offset");
    c->in = malloc(c->in_capacity = 2 << 20);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
    ask(c);
}

static void take_records(struct consumer *c, const uint8_t *at, size_t length, uint64_t now) {
    while (length >= BATCH_HEADER_BYTES) {
        size_t total = (size_t)peek_i32(at + 8) + 12;
        if (total > length) return;
        if (peek_i64(at) != c->next_offset) die("offset %lld where %lld was due", (long long)peek_i64(at),
                                                (long long)c->next_offset);
        uint64_t due_ns = (uint64_t)peek_i64(at + single_value_offset(value_bytes));
        if (due_ns > now) die("a record from the future: its value was changed");
        if (recording) histogram_add(&end_to_end, now - due_ns);
        c->next_offset++;
        c->records++;
        at += total;
        length -= total;
    }
}

static void receive_records(struct consumer *c) {
    ssize_t got = recv(c->fd, c->in + c->in_length, c->in_capacity - c->in_length, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the broker closed the consumer's connection");
    uint64_t now = now_ns();
    c->in_length += (size_t)got;
    if (c->in_length < 4 || c->in_length < 4 + (size_t)peek_i32(c->in)) return;
    struct reader r = {c->in + 4, c->in + c->in_length, 0};
    if (get_i32(&r) != c->correlation_id) die("a Fetch answer with another correlation id");
    struct fetch_answer answer = read_fetch_prefix(&r, fetch_version, 0);
    if (r.bad || (size_t)(r.end - r.at) < answer.records_bytes) die("a malformed Fetch answer");
    take_records(c, r.at, answer.records_bytes, now);
    c->in_length = 0;
    ask(c);
}

static void *read_cold(void *load) {
    run_fetch_load(load);
    return NULL;
}

static int start_timer(int epoll_fd) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    prctl(PR_SET_TIMERSLACK, 1);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event);
    return timer;
}

static void arm(int timer, uint64_t at_ns) {
    struct itimerspec when = {.it_value = {(time_t)(at_ns / SECOND_NS), (long)(at_ns % SECOND_NS)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

struct plan {
    int connections, epoll_fd, timer;
    uint64_t interval_ns, next_due_ns, tick;
};

/* Sends what is due and takes what arrives until `deadline` (or until the cold reader is through). */
static void run(struct plan *plan, struct producer *producers, struct consumer *consumer, uint64_t deadline,
                struct fetch_load *cold, int sends) {
    for (uint64_t now = now_ns(); now < deadline && !(cold && cold->finished); now = now_ns()) {
        if (sends) {
            for (; plan->next_due_ns <= now; plan->next_due_ns += plan->interval_ns)
                send_due(&producers[plan->tick++ % (uint64_t)plan->connections], plan->next_due_ns);
            arm(plan->timer, plan->next_due_ns);
        }
        struct epoll_event events[64];
        int ready = epoll_wait(plan->epoll_fd, events, 64, sends ? 1000 : 20);
        for (int i = 0; i < ready; i++) {
            void *who = events[i].data.ptr;
            uint64_t expirations;
            if (!who) {
                if (read(plan->timer, &expirations, 8) < 0) continue;
            } else if (who == consumer) receive_records(consumer);
            else receive_acks(who);
        }
    }
}

static void print_result(const struct producer *p, int connections, double elapsed, double cpu,
                         const struct fetch_load *cold) {
    uint64_t sent = 0;
    for (int i = 0; i < connections; i++) sent += p[i].sent;
    printf("{\"records\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f, ", (unsigned long long)ack_latency.count,
           elapsed, cpu);
    if (cold) printf("\"cold_bytes\": %llu, \"cold_seconds\": %.6f, ", (unsigned long long)cold->bytes, cold->elapsed);
    printf("\"sent\": %llu, \"lateness_us\": ", (unsigned long long)sent);
    histogram_print_json(stdout, &lateness);
    printf(", \"end_to_end_us\": ");
    histogram_print_json(stdout, &end_to_end);
    printf(", \"latency_us\": ");
    histogram_print_json(stdout, &ack_latency);
    if (watched) {
        printf(", \"machine\": ");
        stops_print_json(stdout);
    }
    puts("}");
}

static struct fetch_load *plan_cold(int port, double seconds) {
    static struct fetch_load cold;
    cold.topic.name = option_text("cold-topic", "");
    cold.max_bytes = (int)option_int("cold-max-bytes", 1 << 20);
    cold.port = port;
    cold.connections = 1;
    cold.version = fetch_version;
    cold.once = 1;
    cold.seconds = seconds;
    cold.verify_every = 256;
    return *cold.topic.name ? &cold : NULL;
}

int command_paced(void) {
    struct plan plan = {0};
    int port = (int)option_int("port", 0), consumes = (int)option_int("consumer", 0);
    double warm_seconds = option_number("warm", 1), seconds = option_number("seconds", 3);
    topic.name = option_text("topic", NULL);
    plan.connections = (int)option_int("connections", 10);
    plan.interval_ns = (uint64_t)(1e9 / option_number("rate", 1000));
    version = (int)option_int("produce-version", 12);
    fetch_version = (int)option_int("fetch-version", 16);
    acks = (int)option_int("acks", -1);
    value_bytes = (int)option_int("value-bytes", 100);
    struct fetch_load *cold = plan_cold(port, seconds);
    watched = option_int("watch-stops", 0) && stops_watch();
    options_done();
    if (value_bytes < 8) die("a value holds a time of 8 bytes");
    int control = connect_to(port);
    if (control < 0) die("nobody listens on port %d", port);
    open_topic(control, &topic);
    if (cold) open_topic(control, &cold->topic);
    int64_t end_before = sum_of_end_offsets(control, &topic);
    plan.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    plan.timer = start_timer(plan.epoll_fd);
    struct producer *producers = calloc((size_t)plan.connections, sizeof *producers);
    struct consumer consumer = {0};
    for (int i = 0; i < plan.connections; i++) open_producer(&producers[i], port, i, plan.epoll_fd);
    if (consumes) open_consumer(&consumer, port, plan.epoll_fd);

    plan.next_due_ns = now_ns() + plan.interval_ns;
    run(&plan, producers, &consumer, now_ns() + (uint64_t)(warm_seconds * 1e9), NULL, 1);
    announce("begin");
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns();
    pthread_t reader;
    recording = 1;
    if (cold && pthread_create(&reader, NULL, read_cold, cold)) die("no thread");
    run(&plan, producers, &consumer, begin + (uint64_t)(seconds * 1e9), cold, 1);
    double elapsed = (double)(now_ns() - begin) / 1e9;
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    if (cold) pthread_join(reader, NULL);
    uint64_t sent = 0; /* what is still on its way counts: a stall at the end must not be cut off */
    for (int i = 0; i < plan.connections; i++) sent += producers[i].sent;
    for (uint64_t give_up = now_ns() + 30 * SECOND_NS; acked < sent || (consumes && consumer.records < sent);) {
        run(&plan, producers, &consumer, now_ns() + SECOND_NS / 50, NULL, 0);
        if (now_ns() > give_up) die("%llu of %llu requests were answered, %llu records consumed",
                                    (unsigned long long)acked, (unsigned long long)sent,
                                    (unsigned long long)consumer.records);
    }
    if (sum_of_end_offsets(control, &topic) - end_before != (int64_t)acked) die("acknowledged records are missing");
    print_result(producers, plan.connections, elapsed, cpu, cold);
    return 0;
}
