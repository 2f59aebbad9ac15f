"""The libraries that are installed: a shared one, and an archive with one object, of a library and all it needs.

SPDX-License-Identifier: Apache-2.0
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _archive_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    archives = []
    for linked in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        for library in linked.libraries:
            archives.append(library.pic_static_library or library.static_library)
    object = ctx.actions.declare_file(ctx.label.name + ".o")
    ctx.actions.run_shell(
        inputs = depset(archives + [ctx.file.names], transitive = [toolchain.all_files]),
        outputs = [ctx.outputs.archive, object],
        # One object with all that the names need, in which nothing but them can be linked to; then what the system
        # linker takes for an archive.
        command = """
set -eu
{ld} -r -o {object}.all $(sed 's/^/-u /' {names}) --start-group {archives} --end-group
{objcopy} --keep-global-symbols={names} {object}.all {object}
rm -f {object}.all {archive}
{ar} rcsD {archive} {object}
""".format(
            ar = toolchain.ar_executable,
            archive = ctx.outputs.archive.path,
            archives = " ".join([file.path for file in archives]),
            ld = toolchain.ld_executable,
            names = ctx.file.names.path,
            objcopy = toolchain.objcopy_executable,
            object = object.path,
        ),
        mnemonic = "WeirArchive",
        progress_message = "Putting together %s" % ctx.outputs.archive.short_path,
    )
    return [DefaultInfo(files = depset([ctx.outputs.archive]))]

_archive = rule(
    implementation = _archive_impl,
    attrs = {
        "archive": attr.output(mandatory = True),
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "names": attr.label(mandatory = True, allow_single_file = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def weir_installed_library(name, library, map, visibility = None):
    """name.so and name.a of a cc_library, with the symbols that `map` names and no others.

    Args:
      name: as in libweir.
      library: the cc_library; what it needs of weir's own is within.
      map: a version script with one version, and a name on each line of it.
      visibility: as ever.
    """
    names = name + "_names"
    native.genrule(
        name = names,
        srcs = [map],
        outs = [names + ".txt"],
        cmd = "sed -n 's/^ *\\([a-z0-9_]*\\);$$/\\1/p' $< > $@",
        visibility = ["//visibility:private"],
    )

    # As a file, since Bazel does not know the number while it reads this.
    options = name + "_options"
    native.genrule(
        name = options,
        srcs = [names, "//include/weir:version.h"],
        outs = [options + ".txt"],
        cmd = """
abi=$$(WEIR_VERSION_H=$(location //include/weir:version.h) $(location //packaging:version.sh) soname)
echo "-Wl,-soname,{name}.so.$$abi" > $@
sed 's/^/-Wl,-u,/' $(location {names}) >> $@
""".format(name = name, names = names),
        tools = ["//packaging:version.sh"],
        visibility = ["//visibility:private"],
    )
    native.cc_binary(
        name = name + ".so",
        additional_linker_inputs = [map, options],
        linkopts = [
            "@$(location %s)" % options,
            "-Wl,--version-script=$(location %s)" % map,
            "-Wl,--no-undefined",
            "-Wl,--as-needed",
            "-Wl,-Bsymbolic-functions",  # no program's function takes the place of one of these
            "-Wl,-z,relro,-z,now,-z,text,-z,noexecstack",
        ],
        linkshared = True,
        linkstatic = True,
        visibility = visibility,
        deps = [library],
    )
    _archive(
        name = name + "_archive",
        archive = name + ".a",
        library = library,
        names = names,
        visibility = visibility,
    )
