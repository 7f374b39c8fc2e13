/* Loaded into the broker under test (LD_PRELOAD): shifts its clock, slows its disk. Compiled when a test begins.
 *
 * The control page is a file of int64 words, named by LOADTEST_PRELOAD and mapped by the fault injector:
 *   0  clock_ns   added to the wall clock; the monotonic clock stays
 *   1  delay_us   before each read, write and sync of a regular file
 *   2  calls      how many calls were delayed (so that the injector sees that it works)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing[8];
static volatile int64_t *page = nothing;

__attribute__((constructor)) static void open_page(void) {
  const char *name = getenv("LOADTEST_PRELOAD");
  int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) page = mapped;
}

#define REAL(result, name, ...)                                        \
  static result (*real)(__VA_ARGS__);                                  \
  if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void delay(int file) {
  int64_t micros = page[1];
  struct stat seen;
  if (micros <= 0 || fstat(file, &seen) || !S_ISREG(seen.st_mode)) return;
  __atomic_fetch_add((int64_t *)&page[2], 1, __ATOMIC_RELAXED);
  struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
  nanosleep(&pause, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(int, clock_gettime, clockid_t, struct timespec *);
  int code = real(clock, now);
  int64_t shift = page[0];
  if (code == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t total = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + shift;
    now->tv_sec = total / 1000000000;
    now->tv_nsec = total % 1000000000;
  }
  return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec fine;
  int code = clock_gettime(CLOCK_REALTIME, &fine);
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return code;
}

time_t time(time_t *into) {
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  if (into) *into = fine.tv_sec;
  return fine.tv_sec;
}

#define SLOW(result, name, parameters, arguments, ...) \
  result name parameters {                             \
    REAL(result, name, __VA_ARGS__);                   \
    delay(file);                                       \
    return real arguments;                             \
  }

SLOW(ssize_t, pwrite, (int file, const void *from, size_t size, off_t at), (file, from, size, at), int, const void *, size_t, off_t)
SLOW(ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at), int, const void *, size_t, off64_t)
SLOW(ssize_t, pwritev, (int file, const struct iovec *from, int count, off_t at), (file, from, count, at), int, const struct iovec *, int, off_t)
SLOW(ssize_t, pwritev64, (int file, const struct iovec *from, int count, off64_t at), (file, from, count, at), int, const struct iovec *, int, off64_t)
SLOW(ssize_t, write, (int file, const void *from, size_t size), (file, from, size), int, const void *, size_t)
SLOW(ssize_t, writev, (int file, const struct iovec *from, int count), (file, from, count), int, const struct iovec *, int)
SLOW(ssize_t, pread, (int file, void *into, size_t size, off_t at), (file, into, size, at), int, void *, size_t, off_t)
SLOW(ssize_t, pread64, (int file, void *into, size_t size, off64_t at), (file, into, size, at), int, void *, size_t, off64_t)
SLOW(int, fsync, (int file), (file), int)
SLOW(int, fdatasync, (int file), (file), int)

ssize_t sendfile64(int to, int file, off64_t *at, size_t size) {
  REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
  delay(file);
  return real(to, file, at, size);
}

ssize_t sendfile(int to, int file, off_t *at, size_t size) {
  REAL(ssize_t, sendfile, int, int, off_t *, size_t);
  delay(file);
  return real(to, file, at, size);
}
