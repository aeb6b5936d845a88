// What a checkpoint says of its quantisation, as a type of weights that covers the same parts of the model.
//   Reads  : quantization_config of quant_method fp8, mxfp4, modelopt and compressed-tensors, and ModelOpt's
//            hf_quant_config.json.
//   Strict : the parts that a checkpoint leaves in bf16, by its lists of modules, must be those that a WeightType leaves;
//            every name in the lists must be known. Otherwise an InputError with file and key says what was found and
//            which model.dtype comes nearest.
#pragma once

#include <vector>

#include "models/catalogue/hf_object.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// Sets `model`'s dtype and bytes_per_kv; its shape is read. `reach` is that of each layer.
void read_quantisation(const HfObject& quantization_config, const std::vector<AttentionReach>& reach, MoeSpec& model);
// The same from the whole of a hf_quant_config.json.
void read_quantisation_file(const HfObject& hf_quant_config, const std::vector<AttentionReach>& reach, MoeSpec& model);

}  // namespace epsim
