# SPDX-License-Identifier: Apache-2.0
# Writes HEADER with the commit of SOURCE: cmake -DSOURCE=... -DHEADER=... -P WriteCommit.cmake. Without git or outside a clone
# the commit is empty.
set(commit "")
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE head RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed)
  set(commit "${head}")
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
    OUTPUT_VARIABLE changes RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND NOT changes STREQUAL "")
    string(APPEND commit "-modified")
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define ASHLAR_COMMIT \"${commit}\"\n")
