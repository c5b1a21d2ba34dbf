# SPDX-License-Identifier: Apache-2.0
# Read by CPack for each kind of package (Package.cmake).
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_SET_DESTDIR ON)
  set(CPACK_INSTALL_PREFIX /usr)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake)
  if(DEFINED ENV{DEBEMAIL})
    set(name "The Ashlar authors")
    if(DEFINED ENV{DEBFULLNAME})
      set(name "$ENV{DEBFULLNAME}")
    endif()
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${name} <$ENV{DEBEMAIL}>")
  endif()
endif()
