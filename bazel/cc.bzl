"""The rules that weir's own C code is built with: the native ones with weir's flags.

SPDX-License-Identifier: Apache-2.0
"""

# Warnings only: --config=ci turns them into errors, a consumer's build never does.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wundef",
    "-Wcast-qual",
    "-Wcast-align",
    "-Wvla",
    "-Wswitch-enum",
    "-Wwrite-strings",
    "-Wformat=2",
]

def _root():
    """The folder of weir's sources as a compiler sees it, inside weir and in a workspace that embeds it."""
    repository = native.repository_name()
    return "." if repository == "@" else "external/" + repository[1:]

def _copts(copts):
    # "src/base/x.h" is found from the root, by Bazel's own -iquote. include/ comes by -I and not by `includes`,
    # which would make its headers system headers and hide what the compiler says about them.
    return ["-std=c11", "-D_DEFAULT_SOURCE", "-D_POSIX_C_SOURCE=200809L", "-I%s/include" % _root()] + _WARNINGS + copts

def weir_cc_library(name, copts = [], visibility = None, **kwargs):
    """A C library of weir. What is not marked WEIR_API stays inside the shared library."""
    native.cc_library(
        name = name,
        copts = _copts(["-fvisibility=hidden"] + copts),
        linkstatic = True,
        visibility = visibility or ["//visibility:private"],
        **kwargs
    )

def weir_cc_binary(name, copts = [], visibility = None, **kwargs):
    """A C program of weir."""
    native.cc_binary(
        name = name,
        copts = _copts(copts),
        visibility = visibility or ["//visibility:private"],
        **kwargs
    )

def weir_cc_test(name, copts = [], data = [], deps = [], size = "small", **kwargs):
    """A test program over cmocka.

    Tags: "tsan" and "valgrind" have it run by `make check CONFIG=tsan` and `CONFIG=valgrind` too; "unsanitized" by
    `CONFIG=unsanitized`, since it tries less with a sanitizer; "processes" by that and not by `CONFIG=asan`.
    """
    native.cc_test(
        name = name,
        size = size,
        copts = _copts(copts),
        data = data + ["//test:suppressions"],
        linkstatic = True,  # tests reach what the shared library hides
        visibility = ["//visibility:private"],
        deps = deps + ["@cmocka//:cmocka"],
        **kwargs
    )
