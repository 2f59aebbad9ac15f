/* weir/admission.h – whether a call, or a further attempt of one, may go on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMISSION_H
#define WEIR_ADMISSION_H

/* What a layer, or a breaker, answers to a call that is about to go on. */
enum weir_admission { WEIR_ADMISSION_PROCEED = 0, WEIR_ADMISSION_REFUSE };

#endif /* WEIR_ADMISSION_H */
