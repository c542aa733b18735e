// One execution of an engine. Private to sdk.cpp.
#pragma once

#include "common.h"

#include <vector>

namespace trtforge::TRTFORGE_SDK {
namespace {

// Members are destroyed from the last to the first: the context before the allocators and the recorder it calls, those
// before its engine, that before the runtime, and the logger last.
class SdkContext final : public Context {
  public:
    SdkContext(SharedCallbacks callbacks, std::shared_ptr<nvinfer1::IRuntime> runtime,
               std::shared_ptr<nvinfer1::ICudaEngine> engine, std::unique_ptr<nvinfer1::IExecutionContext> context)
        : callbacks_(std::move(callbacks)), runtime_(std::move(runtime)), engine_(std::move(engine)),
          recorder_(callbacks_->logger), context_(std::move(context)) {
        // One of its own, so that an error is never taken for that of another context.
        context_->setErrorRecorder(&recorder_);
    }

    void set_profile(std::int32_t index, std::size_t stream) override {
        taken(context_->setOptimizationProfileAsync(index, to_stream(stream)),
              "optimization profile " + std::to_string(index));
    }

    void set_input_shape(rust::Str input, rust::Slice<std::int64_t const> dims) override {
        std::string const name(input);
        taken(context_->setInputShape(name.c_str(), to_dims(dims)), "shape of input `" + name + "`");
    }

    rust::Vec<std::int64_t> shape(rust::Str tensor) const override {
        return dims_of(context_->getTensorShape(std::string(tensor).c_str()));
    }

    rust::Vec<rust::String> unready() override {
        std::vector<char const*> names(static_cast<std::size_t>(engine_->getNbIOTensors()), nullptr);
        auto const count = context_->inferShapes(static_cast<std::int32_t>(names.size()), names.data());
        if (count < 0) {
            throw std::runtime_error("the library could not infer the shapes of the outputs");
        }
        rust::Vec<rust::String> unready;
        for (std::size_t i = 0; i < std::min(names.size(), static_cast<std::size_t>(count)); ++i) {
            unready.push_back(owned(names[i]));
        }
        return unready;
    }

    std::int64_t max_output_bytes(rust::Str output) const override {
        return context_->getMaxOutputSize(std::string(output).c_str());
    }

    std::size_t memory_bytes() override { return context_->updateDeviceMemorySizeForShapes(); }

    void set_memory(std::size_t address, std::size_t bytes) override {
        context_->setDeviceMemoryV2(reinterpret_cast<void*>(address), static_cast<std::int64_t>(bytes));
    }

    void set_address(rust::Str tensor, std::size_t address) override {
        std::string const name(tensor);
        taken(context_->setTensorAddress(name.c_str(), reinterpret_cast<void*>(address)), "address of `" + name + "`");
    }

    void set_output_memory(rust::Str output, rust::Box<OutputMemory> memory) override {
        std::string const name(output);
        allocators_.push_back(std::make_unique<OutputAllocator>(std::move(memory)));
        taken(context_->setOutputAllocator(name.c_str(), allocators_.back().get()), "allocator of `" + name + "`");
    }

    bool enqueue(std::size_t stream) noexcept override { return context_->enqueueV3(to_stream(stream)); }

    rust::Vec<RecordedError> take_errors() override { return recorder_.take(); }

  private:
    // The driver's streams are the runtime's: one type under two names.
    static cudaStream_t to_stream(std::size_t stream) noexcept { return reinterpret_cast<cudaStream_t>(stream); }

    SharedCallbacks callbacks_;
    std::shared_ptr<nvinfer1::IRuntime> runtime_;
    std::shared_ptr<nvinfer1::ICudaEngine> engine_;
    ErrorRecorder recorder_;
    std::vector<std::unique_ptr<OutputAllocator>> allocators_;
    std::unique_ptr<nvinfer1::IExecutionContext> context_;
};

} // namespace
} // namespace trtforge::TRTFORGE_SDK
