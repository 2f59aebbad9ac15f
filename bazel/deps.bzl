"""The repositories that weir is built from.

SPDX-License-Identifier: Apache-2.0
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load("//bazel:system_library.bzl", "system_library")
load("//bazel:upb.bzl", "weir_upb_repository")

def weir_deps():
    """What weir itself needs. A repository that the workspace already has under the same name wins."""
    maybe(
        system_library,
        name = "grpc",
        module = "grpc",
        apt_package = "libgrpc-dev",
        minimum_version = "28",  # the soname, which is the version of the core that pkg-config knows
        # pkg-config names over forty libraries of absl, none of which C code calls.
        linkopts = ["-Wl,--as-needed", "-lgrpc", "-lgpr"],
    )
    maybe(
        system_library,
        name = "xxhash",
        module = "libxxhash",
        apt_package = "libxxhash-dev",
        minimum_version = "0.8",
        linkopts = ["-Wl,--as-needed"],  # only its header is used
    )
    maybe(
        weir_upb_repository,
        name = "weir_upb",
    )

def weir_test_deps():
    """What weir's own tests and examples need besides."""
    maybe(
        system_library,
        name = "protobuf_c",
        module = "libprotobuf-c",
        apt_package = "libprotobuf-c-dev",
        minimum_version = "1.4",
    )
    maybe(
        system_library,
        name = "jansson",
        module = "jansson",
        apt_package = "libjansson-dev",
        minimum_version = "2.13",
    )
    maybe(
        system_library,
        name = "cmocka",
        module = "cmocka",
        apt_package = "libcmocka-dev",
        minimum_version = "1.1.5",
    )
    maybe(
        system_library,
        name = "nghttp2",
        module = "libnghttp2",
        apt_package = "libnghttp2-dev",
        minimum_version = "1.52",
    )

def weir_bench_deps():
    """What the benchmarks' peers need besides."""
    maybe(
        system_library,
        name = "grpcpp",
        module = "grpc++",
        apt_package = "libgrpc++-dev",
        minimum_version = "1.51",
        linkopts = ["-Wl,--as-needed", "-lgrpc++", "-lgrpc", "-lgpr", "-labsl_synchronization"],
    )
