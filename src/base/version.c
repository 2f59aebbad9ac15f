/* The library's own version.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <weir/version.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *weir_version_string(void) {
  return TEXT(WEIR_VERSION_MAJOR) "." TEXT(WEIR_VERSION_MINOR) "." TEXT(WEIR_VERSION_PATCH);
}
