# SPDX-License-Identifier: Apache-2.0
# `cpack` in the build folder, after `ashlar` was built: ashlar_VERSION_ARCHITECTURE.deb, whose files go to /usr, and
# ashlar-VERSION-Linux-ARCHITECTURE.tar.gz, which runs from wherever it is unpacked. What is in them is what `cmake --install`
# puts in place (Install.cmake); libraries are those of the system that built them. DEBFULLNAME and DEBEMAIL in the environment
# name the maintainer of the .deb, as for Debian's own tools.
set(CPACK_PACKAGE_NAME ashlar)
set(CPACK_PACKAGE_VENDOR "The Ashlar authors")
set(CPACK_PACKAGE_CONTACT "The Ashlar authors <authors@ashlar.invalid>") # who builds it answers for it: PackageOptions.cmake
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Language models in blocks of tokens: run, chat, serve, measure")
set(CPACK_PACKAGE_DESCRIPTION "Speculative decoding by block-diffusion drafters and block-diffusion\n\
models as they are, on CPUs and GPUs, with an OpenAI-compatible server.\n\
The tokens of an answer never depend on the drafter.")
if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE) # a container is built from what it needs alone
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
endif()
set(CPACK_PACKAGE_FILE_NAME ashlar-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates) # to pull models
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # needs dpkg-dev: the libraries it depends on, by their packages
# With it the unit gets the prefix that the package's files have in the end, not that of the folder they are gathered in.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageOptions.cmake)
include(CPack)
