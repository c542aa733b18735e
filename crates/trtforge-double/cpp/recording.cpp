#include "recording.h"

#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace trtdouble {
namespace {

using nvinfer1::DataType;
using nvinfer1::Dims;

DataType type_named(std::string const& name) {
    static std::map<std::string, DataType> const types = {
        {"float32", DataType::kFLOAT}, {"float16", DataType::kHALF}, {"int8", DataType::kINT8},
        {"int32", DataType::kINT32},   {"bool", DataType::kBOOL},    {"uint8", DataType::kUINT8},
        {"int64", DataType::kINT64},   {"bfloat16", DataType::kBF16}};
    auto const found = types.find(name);
    if (found == types.end()) {
        throw std::runtime_error("a recording has no tensors of type " + name);
    }
    return found->second;
}

std::size_t size_of(DataType type) {
    switch (type) {
    case DataType::kINT64: return 8;
    case DataType::kFLOAT:
    case DataType::kINT32: return 4;
    case DataType::kHALF:
    case DataType::kBF16: return 2;
    default: return 1;
    }
}

Dims dims_from(Json const& json) {
    Dims dims{};
    for (auto const size : json.integers()) {
        if (dims.nbDims == Dims::MAX_DIMS) {
            throw std::runtime_error("a recording has more dimensions than TensorRT");
        }
        dims.d[dims.nbDims++] = size;
    }
    return dims;
}

Tensor tensor_from(Json const& json) {
    Tensor tensor{json.at("name").text(), type_named(json.at("type").text()), dims_from(json.at("dims")), {}, false};
    for (auto const& name : json.at("dim_names").items()) {
        tensor.dim_names.push_back(name.text());
    }
    tensor.dim_names.resize(static_cast<std::size_t>(tensor.dims.nbDims));
    tensor.is_debug = json.at("debug").kind() == Json::Kind::kBool && json.at("debug").dump() == "true";
    return tensor;
}

int digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    throw std::runtime_error("a recording's values are not hexadecimal");
}

Values values_from(Json const& json) {
    Values values{dims_from(json.at("dims")), {}};
    auto const& hex = json.at("bytes").text();
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        values.bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
    }
    return values;
}

NamedValues named_from(Json const& json) {
    NamedValues named;
    for (auto const& [name, values] : json.fields()) {
        named.emplace(name, values_from(values));
    }
    return named;
}

Profile profile_from(Json const& json) {
    Profile profile;
    for (auto const& [input, range] : json.fields()) {
        profile[input] = {dims_from(range.at("min")), dims_from(range.at("opt")), dims_from(range.at("max"))};
    }
    return profile;
}

Row row_from(Json const& json) {
    Row row;
    for (auto const& ids : json.at("key").items()) {
        row.key.push_back(ids.integers());
    }
    row.outputs = named_from(json.at("outputs"));
    return row;
}

Json dims_to_json(Dims const& dims) {
    Json out = Json::array();
    for (std::int32_t i = 0; i < dims.nbDims; ++i) {
        out.push(Json(static_cast<std::int64_t>(dims.d[i])));
    }
    return out;
}

std::int64_t element(Values const& values, DataType type, std::size_t index) {
    auto const* bytes = values.bytes.data() + index * size_of(type);
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    switch (type) {
    case DataType::kINT64: std::memcpy(&wide, bytes, 8); return wide;
    case DataType::kINT32: std::memcpy(&narrow, bytes, 4); return narrow;
    case DataType::kUINT8:
    case DataType::kBOOL: return static_cast<unsigned char>(*bytes);
    case DataType::kINT8: return static_cast<signed char>(*bytes);
    default: throw std::runtime_error("rows are known by whole numbers, not by floats");
    }
}

bool same_inputs(NamedValues const& a, NamedValues const& b) {
    if (a.size() != b.size()) {
        return false;
    }
    for (auto const& [name, values] : a) {
        auto const other = b.find(name);
        if (other == b.end() || !same(values.dims, other->second.dims) || values.bytes != other->second.bytes) {
            return false;
        }
    }
    return true;
}

