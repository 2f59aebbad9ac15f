"""A library of the system as a repository, found by pkg-config.

SPDX-License-Identifier: Apache-2.0
"""

def _pkg_config(ctx, *args):
    """What pkg-config answers, as a list of words."""
    result = ctx.execute(["pkg-config"] + list(args) + [ctx.attr.module])
    if result.return_code != 0:
        fail("\n\n%s was not found by pkg-config (module %s): %s\nInstall it: apt-get install %s\n" % (
            ctx.name,
            ctx.attr.module,
            result.stderr.strip(),
            ctx.attr.apt_package,
        ))
    return [word for word in result.stdout.strip().split(" ") if word]

def _system_library_impl(ctx):
    if not ctx.which("pkg-config"):
        fail("\n\npkg-config is missing.\nInstall it: apt-get install pkg-config\n")

    _pkg_config(ctx, "--exists", "--print-errors")
    if ctx.attr.minimum_version:
        _pkg_config(ctx, "--print-errors", "--atleast-version=" + ctx.attr.minimum_version)

    # Folders outside the compiler's own path are linked in, so that no absolute path gets into an action.
    includes = []
    for flag in _pkg_config(ctx, "--cflags-only-I"):
        folder = "include/%d" % len(includes)
        ctx.symlink(flag[len("-I"):], folder)
        includes.append(folder)

    linkopts = ctx.attr.linkopts or _pkg_config(ctx, "--libs")

    ctx.file("BUILD.bazel", """\
# Made by system_library("{name}").
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    hdrs = glob(["include/**/*.h"]),
    includes = {includes},
    linkopts = {linkopts},
)
""".format(
        name = ctx.name,
        includes = includes,
        linkopts = linkopts,
    ))

system_library = repository_rule(
    doc = "A cc_library named like the repository, over a module of pkg-config.",
    implementation = _system_library_impl,
    attrs = {
        "module": attr.string(mandatory = True, doc = "The name pkg-config knows it by."),
        "apt_package": attr.string(mandatory = True, doc = "The Debian package that has it."),
        "minimum_version": attr.string(doc = "The oldest version that will do."),
        "linkopts": attr.string_list(doc = "Instead of what pkg-config --libs says."),
    },
)
