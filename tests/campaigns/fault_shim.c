/* Preloaded into epsim by faults.py: fails one call, counted from 1, or all calls from there on.
 *
 *   EPSIM_FAULT=malloc|write|rename|open   which calls
 *   EPSIM_FAULT_AT=N  EPSIM_FAULT_LASTS=1  the first that fails; whether all later ones do as well
 *   EPSIM_FAULT_ERRNO=28                   what it fails with (malloc: ENOMEM always)
 *   EPSIM_FAULT_COUNT=file                 writes the number of calls there at exit, and fails none
 *   EPSIM_FAULT_FORK=folder                with malloc: at every call a fork goes on without that memory, in a copy of the working
 *                                          folder; forks that do not just end with a message are kept as folder/N
 *
 * Of write, standard output and error are left alone; of open, only files opened for writing fail.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_long seen;
static long fail_at = -1;
static int lasts, code = EIO, ready;
static char kind = 0;
static const char *count_file, *fork_folder;

__attribute__((constructor)) static void start(void) {
  const char* which = getenv("EPSIM_FAULT");
  const char* at = getenv("EPSIM_FAULT_AT");
  const char* number = getenv("EPSIM_FAULT_ERRNO");
  kind = which != NULL ? which[0] : 0;
  fail_at = at != NULL ? atol(at) : -1;
  lasts = getenv("EPSIM_FAULT_LASTS") != NULL;
  code = number != NULL ? atoi(number) : EIO;
  count_file = getenv("EPSIM_FAULT_COUNT");
  fork_folder = getenv("EPSIM_FAULT_FORK");
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

static int is_empty(const char* folder) {
  DIR* names = opendir(folder);
  int count = 0;
  while (names != NULL && readdir(names) != NULL) {
    ++count;
  }
  closedir(names);
  return count <= 2;
}

/* What a fork does before it goes on: its own copy of the working folder, open files moved into that copy, its own messages. */
static void move_into(const char* folder) {
  char here[PATH_MAX], link[64], file[PATH_MAX], copy[PATH_MAX + 64];
  unsetenv("LD_PRELOAD");
  if (getcwd(here, sizeof here) == NULL || mkdir(folder, 0777) != 0) {
    _exit(99);
  }
  snprintf(copy, sizeof copy, "cp -a . %s", folder);
  if (!is_empty(".") && system(copy) != 0) {
    _exit(99);
  }
  const size_t length = strlen(here);
  for (int at = 3; at < 64; ++at) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    const ssize_t size = readlink(link, file, sizeof file - 1);
    if (size <= (ssize_t)length || strncmp(file, here, length) != 0 || file[length] != '/') {
      continue;
    }
    file[size] = 0;
    snprintf(copy, sizeof copy, "%s%s", folder, file + length);
    const int own = open(copy, fcntl(at, F_GETFL) & O_ACCMODE);
    if (own >= 0) {
      lseek(own, lseek(at, 0, SEEK_CUR), SEEK_SET);
      dup2(own, at);
      close(own);
    }
  }
  snprintf(copy, sizeof copy, "%s.stderr", folder);
  freopen("/dev/null", "w", stdout);
  dup2(open(copy, O_CREAT | O_WRONLY, 0666), 2);
  if (chdir(folder) != 0) {
    _exit(99);
  }
  alarm(60);
}

/* True in the fork, which goes on without the memory; the parent waits for its end and goes on with it. */
static int fork_fails(void) {
  char folder[PATH_MAX], errors[PATH_MAX + 8];
  const long n = atomic_fetch_add(&seen, 1) + 1;
  ready = 0;
  snprintf(folder, sizeof folder, "%s/%ld", fork_folder, n);
  snprintf(errors, sizeof errors, "%s.stderr", folder);
  const pid_t child = fork();
  if (child == 0) {
    count_file = NULL;
    move_into(folder);
    return 1;
  }
  int status = 0;
  struct stat about;
  waitpid(child, &status, 0);
  const int message = stat(errors, &about) == 0 && about.st_size > 0;
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2) && message && is_empty(folder)) {
    rmdir(folder);
    unlink(errors);
  } else {
    strcat(errors, ".status");
    FILE* out = fopen(errors, "w");
    fprintf(out, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fclose(out);
  }
  ready = 1;
  return 0;
}

static int memory_fails(void) {
  if (fork_folder != NULL ? ready && fork_fails() : fails('m')) {
    errno = ENOMEM;
    return 1;
  }
  return 0;
}

extern void* __libc_malloc(size_t size);
void* malloc(size_t size) { return memory_fails() ? NULL : __libc_malloc(size); }

extern void* __libc_calloc(size_t count, size_t size);
void* calloc(size_t count, size_t size) { return memory_fails() ? NULL : __libc_calloc(count, size); }

extern void* __libc_realloc(void* block, size_t size);
void* realloc(void* block, size_t size) { return memory_fails() ? NULL : __libc_realloc(block, size); }

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
