// The interface of sdk.h over one TensorRT SDK; the build compiles this file once per SDK.
//
// TRTFORGE_SDK names the SDK (`rtx`, `tensorrt11`, `tensorrt10`). The SDKs' headers define the same names with
// different layouts, so the build also renames their namespaces (-Dnvinfer1=nvinfer1_rtx …): no two compilations
// share a symbol. The libraries are never linked; their factories come in as addresses from dlsym.

#include "callbacks.h"

#include <NvOnnxParser.h>

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

using nvinfer1::IBuilderConfig;
using nvinfer1::IHostMemory;
using nvinfer1::INetworkDefinition;
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

nvinfer1::Dims to_dims(rust::Vec<std::int64_t> const& values) {
    if (values.size() > static_cast<std::size_t>(nvinfer1::Dims::MAX_DIMS)) {
        throw std::invalid_argument("more dimensions than TensorRT has");
    }
    nvinfer1::Dims dims{};
    dims.nbDims = static_cast<std::int32_t>(values.size());
    std::copy(values.begin(), values.end(), dims.d);
    return dims;
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
    static void taken(bool was_taken, std::string const& what) {
        if (!was_taken) {
            throw std::runtime_error("the library did not take the " + what);
        }
    }

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

class SdkEngine final : public Engine {
  public:
    SdkEngine(SharedCallbacks callbacks, std::shared_ptr<nvinfer1::IRuntime> runtime,
              std::unique_ptr<nvinfer1::ICudaEngine> engine)
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
        return owned(inspector->getEngineInformation(static_cast<nvinfer1::LayerInformationFormat>(format)));
    }

  private:
    SharedCallbacks callbacks_;
    std::shared_ptr<nvinfer1::IRuntime> runtime_;
    std::unique_ptr<nvinfer1::ICudaEngine> engine_;
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

class ThisSdk final : public Sdk {
  public:
    std::int32_t header_version() const override { return NV_TENSORRT_VERSION; }
    std::unique_ptr<Builder> make_builder(Factories const& factories, rust::Box<LogSink> sink) const override {
        return std::make_unique<SdkBuilder>(factories, std::move(sink));
    }
    std::unique_ptr<Runtime> make_runtime(Factories const& factories, rust::Box<LogSink> sink) const override {
        return std::make_unique<SdkRuntime>(factories, std::move(sink));
    }
};

} // namespace
} // namespace trtforge::TRTFORGE_SDK

namespace trtforge {

#define TRTFORGE_JOIN_(a, b) a##b
#define TRTFORGE_JOIN(a, b) TRTFORGE_JOIN_(a, b)

Sdk const& TRTFORGE_JOIN(TRTFORGE_SDK, _sdk)() {
    static TRTFORGE_SDK::ThisSdk const sdk;
    return sdk;
}

} // namespace trtforge
