/* Moves the wall clock of whoever loads it by as many seconds as the file MOVED_CLOCK
   says, and leaves the clock since boot alone. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved_by(void) {
    const char *path = getenv("MOVED_CLOCK");
    FILE *file = path ? fopen(path, "r") : NULL;
    long by = 0;
    if (file) {
        if (fscanf(file, "%ld", &by) != 1) by = 0;
        fclose(file);
    }
    return by;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int made = syscall(SYS_clock_gettime, id, now);
    if (made == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += moved_by();
    return made;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec is;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &is) != 0) return -1;
    now->tv_sec = is.tv_sec;
    now->tv_usec = is.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec is;
    clock_gettime(CLOCK_REALTIME, &is);
    if (place) *place = is.tv_sec;
    return is.tv_sec;
}
