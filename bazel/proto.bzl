"""C code from .proto files, for the two protobuf runtimes that weir meets.

A .proto is named by its path within the package, and that is also the path it is imported and included by:
proto = "weir/v1/policy.proto" in the package //proto is `import "weir/v1/policy.proto"` in another .proto and
`#include "weir/v1/policy.upb.h"` in C.

SPDX-License-Identifier: Apache-2.0
"""

def _stem(proto):
    if not proto.endswith(".proto"):
        fail("not a .proto: " + proto)
    return proto[:-len(".proto")]

def _generate(name, proto, imports, outs, flags, tools):
    """A genrule which runs protoc. Imported files of other packages are found under their package's root."""
    native.genrule(
        name = name,
        srcs = [proto] + imports,
        outs = outs,
        cmd = "file=./$(location {proto}) && protoc -I$${{file%/{proto}}} {flags} $$file".format(
            proto = proto,
            flags = " ".join(flags),
        ),
        tools = tools,
        message = "Generating code for " + proto,
        visibility = ["//visibility:private"],
    )

def weir_upb_proto_library(name, proto, imports = [], deps = [], visibility = None):
    """A cc_library with the upb code of a .proto and its reflection: x.upb.h and x.upbdefs.h.

    Args:
      name: the library.
      proto: the .proto, by its path within the package.
      imports: the .proto files of the same package that it imports.
      deps: the weir_upb_proto_library of each of them. The well-known types and google.rpc.Status are always there.
      visibility: as ever.
    """
    stem = _stem(proto)
    sources = [stem + ".upb.c", stem + ".upbdefs.c"]
    headers = [stem + ".upb.h", stem + ".upbdefs.h"]
    _generate(
        name = name + "_upb_code",
        proto = proto,
        imports = imports,
        outs = sources + headers,
        flags = [
            "--plugin=protoc-gen-upb=$(execpath @weir_upb//:protoc_gen_upb)",
            "--plugin=protoc-gen-upbdefs=$(execpath @weir_upb//:protoc_gen_upbdefs)",
            "--upb_out=$(RULEDIR)",
            "--upbdefs_out=$(RULEDIR)",
        ],
        tools = [
            "@weir_upb//:protoc_gen_upb",
            "@weir_upb//:protoc_gen_upbdefs",
        ],
    )
    _generated_library(name, sources, headers, deps + ["@weir_upb//:wkt_upb"], visibility)

def weir_protobuf_c_library(name, proto, imports = [], deps = [], visibility = None):
    """A cc_library with the protobuf-c code of a .proto: x.pb-c.h. The arguments are as above."""
    stem = _stem(proto)
    sources = [stem + ".pb-c.c"]
    headers = [stem + ".pb-c.h"]
    _generate(
        name = name + "_protobuf_c_code",
        proto = proto,
        imports = imports,
        outs = sources + headers,
        flags = ["--c_out=$(RULEDIR)"],
        tools = [],
    )
    _generated_library(name, sources, headers, deps + ["@protobuf_c//:protobuf_c"], visibility)

def _generated_library(name, sources, headers, deps, visibility):
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Not our code: none of our warnings.
        copts = ["-std=c11", "-fvisibility=hidden", "-w"],
        includes = ["."],
        linkstatic = True,
        visibility = visibility or ["//visibility:private"],
        deps = deps,
    )
