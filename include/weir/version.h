/* weir/version.h – which version of weir this is: of the headers, and of the library in use.
 *
 * The one place where the numbers stand: the library's file name and soname, weir.pc, the CMake
 * package, the Debian packages and `weirctl --version` are made from them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers. */
#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* In the soname, libweir.so.0: it goes up when programs have to be compiled anew. */
#define WEIR_VERSION_ABI 0

/* Tells the version of the library in use, e.g. "0.1.0", which may be a later one than the headers'.
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_version_string(void);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_VERSION_H */
