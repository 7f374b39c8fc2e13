/* A broker without anything that physics does not ask for: one thread receives frames, writes the batches of a
   Produce where it has a folder (checked by CRC-32C), and answers. With --sync 1 a thread for each file answers after
   an fdatasync, which serves all that was written before it (one request in flight for each connection). It answers the commands of
   this load generator, so that a broker and its limit are measured by the same frames; it has no logs, no groups, no
   limits of its own. With --answer every frame has that answer. Prints "port N", runs until it is killed. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bare.h"
#include "broker.h"
#include "commands.h"
#include "crc32c.h"
#include "options.h"

#define FIRST_BYTES 8192
#define EVENTS 256

struct link {
    int fd, closed;
    size_t have, capacity;
    uint8_t *in;
    struct writer out;
    struct link *next; /* that waits for the same file */
};

struct file {
    int fd;
    off_t size;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct link *waiting;
};

static struct file *files;
static struct file *written; /* last */
static int64_t *end_offsets; /* by partition */
static int partitions, file_count, epoll_fd, syncs, buffer_bytes;
static const char *folder;
static struct writer canned;

static void read_answer(const char *path) {
    uint8_t piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file) die("%s: %s", path, strerror(errno));
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) put_bytes(&canned, piece, got);
    fclose(file);
}

static int64_t append(int partition, const uint8_t *batch, size_t length) {
    if (partition < 0 || partition >= partitions) die("partition %d of %d", partition, partitions);
    if (length < BATCH_HEADER_BYTES) die("a batch of %zu bytes", length);
    if (*folder) {
        written = &files[partition % file_count];
        if (crc32c(0, batch + 21, length - 21) != (uint32_t)peek_i32(batch + 17)) die("a batch fails its CRC");
        if (pwrite(written->fd, batch, length, written->size) != (ssize_t)length) die("pwrite: %s", strerror(errno));
        written->size += (off_t)length;
    }
    int64_t base_offset = end_offsets[partition];
    end_offsets[partition] += peek_i32(batch + 23) + 1;
    return base_offset;
}

static void answer_produce(struct writer *out, struct reader *r, int version) {
    if (version < 9 || version >= PRODUCE_TOPIC_IDS_FROM) die("Produce of version %d", version);
    skip_compact_string(r); /* transactional id */
    get_i16(r);
    get_i32(r);
    if (get_uvarint(r) != 2) die("a Produce of several topics");
    skip_compact_string(r);
    uint32_t count = get_uvarint(r);
    put_i8(out, 0);
    put_uvarint(out, 2);
    put_compact_string(out, "");
    put_uvarint(out, count);
    for (; count > 1; count--) {
        int32_t partition = get_i32(r);
        size_t length = get_uvarint(r) - 1;
        const uint8_t *batch = get_bytes(r, length);
        skip_tags(r);
        if (r->bad) die("a malformed Produce");
        put_i32(out, partition);
        put_i16(out, 0);
        put_i64(out, append(partition, batch, length));
        put_i64(out, -1);
        put_i64(out, 0);
        put_uvarint(out, 1);
        put_uvarint(out, 0);
        put_i8(out, 0);
    }
    put_i8(out, 0);
    put_i32(out, 0);
    put_i8(out, 0);
}

static void answer_metadata(struct writer *out) {
    static const uint8_t id[16] = {1};
    put_i8(out, 0);
    put_i32(out, 0);
    put_uvarint(out, 1); /* no broker: the client is here already */
    put_compact_string(out, "bare");
    put_i32(out, 0);
    put_uvarint(out, 2);
    put_i16(out, 0);
    put_compact_string(out, "");
    put_bytes(out, id, sizeof id);
    put_i8(out, 0);
    put_uvarint(out, (uint32_t)partitions + 1);
    for (int i = 0; i < partitions; i++) {
        put_i16(out, 0);
        put_i32(out, i);
        put_i32(out, 0);
        put_i32(out, 0);
        for (int list = 0; list < 3; list++) put_uvarint(out, 1);
        put_i8(out, 0);
    }
    put_i32(out, 0);
    put_i8(out, 0);
    put_i8(out, 0);
}

static void answer_list_offsets(struct writer *out) {
    put_i8(out, 0);
    put_i32(out, 0);
    put_uvarint(out, 2);
    put_compact_string(out, "");
    put_uvarint(out, (uint32_t)partitions + 1);
    for (int i = 0; i < partitions; i++) {
        put_i32(out, i);
        put_i16(out, 0);
        put_i64(out, -1);
        put_i64(out, end_offsets[i]);
        put_i32(out, 0);
        put_i8(out, 0);
    }
    put_i8(out, 0);
    put_i8(out, 0);
}

