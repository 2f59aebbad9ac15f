/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/error.h>

const char *weir_error_name(enum weir_error error) {
  switch (error) {
  case WEIR_OK:
    return "OK";
  case WEIR_ERROR_INVALID_ARGUMENT:
    return "INVALID_ARGUMENT";
  case WEIR_ERROR_INVALID_POLICY:
    return "INVALID_POLICY";
  case WEIR_ERROR_NO_MEMORY:
    return "NO_MEMORY";
  case WEIR_ERROR_UNSUPPORTED:
    return "UNSUPPORTED";
  case WEIR_ERROR_UNAVAILABLE:
    return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

const char *weir_error_string(enum weir_error error) {
  switch (error) {
  case WEIR_OK:
    return "it worked";
  case WEIR_ERROR_INVALID_ARGUMENT:
    return "an argument is out of its range";
  case WEIR_ERROR_INVALID_POLICY:
    return "the policy was refused";
  case WEIR_ERROR_NO_MEMORY:
    return "there is no memory left";
  case WEIR_ERROR_UNSUPPORTED:
    return "this version of the library does not know what was asked for";
  case WEIR_ERROR_UNAVAILABLE:
    return "it is not there, or not yet, or no more";
  }
  return "an error that this version of the library does not know";
}
