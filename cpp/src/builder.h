// From an ONNX file to a plan. Private to sdk.cpp.
#pragma once

#include "common.h"

#include <NvOnnxParser.h>

namespace trtforge::TRTFORGE_SDK {
namespace {

using nvinfer1::IBuilderConfig;
using nvinfer1::INetworkDefinition;

// Members are destroyed from the last to the first: each before what it was made from.
class SdkBuilder final : public Builder {
  public:
    SdkBuilder(Factories const& factories, rust::Box<LogSink> sink)
        : callbacks_(std::make_shared<Callbacks>(std::move(sink))) {
        auto* make_builder =
            factory<void* (*)(void*, std::int32_t)>(factories.builder, "createInferBuilder_INTERNAL");
        auto* make_parser =
            factory<void* (*)(void*, void*, int)>(factories.parser, "createNvOnnxParser_INTERNAL");
        builder_ = made<nvinfer1::IBuilder>(make_builder(&callbacks_->logger, NV_TENSORRT_VERSION), "builder");
        builder_->setErrorRecorder(&callbacks_->recorder);
#if TRTFORGE_ASK_STRONGLY_TYPED
        auto const flags =
            1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
#else
        nvinfer1::NetworkDefinitionCreationFlags const flags = 0;
#endif
        network_ = made<INetworkDefinition>(builder_->createNetworkV2(flags), "network");
        config_ = made<IBuilderConfig>(builder_->createBuilderConfig(), "builder configuration");
        parser_ = made<nvonnxparser::IParser>(
            make_parser(network_.get(), &callbacks_->logger, NV_ONNX_PARSER_VERSION), "ONNX parser");
    }

    rust::Vec<ParserFault> parse_file(rust::Slice<std::uint8_t const> path) override {
        std::string const file(path.begin(), path.end());
        auto const verbosity = static_cast<int>(nvinfer1::ILogger::Severity::kWARNING);
        bool const parsed = parser_->parseFromFile(file.c_str(), verbosity);
        rust::Vec<ParserFault> faults;
        for (std::int32_t i = 0; !parsed && i < parser_->getNbErrors(); ++i) {
            faults.push_back(fault_of(*parser_->getError(i)));
        }
        if (!parsed && faults.empty()) {
            throw std::runtime_error("the ONNX parser failed without saying why");
        }
        return faults;
    }

    rust::Vec<TensorInfo> inputs() const override {
        rust::Vec<TensorInfo> tensors;
        for (std::int32_t i = 0; i < network_->getNbInputs(); ++i) {
            tensors.push_back(info_of(*network_->getInput(i)));
        }
        return tensors;
    }

    rust::Vec<TensorInfo> outputs() const override {
        rust::Vec<TensorInfo> tensors;
        for (std::int32_t i = 0; i < network_->getNbOutputs(); ++i) {
            tensors.push_back(info_of(*network_->getOutput(i)));
        }
        return tensors;
    }

    std::int32_t layer_count() const override { return network_->getNbLayers(); }

    void set_optimization_level(std::int32_t level) override {
        config_->setBuilderOptimizationLevel(level);
        taken(config_->getBuilderOptimizationLevel() == level, "optimization level");
    }

    void set_flag(std::int32_t builder_flag) override {
        auto const flag = static_cast<nvinfer1::BuilderFlag>(builder_flag);
        config_->setFlag(flag);
        taken(config_->getFlag(flag), "builder flag");
    }

    void set_memory_limit(std::int32_t memory_pool, std::uint64_t bytes) override {
        auto const pool = static_cast<nvinfer1::MemoryPoolType>(memory_pool);
        config_->setMemoryPoolLimit(pool, bytes);
        taken(config_->getMemoryPoolLimit(pool) == bytes, "memory limit");
    }

    void set_max_threads(std::int32_t threads) override {
        taken(builder_->setMaxThreads(threads) && builder_->getMaxThreads() == threads, "number of threads");
    }

    void set_profiling_verbosity(std::int32_t verbosity) override {
        auto const wanted = static_cast<nvinfer1::ProfilingVerbosity>(verbosity);
        config_->setProfilingVerbosity(wanted);
        taken(config_->getProfilingVerbosity() == wanted, "profiling verbosity");
    }

