// How the double of an execution context runs: addresses and shapes are checked as the real one does, the outputs are
// looked up when the stream gets there.
#pragma once

#include "runtime.h"

namespace trtdouble {

inline Context::Context(Voice const& voice, std::shared_ptr<Recording const> recording, Engine const& engine,
                        bool owns_memory)
    : voice_(voice), lived_("IExecutionContext", voice, engine.life()), recording_(std::move(recording)),
      engine_(engine), owns_memory_(owns_memory) {
    mImpl = this;
    for (auto const& input : recording_->inputs) {
        auto const* sizes = input.dims.d;
        if (std::all_of(sizes, sizes + input.dims.nbDims, [](auto size) { return size >= 0; })) {
            shapes_[input.name] = input.dims;
        }
    }
}

inline Context::~Context() {
    if (*pending_ > 0) {
        misuse("an execution context ended while its work waited in a stream");
    }
}

inline ICudaEngine const& Context::getEngine() const noexcept { return engine_; }

inline bool Context::known(char const* name, char const* call) const {
    if (name != nullptr && recording_->find(name) != nullptr) {
        return true;
    }
    voice_.error(ErrorCode::kINVALID_ARGUMENT,
                 std::string(call) + ": no tensor named " + (name == nullptr ? "(null)" : name));
    return false;
}

inline bool Context::setOptimizationProfileAsync(std::int32_t index, cudaStream_t) noexcept {
    if (refused(voice_, "setOptimizationProfileAsync")) {
        return false;
    }
    if (index < 0 || index >= engine_.getNbOptimizationProfiles()) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, "setOptimizationProfileAsync: no profile " + std::to_string(index));
        return false;
    }
    profile_ = index;
    // As the real one: shapes of another profile are forgotten.
    for (auto const& input : recording_->inputs) {
        auto const* sizes = input.dims.d;
        if (std::any_of(sizes, sizes + input.dims.nbDims, [](auto size) { return size < 0; })) {
            shapes_.erase(input.name);
        }
    }
    return true;
}

inline bool Context::setInputShape(char const* name, Dims const& dims) noexcept {
    if (refused(voice_, "setInputShape") || !known(name, "setInputShape")) {
        return false;
    }
    auto const min = engine_.getProfileShape(name, profile_, OptProfileSelector::kMIN);
    auto const max = engine_.getProfileShape(name, profile_, OptProfileSelector::kMAX);
    bool fits = recording_->is_input(name) && dims.nbDims == max.nbDims;
    for (std::int32_t i = 0; fits && i < dims.nbDims; ++i) {
        fits = dims.d[i] >= min.d[i] && dims.d[i] <= max.d[i];
    }
    if (!fits) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, std::string("setInputShape: ") + name + " " + text_of(dims) +
                                                       " is outside of profile " + std::to_string(profile_) + ", " +
                                                       text_of(min) + " to " + text_of(max));
        return false;
    }
    shapes_[name] = dims;
    return true;
}

inline Dims Context::getTensorShape(char const* name) const noexcept {
    auto const* tensor = name == nullptr ? nullptr : recording_->find(name);
    if (tensor == nullptr || fails("getTensorShape")) {
        return no_dims();
    }
    if (recording_->is_input(name)) {
        auto const set = shapes_.find(name);
        return set == shapes_.end() ? tensor->dims : set->second;
    }
    return shape_for(*recording_, *tensor, shapes_);
}

inline bool Context::allInputDimensionsSpecified() const noexcept {
    return shapes_.size() == recording_->inputs.size();
}

inline std::int32_t Context::inferShapes(std::int32_t most, char const** names) noexcept {
    std::int32_t missing = 0;
    for (auto const& input : recording_->inputs) {
        if (shapes_.count(input.name) == 0) {
            if (missing < most) {
                names[missing] = input.name.c_str();
            }
            ++missing;
        }
    }
    return refused(voice_, "inferShapes") ? -1 : missing;
}

inline bool Context::setTensorAddress(char const* name, void* data) noexcept {
    if (refused(voice_, "setTensorAddress") || !known(name, "setTensorAddress")) {
        return false;
    }
    addresses_[name] = data;
    return true;
}

inline bool Context::setInputTensorAddress(char const* name, void const* data) noexcept {
    if (refused(voice_, "setInputTensorAddress") || !known(name, "setInputTensorAddress") ||
        !recording_->is_input(name)) {
        return false;
    }
    addresses_[name] = const_cast<void*>(data);
    return true;
}

