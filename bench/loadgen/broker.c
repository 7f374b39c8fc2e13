#include "broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"

int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) die("socket: %s", strerror(errno));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

void allow_files(int wanted) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)wanted)
        die("%d open files are needed, the limit is %llu", wanted, (unsigned long long)limit.rlim_cur);
}

static int receive_all(int fd, uint8_t *into, size_t length) {
    while (length) {
        ssize_t got = recv(fd, into, length, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        into += got;
        length -= (size_t)got;
    }
    return 1;
}

int call_nowait_for_errors(int fd, const struct writer *request, struct reader *answer) {
    static _Thread_local struct writer in;
    uint8_t size_bytes[4];
    for (size_t sent = 0; sent < request->length;) {
        ssize_t n = send(fd, request->data + sent, request->length - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return 0;
        sent += (size_t)n;
    }
    if (!receive_all(fd, size_bytes, 4)) return 0;
    int32_t size = peek_i32(size_bytes);
    if (size < 4 || size > 100 << 20) die("an answer of %d bytes", size);
    if (in.capacity < (size_t)size) in.data = realloc(in.data, in.capacity = (size_t)size);
    if (!receive_all(fd, in.data, (size_t)size)) return 0;
    if (memcmp(in.data, request->data + CORRELATION_OFFSET, 4)) die("the answer has another correlation id");
    *answer = (struct reader){in.data + 4, in.data + size, 0};
    return 1;
}

struct reader call(int fd, const struct writer *request) {
    struct reader answer;
    if (!call_nowait_for_errors(fd, request, &answer)) die("the broker closed the connection");
    return answer;
}

void put_api_versions(struct writer *w, int32_t correlation_id) {
    size_t start = begin_request(w, API_VERSIONS, 3, 1, correlation_id);
    put_compact_string(w, "kbroker-bench");
    put_compact_string(w, "1");
    put_i8(w, 0);
    end_request(w, start);
}

int ask_api_versions(int fd) {
    struct writer w = {0};
    struct reader answer;
    put_api_versions(&w, 1);
    int alive = call_nowait_for_errors(fd, &w, &answer);
    free(w.data);
    return alive ? get_i16(&answer) : -1;
}

static int read_partitions(struct reader *r) {
    int worst = 0;
    for (uint32_t left = get_uvarint(r) - 1; left && !r->bad; left--) {
        int error = get_i16(r);
        get_i32(r);
        int32_t leader = get_i32(r);
        get_i32(r);
        for (int list = 0; list < 3; list++)
            for (uint32_t nodes = get_uvarint(r); nodes > 1; nodes--) get_i32(r);
        skip_tags(r);
        if (error) worst = error;
        else if (leader < 0) worst = 5; /* LEADER_NOT_AVAILABLE */
    }
    return worst;
}

int load_topic(int fd, struct topic *topic) {
    struct writer w = {0};
    struct reader r;
    static const uint8_t no_id[16];
    size_t start = begin_request(&w, API_METADATA, 12, 1, 2);
    put_uvarint(&w, 2);
    put_bytes(&w, no_id, 16);
    put_compact_string(&w, topic->name);
    put_i8(&w, 0);
    put_i8(&w, 0); /* no auto-creation */
    put_i8(&w, 0);
    put_i8(&w, 0);
    end_request(&w, start);
    int alive = call_nowait_for_errors(fd, &w, &r);
    free(w.data);
    if (!alive) return -1;
    skip_tags(&r);
    get_i32(&r); /* throttle */
    for (uint32_t brokers = get_uvarint(&r); brokers > 1 && !r.bad; brokers--) {
        get_i32(&r);
        skip_compact_string(&r);
        get_i32(&r);
        skip_compact_string(&r);
        skip_tags(&r);
    }
    skip_compact_string(&r); /* cluster id */
    get_i32(&r);             /* controller */
    if (get_uvarint(&r) != 2) return 3;
    int error = get_i16(&r);
    skip_compact_string(&r);
    memcpy(topic->id, get_bytes(&r, 16), 16);
    get_i8(&r); /* internal */
    struct reader partitions = r;
    topic->partitions = (int)get_uvarint(&partitions) - 1;
    int worst = read_partitions(&r);
    if (r.bad) die("a Metadata answer that ends early");
    return error ? error : worst;
}

int list_offsets(int fd, const struct topic *topic, int64_t timestamp, int64_t *offsets) {
    struct writer w = {0};
    size_t start = begin_request(&w, API_LIST_OFFSETS, 6, 1, 3);
    put_i32(&w, -1);
    put_i8(&w, 0);
    put_uvarint(&w, 2);
    put_compact_string(&w, topic->name);
    put_uvarint(&w, (uint32_t)topic->partitions + 1);
    for (int i = 0; i < topic->partitions; i++) {
        put_i32(&w, i);
        put_i32(&w, -1);
        put_i64(&w, timestamp);
        put_i8(&w, 0);
    }
    put_i8(&w, 0);
    put_i8(&w, 0);
    end_request(&w, start);
    struct reader r = call(fd, &w);
    free(w.data);
    skip_tags(&r);
    get_i32(&r);
    if (get_uvarint(&r) != 2) return 3;
    skip_compact_string(&r);
    int found = (int)get_uvarint(&r) - 1, worst = found == topic->partitions ? 0 : 3;
    for (int i = 0; i < found && !r.bad; i++) {
        int32_t partition = get_i32(&r);
        int error = get_i16(&r);
        get_i64(&r);
        int64_t offset = get_i64(&r);
        get_i32(&r);
        skip_tags(&r);
        if (error) worst = error;
        else if (partition >= 0 && partition < topic->partitions) offsets[partition] = offset;
    }
    if (r.bad) die("a ListOffsets answer that ends early");
    return worst;
}

void open_topic(int fd, struct topic *topic) {
    int error = 0;
    for (uint64_t deadline = now_ns() + 90 * SECOND_NS; now_ns() < deadline; usleep(20000)) {
        error = load_topic(fd, topic);
        if (error) continue;
        int64_t *offsets = calloc((size_t)topic->partitions, sizeof *offsets);
        error = list_offsets(fd, topic, -1, offsets);
        free(offsets);
        if (!error) return;
    }
    die("topic %s is not usable: error %d", topic->name, error);
}

int64_t sum_of_end_offsets(int fd, const struct topic *topic) {
    int64_t *offsets = calloc((size_t)topic->partitions, sizeof *offsets), sum = 0;
    int error = list_offsets(fd, topic, -1, offsets);
    if (error) die("ListOffsets of %s: error %d", topic->name, error);
    for (int i = 0; i < topic->partitions; i++) sum += offsets[i];
    free(offsets);
    return sum;
}
