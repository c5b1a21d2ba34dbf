# SPDX-License-Identifier: Apache-2.0
# What Debian's policy asks of a package's files, once they are gathered and before they are packed (PackageOptions.cmake): the
# manual page compressed, and a changelog in dpkg's form.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(maintainer "${CPACK_DEBIAN_PACKAGE_MAINTAINER}")
if(NOT maintainer)
  set(maintainer "${CPACK_PACKAGE_CONTACT}")
endif()
# Not of the day it was packed: what SOURCE_DATE_EPOCH says, so that the same sources give the same file wherever they are
# checked out, and without it when CHANGELOG.md was written here.
set(form "%a, %d %b %Y %H:%M:%S +0000")
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  string(TIMESTAMP changed "${form}" UTC) # takes the variable for the clock
else()
  file(TIMESTAMP ${share}/doc/ashlar/CHANGELOG.md changed "${form}" UTC)
endif()
file(WRITE ${share}/doc/ashlar/changelog "ashlar (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What changed is in CHANGELOG.md next to this file.

 -- ${maintainer}  ${changed}
")
execute_process(COMMAND gzip -9n ${share}/doc/ashlar/changelog ${share}/man/man1/ashlar.1 COMMAND_ERROR_IS_FATAL ANY)