inline bool Context::setOutputTensorAddress(char const* name, void* data) noexcept {
    if (refused(voice_, "setOutputTensorAddress") || !known(name, "setOutputTensorAddress") ||
        recording_->is_input(name)) {
        return false;
    }
    addresses_[name] = data;
    return true;
}

inline void const* Context::getTensorAddress(char const* name) const noexcept {
    auto const set = addresses_.find(name);
    return set == addresses_.end() ? nullptr : set->second;
}

inline void* Context::getOutputTensorAddress(char const* name) const noexcept {
    return const_cast<void*>(getTensorAddress(name));
}

inline bool Context::setOutputAllocator(char const* name, nvinfer1::IOutputAllocator* allocator) noexcept {
    if (refused(voice_, "setOutputAllocator") || !known(name, "setOutputAllocator") || recording_->is_input(name)) {
        return false;
    }
    allocators_[name] = allocator;
    return true;
}

inline nvinfer1::IOutputAllocator* Context::getOutputAllocator(char const* name) noexcept {
    auto const set = allocators_.find(name);
    return set == allocators_.end() ? nullptr : set->second;
}

inline std::int64_t Context::getMaxOutputSize(char const* name) const noexcept {
    auto const* tensor = recording_->find(name);
    if (tensor == nullptr || fails("getMaxOutputSize")) {
        return -1;
    }
    std::map<std::string, Dims> largest;
    for (auto const& input : recording_->inputs) {
        largest[input.name] = engine_.getProfileShape(input.name.c_str(), profile_, OptProfileSelector::kMAX);
    }
    return static_cast<std::int64_t>(bytes_of(tensor->type, shape_for(*recording_, *tensor, largest)));
}

inline std::size_t Context::updateDeviceMemorySizeForShapes() noexcept {
    return fails("updateDeviceMemorySizeForShapes") ? 0 : static_cast<std::size_t>(recording_->device_memory);
}

inline void Context::setDeviceMemoryV2(void* memory, std::int64_t size) noexcept {
    memory_ = memory;
    memory_size_ = size;
}

inline bool Context::setDebugListener(nvinfer1::IDebugListener* listener) noexcept {
    listener_ = listener;
    return !refused(voice_, "setDebugListener");
}

inline bool Context::setTensorDebugState(char const* name, bool on) noexcept {
    if (refused(voice_, "setTensorDebugState") || !engine_.isDebugTensor(name)) {
        return false;
    }
    if (on) {
        watched_.insert(name);
    } else {
        watched_.erase(name);
    }
    return true;
}

inline bool Context::setAllTensorsDebugState(bool on) noexcept {
    if (refused(voice_, "setAllTensorsDebugState")) {
        return false;
    }
    watched_.clear();
    for (auto const& tensor : recording_->outputs) {
        if (on && tensor.is_debug) {
            watched_.insert(tensor.name);
        }
    }
    return true;
}

inline bool Context::setUnfusedTensorsDebugState(bool on) noexcept { return setAllTensorsDebugState(on); }

inline bool Context::ready() const {
    if (!allInputDimensionsSpecified()) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: an input has no shape");
        return false;
    }
    if (!owns_memory_ && (memory_ == nullptr || memory_size_ < recording_->device_memory)) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: no device memory was given, or too little");
        return false;
    }
    for (auto const* list : {&recording_->inputs, &recording_->outputs}) {
        for (auto const& tensor : *list) {
            auto const set = addresses_.find(tensor.name);
            bool const placed = (set != addresses_.end() && set->second != nullptr) ||
                                allocators_.count(tensor.name) != 0 || tensor.is_debug;
            if (!placed) {
                voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: no address for " + tensor.name);
                return false;
            }
        }
    }
    return true;
}

// Asks the output allocators, with the sizes of this call. Where only the values tell the shape, the values are computed
// first, as the real one waits for them.
inline bool Context::place_outputs(cudaStream_t stream) {
    NamedValues values;
    for (auto const& [name, allocator] : allocators_) {
        auto const* tensor = recording_->find(name);
        auto dims = shape_for(*recording_, *tensor, shapes_);
        if (std::any_of(dims.d, dims.d + dims.nbDims, [](auto size) { return size < 0; })) {
            if (is_capturing(stream)) {
                voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: a shape that values tell cannot be captured");
                return false;
            }
            trtdouble::synchronize(stream);
            if (values.empty() && read_and_replay(shapes_, addresses_, values) != kSuccess) {
                return false;
            }
            dims = values.at(name).dims;
        }
        void* const memory = allocator->reallocateOutputAsync(name.c_str(), addresses_[name],
                                                              bytes_of(tensor->type, dims), 256, stream);
        if (memory == nullptr) {
            voice_.error(ErrorCode::kFAILED_ALLOCATION, "enqueueV3: the allocator has no memory for " + name);
            return false;
        }
        addresses_[name] = memory;
        allocator->notifyShape(name.c_str(), dims);
    }
    return true;
}

