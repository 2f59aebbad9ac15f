/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/document_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/allocator.h"
#include "src/policy/json.h"
#include "src/policy/problems.h"

/* So much of a longer path is told, its end. */
#define PATH_SHOWN 80

/* Of a file that does not tell its size, as those of /proc. */
#define FIRST_READ ((size_t)64 * 1024)

static const char *end_of(const char *path, const char **dots_out) {
  const size_t size = strlen(path);
  size_t from = size > PATH_SHOWN ? size - PATH_SHOWN : 0;
  while ((path[from] & 0xc0) == 0x80) { /* no half of a character */
    from++;
  }
  *dots_out = from > 0 ? "..." : "";
  return path + from;
}

static enum weir_error fail_errno(struct weir_diagnostic *diagnostic, const char *path,
                                  const char *what, int number) {
  char reason[64];
  const char *dots = "";
  const char *shown = end_of(path, &dots);
  if (strerror_r(number, reason, sizeof reason) != 0) {
    reason[0] = '\0';
  }
  weir__diagnostic_word(diagnostic, "%s%s can't be %s: %s", dots, shown, what, reason);
  return WEIR_ERROR_UNAVAILABLE;
}

static enum weir_error check_kind(const struct stat *status, const char *path,
                                  struct weir_diagnostic *diagnostic) {
  const char *dots = "";
  const char *shown = end_of(path, &dots);
  if (S_ISREG(status->st_mode)) {
    return WEIR_OK;
  }
  const char *kind = S_ISDIR(status->st_mode)                               ? "a directory"
                     : S_ISFIFO(status->st_mode)                            ? "a pipe"
                     : S_ISCHR(status->st_mode) || S_ISBLK(status->st_mode) ? "a device"
                                                                            : "something else";
  weir__diagnostic_word(diagnostic, "%s%s is %s, not a regular file", dots, shown, kind);
  return WEIR_ERROR_UNAVAILABLE;
}

static bool grow(struct weir__document_file *file, size_t *capacity) {
  const size_t most = WEIR__JSON_MAX_SIZE + 1;
  const size_t wanted = *capacity * 2 < most ? *capacity * 2 : most;
  char *text = file->allocator->allocate(file->allocator->context, wanted);
  if (text == NULL) {
    return false;
  }
  memcpy(text, file->text, file->size);
  weir__free(file->allocator, file->text);
  file->text = text;
  *capacity = wanted;
  return true;
}

/* A file may have grown or shrunk since it told its size. */
static enum weir_error read_all(struct weir__document_file *file, int descriptor, size_t capacity,
                                const char *path, struct weir_diagnostic *diagnostic) {
  while (file->size <= WEIR__JSON_MAX_SIZE) {
    if (file->size == capacity && !grow(file, &capacity)) {
      return WEIR_ERROR_NO_MEMORY;
    }
    const ssize_t n = read(descriptor, file->text + file->size, capacity - file->size);
    if (n < 0 && errno != EINTR) {
      return fail_errno(diagnostic, path, "read", errno);
    }
    if (n == 0) {
      return WEIR_OK;
    }
    file->size += n < 0 ? 0 : (size_t)n;
  }
  return WEIR_OK;
}

static bool is_same(const struct stat *before, const struct stat *after) {
  return before->st_size == after->st_size && before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
         before->st_mtim.tv_nsec == after->st_mtim.tv_nsec &&
         before->st_ctim.tv_sec == after->st_ctim.tv_sec &&
         before->st_ctim.tv_nsec == after->st_ctim.tv_nsec;
}

enum weir_error weir__document_file_read(struct weir__document_file *file, const char *path,
                                         const struct weir_allocator *allocator,
                                         struct weir_diagnostic *diagnostic) {
  struct stat status;
  struct stat after;
  *file = (struct weir__document_file){.allocator = allocator};
  /* Asked first, since opening a device does something to it. What can't be asked can't be opened. */
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
    return check_kind(&status, path, diagnostic);
  }
  /* Not blocking: it may be a pipe by now, which a writer would be waited for at. */
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) {
    return fail_errno(diagnostic, path, "opened", errno);
  }
  enum weir_error error = WEIR_OK;
  if (fstat(descriptor, &status) != 0) {
    error = fail_errno(diagnostic, path, "read", errno);
  } else {
    error = check_kind(&status, path, diagnostic);
  }
  if (error == WEIR_OK) {
    /* A byte more, so that its end is seen. */
    const size_t capacity = status.st_size > 0 && (uintmax_t)status.st_size < WEIR__JSON_MAX_SIZE
                                ? (size_t)status.st_size + 1
                                : FIRST_READ;
    file->text = allocator->allocate(allocator->context, capacity);
    error = file->text == NULL ? WEIR_ERROR_NO_MEMORY
                               : read_all(file, descriptor, capacity, path, diagnostic);
  }
  file->is_unsettled =
      error == WEIR_OK && (fstat(descriptor, &after) != 0 || !is_same(&status, &after));
  (void)close(descriptor);
  return error;
}

void weir__document_file_fini(struct weir__document_file *file) {
  weir__free(file->allocator, file->text);
  file->text = NULL;
}
