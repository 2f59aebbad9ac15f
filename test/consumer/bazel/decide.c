/* decide – asks a breaker whether a first try may be made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <weir/decide.h>

int main(void) {
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  weir_breaker *breaker = NULL;
  if (weir_breaker_new(&options, NULL, &breaker) != WEIR_OK) {
    return 2;
  }
  const int refused = weir_breaker_admit(breaker, 0, NULL, &ticket, &view) == WEIR_ADMISSION_REFUSE;
  puts(weir_breaker_state_name(view.state));
  weir_breaker_free(breaker);
  return refused;
}