// With a debug listener the real one runs tensor by tensor and calls it from here; what it shows lies on the device.
inline bool Context::show_debug_tensors(cudaStream_t stream) {
    if (listener_ == nullptr || watched_.empty()) {
        return true;
    }
    if (is_capturing(stream)) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: debug tensors cannot be captured");
        return false;
    }
    trtdouble::synchronize(stream);
    NamedValues values;
    if (read_and_replay(shapes_, addresses_, values) != kSuccess) {
        return false;
    }
    bool go_on = true;
    for (auto const& tensor : recording_->outputs) {
        auto const found = values.find(tensor.name);
        if (!go_on || watched_.count(tensor.name) == 0 || found == values.end()) {
            continue;
        }
        void* const shown = allocate(std::max<std::size_t>(found->second.bytes.size(), 1));
        std::memcpy(shown, found->second.bytes.data(), found->second.bytes.size());
        go_on = listener_->processDebugTensor(shown, nvinfer1::TensorLocation::kDEVICE, tensor.type,
                                              found->second.dims, tensor.name.c_str(), stream);
        release(shown);
    }
    return go_on;
}

inline bool Context::enqueueV3(cudaStream_t stream) noexcept {
    if (refused(voice_, "enqueueV3", ErrorCode::kFAILED_EXECUTION) || !ready() || !place_outputs(stream) ||
        !show_debug_tensors(stream)) {
        return false;
    }
    bool const captured = is_capturing(stream);
    auto const pending = captured ? nullptr : pending_;
    std::weak_ptr<int> const alive = alive_;
    auto const work = [this, alive, pending, shapes = shapes_, addresses = addresses_] {
        if (pending != nullptr) {
            --*pending;
        }
        if (alive.expired()) {
            misuse("work ran after its execution context had ended");
            return kIllegalAddress;
        }
        return fails("enqueueV3/asynchronous") ? kIllegalAddress : compute(shapes, addresses);
    };
    if (trtdouble::enqueue(stream, recording_->compute_us, work) != kSuccess) {
        voice_.error(ErrorCode::kINVALID_ARGUMENT, "enqueueV3: no such stream");
        return false;
    }
    if (!captured) {
        ++*pending_;
    }
    return true;
}

inline int Context::read_and_replay(std::map<std::string, Dims> const& shapes,
                                    std::map<std::string, void*> const& addresses, NamedValues& outputs) const {
    NamedValues inputs;
    for (auto const& tensor : recording_->inputs) {
        Values values{shapes.at(tensor.name), {}};
        auto const bytes = bytes_of(tensor.type, values.dims);
        auto const* from = static_cast<char const*>(addresses.at(tensor.name));
        if (!is_device_range(from, bytes)) {
            misuse("input " + tensor.name + " is larger than its device memory, or was freed");
            return kIllegalAddress;
        }
        values.bytes.assign(from, bytes);
        inputs.emplace(tensor.name, std::move(values));
    }
    try {
        outputs = replay(*recording_, inputs);
    } catch (std::exception const& error) {
        voice_.error(ErrorCode::kFAILED_EXECUTION, std::string("enqueueV3: ") + error.what());
        return kUnknown;
    }
    return kSuccess;
}

inline int Context::compute(std::map<std::string, Dims> const& shapes,
                            std::map<std::string, void*> const& addresses) const {
    NamedValues outputs;
    if (int const error = read_and_replay(shapes, addresses, outputs)) {
        return error;
    }
    for (auto const& tensor : recording_->outputs) {
        if (tensor.is_debug) {
            continue;
        }
        void* const to = addresses.at(tensor.name);
        auto const& bytes = outputs.at(tensor.name).bytes;
        if (!is_device_range(to, bytes.size())) {
            misuse("output " + tensor.name + " is larger than its device memory, or was freed");
            return kIllegalAddress;
        }
        std::memcpy(to, bytes.data(), bytes.size());
    }
    return kSuccess;
}

} // namespace trtdouble
