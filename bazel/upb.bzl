"""upb, the protobuf runtime inside gRPC's core, as the installed gRPC has it.

SPDX-License-Identifier: Apache-2.0
"""

_BUILD = """\
# Made by weir_upb_repository: upb as in gRPC's own source, linked from the system's library.
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "upb",
    hdrs = glob([
        "upb/upb/**/*.h",
        "upb/upb/**/*.inc",
        "generated/google/protobuf/descriptor.*.h",
    ]),
    includes = [
        "generated",
        "upb",
    ],
    linkopts = ["-l:{soname}"],
)

# The well-known types, and google.rpc.Status.
cc_library(
    name = "wkt_upb",
    srcs = glob(
        [
            "generated/google/protobuf/*.c",
            "generated/google/rpc/*.c",
        ],
        exclude = ["generated/google/protobuf/descriptor.*"],  # libupb has it
    ),
    hdrs = glob([
        "generated/google/protobuf/*.h",
        "generated/google/rpc/*.h",
    ]),
    copts = [
        "-std=c11",
        "-fvisibility=hidden",
        "-w",
    ],
    includes = ["generated"],
    linkstatic = True,
    deps = [":upb"],
)

cc_library(
    name = "plugin",
    srcs = ["upb/upbc/common.cc"],
    hdrs = glob([
        "upb/upb/*.hpp",
        "upb/upbc/*.h",
    ]),
    copts = {copts},
    linkopts = {linkopts},
    linkstatic = True,
    visibility = ["//visibility:private"],
    deps = [":upb"],
)

[cc_binary(
    name = name.replace("-", "_"),
    srcs = ["upb/upbc/" + name + ".cc"],
    copts = {copts},
    deps = [":plugin"],
) for name in [
    "protoc-gen-upb",
    "protoc-gen-upbdefs",
]]
"""

def _weir_upb_repository_impl(ctx):
    ctx.report_progress("Fetching the source of the installed gRPC")
    result = ctx.execute([ctx.path(ctx.attr._script)], timeout = 600)
    if result.return_code != 0:
        fail(result.stderr)

    # Debian has absl as many small libraries; what is not needed is left out by the linker.
    modules = ["protobuf", "absl_strings", "absl_flat_hash_map", "absl_flat_hash_set"]
    libs = ctx.execute(["pkg-config", "--libs"] + modules)
    if libs.return_code != 0:
        fail("\n\nupb's code generators need %s: %s\nInstall them: apt-get install %s\n" % (
            ", ".join(modules),
            libs.stderr.strip(),
            "libprotobuf-dev libprotoc-dev libabsl-dev",
        ))

    ctx.file("BUILD.bazel", _BUILD.format(
        soname = ctx.read("soname").strip(),
        copts = ["-std=c++17", "-w"],
        linkopts = ["-Wl,--as-needed", "-lprotoc"] + [lib for lib in libs.stdout.strip().split(" ") if lib],
    ))

weir_upb_repository = repository_rule(
    doc = "Fetched once; `bazel sync --only=weir_upb` fetches it again, after an update of gRPC.",
    implementation = _weir_upb_repository_impl,
    attrs = {
        "_script": attr.label(default = Label("//bazel:upb_source.sh"), allow_single_file = True),
    },
)
