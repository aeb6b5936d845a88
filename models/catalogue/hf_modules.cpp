#include "models/catalogue/hf_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace epsim {
namespace {

using std::string_view;

constexpr char kLayers[] = "layers.";
constexpr std::size_t kMostGlobs = 10'000;

bool holds(string_view text, string_view part) { return text.find(part) != string_view::npos; }

// Of other parts of a model than its layers and head, which have the same names inside.
bool is_beside_the_model(string_view name) {
  constexpr std::array kParts{"vision", "visual", "projector", "patch_", "audio", "mtp"};
  return std::any_of(kParts.begin(), kParts.end(), [&](string_view part) { return holds(name, part); });
}

// Small, or in bf16 whatever the type: embedding and head, norms, routers, biases, convolutions, gates of one column a
// head, what weighs an indexer's heads.
bool is_small(string_view name) {
  constexpr std::array kParts{"embed",         "norm",       "lm_head",   "router",    "e_score_correction_bias",
                              "eh_proj",       "conv1d",     "in_proj_a", "in_proj_b", "weights_proj",
                              "indexers_proj", "shared_head"};
  const std::size_t gate = name.rfind("gate");
  return name == "head" || std::any_of(kParts.begin(), kParts.end(), [&](string_view p) { return holds(name, p); }) ||
         (gate != name.npos && (gate + 4 == name.size() || name[gate + 4] != '_'));
}

// Whether `text` is as `glob` says, in which * stands for anything and ? for one character.
bool fits(string_view glob, string_view text) {
  std::size_t g = 0, t = 0, star = glob.npos, after = 0;
  while (t < text.size()) {
    if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t]) && glob[g] != '*') {
      ++g;
      ++t;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      after = t;
    } else if (star != glob.npos) {
      g = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  return std::all_of(glob.begin() + static_cast<std::ptrdiff_t>(g), glob.end(), [](char c) { return c == '*'; });
}

// The number behind "layers.", or its beginning; -1 where there is none.
int layer_of(string_view name) {
  const std::size_t at = name.find(kLayers);
  std::size_t end = at == name.npos ? 0 : at + sizeof kLayers - 1;
  int out = -1;
  while (at != name.npos && end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0 &&
         out < 1'000'000) {
    out = std::max(out, 0) * 10 + (name[end++] - '0');
  }
  return out;
}

