# SPDX-License-Identifier: Apache-2.0
# Every target of the tree is made here, so that language level, warnings and sanitizers are one decision.
# Code is compiled for plain x86-64; wider instruction sets live in target regions and are chosen at run time.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option(ASHLAR_DEBUG_INFO "Line numbers in stack traces (a tenth of the time to compile)" OFF)
option(ASHLAR_UNITY "Compile several source files of a library or a test at once: a whole build is faster, a change slower" OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(ASHLAR_DEBUG_INFO)
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -g1")
endif()

add_library(ashlar_options INTERFACE)
target_compile_options(ashlar_options INTERFACE
  -Wall -Wextra
  # One rounding per written operation: the bits of a row may not depend on what the optimiser fuses.
  -ffp-contract=off
  # A failed check names src/FILE: what is packed says nothing of the machine that built it.
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
target_include_directories(ashlar_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(ASHLAR_SANITIZE)
  target_compile_options(ashlar_options INTERFACE
    -fsanitize=${ASHLAR_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1
    # What the instrumented std::regex and std::function do looks uninitialised to GCC.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(ashlar_options INTERFACE -fsanitize=${ASHLAR_SANITIZE})
endif()
if(ASHLAR_FUZZ) # the libraries too tell the fuzzer which way they went
  target_compile_options(ashlar_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -O1
    -Wno-unknown-pragmas -Wno-unknown-warning-option) # those of GCC, around code for instruction sets
  target_link_options(ashlar_options INTERFACE -fsanitize=address,undefined)
  add_custom_target(fuzzers)
endif()

# Tests are compiled once and run once: without optimisation they compile in half the time, and what they call is in libraries.
# Under sanitizers they would run twice as long, since what is checked most is inlined templates; there the checks for undefined
# behaviour take a third of the time, and ./check leaves them to libraries, which are what is tested. In libraries it leaves out
# those of every access: they take as long as the rest together, and most of what they find stops under AddressSanitizer too.
# Arithmetic, shifts, bounds, conversions of floats and values of bool and enum stay.
option(ASHLAR_ALL_SANITIZERS "Check for all undefined behaviour, in tests themselves too, where any is checked for" ON)
set(of_tests $<BOOL:$<TARGET_PROPERTY:ASHLAR_QUICKLY_COMPILED>>)
if(NOT ASHLAR_SANITIZE)
  target_compile_options(ashlar_options INTERFACE $<${of_tests}:-O0>)
elseif(ASHLAR_SANITIZE MATCHES "undefined" AND NOT ASHLAR_ALL_SANITIZERS)
  target_compile_options(ashlar_options INTERFACE
    $<IF:${of_tests},-fno-sanitize=undefined,-fno-sanitize=null$<COMMA>vptr$<COMMA>object-size$<COMMA>alignment$<COMMA>pointer-overflow>)
endif()

# The code of libraries also goes into shared objects (the Python module). Hidden names keep it as fast as that of a program:
# the compiler may inline and call directly, as no other object can replace them.
function(ashlar_shareable NAME)
  set_target_properties(${NAME} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Headers that most files read are parsed once. A file still names what it uses: builds with clang go without.
option(ASHLAR_PRECOMPILED_HEADERS "Parse common headers once (GCC)" ON)
if(ASHLAR_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(ASHLAR_PRECOMPILE ON)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "")
  add_library(ashlar_precompiled OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
  ashlar_shareable(ashlar_precompiled)
  target_link_libraries(ashlar_precompiled PRIVATE ashlar_options)
  target_compile_options(ashlar_options INTERFACE -fpch-preprocess) # lets ccache see through them
  target_precompile_headers(ashlar_precompiled PRIVATE
    <algorithm> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional> <span> <string> <string_view>
    <variant> <vector> <nlohmann/json.hpp>)
endif()

function(ashlar_batches NAME BATCH)
  if(NOT BATCH)
    set(BATCH 8)
  endif()
  if(ASHLAR_UNITY AND BATCH GREATER 1)
    set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${BATCH})
  endif()
endfunction()

# Libraries are built for the programs and tests that want them, and for nothing else.
# ashlar_library(NAME SOURCES a.cc b.cc DEPS ashlar_base ... [PRIVATE_DEPS ...] [BATCH n])
# Most files read the same headers and instantiate the same templates, so they are compiled BATCH at a time (8; 1: each by
# itself). Names in unnamed namespaces therefore differ within a library.
function(ashlar_library NAME)
  cmake_parse_arguments(ARG "" "BATCH" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${NAME} STATIC EXCLUDE_FROM_ALL ${ARG_SOURCES})
  ashlar_batches(${NAME} "${ARG_BATCH}")
  ashlar_shareable(${NAME})
  target_link_libraries(${NAME} PUBLIC ashlar_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  if(ASHLAR_PRECOMPILE)
    target_precompile_headers(${NAME} REUSE_FROM ashlar_precompiled)
  endif()
endfunction()

function(ashlar_test_definitions NAME)
  target_compile_definitions(${NAME} PRIVATE
    ASHLAR_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ASHLAR_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
endfunction()

# ashlar_test(NAME SOURCES a_test.cc DEPS ashlar_text ... [LABELS unit] [TIMEOUT s] [BATCH n] [COST s]): one
# GoogleTest program; ctest lists each of its cases. BATCH as for libraries, but 1 if it is not given. ASHLAR_SOURCE_DIR and
# ASHLAR_TEST_DATA are compiled in as paths. COST: about how long it takes; ctest starts the dearest first, so that none runs
# alone at the end.
function(ashlar_test NAME)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT;BATCH;COST" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(properties LABELS "${ARG_LABELS}")
  if(ARG_COST)
    list(APPEND properties COST ${ARG_COST})
  endif()
  if(ASHLAR_SANITIZE) # which makes loops over numbers ten times slower: more time, and never every combination
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
    list(APPEND properties ENVIRONMENT_MODIFICATION "ASHLAR_LONG_TESTS=unset:")
  endif()
  add_executable(${NAME} ${ARG_SOURCES})
  set_target_properties(${NAME} PROPERTIES ASHLAR_QUICKLY_COMPILED ON)
  if(ARG_BATCH)
    ashlar_batches(${NAME} ${ARG_BATCH})
  endif()
  target_link_libraries(${NAME} PRIVATE ashlar_options ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  ashlar_test_definitions(${NAME})
  if(ASHLAR_PRECOMPILE)
    if(NOT TARGET ashlar_precompiled_tests)
      file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled_tests.cc CONTENT "")
      add_library(ashlar_precompiled_tests OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled_tests.cc)
      target_link_libraries(ashlar_precompiled_tests PRIVATE ashlar_options GTest::gtest GTest::gmock)
      set_target_properties(ashlar_precompiled_tests PROPERTIES ASHLAR_QUICKLY_COMPILED ON)
      ashlar_test_definitions(ashlar_precompiled_tests)
      target_precompile_headers(ashlar_precompiled_tests PRIVATE
        <algorithm> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional> <random> <span> <string>
        <string_view> <variant> <vector> <nlohmann/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
    endif()
    target_precompile_headers(${NAME} REUSE_FROM ashlar_precompiled_tests)
  endif()
  if(ARG_WHOLE) # cases share an expensive fixture: one ctest entry for the program
    add_test(NAME ${ASHLAR_TEST_PREFIX}${NAME} COMMAND ${NAME})
    set_tests_properties(${ASHLAR_TEST_PREFIX}${NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ${properties})
  else()
    gtest_discover_tests(${NAME} TEST_PREFIX "${ASHLAR_TEST_PREFIX}" DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} ${properties})
  endif()
endfunction()

# ashlar_fuzzer(NAME SOURCES x_fuzz.cc DEPS ...): a libFuzzer program, built only with -DASHLAR_FUZZ=ON and clang.
function(ashlar_fuzzer NAME)
  if(NOT ASHLAR_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ashlar_options ${ARG_DEPS})
  target_compile_options(${NAME} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzzers ${NAME})
endfunction()
