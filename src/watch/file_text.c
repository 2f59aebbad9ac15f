/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/file_text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/allocator.h"
#include "src/policy/document_file.h"
#include "src/policy/problems.h"

enum weir__file_result weir__file_text_read(struct weir__file_text *text_out, const char *path,
                                            const struct weir_allocator *allocator,
                                            struct weir_diagnostic *diagnostic_out) {
  struct stat status;
  struct weir__document_file file;
  *text_out = (struct weir__file_text){.data = NULL, .size = 0};
  const enum weir_error error = weir__document_file_read(&file, path, allocator, diagnostic_out);
  enum weir__file_result result = WEIR__FILE_READ;
  if (error == WEIR_ERROR_NO_MEMORY) {
    weir__diagnostic_word(diagnostic_out, "there is no memory for the file");
    result = WEIR__FILE_NO_MEMORY;
  } else if (error != WEIR_OK) {
    const bool is_gone = stat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
    result = is_gone ? WEIR__FILE_MISSING : WEIR__FILE_UNREADABLE;
  } else if (file.is_unsettled) {
    weir__diagnostic_word(diagnostic_out, "the file was changed while it was read");
    result = WEIR__FILE_UNSETTLED;
  }
  if (result == WEIR__FILE_READ) {
    *text_out = (struct weir__file_text){.data = file.text, .size = file.size};
    file.text = NULL;
  }
  weir__document_file_fini(&file);
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