// Row by row, for inputs [batch, positions].
class RowReplay {
  public:
    RowReplay(Recording const& recording, NamedValues const& inputs) : recording_(recording), inputs_(inputs) {
        auto const mask = inputs.find(recording.mask);
        if (mask == inputs.end() || mask->second.dims.nbDims != 2) {
            throw std::runtime_error("a recording of rows needs a mask [batch, positions]");
        }
        batch_ = mask->second.dims.d[0];
        positions_ = mask->second.dims.d[1];
    }

    NamedValues run() {
        std::map<std::string, Dims> shapes;
        for (auto const& [name, values] : inputs_) {
            shapes[name] = values.dims;
        }
        NamedValues outputs;
        for (auto const& tensor : recording_.outputs) {
            Values values{shape_for(recording_, tensor, shapes), {}};
            values.bytes.assign(bytes_of(tensor.type, values.dims), '\0');
            outputs.emplace(tensor.name, std::move(values));
        }
        for (std::int64_t row = 0; row < batch_; ++row) {
            write(row, outputs);
        }
        return outputs;
    }

  private:
    void write(std::int64_t row, NamedValues& outputs) {
        auto const tokens = tokens_of(row);
        for (auto const& tensor : recording_.outputs) {
            auto& whole = outputs.at(tensor.name);
            auto const per_row = whole.bytes.size() / static_cast<std::size_t>(batch_);
            char* const to = whole.bytes.data() + per_row * static_cast<std::size_t>(row);
            if (tokens.empty()) {
                // A row without a token is padding of the batch; who reads it shall notice.
                if (tensor.type == DataType::kFLOAT) {
                    float const nothing = std::numeric_limits<float>::quiet_NaN();
                    for (std::size_t i = 0; i + 4 <= per_row; i += 4) {
                        std::memcpy(to + i, &nothing, 4);
                    }
                }
                continue;
            }
            place(recorded(row, tokens).outputs.at(tensor.name), tokens, to, per_row);
        }
    }

    std::vector<std::int64_t> tokens_of(std::int64_t row) const {
        std::vector<std::int64_t> tokens;
        for (std::int64_t at = 0; at < positions_; ++at) {
            if (value(recording_.mask, row, at) != 0) {
                tokens.push_back(at);
            }
        }
        return tokens;
    }

    std::int64_t value(std::string const& input, std::int64_t row, std::int64_t at) const {
        auto const* tensor = recording_.find(input);
        return element(inputs_.at(input), tensor->type, static_cast<std::size_t>(row * positions_ + at));
    }

    Row const& recorded(std::int64_t row, std::vector<std::int64_t> const& tokens) const {
        std::vector<std::vector<std::int64_t>> key;
        std::ostringstream text;
        for (auto const& input : recording_.keys) {
            key.emplace_back();
            text << " " << input;
            for (auto const at : tokens) {
                key.back().push_back(value(input, row, at));
                text << " " << key.back().back();
            }
        }
        for (auto const& candidate : recording_.rows) {
            if (candidate.key == key) {
                return candidate;
            }
        }
        throw std::runtime_error("the test double has no recording of the row" + text.str());
    }

    // An output with one entry per token goes where the row's tokens are; any other fills the row.
    static void place(Values const& values, std::vector<std::int64_t> const& tokens, char* to, std::size_t per_row) {
        if (values.bytes.size() == per_row) {
            std::memcpy(to, values.bytes.data(), per_row);
            return;
        }
        auto const width = values.bytes.size() / tokens.size();
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            auto const offset = static_cast<std::size_t>(tokens[i]) * width;
            if (offset + width > per_row) {
                throw std::runtime_error("a recorded row is larger than the output");
            }
            std::memcpy(to + offset, values.bytes.data() + i * width, width);
        }
    }

    Recording const& recording_;
    NamedValues const& inputs_;
    std::int64_t batch_ = 0;
    std::int64_t positions_ = 0;
};

} // namespace

Tensor const* Recording::find(std::string const& name) const {
    for (auto const* list : {&inputs, &outputs}) {
        for (auto const& tensor : *list) {
            if (tensor.name == name) {
                return &tensor;
            }
        }
    }
    return nullptr;
}

