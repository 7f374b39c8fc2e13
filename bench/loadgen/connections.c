/* Opens many connections, each proving itself by an ApiVersions answer, at most `window` of them in progress. */
#include <arpa/inet.h>
#include <errno.h>
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

struct opening {
    int fd, asked;
    uint64_t begun_ns;
    uint8_t in[4096];
    size_t in_length;
};

static struct writer question;
static struct histogram latency;

static void begin_opening(struct opening *o, int port, int epoll_fd) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    o->begun_ns = now_ns();
    o->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (o->fd < 0) die("socket: %s", strerror(errno));
    if (connect(o->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        die("connect: %s", strerror(errno));
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = o};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, o->fd, &event);
}

/* 1 when the answer is there and good. */
static int step(struct opening *o, int epoll_fd) {
    if (!o->asked) {
        if (send(o->fd, question.data, question.length, MSG_NOSIGNAL) != (ssize_t)question.length)
            die("a new connection broke: %s", strerror(errno));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = o};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, o->fd, &event);
        o->asked = 1;
        return 0;
    }
    ssize_t got = recv(o->fd, o->in + o->in_length, sizeof o->in - o->in_length, 0);
    if (got <= 0) die("the broker closed a new connection");
    o->in_length += (size_t)got;
    if (o->in_length < 4 || o->in_length < 4 + (size_t)peek_i32(o->in)) return 0;
    struct reader r = {o->in + 4, o->in + o->in_length, 0};
    if (get_i32(&r) != 1 || get_i16(&r)) die("ApiVersions of a new connection failed");
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, o->fd, NULL);
    return 1;
}

static double open_all(struct opening *openings, int count, int window, int port, int records) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), begun = 0, done = 0;
    uint64_t begin = now_ns();
    while (done < count) {
        struct epoll_event events[64];
        for (; begun < count && begun - done < window; begun++) begin_opening(&openings[begun], port, epoll_fd);
        int ready = epoll_wait(epoll_fd, events, 64, 30000);
        if (ready <= 0) die("%d of %d connections, then nothing for 30 s", done, count);
        for (int i = 0; i < ready; i++) {
            struct opening *o = events[i].data.ptr;
            if (!step(o, epoll_fd)) continue;
            done++;
            if (records) histogram_add(&latency, now_ns() - o->begun_ns);
        }
    }
    close(epoll_fd);
    return (double)(now_ns() - begin) / 1e9;
}

int command_connections(void) {
    int port = (int)option_int("port", 0), count = (int)option_int("connections", 5000);
    int window = (int)option_int("window", 32), warm = (int)option_int("warm-connections", 500);
    double hold_seconds = option_number("hold", 0.5);
    options_done();
    allow_files(count + 32);
    put_api_versions(&question, 1);
    struct opening *openings = calloc((size_t)(count > warm ? count : warm), sizeof *openings);
    open_all(openings, warm, window, port, 0);
    for (int i = 0; i < warm; i++) close(openings[i].fd);
    memset(openings, 0, (size_t)warm * sizeof *openings);
    usleep(200000); /* the broker's side of the closed ones */
    announce("begin");
    double cpu = own_cpu_seconds(), seconds = open_all(openings, count, window, port, 1);
    cpu = own_cpu_seconds() - cpu;
    announce("end");
    usleep((useconds_t)(hold_seconds * 1e6)); /* the harness measures memory with all of them open */
    for (int i = 0; i < count; i++) { /* none was dropped meanwhile */
        char byte;
        if (recv(openings[i].fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN) die("an idle connection was closed");
        close(openings[i].fd);
    }
    printf("{\"connections\": %d, \"seconds\": %.6f, \"client_cpu\": %.4f, \"latency_us\": ", count, seconds, cpu);
    histogram_print_json(stdout, &latency);
    puts("}");
    return 0;
}
