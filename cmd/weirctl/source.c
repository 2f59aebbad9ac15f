/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/output.h"
#include "cmd/weirctl/process.h"

#define FIRST_READ ((size_t)64 * 1024)

/* Up to a byte beyond the limit, by which the document's reader sees that it is too large. */
static bool read_all(struct source *source, int descriptor) {
  const size_t most = WEIR__JSON_MAX_SIZE + 1;
  size_t capacity = FIRST_READ;
  source->text = memory_new(capacity);
  while (source->size < most) {
    if (source->size == capacity) {
      source->text = memory_grow(source->text, source->size, &capacity, 1);
    }
    const size_t room = capacity < most ? capacity - source->size : most - source->size;
    const ssize_t n = read(descriptor, source->text + source->size, room);
    if (n == 0) {
      return true;
    }
    if (n < 0 && errno != EINTR) {
      return false;
    }
    source->size += n > 0 ? (size_t)n : 0;
  }
  return true;
}

bool source_read(struct source *source, const char *path) {
  const bool is_stdin = strcmp(path, "-") == 0;
  *source = (struct source){.path = path};
  const int descriptor = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  struct stat status;
  const bool whole = read_all(source, descriptor);
  const int number = errno;
  if (!is_stdin && fstat(descriptor, &status) == 0) {
    source->device = status.st_dev;
    source->inode = status.st_ino;
  }
  if (!is_stdin) {
    (void)close(descriptor);
  }
  errno = number;
  return whole;
}

bool source_is_same(const struct source *a, const struct source *b) {
  return a->inode != 0 && a->inode == b->inode && a->device == b->device;
}

void source_fini(struct source *source) {
  free(source->text);
  source->text = NULL;
}

const char *source_organisation(const char *given) {
  const char *path = given != NULL ? given : process_variable("WEIR_ORG_POLICY");
  return path != NULL && path[0] != '\0' ? path : NULL;
}

const char *source_name(const char *path) {
  return strcmp(path, "-") == 0 ? "<stdin>" : path;
}

void source_complain(const char *path) {
  complain("%s: %s", source_name(path), process_error(errno));
}

bool source_stdin_once(char *const *paths, size_t n_paths, const char *other) {
  size_t n = other != NULL && strcmp(other, "-") == 0 ? 1 : 0;
  for (size_t i = 0; i < n_paths; i++) {
    n += strcmp(paths[i], "-") == 0 ? 1 : 0;
  }
  if (n > 1) {
    complain("standard input (-) can be read only once");
  }
  return n <= 1;
}
