// What builder and runtime share. Private to sdk.cpp, and so compiled once per SDK, inside its namespace.
#pragma once

#include "callbacks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

// What depends on the version, in one place. TensorRT-RTX numbers its own versions, from 1.
#ifdef TRT_MAJOR_RTX
#define TRTFORGE_IS_RTX 1
#else
#define TRTFORGE_IS_RTX 0
#endif
// From 11 on every network is strongly typed; 10 has to be asked.
#define TRTFORGE_ASK_STRONGLY_TYPED (!TRTFORGE_IS_RTX && NV_TENSORRT_MAJOR < 11)

namespace trtforge::TRTFORGE_SDK {
namespace {

using nvinfer1::IHostMemory;
using nvinfer1::OptProfileSelector;

// Outlives every object of the library that may still log or report.
struct Callbacks {
    explicit Callbacks(rust::Box<LogSink> sink) : logger(std::move(sink)), recorder(logger) {}
    Logger logger;
    ErrorRecorder recorder;
};
using SharedCallbacks = std::shared_ptr<Callbacks>;

// A factory that fails returns null, or, without a CUDA driver, a small invalid pointer (0x228 was seen).
template <class T> std::unique_ptr<T> made(void* pointer, char const* what) {
    constexpr std::uintptr_t kFirstPlausible = 0x10000;
    if (reinterpret_cast<std::uintptr_t>(pointer) < kFirstPlausible) {
        throw std::runtime_error(std::string("the library made no ") + what);
    }
    return std::unique_ptr<T>(static_cast<T*>(pointer));
}

template <class Function> Function factory(std::size_t address, char const* name) {
    if (address == 0) {
        throw std::invalid_argument(std::string("the library has no ") + name);
    }
    return reinterpret_cast<Function>(address);
}

rust::String owned(char const* chars) { return chars == nullptr ? rust::String() : rust::String::lossy(chars); }

rust::Vec<std::int64_t> dims_of(nvinfer1::Dims const& dims) {
    rust::Vec<std::int64_t> out;
    for (std::int32_t i = 0; i < dims.nbDims; ++i) {
        out.push_back(dims.d[i]);
    }
    return out;
}

nvinfer1::Dims to_dims(rust::Slice<std::int64_t const> values) {
    if (values.size() > static_cast<std::size_t>(nvinfer1::Dims::MAX_DIMS)) {
        throw std::invalid_argument("more dimensions than TensorRT has");
    }
    nvinfer1::Dims dims{};
    dims.nbDims = static_cast<std::int32_t>(values.size());
    std::copy(values.begin(), values.end(), dims.d);
    return dims;
}

nvinfer1::Dims to_dims(rust::Vec<std::int64_t> const& values) {
    return to_dims(rust::Slice<std::int64_t const>(values.data(), values.size()));
}

void taken(bool was_taken, std::string const& what) {
    if (!was_taken) {
        throw std::runtime_error("the library did not take the " + what);
    }
}

class Memory final : public HostBytes {
  public:
    Memory(SharedCallbacks callbacks, std::unique_ptr<IHostMemory> memory)
        : callbacks_(std::move(callbacks)), memory_(std::move(memory)) {}
    rust::Slice<std::uint8_t const> bytes() const noexcept override {
        return {static_cast<std::uint8_t const*>(memory_->data()), memory_->size()};
    }

  private:
    SharedCallbacks callbacks_;
    std::unique_ptr<IHostMemory> memory_;
};

} // namespace
} // namespace trtforge::TRTFORGE_SDK
