# SPDX-License-Identifier: Apache-2.0
# cmake --install build/release [--prefix DIR]: the program and the bundled models, its manual page and completions, the
# systemd unit, which starts the program from that prefix (/usr/local if none is given), licence and documentation.
include(GNUInstallDirs)

install(TARGETS ashlar RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ashlar/models)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/ashlar.toml ${PROJECT_SOURCE_DIR}/packaging/prometheus.yml
              ${PROJECT_SOURCE_DIR}/packaging/grafana-dashboard.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
              ${PROJECT_SOURCE_DIR}/packaging/copyright
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(CODE "set(unit ${PROJECT_SOURCE_DIR}/packaging/ashlar.service)
set(unit_folder ${PROJECT_BINARY_DIR}/installed)")
# Only when it is installed is it known to where. A tarball of CPack is unpacked anywhere: its unit stays that of /usr/local.
install(CODE [[
  file(READ ${unit} text)
  if(NOT CMAKE_INSTALL_PREFIX MATCHES "_CPack_Packages")
    string(REPLACE "/usr/local/" "${CMAKE_INSTALL_PREFIX}/" text "${text}")
  endif()
  file(WRITE ${unit_folder}/ashlar.service "${text}")
]])
install(FILES ${PROJECT_BINARY_DIR}/installed/ashlar.service DESTINATION lib/systemd/system)

# What the program prints about itself: ashlar_install_output(FILE FOLDER ARGUMENT...).
function(ashlar_install_output FILE FOLDER)
  set(folder ${PROJECT_BINARY_DIR}/installed)
  file(MAKE_DIRECTORY ${folder})
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:ashlar>\" ${ARGN} OUTPUT_FILE \"${folder}/${FILE}\"
    COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${folder}/${FILE} DESTINATION ${FOLDER})
endfunction()
# For C++ programs, only if asked for by name: `cmake --install BUILD --component library`, after the target libashlar is built.
if(TARGET libashlar)
  include(CMakePackageConfigHelpers)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ashlar)
  set(library COMPONENT library EXCLUDE_FROM_ALL)
  target_include_directories(libashlar INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(libashlar INTERFACE cxx_std_20)
  install(TARGETS libashlar EXPORT ashlar LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${library})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ashlar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${library})
  install(EXPORT ashlar NAMESPACE ashlar:: FILE ashlarConfig.cmake DESTINATION ${package} ${library})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/ashlarConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/ashlarConfigVersion.cmake DESTINATION ${package} ${library})
endif()

ashlar_install_output(ashlar.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
ashlar_install_output(ashlar ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
# Debian's zsh reads vendor-completions in /usr, and site-functions in /usr/local alone. To which it goes is known when it is installed.
set(zsh_in_usr site-functions)
if(EXISTS /etc/debian_version)
  set(zsh_in_usr vendor-completions)
endif()
install(CODE "set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
  set(zsh_folder ${zsh_in_usr})
endif()")
ashlar_install_output(_ashlar ${CMAKE_INSTALL_DATADIR}/zsh/\${zsh_folder} completion zsh)
ashlar_install_output(ashlar.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
