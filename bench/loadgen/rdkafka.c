#include "rdkafka.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) die("librdkafka has no %s", name);
    return found;
}

struct rdkafka load_rdkafka(void) {
    struct rdkafka rd;
    void *library = dlopen(option_text("library", NULL), RTLD_NOW | RTLD_LOCAL);
    if (!library) die("%s", dlerror());
#define RESOLVE(member, name) *(void **)&rd.member = symbol(library, "rd_kafka_" name)
    RESOLVE(version_str, "version_str");
    RESOLVE(conf_new, "conf_new");
    RESOLVE(conf_set, "conf_set");
    RESOLVE(conf_set_dr_msg_cb, "conf_set_dr_msg_cb");
    RESOLVE(conf_set_error_cb, "conf_set_error_cb");
    RESOLVE(new_, "new");
    RESOLVE(destroy, "destroy");
    RESOLVE(topic_new, "topic_new");
    RESOLVE(topic_destroy, "topic_destroy");
    RESOLVE(produce, "produce");
    RESOLVE(last_error, "last_error");
    RESOLVE(err2str, "err2str");
    RESOLVE(poll, "poll");
    RESOLVE(flush, "flush");
    RESOLVE(outq_len, "outq_len");
    RESOLVE(queue_new, "queue_new");
    RESOLVE(consume_start_queue, "consume_start_queue");
    RESOLVE(consume_stop, "consume_stop");
    RESOLVE(consume_batch_queue, "consume_batch_queue");
    RESOLVE(message_destroy, "message_destroy");
#undef RESOLVE
    return rd;
}

static void set(const struct rdkafka *rd, rd_kafka_conf_t *conf, const char *key, const char *value) {
    char problem[512];
    if (rd->conf_set(conf, key, value, problem, sizeof problem)) die("%s", problem);
}

rd_kafka_conf_t *rdkafka_conf(const struct rdkafka *rd, int port, const char *settings) {
    rd_kafka_conf_t *conf = rd->conf_new();
    char address[64], *copy = strdup(settings), *rest = copy, *pair;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    set(rd, conf, "bootstrap.servers", address);
    while ((pair = strsep(&rest, ","))) {
        if (!*pair) continue;
        char *value = strchr(pair, '=');
        if (!value) die("--set takes key=value, got %s", pair);
        *value++ = 0;
        set(rd, conf, pair, value);
    }
    free(copy);
    return conf;
}
