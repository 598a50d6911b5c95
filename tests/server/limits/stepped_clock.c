/* Preloaded into a server: its wall clock is the machine's plus the seconds in the file that STEPPED_CLOCK names, a
 * 64-bit integer that a test changes while the server runs. Monotonic clocks stay, as they do when an operator or NTP
 * steps a clock. (libfaketime cannot be used: it and a shared jemalloc wait for each other at start-up.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset_s = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_wall && offset_s) now->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *where) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (where) *where = precise.tv_sec;
    return precise.tv_sec;
}
