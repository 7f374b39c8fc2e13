/* What the machine gives without a broker: a sendfile loop into loopback sockets, and a copy from page cache to
   page cache. bare_broker.c has the loops that answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"
#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "options.h"

int temporary_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) die("%s: %s", path, strerror(errno));
    unlink(path);
    return fd;
}

static void fill(int fd, uint64_t bytes) {
    static uint8_t block[1 << 20];
    memset(block, 0x5a, sizeof block);
    for (uint64_t at = 0; at < bytes; at += sizeof block)
        if (pwrite(fd, block, sizeof block, (off_t)at) != sizeof block) die("pwrite: %s", strerror(errno));
}

int listen_on_loopback(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024)) die("listen: %s", strerror(errno));
    getsockname(fd, (struct sockaddr *)&address, &length);
    *port = ntohs(address.sin_port);
    return fd;
}

/* The child: discards everything, as the fetch client does. */
static void discard_all(int port, int connections) {
    static uint8_t scratch[1 << 20];
    struct epoll_event events[64];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), open = connections;
    for (int i = 0; i < connections; i++) {
        int fd = connect_to(port);
        if (fd < 0) die("connection refused");
        make_nonblocking(fd);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
    }
    while (open > 0)
        for (int ready = epoll_wait(epoll_fd, events, 64, -1), i = 0; i < ready; i++) {
            ssize_t got = recv(events[i].data.fd, scratch, sizeof scratch, MSG_TRUNC);
            if (got > 0 || (got < 0 && errno == EAGAIN)) continue;
            close(events[i].data.fd);
            open--;
        }
    exit(0);
}

struct stream {
    int fd;
    off_t at;
};

/* One sending thread with its share of the connections. */
struct sender {
    pthread_t thread;
    int file, epoll_fd;
    off_t file_bytes;
    size_t chunk;
    atomic_int *stops;
    _Atomic uint64_t sent;
};

static void *keep_sending(void *argument) {
    struct sender *sender = argument;
    struct epoll_event events[64];
    while (!*sender->stops)
        for (int ready = epoll_wait(sender->epoll_fd, events, 64, 100), i = 0; i < ready; i++) {
            struct stream *stream = events[i].data.ptr;
            if (stream->at >= sender->file_bytes) stream->at = 0;
            size_t piece = sender->chunk - (size_t)stream->at % sender->chunk;
            ssize_t n = sendfile(stream->fd, sender->file, &stream->at, piece);
            if (n < 0 && errno != EAGAIN) die("sendfile: %s", strerror(errno));
            if (n > 0) sender->sent += (uint64_t)n;
        }
    return NULL;
}

static uint64_t sent_by(struct sender *senders, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += senders[i].sent;
    return sum;
}

int command_bare_sendfile(void) {
    const char *folder = option_text("folder", NULL);
    int connections = (int)option_int("connections", 8), threads = (int)option_int("threads", 1), port;
    off_t file_bytes = (off_t)option_int("file-bytes", 512 << 20);
    size_t chunk = (size_t)option_int("chunk", 1 << 20);
    int send_buffer = (int)option_int("send-buffer", 0); /* 0: the kernel's own tuning */
    const char *congestion_control = option_text("congestion-control", ""); /* empty: the system's */
    double warm_seconds = option_number("warm", 0.3), seconds = option_number("seconds", 3);
    options_done();
    int file = temporary_file(folder, "bare-sendfile"), listener = listen_on_loopback(&port);
    atomic_int stops = 0;
    fill(file, (uint64_t)file_bytes);
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (!child) discard_all(port, connections);
    struct sender *senders = calloc((size_t)threads, sizeof *senders);
    struct stream *streams = calloc((size_t)connections, sizeof *streams);
    for (int i = 0; i < threads; i++) {
        senders[i].epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        senders[i].file = file;
        senders[i].file_bytes = file_bytes;
        senders[i].chunk = chunk;
        senders[i].stops = &stops;
    }
    for (int i = 0; i < connections; i++) {
        streams[i].fd = accept(listener, NULL, NULL);
        streams[i].at = file_bytes / connections * i / (off_t)chunk * (off_t)chunk;
        make_nonblocking(streams[i].fd);
        if (send_buffer) setsockopt(streams[i].fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
        if (*congestion_control && setsockopt(streams[i].fd, IPPROTO_TCP, TCP_CONGESTION, congestion_control,
                                              (socklen_t)strlen(congestion_control)))
            die("congestion control %s: %s", congestion_control, strerror(errno));
        epoll_ctl(senders[i % threads].epoll_fd, EPOLL_CTL_ADD, streams[i].fd,
                  &(struct epoll_event){.events = EPOLLOUT, .data.ptr = &streams[i]});
    }
    for (int i = 0; i < threads; i++)
        if (pthread_create(&senders[i].thread, NULL, keep_sending, &senders[i])) die("no thread");
    usleep((useconds_t)(warm_seconds * 1e6));
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns(), before = sent_by(senders, threads);
    usleep((useconds_t)(seconds * 1e6));
    uint64_t sent = sent_by(senders, threads) - before;
    double elapsed = (double)(now_ns() - begin) / 1e9;
    cpu = own_cpu_seconds() - cpu;
    stops = 1;
    for (int i = 0; i < threads; i++) pthread_join(senders[i].thread, NULL);
    for (int i = 0; i < connections; i++) close(streams[i].fd);
    waitpid(child, NULL, 0);
    printf("{\"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f}\n", (unsigned long long)sent, elapsed, cpu);
    return 0;
}

/* Reads a log that is in the page cache and writes it anew: what a compaction must at least do. */
int command_bare_copy(void) {
    const char *folder = option_text("folder", NULL);
    uint64_t bytes = (uint64_t)option_int("bytes", 512 << 20), done = 0;
    size_t chunk = (size_t)option_int("chunk", 1 << 20);
    options_done();
    int from = temporary_file(folder, "bare-copy-from"), to = temporary_file(folder, "bare-copy-to");
    uint8_t *piece = malloc(chunk);
    fill(from, bytes);
    double cpu = own_cpu_seconds();
    uint64_t begin = now_ns();
    for (; done < bytes; done += chunk)
        if (pread(from, piece, chunk, (off_t)done) <= 0 || pwrite(to, piece, chunk, (off_t)done) != (ssize_t)chunk)
            die("copy: %s", strerror(errno));
    double elapsed = (double)(now_ns() - begin) / 1e9;
    printf("{\"bytes\": %llu, \"seconds\": %.6f, \"client_cpu\": %.4f}\n", (unsigned long long)done, elapsed,
           own_cpu_seconds() - cpu);
    return 0;
}
