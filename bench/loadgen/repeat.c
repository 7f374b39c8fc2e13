/* Closed loop of one request per connection, the same again and again; every answer is compared with the
   expected one, byte by byte. The file of --requests has a request frame for each connection, one after the other,
   each after its 4-byte size; --answer holds one answer frame in the same form, its correlation id that of all. */
#include <errno.h>
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

#define ANSWER_BYTES 8192
#define EVENTS 256

struct repeated {
    int fd;
    const uint8_t *frame;
    size_t length, in_length;
    uint64_t sent_at_ns;
    uint8_t in[ANSWER_BYTES];
};

static struct histogram latency;
static uint8_t *answer;
static size_t answer_length;

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) die("%s: %s", path, strerror(errno));
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*length);
    if (fread(data, 1, *length, file) != *length) die("%s can not be read", path);
    fclose(file);
    return data;
}

static void send_request(struct repeated *r) {
    if (send(r->fd, r->frame, r->length, MSG_NOSIGNAL) != (ssize_t)r->length) die("send: %s", strerror(errno));
    r->sent_at_ns = now_ns();
    r->in_length = 0;
}

/* 1 when the whole answer is there, and it is the right one. */
static int take_answer(struct repeated *r) {
    ssize_t got = recv(r->fd, r->in + r->in_length, sizeof r->in - r->in_length, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("the broker closed a connection");
    r->in_length += (size_t)got;
    if (r->in_length < 4 || r->in_length < 4 + (size_t)peek_i32(r->in)) return 0;
    if (r->in_length != answer_length || memcmp(r->in, answer, answer_length)) {
        for (size_t i = 0; i < r->in_length; i++) fprintf(stderr, "%02x", r->in[i]);
        die(" is another answer than the one expected");
    }
    return 1;
}

static struct repeated *open_all(int port, int connections, const char *requests, int epoll_fd) {
    size_t length, at = 0;
    const uint8_t *frames = read_file(requests, &length);
    struct repeated *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        if (at + 4 > length) die("%s has %d requests, %d are wanted", requests, i, connections);
        all[i].frame = frames + at;
        all[i].length = 4 + (size_t)peek_i32(frames + at);
        at += all[i].length;
        if ((all[i].fd = connect_to(port)) < 0) die("connection refused");
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    return all;
}

int command_repeat(void) {
    int port = (int)option_int("port", 0), connections = (int)option_int("connections", 50);
    const char *requests = option_text("requests", NULL);
    answer = read_file(option_text("answer", NULL), &answer_length);
    double warm_seconds = option_number("warm", 1), seconds = option_number("seconds", 3);
    options_done();
    if (answer_length > ANSWER_BYTES) die("the answer is too long");
    allow_files(connections + 32);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), recording = 0;
    struct repeated *all = open_all(port, connections, requests, epoll_fd);
    uint64_t begin = now_ns(), last_progress = begin, count = 0;
    double cpu = 0;
    for (int i = 0; i < connections; i++) send_request(&all[i]);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll_fd, events, EVENTS, 1000);
        uint64_t now = now_ns();
        if (ready > 0) last_progress = now;
        if (now > last_progress + 30 * SECOND_NS) die("no answer for 30 s");
        if (!recording && (double)(now - begin) / 1e9 >= warm_seconds) {
            announce("begin");
            recording = 1;
            count = 0;
            begin = now = now_ns();
            cpu = own_cpu_seconds();
        }
        if (recording && (double)(now - begin) / 1e9 >= seconds) break;
        for (int i = 0; i < ready; i++) {
            struct repeated *one = events[i].data.ptr;
            if (!take_answer(one)) continue;
            count++;
            if (recording) histogram_add(&latency, now_ns() - one->sent_at_ns);
            send_request(one);
        }
    }
    double elapsed = (double)(now_ns() - begin) / 1e9;
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    for (int i = 0; i < connections; i++) close(all[i].fd);
    printf("{\"requests\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f, \"latency_us\": ", (unsigned long long)count,
           elapsed, cpu);
    histogram_print_json(stdout, &latency);
    puts("}");
    return 0;
}