    void set_hardware_compatibility(std::int32_t level) override {
        auto const wanted = static_cast<nvinfer1::HardwareCompatibilityLevel>(level);
        config_->setHardwareCompatibilityLevel(wanted);
        taken(config_->getHardwareCompatibilityLevel() == wanted, "hardware compatibility level");
    }

    void add_profile(rust::Slice<ShapeRange const> ranges) override {
        // Owned by the builder.
        auto* profile = builder_->createOptimizationProfile();
        if (profile == nullptr) {
            throw std::runtime_error("the library made no optimization profile");
        }
        for (auto const& range : ranges) {
            std::string const input(range.input);
            taken(profile->setDimensions(input.c_str(), OptProfileSelector::kMIN, to_dims(range.min)) &&
                      profile->setDimensions(input.c_str(), OptProfileSelector::kOPT, to_dims(range.opt)) &&
                      profile->setDimensions(input.c_str(), OptProfileSelector::kMAX, to_dims(range.max)),
                  "shapes of input `" + input + "`");
        }
        taken(profile->isValid() && config_->addOptimizationProfile(profile) >= 0, "optimization profile");
    }

    bool set_timing_cache(rust::Slice<std::uint8_t const> cache) override {
#if TRTFORGE_IS_RTX
        (void)cache;
        throw std::invalid_argument("TensorRT-RTX has no timing cache");
#else
        void const* blob = cache.empty() ? nullptr : cache.data();
        auto* made_cache = config_->createTimingCache(blob, cache.size());
        if (made_cache == nullptr && !cache.empty()) {
            return false; // not a timing cache at all
        }
        timing_cache_ = made<nvinfer1::ITimingCache>(made_cache, "timing cache");
        return config_->setTimingCache(*timing_cache_, false);
#endif
    }

    std::unique_ptr<HostBytes> timing_cache() const override {
#if TRTFORGE_IS_RTX
        throw std::invalid_argument("TensorRT-RTX has no timing cache");
#else
        auto const* cache = config_->getTimingCache();
        if (cache == nullptr) {
            return nullptr;
        }
        return std::make_unique<Memory>(callbacks_, made<IHostMemory>(cache->serialize(), "copy of the timing cache"));
#endif
    }

    std::unique_ptr<HostBytes> build(Monitor const& monitor) override {
        ProgressMonitor progress(monitor);
        config_->setProgressMonitor(&progress);
        std::unique_ptr<IHostMemory> plan(builder_->buildSerializedNetwork(*network_, *config_));
        config_->setProgressMonitor(nullptr);
        if (plan == nullptr) {
            return nullptr;
        }
        return std::make_unique<Memory>(callbacks_, std::move(plan));
    }

    rust::Vec<RecordedError> errors() const override { return callbacks_->recorder.recorded(); }

  private:
    static ParserFault fault_of(nvonnxparser::IParserError const& error) {
        rust::Vec<rust::String> functions;
        for (std::int32_t i = 0; i < error.localFunctionStackSize(); ++i) {
            functions.push_back(owned(error.localFunctionStack()[i]));
        }
        return {static_cast<std::int32_t>(error.code()), error.node(), owned(error.nodeName()),
                owned(error.nodeOperator()), owned(error.desc()), std::move(functions)};
    }

    static TensorInfo info_of(nvinfer1::ITensor const& tensor) {
        auto const dims = tensor.getDimensions();
        rust::Vec<rust::String> names;
        for (std::int32_t i = 0; i < dims.nbDims; ++i) {
            names.push_back(owned(tensor.getDimensionName(i)));
        }
        return {owned(tensor.getName()), static_cast<std::int32_t>(tensor.getType()), dims_of(dims), std::move(names),
                tensor.isShapeTensor(), tensor.isNetworkInput()};
    }

    SharedCallbacks callbacks_;
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    std::unique_ptr<INetworkDefinition> network_;
    std::unique_ptr<IBuilderConfig> config_;
#if !TRTFORGE_IS_RTX
    std::unique_ptr<nvinfer1::ITimingCache> timing_cache_;
#endif
    // Last: it owns weights that the network refers to until the plan is built.
    std::unique_ptr<nvonnxparser::IParser> parser_;
};

} // namespace
} // namespace trtforge::TRTFORGE_SDK
