/* version – that the headers and the library in use are of one version; prints it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <weir/decide.h>

int main(void) {
  char expected[32];
  (void)snprintf(expected, sizeof expected, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
                 WEIR_VERSION_PATCH);
  puts(weir_version_string());
  return strcmp(weir_version_string(), expected) != 0;
}