bool Recording::is_input(std::string const& name) const {
    for (auto const& tensor : inputs) {
        if (tensor.name == name) {
            return true;
        }
    }
    return false;
}

Recording Recording::from(Json const& json) {
    if (json.at("inputs").items().empty()) {
        throw std::runtime_error("a recording without inputs");
    }
    Recording out;
    for (auto const& tensor : json.at("inputs").items()) {
        out.inputs.push_back(tensor_from(tensor));
    }
    for (auto const& tensor : json.at("outputs").items()) {
        out.outputs.push_back(tensor_from(tensor));
    }
    for (auto const& profile : json.at("profiles").items()) {
        out.profiles.push_back(profile_from(profile));
    }
    for (auto const& layer : json.at("layers").items()) {
        out.layers.push_back(layer.dump());
    }
    for (auto const& batch : json.at("batches").items()) {
        out.batches.push_back({named_from(batch.at("inputs")), named_from(batch.at("outputs"))});
    }
    if (json.at("mask").kind() == Json::Kind::kText) {
        out.mask = json.at("mask").text();
    }
    for (auto const& key : json.at("keys").items()) {
        out.keys.push_back(key.text());
    }
    for (auto const& row : json.at("rows").items()) {
        out.rows.push_back(row_from(row));
    }
    if (json.at("compute_us").kind() == Json::Kind::kNumber) {
        out.compute_us = json.at("compute_us").number();
    }
    if (json.at("device_memory").kind() == Json::Kind::kNumber) {
        out.device_memory = json.at("device_memory").integer();
    }
    if (json.at("streamable_weights").kind() == Json::Kind::kNumber) {
        out.weights = json.at("streamable_weights").integer();
    }
    return out;
}

std::size_t bytes_of(DataType type, Dims const& dims) {
    std::size_t count = size_of(type);
    for (std::int32_t i = 0; i < dims.nbDims; ++i) {
        count *= dims.d[i] > 0 ? static_cast<std::size_t>(dims.d[i]) : 0;
    }
    return count;
}

std::string text_of(Dims const& dims) {
    std::string out = "[";
    for (std::int32_t i = 0; i < dims.nbDims; ++i) {
        out += (i == 0 ? "" : ",") + std::to_string(dims.d[i]);
    }
    return out + "]";
}

bool same(Dims const& a, Dims const& b) {
    if (a.nbDims != b.nbDims) {
        return false;
    }
    for (std::int32_t i = 0; i < a.nbDims; ++i) {
        if (a.d[i] != b.d[i]) {
            return false;
        }
    }
    return true;
}

Json to_json(Profile const& profile) {
    Json out = Json::object();
    for (auto const& [input, range] : profile) {
        Json shapes = Json::object();
        shapes.set("min", dims_to_json(range.min));
        shapes.set("opt", dims_to_json(range.opt));
        shapes.set("max", dims_to_json(range.max));
        out.set(input, shapes);
    }
    return out;
}

std::string read_file(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error("cannot be read");
    }
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Dims shape_for(Recording const& recording, Tensor const& output, std::map<std::string, Dims> const& inputs) {
    Dims dims = output.dims;
    for (std::int32_t axis = 0; axis < dims.nbDims; ++axis) {
        if (dims.d[axis] >= 0) {
            continue;
        }
        auto const& wanted = output.dim_names[static_cast<std::size_t>(axis)];
        for (auto const& input : recording.inputs) {
            auto const shape = inputs.find(input.name);
            if (shape == inputs.end()) {
                continue;
            }
            for (std::int32_t i = 0; i < shape->second.nbDims; ++i) {
                if (!wanted.empty() && input.dim_names[static_cast<std::size_t>(i)] == wanted) {
                    dims.d[axis] = shape->second.d[i];
                }
            }
        }
    }
    return dims;
}

NamedValues replay(Recording const& recording, NamedValues const& inputs) {
    for (auto const& batch : recording.batches) {
        if (same_inputs(batch.inputs, inputs)) {
            return batch.outputs;
        }
    }
    if (recording.rows.empty()) {
        throw std::runtime_error("the test double has no recording of these inputs");
    }
    return RowReplay(recording, inputs).run();
}

} // namespace trtdouble