static void answer(struct writer *out, const uint8_t *frame, size_t size) {
    if (canned.length) {
        put_bytes(out, canned.data, canned.length);
        return;
    }
    struct reader r = {frame, frame + size, 0};
    int key = get_i16(&r), version = get_i16(&r);
    size_t start = out->length;
    put_i32(out, 0);
    put_i32(out, get_i32(&r));
    skip_string(&r);
    skip_tags(&r); /* every request of this generator is flexible */
    if (key == API_PRODUCE) answer_produce(out, &r, version);
    else if (key == API_METADATA) answer_metadata(out);
    else if (key == API_LIST_OFFSETS) answer_list_offsets(out);
    else if (key == API_VERSIONS) {
        put_i16(out, 0);
        put_uvarint(out, 1);
        put_i32(out, 0);
        put_i8(out, 0);
    } else die("a request of API %d", key);
    end_request(out, start);
}

static void accept_all(int listener) {
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        struct link *link = calloc(1, sizeof *link);
        int on = 1;
        make_nonblocking(fd);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (buffer_bytes) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
        link->fd = fd;
        link->in = malloc(link->capacity = FIRST_BYTES);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static void receive(struct link *link) {
    ssize_t got = recv(link->fd, link->in + link->have, link->capacity - link->have, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        link->closed = 1;
        return;
    }
    size_t at = 0;
    link->have += (size_t)got;
    while (link->have - at >= 4) {
        size_t size = (size_t)peek_i32(link->in + at);
        if (size > 100 << 20) die("a frame of %zu bytes", size);
        if (link->have - at < 4 + size) {
            if (link->capacity < 4 + size) link->in = realloc(link->in, link->capacity = 4 + size);
            break;
        }
        answer(&link->out, link->in + at + 4, size);
        at += 4 + size;
    }
    if (at) memmove(link->in, link->in + at, link->have - at);
    link->have -= at;
}

/* Once the client has the whole answer its next request may be at work in another thread: nothing of the link is
   touched after the last byte is sent. */
static void reply(struct link *link) {
    size_t length = link->out.length;
    link->out.length = 0;
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(link->fd, link->out.data + done, length - done, MSG_NOSIGNAL);
        if (sent > 0) done += (size_t)sent;
        else if (errno != EAGAIN) return; /* the next receive sees that it is closed */
        else if (poll(&(struct pollfd){.fd = link->fd, .events = POLLOUT}, 1, 30000) != 1) return;
    }
}

static void drop(struct link *link) {
    close(link->fd);
    if (syncs) return; /* a thread may still look at it */
    free(link->in);
    free(link->out.data);
    free(link);
}

/* Answers all that wait for the file, after one sync. */
static void *keep_syncing(void *argument) {
    struct file *file = argument;
    for (;;) {
        pthread_mutex_lock(&file->lock);
        while (!file->waiting) pthread_cond_wait(&file->filled, &file->lock);
        struct link *waiting = file->waiting;
        file->waiting = NULL;
        pthread_mutex_unlock(&file->lock);
        if (fdatasync(file->fd)) die("fdatasync: %s", strerror(errno));
        for (struct link *next; waiting; waiting = next) {
            next = waiting->next;
            reply(waiting);
        }
    }
    return NULL;
}

static void wait_for_sync(struct file *file, struct link *link) {
    pthread_mutex_lock(&file->lock);
    link->next = file->waiting;
    file->waiting = link;
    pthread_cond_signal(&file->filled);
    pthread_mutex_unlock(&file->lock);
}

static void open_files(void) {
    files = calloc((size_t)file_count, sizeof *files);
    for (int i = 0; i < file_count; i++) {
        char name[64];
        pthread_t thread;
        snprintf(name, sizeof name, "bare-log-%d", i);
        files[i].fd = temporary_file(folder, name);
        pthread_mutex_init(&files[i].lock, NULL);
        pthread_cond_init(&files[i].filled, NULL);
        if (syncs && pthread_create(&thread, NULL, keep_syncing, &files[i])) die("no thread");
    }
}

static void serve(struct link *link) {
    written = NULL;
    receive(link);
    if (link->closed) drop(link);
    else if (syncs && written) wait_for_sync(written, link);
    else reply(link);
}

int command_bare_broker(void) {
    int port;
    partitions = (int)option_int("partitions", 1);
    file_count = (int)option_int("files", partitions);
    folder = option_text("folder", "");
    syncs = (int)option_int("sync", 0);
    buffer_bytes = (int)option_int("buffer", 0); /* of receiving; 0: the kernel's own tuning */
    const char *answer_path = option_text("answer", "");
    options_done();
    if (*answer_path) read_answer(answer_path);
    if (*folder) open_files();
    allow_files(64);
    end_offsets = calloc((size_t)partitions, sizeof *end_offsets);
    int listener = listen_on_loopback(&port);
    make_nonblocking(listener);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    printf("port %d\n", port);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr) serve(events[i].data.ptr);
            else accept_all(listener);
        }
    }
}
