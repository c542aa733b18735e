// What a plan of the double holds: the tensors, the profiles, and the outputs that were recorded for given inputs.
#pragma once

#include "json.h"

#include <NvInfer.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trtdouble {

struct Tensor {
    std::string name;
    nvinfer1::DataType type;
    // −1 where dynamic.
    nvinfer1::Dims dims;
    // One name per dimension; empty where it has none.
    std::vector<std::string> dim_names;
    // Only shown to a debug listener.
    bool is_debug = false;
};

struct Range {
    nvinfer1::Dims min, opt, max;
};
using Profile = std::map<std::string, Range>;

// The bytes of one tensor, and their shape.
struct Values {
    nvinfer1::Dims dims;
    std::string bytes;
};
using NamedValues = std::map<std::string, Values>;

// These inputs, bit for bit, give these outputs.
struct Batch {
    NamedValues inputs;
    NamedValues outputs;
};

// One row of a text model: what stands where the mask is 1, and its outputs without the batch axis.
struct Row {
    std::vector<std::vector<std::int64_t>> key;
    NamedValues outputs;
};

struct Recording {
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<Profile> profiles;
    // One JSON text per layer, as the inspector gives it.
    std::vector<std::string> layers;
    std::vector<Batch> batches;
    // The input that says where a row has tokens, and the inputs that identify a row.
    std::string mask;
    std::vector<std::string> keys;
    std::vector<Row> rows;
    double compute_us = 100;
    std::int64_t device_memory = 4096;
    std::int64_t weights = 0;

    Tensor const* find(std::string const& name) const;
    bool is_input(std::string const& name) const;

    // Throws std::runtime_error.
    static Recording from(Json const& json);
};

std::size_t bytes_of(nvinfer1::DataType type, nvinfer1::Dims const& dims);
std::string text_of(nvinfer1::Dims const& dims);
bool same(nvinfer1::Dims const& a, nvinfer1::Dims const& b);
Json to_json(Profile const& profile);
std::string read_file(std::string const& path);

// The sizes of an output for these input shapes, from the names of its dimensions.
nvinfer1::Dims shape_for(Recording const& recording, Tensor const& output,
                         std::map<std::string, nvinfer1::Dims> const& inputs);

// Computes the outputs: by looking them up. Throws std::runtime_error, naming what was never recorded.
NamedValues replay(Recording const& recording, NamedValues const& inputs);

} // namespace trtdouble
