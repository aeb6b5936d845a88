# The program with the policy of the README's section "A policy in ten minutes": its file, its declaration and its line in
# the registry, as they stand there.
set(recipe_page ${CMAKE_SOURCE_DIR}/README.md)
set(recipe_registry ${CMAKE_SOURCE_DIR}/policies/registry.cpp)
set(recipe_folder ${CMAKE_CURRENT_BINARY_DIR}/readme-policy)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${recipe_page} ${recipe_registry})

# Moves the next C++ block of `recipe_rest`, without its indent, to the variable `block`.
function(take_cpp_block block)
  set(fence "   ```")
  string(FIND "${recipe_rest}" "${fence}cpp\n" start)
  if(start EQUAL -1)
    message(FATAL_ERROR "${recipe_page}: \"A policy in ten minutes\" has three C++ blocks; one is missing.")
  endif()
  string(SUBSTRING "${recipe_rest}" ${start} -1 rest)
  string(LENGTH "${fence}cpp\n" length)
  string(SUBSTRING "${rest}" ${length} -1 rest)
  string(FIND "${rest}" "${fence}\n" end)
  string(SUBSTRING "${rest}" 0 ${end} text)
  string(SUBSTRING "${rest}" ${end} -1 rest)
  string(REGEX REPLACE "^   " "" text "${text}")
  string(REPLACE "\n   " "\n" text "${text}")
  set(${block} "${text}" PARENT_SCOPE)
  set(recipe_rest "${rest}" PARENT_SCOPE)
endfunction()

# Adds `text` to the registry behind the line that ends in `line`.
function(insert_behind line text)
  string(FIND "${registry}" "${line}\n" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${recipe_registry} has no line \"${line}\".")
  endif()
  string(REPLACE "${line}\n" "${line}\n${text}" changed "${registry}")
  set(registry "${changed}" PARENT_SCOPE)
endfunction()

file(READ ${recipe_page} recipe_rest)
string(FIND "${recipe_rest}" "## A policy in ten minutes" section)
string(SUBSTRING "${recipe_rest}" ${section} -1 recipe_rest)
file(READ ${recipe_registry} registry)
take_cpp_block(policy)
take_cpp_block(declaration)
take_cpp_block(entry)
insert_behind("// Defined beside each policy." "${declaration}")
insert_behind("  static const PlacementPolicyEntry all[] = {" "${entry}")
file(CONFIGURE OUTPUT ${recipe_folder}/dealt.cpp CONTENT "${policy}" @ONLY)
file(CONFIGURE OUTPUT ${recipe_folder}/registry.cpp CONTENT "${registry}" @ONLY)

# The registry's own object file in the library is passed over, as everything in it is defined already.
add_executable(epsim_with_recipe ${CMAKE_SOURCE_DIR}/sim/app/main.cpp ${recipe_folder}/dealt.cpp
  ${recipe_folder}/registry.cpp)
target_link_libraries(epsim_with_recipe PRIVATE epsim_app Boost::program_options fmt::fmt)

# Experts 0 to 3 dealt to two GPUs: 0 and 2, 1 and 3.
file(WRITE ${recipe_folder}/request.json [==[{"policy": "dealt", "weights": [[4, 3, 2, 1]], "num_gpus": 2}]==])
add_test(NAME app.readme_policy_plan COMMAND epsim_with_recipe plan ${recipe_folder}/request.json -o -)
set_tests_properties(app.readme_policy_plan PROPERTIES PASS_REGULAR_EXPRESSION "\\[0,2,1,3\\]")
add_test(NAME app.readme_policy_run COMMAND epsim_with_recipe compare ${CMAKE_SOURCE_DIR}/tests/data/small.yaml
  --policies base,dealt -q --overwrite -o ${recipe_folder}/compared)
set_tests_properties(app.readme_policy_run PROPERTIES PASS_REGULAR_EXPRESSION "dealt against base")
