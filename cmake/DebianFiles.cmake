# SPDX-License-Identifier: Apache-2.0
# What Debian's policy asks of a package's files, once they are gathered and before they are packed (PackageOptions.cmake): the
# manual page compressed, a changelog in dpkg's form, and no second copy of the licence, which `copyright` refers to.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(maintainer "${CPACK_DEBIAN_PACKAGE_MAINTAINER}")
if(NOT maintainer)
  set(maintainer "${CPACK_PACKAGE_CONTACT}")
endif()
# Of the changes, not of the day it was packed: the same sources make the same package.
file(TIMESTAMP ${share}/doc/ashlar/CHANGELOG.md changed "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${share}/doc/ashlar/changelog "ashlar (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What changed is in CHANGELOG.md next to this file.

 -- ${maintainer}  ${changed}
")
execute_process(COMMAND gzip -9n ${share}/doc/ashlar/changelog ${share}/man/man1/ashlar.1 COMMAND_ERROR_IS_FATAL ANY)
