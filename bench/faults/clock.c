/* The time of day with an offset, for whoever loads this with LD_PRELOAD.

   The offset is a double of seconds at the beginning of the file that FAULTS_CLOCK_FILE names; it
   may change while programs run. The monotonic clock stays as it is, as when a clock is set. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("FAULTS_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *shared = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED)
        offset = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (real_clock_gettime == NULL)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_clock_gettime(clock, now);
    if (!failed && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += (time_t)*offset;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    if (where != NULL)
        *where = precise.tv_sec;
    return precise.tv_sec;
}
