/* weir/export.h – which symbols the library shows, and what the compiler checks at a call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_MUST_CHECK
#endif

#endif /* WEIR_EXPORT_H */
