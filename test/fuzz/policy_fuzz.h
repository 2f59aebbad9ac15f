/* policy_fuzz – the entry of a fuzzer of policies: libFuzzer calls it, and so does policy_replay.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_FUZZ_POLICY_FUZZ_H
#define WEIR_TEST_FUZZ_POLICY_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* WEIR_TEST_FUZZ_POLICY_FUZZ_H */
