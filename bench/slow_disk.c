/* A disk that takes longer to keep something: every flush of the process that preloads this sleeps as well.
   SLOW_DISK_US says how many microseconds. Databases are not told; they see a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_the_disk(void) {
    const char *said = getenv("SLOW_DISK_US");
    long us = said ? atol(said) : 0;
    struct timespec left = {us / 1000000, (us % 1000000) * 1000};
    while (us > 0 && nanosleep(&left, &left) != 0) {
    }
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = real(fd);
    wait_for_the_disk();
    return result;
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = real(fd);
    wait_for_the_disk();
    return result;
}