void replace_all(std::string& text, string_view from, string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// One spelling for what families call differently, and for where the layers are.
std::string usual_name(std::string name) {
  for (const char* ffn : {"block_sparse_moe", "feed_forward"}) {
    replace_all(name, ffn, "mlp");
  }
  replace_all(name, "shared_experts", "shared_expert");
  if (const std::size_t at = name.find(kLayers); at != name.npos) {
    return "model." + name.substr(at);
  }
  return name;
}

// A regular expression as patterns with *, one for each choice; nothing where it holds more than is known.
std::vector<std::string> globs_of(string_view regex) {
  constexpr std::size_t kMost = 64;
  std::vector<std::string> out{""};
  const auto append = [&](string_view text) {
    std::for_each(out.begin(), out.end(), [&](std::string& o) { o += text; });
  };
  const auto take = [&](string_view token) {
    const bool taken = regex.starts_with(token);
    regex.remove_prefix(taken ? token.size() : 0);
    return taken;
  };
  take("^");
  bool open = true;  // it has to fit the beginning alone
  while (!regex.empty()) {
    if (take(".*") || take(".+") || take("\\d+") || take("[0-9]+") || take("[0-9]*")) {
      append("*");
    } else if (take("\\.")) {
      append(".");
    } else if (regex == "$") {
      open = !take("$");
    } else if (take("(")) {
      take("?:");
      const std::size_t end = regex.find(')');
      string_view choices = regex.substr(0, end);
      if (end == regex.npos || choices.find_first_of("(*+?[{^$") != choices.npos) {
        return {};
      }
      regex.remove_prefix(end + 1);
      const std::vector<std::string> before = std::exchange(out, {});
      for (bool more = true; more && out.size() <= kMost;) {
        const std::size_t bar = choices.find('|');
        more = bar != choices.npos;
        std::string choice(choices.substr(0, bar));
        replace_all(choice, "\\.", ".");
        std::transform(before.begin(), before.end(), std::back_inserter(out),
                       [&](const std::string& b) { return b + choice; });
        choices.remove_prefix(more ? bar + 1 : 0);
      }
    } else if (string_view("\\[]{}()*+?|^$").find(regex.front()) != string_view::npos) {
      return {};
    } else {
      append(regex.substr(0, 1));
      regex.remove_prefix(1);
    }
    if (out.size() > kMost) {
      return {};
    }
  }
  if (open) {
    append("*");
  }
  return out;
}

// Modules of attention. Fused ones stand beside the parts that they hold.
void add_attention(const AttentionSpec& a, AttentionReach reach, std::vector<HfModule>& out) {
  if (reach == AttentionReach::kLinear) {  // priced as one part, with its output
    out.push_back({{"linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"}, WeightsOf::kAttention});
    out.push_back({{"linear_attn.in_proj_z", "linear_attn.in_proj_qkvz"}, WeightsOf::kAttention});
    out.push_back({{"linear_attn.out_proj"}, WeightsOf::kAttention});
    return;
  }
  std::vector<const char*> inputs{"q_proj", "k_proj", "v_proj"};
  if (a.kind == AttentionKind::kMla) {
    inputs = a.q_lora_rank > 0 ? std::vector<const char*>{"q_a_proj", "q_b_proj"} : std::vector<const char*>{"q_proj"};
    inputs.insert(inputs.end(), {"kv_a_proj_with_mqa", "kv_b_proj"});
  }
  if (reach == AttentionReach::kSparse) {
    inputs.insert(inputs.end(), {"indexer.wq_b", "indexer.wk"});
  }
  for (const char* name : inputs) {
    out.push_back({{fmt::format("self_attn.{}", name)}, WeightsOf::kAttention});
  }
  out.push_back({{"self_attn.o_proj"}, WeightsOf::kOutput});
}

// Gate, up and down matrices below `where`; of Mixtral's experts w1, w3 and w2.
void add_ffn(const std::string& where, WeightsOf part, std::vector<HfModule>& out) {
  out.push_back({{where + ".gate_proj", where + ".gate_up_proj", where + ".w1"}, part});
  out.push_back({{where + ".up_proj", where + ".gate_up_proj", where + ".w3"}, part});
  out.push_back({{where + ".down_proj", where + ".w2"}, part});
}

// What a name may cover in models of other shapes.
std::vector<HfModule> all_kinds() {
  std::vector<HfModule> out;
  AttentionSpec a;
  add_attention(a, AttentionReach::kLinear, out);
  add_attention(a, AttentionReach::kFull, out);
  a.kind = AttentionKind::kMla;
  a.q_lora_rank = 1;
  add_attention(a, AttentionReach::kSparse, out);
  add_ffn("mlp", WeightsOf::kFfn, out);
  add_ffn("mlp.shared_expert", WeightsOf::kFfn, out);
  add_ffn("mlp.experts.0", WeightsOf::kExperts, out);
  return out;
}

// What a pattern stands for: the module that it names, what is in it, and those that end like it; a regular expression
// (`whole`) for itself.
std::vector<std::string> variants_of(const std::string& pattern, bool whole) {
  std::vector<std::string> out{pattern};
  if (whole) {
    return out;
  }
  if (!pattern.ends_with('*')) {
    out.push_back(pattern + ".*");
  }
  if (!pattern.starts_with('*') && !pattern.starts_with("model.")) {
    const std::vector<std::string> from_the_start = out;
    std::transform(from_the_start.begin(), from_the_start.end(), std::back_inserter(out),
                   [](const std::string& o) { return "*." + o; });
  }
  return out;
}

bool any_fits(const std::vector<std::string>& globs, string_view module) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& g) { return fits(g, module); });
}

}  // namespace

