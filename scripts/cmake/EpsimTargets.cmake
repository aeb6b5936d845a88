# Helpers used by every folder's CMakeLists.txt: one library per folder, sources written out, links stated.

# Compile options that every target of the project shares.
add_library(epsim_options INTERFACE)
target_include_directories(epsim_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(epsim_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
# No fused multiply-add: results stay bit-identical across compilers and machines that have or lack FMA.
target_compile_options(epsim_options INTERFACE -ffp-contract=off)
# No code looks at floating-point traps or at the errno of mathematical functions; both would keep choices between two values
# from becoming vectors.
target_compile_options(epsim_options INTERFACE -fno-trapping-math -fno-math-errno)
if(CMAKE_UNITY_BUILD)
  # g++ takes each included .cpp of a unity build for a header. It collects garbage from 1 GiB on: a tenth less time for 1.5
  # GB a compiler in place of 1.2.
  target_compile_options(epsim_options INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage$<SEMICOLON>--param=ggc-min-heapsize=1048576>)
  # g++ spends an eighth of its time on checking format strings; clang's builds and builds of single sources check them.
  target_compile_definitions(epsim_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:FMT_CONSTEVAL=>)
endif()
if(EPSIM_WERROR)
  target_compile_options(epsim_options INTERFACE -Werror)
endif()

# Parses, prints and writes: it runs once a command, so what counts is how long it takes to compile (-Og: a fifth less
# than -O1).
add_library(epsim_cold INTERFACE)
target_compile_options(epsim_cold INTERFACE $<$<CONFIG:Release>:-Og>)

# GCC 12 does not compile Eigen's prefetches behind a precompiled header without optimisation.
if(CMAKE_UNITY_BUILD AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
                              AND NOT "${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS}" MATCHES "Rel|-O[1-3sg]"))
  set(EPSIM_PRECOMPILED ON)
endif()

# epsim_headers(NAME LINKS lib ... [MORE header ...]): headers of libraries that most sources include, compiled once for all
# targets that use them and have the options of `LINKS`. In a unity build alone: a build without -DCMAKE_UNITY_BUILD=ON shows
# what a source forgets to include.
function(epsim_headers name)
  cmake_parse_arguments(ARG "" "" "LINKS;MORE" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/empty.cpp CONTENT "")
  add_library(epsim_headers_${name} OBJECT ${CMAKE_BINARY_DIR}/empty.cpp)
  target_link_libraries(epsim_headers_${name} PRIVATE epsim_options fmt::fmt nlohmann_json::nlohmann_json ${ARG_LINKS})
  target_precompile_headers(epsim_headers_${name} PRIVATE <algorithm> <array> <charconv> <cmath> <cstdint> <filesystem>
    <fstream> <functional> <iostream> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
    <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> ${ARG_MORE})
endfunction()

# epsim_use_headers(TARGET NAME)
function(epsim_use_headers target name)
  if(EPSIM_PRECOMPILED)
    target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(${target} REUSE_FROM epsim_headers_${name})
  endif()
endfunction()
if(EPSIM_PRECOMPILED)
  epsim_headers(hot)
  epsim_headers(cold LINKS epsim_cold)
endif()

# epsim_library(NAME SOURCES a.cpp ... LINKS lib ... [ALONE b.cpp ...] [COLD_SOURCES c.cpp ...] [COLD]): the library
# `epsim_NAME` of the current folder. ALONE: sources that a unity build compiles by themselves, since names of their own stand
# in another source too. COLD_SOURCES: those that no run has in its loops; COLD: all of them.
function(epsim_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;COLD_SOURCES;LINKS;PRIVATE_LINKS;ALONE" ${ARGN})
  set(libraries PUBLIC epsim_options ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  set(temperature hot)
  if(ARG_COLD)
    list(APPEND libraries epsim_cold)
    set(temperature cold)
  elseif(ARG_COLD_SOURCES)
    add_library(epsim_${name}_cold OBJECT ${ARG_COLD_SOURCES})
    target_link_libraries(epsim_${name}_cold ${libraries} epsim_cold)
    epsim_use_headers(epsim_${name}_cold cold)
    list(APPEND ARG_SOURCES $<TARGET_OBJECTS:epsim_${name}_cold>)
  endif()
  add_library(epsim_${name} STATIC ${ARG_SOURCES} ${ARG_ALONE})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(epsim_${name} ${libraries})
  epsim_use_headers(epsim_${name} ${temperature})
endfunction()

# epsim_tests(FOLDER SOURCES a_test.cpp ... [SHARED b_test.cpp ...] LINKS lib ...)
# One binary per folder, one ctest entry per source file. Files under SHARED need ../shared: they are labelled `shared`
# and ctest reports them as skipped, with a message, where that folder is absent.
function(epsim_tests folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;SHARED;LINKS" ${ARGN})
  if(NOT TARGET epsim_test_main)
    add_library(epsim_test_options INTERFACE)
    target_link_libraries(epsim_test_options INTERFACE epsim_options doctest::doctest)
    # A tenth less to compile; an exception in a check ends its test case without the check's line.
    target_compile_definitions(epsim_test_options INTERFACE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
    # As quick to compile as -O0, and quicker to run.
    target_compile_options(epsim_test_options INTERFACE $<$<CONFIG:Release>:-Og>)
    if(EPSIM_PRECOMPILED)
      epsim_headers(test LINKS epsim_test_options MORE <doctest/doctest.h>)
      set_target_properties(epsim_headers_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # as the programs that use it
    endif()
    add_library(epsim_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
    target_link_libraries(epsim_test_main PRIVATE epsim_test_options)
    target_compile_definitions(epsim_test_main PRIVATE
      EPSIM_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" EPSIM_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
      EPSIM_SHARED_DEFAULT="${CMAKE_SOURCE_DIR}/../shared")
  endif()
  add_executable(${folder}_tests $<TARGET_OBJECTS:epsim_test_main> ${ARG_SOURCES} ${ARG_SHARED})
  target_link_libraries(${folder}_tests PRIVATE epsim_test_options ${ARG_LINKS})
  set_target_properties(${folder}_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  epsim_use_headers(${folder}_tests test)
  foreach(source IN LISTS ARG_SOURCES ARG_SHARED)
    get_filename_component(stem ${source} NAME_WE)
    set(extra "")
    if(source IN_LIST ARG_SHARED)
      set(extra --needs-shared)
    endif()
    add_test(NAME ${folder}.${stem} COMMAND ${folder}_tests --only-file=${stem}.cpp ${extra})
    set_tests_properties(${folder}.${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
    if(extra)
      set_tests_properties(${folder}.${stem} PROPERTIES LABELS shared)
    endif()
  endforeach()
endfunction()
