// Hardware by name: GPUs and nodes of models/hardware/*.yaml, or a node of the user's own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

// For lists: a name and one sentence.
struct CatalogueItem {
  std::string name;
  std::string summary;
};

using Sources = std::map<std::string, std::string>;  // figure -> where it comes from

struct GpuEntry {
  GpuSpec spec;  // spec.source is the file of the entry
  std::string summary;
  Sources sources;
  ComputeProfile compute;
};

struct NodeEntry {
  NodeSpec spec;
  std::string summary;
  Sources sources;  // of the node's own figures
  ComputeProfile compute;
  NetworkProfile network;
};

// In the order of the data files.
std::vector<CatalogueItem> list_gpus();
std::vector<CatalogueItem> list_nodes();

// By name; case, blanks, hyphens and underscores do not matter. An unknown name is an InputError that lists all, the
// nearest first.
GpuEntry find_gpu(const std::string& name);
// By name, or by the path of a YAML file (ends in .yaml or .yml, or has a folder in it) with the keys of one entry of
// models/hardware/nodes.yaml; errors in it name file and line.
NodeEntry find_node(const std::string& name_or_path);

}  // namespace epsim
