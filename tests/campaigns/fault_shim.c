/* Preloaded into epsim by faults.py: fails one call, counted from 1, or all calls from there on.
 *
 *   EPSIM_FAULT=malloc|write|rename|open   which calls
 *   EPSIM_FAULT_AT=N  EPSIM_FAULT_LASTS=1  the first that fails; whether all later ones do as well
 *   EPSIM_FAULT_ERRNO=28                   what it fails with (malloc: ENOMEM always)
 *   EPSIM_FAULT_COUNT=file                 writes the number of calls there at exit, and fails none
 *
 * Of write, standard output and error are left alone; of open, only files opened for writing fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long seen;
static long fail_at = -1;
static int lasts, code = EIO, ready;
static char kind = 0;
static const char* count_file;

__attribute__((constructor)) static void start(void) {
  const char* which = getenv("EPSIM_FAULT");
  const char* at = getenv("EPSIM_FAULT_AT");
  const char* number = getenv("EPSIM_FAULT_ERRNO");
  kind = which != NULL ? which[0] : 0;
  fail_at = at != NULL ? atol(at) : -1;
  lasts = getenv("EPSIM_FAULT_LASTS") != NULL;
  code = number != NULL ? atoi(number) : EIO;
  count_file = getenv("EPSIM_FAULT_COUNT");
  ready = 1;
}

__attribute__((destructor)) static void finish(void) {
  ready = 0;
  if (count_file != NULL) {
    FILE* out = fopen(count_file, "w");
    if (out != NULL) {
      fprintf(out, "%ld\n", atomic_load(&seen));
      fclose(out);
    }
  }
}

static int fails(char which) {
  if (!ready || which != kind) {
    return 0;
  }
  const long n = atomic_fetch_add(&seen, 1) + 1;
  return fail_at > 0 && (n == fail_at || (lasts && n > fail_at));
}

#define NEXT(name)                                     \
  static __typeof__(&name) next;                       \
  if (next == NULL) {                                  \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
  }

extern void* __libc_malloc(size_t size);
void* malloc(size_t size) {
  if (fails('m')) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}

ssize_t write(int file, const void* bytes, size_t size) {
  NEXT(write)
  if (file > 2 && fails('w')) {
    errno = code;
    return -1;
  }
  return next(file, bytes, size);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  NEXT(writev)
  if (file > 2 && fails('w')) {
    errno = code;
    return -1;
  }
  return next(file, parts, count);
}

int rename(const char* from, const char* to) {
  NEXT(rename)
  if (fails('r')) {
    errno = code;
    return -1;
  }
  return next(from, to);
}

int open64(const char* name, int flags, ...) {
  NEXT(open64)
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && fails('o')) {
    errno = code;
    return -1;
  }
  return next(name, flags, mode);
}

FILE* fopen64(const char* name, const char* mode) {
  NEXT(fopen64)
  if (strpbrk(mode, "wa+") != NULL && fails('o')) {
    errno = code;
    return NULL;
  }
  return next(name, mode);
}
