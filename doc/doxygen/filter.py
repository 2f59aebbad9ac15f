#!/usr/bin/env python3
# doc/doxygen/filter.py FOLDER HEADER... - writes headers of include/weir into FOLDER as Doxygen wants them, line by line
# the same.
#
# Weir's headers have plain comments. What they are to Doxygen follows from where they stand:
#
#   the first of a file           @file; its first line's noun is the brief
#   before a declaration          /** ... */
#   behind a member, on its line  /**< ... */
#   in a struct, with an empty    a heading of the members below it (@name)
#   line behind it
#   Ownership:, Threads:, Errors: paragraphs with a title
#   lines further in than text    verbatim: drawings
#
# What is the same everywhere is explained here and not in every header: a `size` at the head of a struct, a `context`, a
# count of what stands beside it, a member whose type says all, X_INIT right behind a struct. A macro right behind another
# one has that one's comment. groups.txt says which group a
# header's declarations are in.
#
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

# What a member without a comment is, by its declaration.
MEMBERS = (
    (r"size_t size;", "`sizeof` of this struct, as whoever fills it in knows it; an older or a newer library goes by it."),
    (r"void \*context;", "Handed on to the functions beside it, and not looked at."),
    (r"(?:const )?(?:enum|struct) (weir_\w+) \*?\w+;", r"See \1."),
    (r"size_t n_(\w+);", r"How many there are of `\1`."),
    (r"size_t (\w+)_size;", r"The bytes of `\1`."),
)


def group_of(name):
    """The id and the title of the header's group, and whether it is the group's first header."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "groups.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() == "" or line.startswith("#"):
                continue
            group, title, headers = re.match(r"(\S+)\s+(.*?)\s{2,}(.*)", line).groups()
            if name in headers.split():
                return group, title
    sys.exit(f"{name}: in no group of doc/doxygen/groups.txt")


def comment_end(lines, start):
    """The index of the line that the comment which begins in lines[start] ends in."""
    while "*/" not in lines[start]:
        start += 1
    return start


def marked(lines):
    """The lines of a comment, with trailers and drawings as Doxygen's commands."""
    result = []
    drawing = False
    for line in lines:
        text = re.sub(r"^\s*\*?", "", line)
        if re.match(r"\s{3,}\S", text) and not drawing and result and result[-1].strip(" *") == "":
            result[-1] = " * @verbatim"
            drawing = True
        elif drawing and text.strip() in ("", "/"):
            line = " * @endverbatim" + line.replace(" *", "", 1)
            drawing = False
        if not drawing:
            line = re.sub(r"^(\s*\*\s+)(Ownership|Threads|Errors):", lambda m: m[1] + "@" + m[2].lower(), line)
        result.append(line)
    return result


def explained(declaration):
    """The comment of a member that has none."""
    for pattern, text in MEMBERS:
        match = re.fullmatch(pattern, declaration)
        if match:
            return f" /**< {match.expand(text)} */"
    return ""


class Filter:

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.name = os.path.basename(path)
        self.group, self.title = group_of(self.name)
        self.depth = 0
        self.heading = False
        self.struct = None  # whose end was the last thing seen
        self.documented = False
        self.comment_text = ""
        self.macro_comment = ""

    def run(self):
        out = self.head()
        i = len(out)
        while i < len(self.lines):
            end, replaced = self.step(i)
            out += replaced
            i = end + 1
        return out

    def head(self):
        """The file's comment, with its last two lines (an empty one, the licence) for the group."""
        end = comment_end(self.lines, 0)
        lines = marked(self.lines[:end - 1])
        brief = lines[0].split(" – ", 1)[1]
        lines[0] = f"/** @file weir/{self.name} @brief {brief[0].upper()}{brief[1:]}"
        return lines + [f" */ /** @addtogroup {self.group} {self.title}", " * @{ */"]

    def step(self, i):
        """The last line that is done with, and what stands for those up to it."""
        line = self.lines[i]
        if re.match(r"#define WEIR_(API|MUST_CHECK)\b", line):  # for compilers; the Doxyfile has them as nothing
            return i, [""]
        if re.match(r"#endif /\* WEIR_\w+_H \*/", line):
            return i, [line + " /** @} */"]
        if re.match(r"\s*/\*", line):
            return self.comment(i)
        return self.code(i)

    def comment(self, i):
        end = comment_end(self.lines, i)
        if self.depth > 0 and self.lines[end + 1].strip() == "":
            return end + 1, self.headed(self.lines[i:end + 1])
        self.documented = self.lines[end + 1].strip() != ""
        self.comment_text = " ".join(line.strip(" */") for line in self.lines[i:end + 1])
        lines = marked(self.lines[i:end + 1])
        lines[0] = lines[0].replace("/*", "/**", 1)
        return end, lines

    def headed(self, lines):
        """A heading, whose end is the empty line behind it. A title is one line."""
        title = " ".join(line.strip(" */") for line in lines)
        before = "/** @} */ " if self.heading else ""
        self.heading = True
        return [f"{before}/** @name {title}", " * @{ */"] + [""] * (len(lines) - 1)

    def code(self, i):
        line = self.lines[i]
        end = i
        replaced = [line]
        behind = re.match(r"^([^\"]*[^\s/*][^\"]*?)/\*(?!\*)", line)
        code = line
        if behind and not line.startswith(("#endif", "#else")):
            code = behind[1]
            end = comment_end(self.lines, i)
            replaced = self.lines[i:end + 1]
            replaced[0] = code + "/**<" + line[len(code) + 2:]
        elif self.depth > 0 and not self.documented:
            replaced = [line + explained(line.strip())]
        opened = re.match(r"struct (\w+) \{", code)
        if opened and self.depth == 0:
            self.struct = opened[1]
        if re.match(r"#define WEIR_\w+ ", line) and not behind:
            if re.match(r"#define ", self.lines[i - 1]):
                replaced[0] = self.macro_comment + replaced[0]
            elif self.documented:
                self.macro_comment = f"/** {self.comment_text} */ "
        init = re.match(r"#define (WEIR_\w+_INIT)\b", code)
        if init and not self.documented and self.struct:
            replaced[0] = f"/** What a struct {self.struct} begins with: the defaults. */ " + replaced[0]
        if not code.startswith("#") and not code.startswith('extern "C"'):
            self.depth += code.count("{") - code.count("}")
            if self.depth == 0 and self.heading:
                replaced[0] = "/** @} */ " + replaced[0]
                self.heading = False
        if code.strip() != "":
            self.documented = False
        return end, replaced


if __name__ == "__main__":
    for header in sys.argv[2:]:
        with open(os.path.join(sys.argv[1], os.path.basename(header)), "w", encoding="utf-8") as written:
            written.write("\n".join(Filter(header).run()))
