/* fuzz_target – the entry of a fuzzer: libFuzzer calls it, and so does whoever replays a corpus.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_FUZZ_FUZZ_TARGET_H
#define WEIR_TEST_FUZZ_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* WEIR_TEST_FUZZ_FUZZ_TARGET_H */
