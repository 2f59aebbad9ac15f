"""What a program of //:weir is linked with, for tests that call a compiler themselves.

SPDX-License-Identifier: Apache-2.0
"""

def _link_flags_impl(ctx):
    files = []
    options = list(ctx.fragments.cpp.linkopts)  # of the configuration: its objects may need them
    for linker_input in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            files.append(library.pic_static_library or library.static_library)
        options += linker_input.user_link_flags
    files = [file for file in files if file]
    words = ["-Wl,--start-group"] + ["RUNFILES/" + file.short_path for file in files] + ["-Wl,--end-group"] + options
    flags = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(flags, " ".join(words) + "\n")
    return [DefaultInfo(files = depset([flags]), runfiles = ctx.runfiles(files = files + [flags]))]

link_flags = rule(
    doc = "A file of the words that a linker needs; RUNFILES stands for the folder of the test's files.",
    implementation = _link_flags_impl,
    fragments = ["cpp"],
    attrs = {"library": attr.label(mandatory = True, providers = [CcInfo])},
)
