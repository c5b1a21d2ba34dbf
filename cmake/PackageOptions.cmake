# SPDX-License-Identifier: Apache-2.0
# Read by CPack for each kind of package (Package.cmake).
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_SET_DESTDIR ON)
  set(CPACK_INSTALL_PREFIX /usr)
endif()
