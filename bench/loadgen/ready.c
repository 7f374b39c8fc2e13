/* Waits until the broker answers ApiVersions and, given a topic, until all its partitions have leaders and answer
   ListOffsets. Prints the monotonic time of that moment, to be compared with the moment of the start. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker.h"
#include "clock.h"
#include "commands.h"
#include "options.h"

static int metadata_answers(int fd) {
    struct topic none = {.name = "kbroker-bench-no-such-topic"};
    return load_topic(fd, &none) == 3; /* UNKNOWN_TOPIC_OR_PARTITION: the answer of a broker that knows its topics */
}

static int topic_answers(int fd, struct topic *topic, int partitions) {
    if (load_topic(fd, topic) || topic->partitions != partitions) return 0;
    int64_t *offsets = calloc((size_t)partitions, sizeof *offsets);
    int error = list_offsets(fd, topic, -1, offsets);
    free(offsets);
    return !error;
}

int command_ready(void) {
    int port = (int)option_int("port", 0), partitions = (int)option_int("partitions", 0);
    double timeout = option_number("timeout", 60);
    struct topic topic = {.name = option_text("topic", "")};
    options_done();
    uint64_t deadline = now_ns() + (uint64_t)(timeout * 1e9);
    for (; now_ns() < deadline; usleep(2000)) {
        int fd = connect_to(port);
        if (fd < 0) continue;
        int ready = ask_api_versions(fd) == 0 && (partitions ? topic_answers(fd, &topic, partitions) : metadata_answers(fd));
        uint64_t now = now_ns();
        close(fd);
        if (!ready) continue;
        printf("{\"ready\": %.6f}\n", (double)now / 1e9);
        return 0;
    }
    die("not ready after %.0f s", timeout);
}
