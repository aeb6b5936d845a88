# Installs the header, builds experiments/plugin-example against it alone, and runs epsim with the result.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(failed)
    string(JOIN " " words ${ARGN})
    message(FATAL_ERROR "${words}\nended with ${failed}\n${out}\n${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
# A copy: the example must not reach back into the tree.
file(COPY ${SOURCE}/experiments/plugin-example DESTINATION ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component plugin --config ${CONFIG})
run(${CMAKE_COMMAND} -S ${WORK}/plugin-example -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
run(${CMAKE_COMMAND} --build ${WORK}/build)

# One layer, loads 8 7 6 5 on two GPUs, one copy per GPU: experts 0 and 1 are halved to 4 and 3.5, so the cards are
# 2 (6), 3 (5), 0 0 (4 each), 1 1 (3.5 each). The snake deals 2 | 3, then back 0 | 0, then 1 | 1.
file(WRITE ${WORK}/request.json [==[{"policy": "plugin", "options": {"path": "build/snake.so", "copies_per_gpu": 1},
  "weights": [[8, 7, 6, 5]], "num_gpus": 2}]==])
run(${EPSIM} plan ${WORK}/request.json -o -)
if(NOT out MATCHES "\"phy2log\": \\[\n +\\[2,0,1,3,0,1\\]")
  message(FATAL_ERROR "not the plan that the policy makes by hand:\n${out}")
endif()

# And a whole simulation with it.
run(${EPSIM} compare ${SOURCE}/tests/data/small.yaml --policies base,snake -q -o ${WORK}/compared
  --set "policies.snake={plugin: ${WORK}/build/snake.so, copies_per_gpu: 1}")
if(NOT out MATCHES "snake" OR NOT EXISTS ${WORK}/compared/snake/summary.json)
  message(FATAL_ERROR "the comparison does not show the plug-in:\n${out}")
endif()
