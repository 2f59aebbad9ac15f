"""Stand-ins for the repositories that Bazel 4.2.3 would fetch from the network to build C.

Debian's own bazel-rules-cc is newer than its Bazel and does not load in it. Only weir's own WORKSPACE calls this: a
workspace that embeds weir keeps its own rules_cc and rules_java.

SPDX-License-Identifier: Apache-2.0
"""

_STAND_INS = ["rules_cc", "rules_java", "remote_coverage_tools"]

def weir_offline_stand_ins():
    for name in _STAND_INS:
        native.local_repository(
            name = name,
            path = "bazel/offline/" + name,
        )
