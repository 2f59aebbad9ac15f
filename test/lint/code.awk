# test/lint/code.awk - C without its comments and without what is inside its strings, as "file:line:text".
#
# SPDX-License-Identifier: Apache-2.0
FNR == 1 { in_comment = 0 }

{
  text = ""
  include = $0 ~ /^[[:space:]]*#[[:space:]]*include/
  for (i = 1; i <= length($0); i++) {
    two = substr($0, i, 2)
    c = substr($0, i, 1)
    if (in_comment) {
      if (two == "*/") {
        in_comment = 0
        i++
      }
    } else if (two == "/*") {
      in_comment = 1
      i++
      text = text " "
    } else if (c == "\"" && !include) {
      text = text "\"\""
      for (i++; i <= length($0) && substr($0, i, 1) != "\""; i++)
        if (substr($0, i, 1) == "\\")
          i++
    } else {
      text = text c
    }
  }
  if (text ~ /[^[:space:]]/)
    print FILENAME ":" FNR ":" text
}
