// From an ONNX file to a plan. Private to sdk.cpp.
#pragma once

#include "settings.h"
#include "writer.h"

#include <NvOnnxParser.h>

namespace trtforge::TRTFORGE_SDK {
namespace {

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

    void set(Setting setting, std::int64_t value) override {
        if (setting == Setting::MaxThreads) {
            return set_builder_threads(*builder_, static_cast<std::int32_t>(value));
        }
        set_config_number(*config_, setting, value);
    }

    void set_flag(Flag flag, bool on) override { set_config_flag(*config_, flag, on); }

    void set_tactic_sources(rust::Slice<TacticSource const> sources) override {
        set_config_sources(*config_, sources);
    }

    void set_memory_limit(std::int32_t memory_pool, std::uint64_t bytes) override {
        set_config_memory(*config_, memory_pool, bytes);
    }

    void set_preview_feature(PreviewFeature feature) override { set_config_preview(*config_, feature); }

    void set_compute_capabilities(rust::Slice<std::int32_t const> capabilities) override {
        set_config_capabilities(*config_, capabilities);
    }

    void set_build_route(rust::Str route) override { set_config_route(*config_, std::string(route)); }

    rust::String build_routes() const override { return config_routes(*config_); }

    void load_plugins(rust::Slice<rust::String const> paths, bool serialize) override {
        std::vector<std::string> const names(paths.begin(), paths.end());
        for (auto const& name : names) {
            load_plugin_library(*builder_, name);
        }
        if (serialize) {
            serialize_plugins(*config_, names);
        }
    }

    bool mark_refittable(rust::Str weights) override { return mark_weights(*network_, std::string(weights)); }

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

    CacheFit set_timing_cache(rust::Slice<std::uint8_t const> cache) override {
#if TRTFORGE_IS_RTX
        (void)cache;
        throw std::invalid_argument("TensorRT-RTX has no timing cache");
#else
        void const* blob = cache.empty() ? nullptr : cache.data();
        auto* made_cache = config_->createTimingCache(blob, cache.size());
        if (made_cache == nullptr && !cache.empty()) {
            return CacheFit::NoCache;
        }
        timing_cache_ = made<nvinfer1::ITimingCache>(made_cache, "timing cache");
        return config_->setTimingCache(*timing_cache_, false) ? CacheFit::Fits : CacheFit::Foreign;
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

    bool build(Monitor const& monitor, PlanSink const& sink) override {
        ProgressMonitor progress(monitor);
        config_->setProgressMonitor(&progress);
        bool const built = build_into(*builder_, *network_, *config_, sink);
        config_->setProgressMonitor(nullptr);
        return built;
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
