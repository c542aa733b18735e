// Plans brought to life. Private to sdk.cpp.
#pragma once

#include "context.h"

namespace trtforge::TRTFORGE_SDK {
namespace {

class SdkEngine final : public Engine {
  public:
    SdkEngine(SharedCallbacks callbacks, std::shared_ptr<nvinfer1::IRuntime> runtime,
              std::shared_ptr<nvinfer1::ICudaEngine> engine)
        : callbacks_(std::move(callbacks)), runtime_(std::move(runtime)), engine_(std::move(engine)) {}

    rust::Vec<TensorInfo> tensors() const override {
        rust::Vec<TensorInfo> tensors;
        for (std::int32_t i = 0; i < engine_->getNbIOTensors(); ++i) {
            auto const* name = engine_->getIOTensorName(i);
            tensors.push_back({owned(name), static_cast<std::int32_t>(engine_->getTensorDataType(name)),
                               dims_of(engine_->getTensorShape(name)), rust::Vec<rust::String>(),
                               engine_->isShapeInferenceIO(name),
                               engine_->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT});
        }
        return tensors;
    }

    std::int32_t profile_count() const override { return engine_->getNbOptimizationProfiles(); }

    rust::Vec<ShapeRange> profile(std::int32_t index) const override {
        rust::Vec<ShapeRange> ranges;
        for (std::int32_t i = 0; i < engine_->getNbIOTensors(); ++i) {
            auto const* name = engine_->getIOTensorName(i);
            if (engine_->getTensorIOMode(name) != nvinfer1::TensorIOMode::kINPUT) {
                continue;
            }
            auto const shape = [&](OptProfileSelector select) {
                return dims_of(engine_->getProfileShape(name, index, select));
            };
            ranges.push_back({owned(name), shape(OptProfileSelector::kMIN), shape(OptProfileSelector::kOPT),
                              shape(OptProfileSelector::kMAX)});
        }
        return ranges;
    }

    rust::String inspect(std::int32_t format) const override {
        auto const inspector = made<nvinfer1::IEngineInspector>(engine_->createEngineInspector(), "engine inspector");
        auto const* said = inspector->getEngineInformation(static_cast<nvinfer1::LayerInformationFormat>(format));
        if (said == nullptr) {
            throw std::runtime_error("the library's engine inspector said nothing");
        }
        return owned(said);
    }

    std::int64_t streamable_weights_bytes() const override { return engine_->getStreamableWeightsSize(); }

    std::int64_t stream_weights() override {
        auto const budget = engine_->getWeightStreamingAutomaticBudget();
        if (!engine_->setWeightStreamingBudgetV2(budget)) {
            throw std::runtime_error("the library did not take the weight streaming budget");
        }
        return engine_->getWeightStreamingBudgetV2();
    }

    std::unique_ptr<Context> make_context() const override {
        // Scratch memory is given by us, sized for the shapes at hand and not for the largest of the profile.
        std::unique_ptr<nvinfer1::IExecutionContext> context(
            engine_->createExecutionContext(nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED));
        if (context == nullptr) {
            return nullptr;
        }
        return std::make_unique<SdkContext>(callbacks_, runtime_, engine_, std::move(context));
    }

    rust::Vec<RecordedError> take_errors() const override { return callbacks_->recorder.take(); }

  private:
    SharedCallbacks callbacks_;
    std::shared_ptr<nvinfer1::IRuntime> runtime_;
    // Shared with the contexts it made, which must not outlive it.
    std::shared_ptr<nvinfer1::ICudaEngine> engine_;
};

class SdkRuntime final : public Runtime {
  public:
    SdkRuntime(Factories const& factories, rust::Box<LogSink> sink)
        : callbacks_(std::make_shared<Callbacks>(std::move(sink))) {
        auto* make_runtime =
            factory<void* (*)(void*, std::int32_t)>(factories.runtime, "createInferRuntime_INTERNAL");
        runtime_ = made<nvinfer1::IRuntime>(make_runtime(&callbacks_->logger, NV_TENSORRT_VERSION), "runtime");
        runtime_->setErrorRecorder(&callbacks_->recorder);
    }

    std::unique_ptr<Engine> deserialize(rust::Slice<std::uint8_t const> plan) override {
        std::unique_ptr<nvinfer1::ICudaEngine> engine(runtime_->deserializeCudaEngine(plan.data(), plan.size()));
        if (engine == nullptr) {
            return nullptr;
        }
        return std::make_unique<SdkEngine>(callbacks_, runtime_, std::move(engine));
    }

    rust::Vec<RecordedError> errors() const override { return callbacks_->recorder.recorded(); }

  private:
    SharedCallbacks callbacks_;
    // Shared with the engines it made, which must not outlive it.
    std::shared_ptr<nvinfer1::IRuntime> runtime_;
};

} // namespace
} // namespace trtforge::TRTFORGE_SDK
