/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/file_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/allocator.h"
#include "src/policy/json.h"

/* Of a file that does not tell its size, as those of /proc. */
#define FIRST_READ ((size_t)4096)

#define MOST_BYTES (WEIR__JSON_MAX_SIZE + 1)

static void say(struct weir_diagnostic *diagnostic, const char *what, const char *why) {
  memset(diagnostic, 0, sizeof *diagnostic);
  snprintf(diagnostic->message, sizeof diagnostic->message, "%s%s", what, why);
}

/* What errno says of the path as a whole: the name leads nowhere, or to what can't be read. */
static enum weir__file_result fail(struct weir_diagnostic *diagnostic) {
  char why[96];
  const int number = errno;
  if (strerror_r(number, why, sizeof why) != 0) {
    snprintf(why, sizeof why, "errno %d", number);
  }
  say(diagnostic, "the file can't be read: ", why);
  return number == ENOENT || number == ENOTDIR ? WEIR__FILE_MISSING : WEIR__FILE_UNREADABLE;
}

static enum weir__file_result refuse(mode_t mode, struct weir_diagnostic *diagnostic) {
  const char *what = "something else";
  if (S_ISDIR(mode)) {
    what = "a directory";
  } else if (S_ISFIFO(mode)) {
    what = "a FIFO";
  } else if (S_ISSOCK(mode)) {
    what = "a socket";
  } else if (S_ISCHR(mode) || S_ISBLK(mode)) {
    what = "a device";
  }
  say(diagnostic, "it is no regular file, but ", what);
  return WEIR__FILE_UNREADABLE;
}

static enum weir__file_result no_memory(struct weir_diagnostic *diagnostic) {
  say(diagnostic, "there is no memory for the file", "");
  return WEIR__FILE_NO_MEMORY;
}

static bool grow(struct weir__file_text *text, size_t *capacity,
                 const struct weir_allocator *allocator) {
  size_t wanted = *capacity * 2 < MOST_BYTES ? *capacity * 2 : MOST_BYTES;
  char *data = allocator->allocate(allocator->context, wanted);
  if (data == NULL) {
    return false;
  }
  memcpy(data, text->data, text->size);
  weir__free(allocator, text->data);
  text->data = data;
  *capacity = wanted;
  return true;
}

/* Up to the file's end, or a byte beyond the limit. */
static enum weir__file_result read_all(struct weir__file_text *text, int fd, size_t capacity,
                                       const struct weir_allocator *allocator,
                                       struct weir_diagnostic *diagnostic) {
  text->data = allocator->allocate(allocator->context, capacity);
  if (text->data == NULL) {
    return no_memory(diagnostic);
  }
  while (text->size < MOST_BYTES) {
    if (text->size == capacity && !grow(text, &capacity, allocator)) {
      return no_memory(diagnostic);
    }
    const ssize_t n = read(fd, text->data + text->size, capacity - text->size);
    if (n < 0 && errno != EINTR) {
      return fail(diagnostic);
    }
    if (n == 0) {
      break;
    }
    text->size += n > 0 ? (size_t)n : 0;
  }
  return WEIR__FILE_READ;
}

static bool is_same(const struct stat *before, const struct stat *after) {
  return before->st_size == after->st_size && before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
         before->st_mtim.tv_nsec == after->st_mtim.tv_nsec &&
         before->st_ctim.tv_sec == after->st_ctim.tv_sec &&
         before->st_ctim.tv_nsec == after->st_ctim.tv_nsec;
}

static enum weir__file_result read_open(struct weir__file_text *text, int fd,
                                        const struct weir_allocator *allocator,
                                        struct weir_diagnostic *diagnostic) {
  struct stat before;
  struct stat after;
  if (fstat(fd, &before) != 0) {
    return fail(diagnostic);
  }
  if (!S_ISREG(before.st_mode)) {
    return refuse(before.st_mode, diagnostic);
  }
  size_t capacity = FIRST_READ;
  if (before.st_size > 0) {
    /* a byte more, so that the end is seen */
    capacity = (size_t)before.st_size < MOST_BYTES ? (size_t)before.st_size + 1 : MOST_BYTES;
  }
  enum weir__file_result result = read_all(text, fd, capacity, allocator, diagnostic);
  if (result != WEIR__FILE_READ) {
    return result;
  }
  if (fstat(fd, &after) != 0) {
    return fail(diagnostic);
  }
  if (!is_same(&before, &after)) {
    say(diagnostic, "the file was changed while it was read", "");
    return WEIR__FILE_UNSETTLED;
  }
  return WEIR__FILE_READ;
}

enum weir__file_result weir__file_text_read(struct weir__file_text *text_out, const char *path,
                                            const struct weir_allocator *allocator,
                                            struct weir_diagnostic *diagnostic_out) {
  struct stat status;
  *text_out = (struct weir__file_text){.data = NULL, .size = 0};
  /* Asked first, since opening a device or a FIFO does something to it. */
  if (stat(path, &status) != 0) {
    return fail(diagnostic_out);
  }
  if (!S_ISREG(status.st_mode)) {
    return refuse(status.st_mode, diagnostic_out);
  }
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) {
    return fail(diagnostic_out);
  }
  enum weir__file_result result = read_open(text_out, fd, allocator, diagnostic_out);
  (void)close(fd);
  if (result != WEIR__FILE_READ) {
    weir__file_text_fini(text_out, allocator);
  }
  return result;
}

void weir__file_text_fini(struct weir__file_text *text, const struct weir_allocator *allocator) {
  weir__free(allocator, text->data);
  *text = (struct weir__file_text){.data = NULL, .size = 0};
}

bool weir__file_text_equals(const struct weir__file_text *one,
                            const struct weir__file_text *other) {
  return one->data != NULL && other->data != NULL && one->size == other->size &&
         memcmp(one->data, other->data, one->size) == 0;
}
