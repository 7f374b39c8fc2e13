/* Closed loop of one request per connection, the same again and again; every answer is compared with the
   expected one, byte by byte. The file of --requests has a request frame for each connection, one after the other,
   each after its 4-byte size; --answer holds one answer frame in the same form, its correlation id that of all.
   With --number-at N (and --number-in-answer M) each request has a number of its own, in ten digits from byte N of
   its frame on (and from byte M of its answer on). With --each N both files have N frames for each connection, and N
   answers in the same order, and the load ends when all have been sent once. */
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
#define DIGITS 10
#define EVENTS 256

struct repeated {
    int fd;
    uint8_t *frames, *frame;
    size_t length, in_length;
    const uint8_t *answer; /* that is expected */
    uint64_t number;
    int sent;
    uint64_t sent_at_ns;
    uint8_t in[ANSWER_BYTES];
};

static struct histogram latency;
static uint8_t *answers;
static size_t answers_length;
static uint64_t numbers;
static int each, number_at, number_in_answer;

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

static size_t frame_bytes(const uint8_t *frame) { return 4 + (size_t)peek_i32(frame); }

static void write_number(uint8_t *at, uint64_t number) {
    for (int i = DIGITS - 1; i >= 0; i--, number /= 10) at[i] = (uint8_t)('0' + number % 10);
}

/* Begins again after the last of a connection's frames. */
static void send_request(struct repeated *r) {
    int first = r->sent % each == 0;
    r->frame = first ? r->frames : r->frame + r->length;
    r->answer = first ? answers : r->answer + frame_bytes(r->answer);
    r->length = frame_bytes(r->frame);
    r->sent++;
    if (number_at) write_number(r->frame + number_at, r->number = numbers++);
    if (send(r->fd, r->frame, r->length, MSG_NOSIGNAL) != (ssize_t)r->length) die("send: %s", strerror(errno));
    r->sent_at_ns = now_ns();
    r->in_length = 0;
}

static int is_expected(struct repeated *r) {
    size_t length = frame_bytes(r->answer);
    if (r->in_length != length) return 0;
    if (!number_in_answer) return !memcmp(r->in, r->answer, length);
    uint8_t digits[DIGITS];
    size_t at = (size_t)number_in_answer, rest = at + DIGITS;
    write_number(digits, r->number);
    return !memcmp(r->in, r->answer, at) && !memcmp(r->in + at, digits, DIGITS) &&
           !memcmp(r->in + rest, r->answer + rest, length - rest);
}

/* 1 when the whole answer is there, and it is the right one. */
static int take_answer(struct repeated *r) {
    ssize_t got = recv(r->fd, r->in + r->in_length, sizeof r->in - r->in_length, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("the broker closed a connection");
    r->in_length += (size_t)got;
    if (r->in_length < 4 || r->in_length < 4 + (size_t)peek_i32(r->in)) return 0;
    if (!is_expected(r)) {
        for (size_t i = 0; i < r->in_length; i++) fprintf(stderr, "%02x", r->in[i]);
        die(" is another answer than the one expected");
    }
    return 1;
}

static struct repeated *open_all(int port, int connections, const char *requests, int epoll_fd) {
    size_t length, at = 0;
    uint8_t *frames = read_file(requests, &length);
    struct repeated *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i].frames = frames + at;
        for (int n = 0; n < each; n++) {
            if (at + 4 > length) die("%s has %d requests, %d are wanted", requests, i * each + n, connections * each);
            size_t size = frame_bytes(frames + at);
            if (number_at && (size_t)number_at + DIGITS > size) die("a request has no place for its number");
            at += size;
        }
        if ((all[i].fd = connect_to(port)) < 0) die("connection refused");
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    return all;
}

static void check_answers(void) {
    size_t at = 0;
    for (int n = 0; n < each; n++) {
        if (at + 4 > answers_length) die("there are %d answers, %d are wanted", n, each);
        size_t length = frame_bytes(answers + at);
        if (length > ANSWER_BYTES) die("the answer is too long");
        if (number_in_answer && (size_t)number_in_answer + DIGITS > length)
            die("an answer has no place for its number");
        at += length;
    }
    if (at != answers_length) die("there are more than %d answers", each);
}

int command_repeat(void) {
    int port = (int)option_int("port", 0), connections = (int)option_int("connections", 50);
    const char *requests = option_text("requests", NULL);
    each = (int)option_int("each", 1);
    number_at = (int)option_int("number-at", 0);
    number_in_answer = (int)option_int("number-in-answer", 0);
    answers = read_file(option_text("answer", NULL), &answers_length);
    double warm_seconds = option_number("warm", 1), seconds = option_number("seconds", 3);
    options_done();
    check_answers();
    allow_files(connections + 32);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), recording = 0;
    struct repeated *all = open_all(port, connections, requests, epoll_fd);
    uint64_t begin = now_ns(), last_progress = begin, count = 0;
    int busy = connections;
    double cpu = 0;
    for (int i = 0; i < connections; i++) send_request(&all[i]);
    for (;;) {
        struct epoll_event events[EVENTS];
        if (busy == 0 && !recording) die("all requests were answered before the measured part");
        int ready = epoll_wait(epoll_fd, events, EVENTS, busy ? 1000 : 0);
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
        if (recording && (busy == 0 || (double)(now - begin) / 1e9 >= seconds)) break;
        for (int i = 0; i < ready; i++) {
            struct repeated *one = events[i].data.ptr;
            if (!take_answer(one)) continue;
            count++;
            if (recording) histogram_add(&latency, now_ns() - one->sent_at_ns);
            if (each > 1 && one->sent == each) busy--;
            else send_request(one);
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
