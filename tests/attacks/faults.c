/* Makes the n-th call that changes a folder fail, in a process that has this preloaded
   (LD_PRELOAD). `fault_sweep.py` compiles and arms it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { FULL = 1, BROKEN = 2, KILLED = 3, TORN = 4 };

static char folder[4096];
static int armed, calls, wanted, kind;

/* The calls below `where` are counted; the one with number `at` fails (0: none). */
void fault_arm(const char *where, int at, int how) {
    snprintf(folder, sizeof folder, "%s", where);
    calls = 0, wanted = at, kind = how, armed = 1;
}

int fault_calls(void) { return calls; }

static int below(const char *path) {
    char here[4096];
    if (!armed || !path) return 0;
    if (path[0] != '/') path = getcwd(here, sizeof here);
    return path && !strncmp(path, folder, strlen(folder));
}

static int below_fd(int fd) {
    char link[64], path[4096];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call is the one that fails; does not return if it kills. */
static int fails(void) {
    if (__sync_add_and_fetch(&calls, 1) != wanted) return 0;
    if (kind == KILLED) raise(SIGKILL);
    errno = kind == BROKEN ? EIO : ENOSPC;
    return 1;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

#define WRITING(name, arguments, fd, data, size, half)                              \
    {                                                                               \
        if (below_fd(fd) && fails()) {                                              \
            if (kind != TORN) return -1;                                            \
            REAL(name) half;                                                        \
            raise(SIGKILL);                                                         \
        }                                                                           \
        return REAL(name) arguments;                                                \
    }

ssize_t write(int fd, const void *data, size_t size)
    WRITING(write, (fd, data, size), fd, data, size, (fd, data, size / 2))
ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
    WRITING(pwrite, (fd, data, size, at), fd, data, size, (fd, data, size / 2, at))
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
    WRITING(pwrite64, (fd, data, size, at), fd, data, size, (fd, data, size / 2, at))

#define FAILING(result, name, parameters, arguments, meant)                         \
    result name parameters {                                                        \
        if ((meant) && fails()) {                                                   \
            if (kind == TORN) raise(SIGKILL);                                       \
            return -1;                                                              \
        }                                                                           \
        return REAL(name) arguments;                                                \
    }

FAILING(int, fsync, (int fd), (fd), below_fd(fd))
FAILING(int, fdatasync, (int fd), (fd), below_fd(fd))
FAILING(int, ftruncate, (int fd, off_t size), (fd, size), below_fd(fd))
FAILING(int, ftruncate64, (int fd, off64_t size), (fd, size), below_fd(fd))
FAILING(int, truncate, (const char *path, off_t size), (path, size), below(path))
FAILING(int, truncate64, (const char *path, off64_t size), (path, size), below(path))
FAILING(int, rename, (const char *from, const char *to), (from, to), below(to))
FAILING(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
        (a, from, b, to, flags), below(to))
FAILING(int, unlink, (const char *path), (path), below(path))
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), below(path))

#define OPENING(name)                                                               \
    int name(const char *path, int flags, ...) {                                    \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                   \
        va_end(rest);                                                               \
        if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && below(path) && fails()) {    \
            if (kind == TORN) raise(SIGKILL);                                       \
            return -1;                                                              \
        }                                                                           \
        return REAL(name)(path, flags, mode);                                       \
    }

OPENING(open)
OPENING(open64)
