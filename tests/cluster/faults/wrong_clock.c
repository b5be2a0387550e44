/* A clock that is WRONG_CLOCK_SECONDS ahead, or behind, for the process that preloads this. Time that passes, passes
   as ever: only the time of day is wrong. (libfaketime 0.9.10 makes Python's time.sleep fail now and then.) */

#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t wrong_by;

__attribute__((constructor)) static void learn(void) {
    const char *said = getenv("WRONG_CLOCK_SECONDS");
    wrong_by = said ? atol(said) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += wrong_by;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (kept)
        *kept = precise.tv_sec;
    return precise.tv_sec;
}
