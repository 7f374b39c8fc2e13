/* LD_PRELOAD: fsync, fdatasync and rename take up to 2 * SLOW_DISK_MS longer, by chance. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_a_while(void)
{
    static int most = -1;
    if (most < 0) {
        const char *given = getenv("SLOW_DISK_MS");
        most = given ? 2 * atoi(given) : 0;
    }
    usleep(1000 * (rand() % (most + 1)));
}

#define FOUND(name) static __typeof__(&name) found; if (!found) found = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fsync(int file)
{
    FOUND(fsync);
    wait_a_while();
    return found(file);
}

int fdatasync(int file)
{
    FOUND(fdatasync);
    wait_a_while();
    return found(file);
}

int rename(const char *from, const char *to)
{
    FOUND(rename);
    wait_a_while();
    return found(from, to);
}
