// Which operators price a model: names by the types of its weights and cache and by the width of its heads.
#pragma once

#include <string>
#include <string_view>

#include "models/profile/fitted_op.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

std::string dense_op(const MoeSpec& model, WeightsOf part);
std::string experts_op(const MoeSpec& model);
// Empty where no table measures such heads: MLA that is not DeepSeek's.
// Of an fp8 cache the bf16 one where the fits have none of their own for it.
std::string prefill_op(const MoeSpec& model, const FittedProfile& fits);
std::string decode_op(const MoeSpec& model);

// Whether products with the model's weights were measured, and the GPU has them; bf16 has them everywhere.
bool has_kernels(const FittedProfile* fits, const GpuSpec& gpu, const MoeSpec& model);
// Whether a run of the model asks for this operator of its machine's fits.
bool asks_for(const MoeSpec& model, std::string_view op, const FittedProfile& fits);

}  // namespace epsim