std::vector<HfModule> hf_modules(const MoeSpec& model, const std::vector<AttentionReach>& reach, bool every_expert) {
  const std::vector<int> moe = model.moe_layer_numbers();
  std::vector<HfModule> out;
  for (int l = 0; l < model.layers; ++l) {
    std::vector<HfModule> layer;
    add_attention(model.attention, reach[static_cast<std::size_t>(l)], layer);
    if (!std::binary_search(moe.begin(), moe.end(), l)) {
      add_ffn("mlp", WeightsOf::kFfn, layer);
    } else {
      if (model.shared_intermediate > 0) {
        add_ffn("mlp.shared_expert", WeightsOf::kFfn, layer);
      }
      for (int e = 0; e < (every_expert ? model.experts : 1); ++e) {
        add_ffn(fmt::format("mlp.experts.{}", e), WeightsOf::kExperts, layer);
      }
    }
    for (HfModule& module : layer) {
      for (std::string& name : module.names) {
        name = fmt::format("model.layers.{}.{}", l, name);
      }
      out.push_back(std::move(module));
    }
  }
  return out;
}

HfModuleList::HfModuleList(const std::vector<std::string>& names) : names_(names) {
  for (std::size_t n = 0; n < names.size(); ++n) {
    string_view name = names[n];
    std::vector<std::string> patterns{std::string(name)};
    if (name.starts_with("re:")) {
      name.remove_prefix(3);
      patterns = globs_of(name);
    }
    const bool readable = std::none_of(patterns.begin(), patterns.end(),
                                       [](const std::string& p) { return p.find_first_of("[]{}()|\\") != p.npos; });
    if (name.empty() || patterns.empty() || !readable || globs_.size() > kMostGlobs) {
      throw std::invalid_argument(names[n]);
    }
    for (const std::string& pattern : patterns) {
      add(pattern, n);
    }
  }
}

void HfModuleList::add(const std::string& pattern, std::size_t name) {
  head_ = head_ || holds(pattern, "lm_head") || pattern == "head" || fits(pattern, "lm_head");
  if (is_beside_the_model(pattern)) {
    used_.insert(name);
    return;
  }
  const std::string usual = usual_name(pattern);
  const std::size_t experts = usual.find("experts.");
  single_experts_ =
      single_experts_ || (experts != usual.npos && experts + 8 < usual.size() && usual[experts + 8] != '*');
  if (usual.starts_with("model.layers.") && usual.find_first_of("*?") == usual.npos) {
    exact_.emplace(usual, name);
  } else {
    globs_.push_back({variants_of(usual, names_[name].starts_with("re:")), name});
  }
}

bool HfModuleList::covers(const std::string& module) const {
  bool out = false;
  for (std::size_t end = module.find('.'); end != module.npos;) {  // it, or what it is in
    end = module.find('.', end + 1);
    if (const auto found = exact_.find(string_view(module).substr(0, end)); found != exact_.end()) {
      used_.insert(found->second);
      out = true;
    }
  }
  for (const Glob& glob : globs_) {
    if (any_fits(glob.variants, module)) {
      used_.insert(glob.name);
      out = true;
    }
  }
  return out;
}

bool HfModuleList::covers(const HfModule& module) const {
  return std::count_if(module.names.begin(), module.names.end(), [&](const std::string& n) { return covers(n); }) > 0;
}

std::vector<std::string> HfModuleList::unknown(int layers) const {
  const std::vector<HfModule> kinds = all_kinds();
  std::vector<std::string> out;
  const auto known = [&](const std::vector<std::string>& variants) {
    const std::string& usual = variants.front();
    const int layer = layer_of(usual);
    return is_small(usual) || layer >= layers || std::any_of(kinds.begin(), kinds.end(), [&](const HfModule& kind) {
             return std::any_of(kind.names.begin(), kind.names.end(), [&](const std::string& n) {
               return any_fits(variants, fmt::format("model.layers.{}.{}", std::max(layer, 0), n));
             });
           });
  };
  for (const auto& [text, name] : exact_) {
    if (!used_.contains(name) && !known(variants_of(text, false))) {
      out.push_back(names_[name]);
    }
  }
  for (const Glob& glob : globs_) {
    if (!used_.contains(glob.name) && !known(glob.variants)) {
      out.push_back(names_[glob.name]);
    }
  }
  return out;
}

}  // namespace epsim
