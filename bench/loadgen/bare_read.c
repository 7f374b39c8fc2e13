/* Reads the logs of some folders at the same time, each folder's one after the other, in large pieces: what the disk
 * gives a cold reader of as many partitions. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "options.h"

#define PIECE (1 << 20)
#define AHEAD (16 << 20) /* asked of the disk before it is read: the kernel's own readahead leaves the disk idle */
#define MAX_FOLDERS 64

struct reader {
    pthread_t thread;
    char *folder;
    uint64_t bytes;
};

static int is_log(const struct dirent *entry) { return fnmatch("*.log", entry->d_name, 0) == 0; }

static void read_file(const char *folder, const char *name, uint8_t *piece, uint64_t *bytes) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) die("%s: too long", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) die("%s: %s", path, strerror(errno));
    posix_fadvise(fd, 0, AHEAD, POSIX_FADV_WILLNEED);
    off_t position = 0;
    for (ssize_t got; (got = read(fd, piece, PIECE)) != 0; position += got) {
        if (got < 0) die("%s: %s", path, strerror(errno));
        posix_fadvise(fd, position + AHEAD, got, POSIX_FADV_WILLNEED);
    }
    *bytes += (uint64_t)position;
    close(fd);
}

static void *read_folder(void *argument) {
    struct reader *reader = argument;
    struct dirent **names;
    int count = scandir(reader->folder, &names, is_log, alphasort);
    if (count < 0) die("%s: %s", reader->folder, strerror(errno));
    uint8_t *piece = malloc(PIECE);
    for (int i = 0; i < count; free(names[i++])) read_file(reader->folder, names[i]->d_name, piece, &reader->bytes);
    free(piece);
    free(names);
    return NULL;
}

int command_bare_read(void) {
    const char *parent = option_text("folder", NULL), *pattern = option_text("pattern", NULL);
    options_done();
    struct reader readers[MAX_FOLDERS] = {0};
    struct dirent **names;
    int entries = scandir(parent, &names, NULL, alphasort), count = 0;
    if (entries < 0) die("%s: %s", parent, strerror(errno));
    for (int i = 0; i < entries; free(names[i++])) {
        if (fnmatch(pattern, names[i]->d_name, FNM_PERIOD)) continue;
        if (count == MAX_FOLDERS) die("more than %d folders like %s", MAX_FOLDERS, pattern);
        if (asprintf(&readers[count++].folder, "%s/%s", parent, names[i]->d_name) < 0) die("out of memory");
    }
    free(names);
    if (!count) die("no folder like %s in %s", pattern, parent);
    uint64_t begin = now_ns(), bytes = 0;
    for (int i = 0; i < count; i++)
        if (pthread_create(&readers[i].thread, NULL, read_folder, &readers[i])) die("no thread");
    for (int i = 0; i < count; i++) {
        pthread_join(readers[i].thread, NULL);
        bytes += readers[i].bytes;
        free(readers[i].folder);
    }
    printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)bytes, (double)(now_ns() - begin) / 1e9);
    return 0;
}
