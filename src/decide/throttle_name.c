/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include "src/decide/throttle.h"

/* The core's, for names without a port (resolver_registry and its dns resolver), whatever the
 * credentials are. */
#define DEFAULT_PORT "443"

/* Brackets, ":" DEFAULT_PORT, and an address that is longer when it is written as usual. */
#define NAME_GROWTH (INET6_ADDRSTRLEN + 8)

/* Two spellings have one name only where they can't mean two servers. */

static char lower_ascii(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool starts_with(const char *text, const char *lower_prefix) {
  for (; *lower_prefix != '\0'; text++, lower_prefix++) {
    if (lower_ascii(*text) != *lower_prefix) {
      return false;
    }
  }
  return true;
}

static bool starts_with_any(const char *text, const char *const *schemes, const char **rest_out) {
  for (; *schemes != NULL; schemes++) {
    if (starts_with(text, *schemes)) {
      *rest_out = text + strlen(*schemes);
      return true;
    }
  }
  return false;
}

/* The host and port in a target: behind the scheme and authority of "dns://resolver/host", and
 * behind the schemes of plain addresses, as all of these only say how to find the host. NULL: the
 * target is of a scheme that has names of its own, or of none that makes sense. */
static const char *host_of(const char *target) {
  static const char *const of_hosts[] = {"dns:", "ipv4:", "ipv6:", NULL};
  static const char *const of_others[] = {
      "unix:",       "unix-abstract:",           "vsock:",  "xds:",
      "google-c2p:", "google-c2p-experimental:", "binder:", NULL};
  const char *host = target;
  if (starts_with_any(target, of_hosts, &host)) {
    if (host[0] == '/' && host[1] == '/') {
      const char *authority_end = strchr(host + 2, '/');
      host = authority_end != NULL ? authority_end : host + strlen(host);
    }
    while (*host == '/') {
      host++;
    }
  } else if (starts_with_any(target, of_others, &host)) {
    return NULL;
  }
  return *host != '\0' && strchr(host, '/') == NULL ? host : NULL;
}

static int digit_of(char byte) {
  char lower = lower_ascii(byte);
  if (lower >= '0' && lower <= '9') {
    return lower - '0';
  }
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Lower case, and "%5b::1%5d" as "[::1]": a target is a URI to the core. */
static void copy_host(const char *host, char *text_out) {
  while (*host != '\0') {
    int high = *host == '%' ? digit_of(host[1]) : -1;
    int low = high >= 0 ? digit_of(host[2]) : -1;
    bool escaped = low >= 0 && high * 16 + low != 0;
    *text_out++ = lower_ascii(escaped ? (char)(high * 16 + low) : *host);
    host += escaped ? 3 : 1;
  }
  *text_out = '\0';
}

/* Of a host's name, as DNS bounds it, and of a port's; longer ones are taken as they are. */
#define HOST_SIZE 256
#define PORT_SIZE 8

struct endpoint {
  char host[HOST_SIZE];
  char port[PORT_SIZE]; /* "" = none */
  bool bracketed;
};

static bool cut(const char *text, size_t size, char *out, size_t capacity) {
  if (size >= capacity) {
    return false;
  }
  memcpy(out, text, size);
  out[size] = '\0';
  return true;
}

/* Reads "host:port", "[host]:port" or "::1". False: it is of another form, such as a list of
 * addresses. */
static bool endpoint_read(const char *text, struct endpoint *endpoint_out) {
  const char *host = text;
  const char *host_end = text + strlen(text);
  const char *port = host_end;
  endpoint_out->bracketed = text[0] == '[';
  if (endpoint_out->bracketed) {
    host++;
    host_end = strchr(host, ']');
    if (host_end == NULL || (host_end[1] != '\0' && host_end[1] != ':')) {
      return false;
    }
    port = host_end[1] == ':' ? host_end + 2 : host_end + 1;
  } else if (strchr(text, ':') != NULL && strchr(text, ':') == strrchr(text, ':')) {
    host_end = strchr(text, ':');
    port = host_end + 1;
  }
  return host_end > host && strchr(text, ',') == NULL &&
         cut(host, (size_t)(host_end - host), endpoint_out->host, sizeof endpoint_out->host) &&
         cut(port, strlen(port), endpoint_out->port, sizeof endpoint_out->port);
}

/* "0:0:0:0:0:0:0:1" becomes "::1". False: it is no IPv6 address. */
static bool shorten_address(char host[HOST_SIZE]) {
  struct in6_addr address;
  return inet_pton(AF_INET6, host, &address) == 1 &&
         inet_ntop(AF_INET6, &address, host, HOST_SIZE) != NULL;
}

static char *append(char *end, const char *text) {
  size_t size = strlen(text);
  memcpy(end, text, size + 1);
  return end + size;
}

static void endpoint_write(struct endpoint *endpoint, char *text_out) {
  bool bracketed = shorten_address(endpoint->host) || endpoint->bracketed;
  char *end = append(text_out, bracketed ? "[" : "");
  end = append(end, endpoint->host);
  end = append(end, bracketed ? "]:" : ":");
  (void)append(end, endpoint->port[0] != '\0' ? endpoint->port : DEFAULT_PORT);
}

size_t weir__throttle_name_size(const char *target) {
  return strlen(target) + NAME_GROWTH;
}

void weir__throttle_name(const char *target, char *name_out) {
  struct endpoint endpoint;
  const char *host = host_of(target);
  if (host == NULL) {
    /* One socket has both spellings. */
    bool empty_authority = strncmp(target, "unix:///", 8) == 0;
    (void)append(append(name_out, empty_authority ? "unix:" : ""),
                 empty_authority ? target + 7 : target);
    return;
  }
  copy_host(host, name_out);
  if (endpoint_read(name_out, &endpoint)) {
    endpoint_write(&endpoint, name_out);
  }
}
