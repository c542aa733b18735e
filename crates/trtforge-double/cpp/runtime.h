// The doubles of IRuntime, ICudaEngine, IExecutionContext and IEngineInspector.
#pragma once

#include "common.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace trtdouble {

using nvinfer1::ICudaEngine;
using nvinfer1::IExecutionContext;

class Inspector final : public nvinfer1::IEngineInspector, public nvinfer1::StubEngineInspector {
  public:
    Inspector(Voice const& voice, std::shared_ptr<Recording const> recording, void const* engine)
        : voice_(voice), lived_("IEngineInspector", voice, engine), recording_(std::move(recording)) {
        mImpl = this;
    }
    nvinfer1::IEngineInspector* getPImpl() noexcept override { return this; }
    bool setExecutionContext(IExecutionContext const* context) noexcept override {
        context_ = context;
        return true;
    }
    IExecutionContext const* getExecutionContext() const noexcept override { return context_; }
    char const* getLayerInformation(std::int32_t index, nvinfer1::LayerInformationFormat) const noexcept override {
        if (refused(voice_, "getLayerInformation") || index < 0 ||
            static_cast<std::size_t>(index) >= recording_->layers.size()) {
            return nullptr;
        }
        return recording_->layers[static_cast<std::size_t>(index)].c_str();
    }
    char const* getEngineInformation(nvinfer1::LayerInformationFormat) const noexcept override {
        if (refused(voice_, "getEngineInformation")) {
            return nullptr;
        }
        text_ = "{\"Layers\": [";
        for (auto const& layer : recording_->layers) {
            text_ += (&layer == recording_->layers.data() ? "" : ",\n") + layer;
        }
        text_ += "],\n\"Bindings\": [";
        char const* comma = "";
        for (auto const* list : {&recording_->inputs, &recording_->outputs}) {
            for (auto const& tensor : *list) {
                text_ += comma + Json(tensor.name).dump();
                comma = ", ";
            }
        }
        text_ += "]}";
        return text_.c_str();
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }

  private:
    Voice voice_;
    Lived lived_;
    std::shared_ptr<Recording const> recording_;
    IExecutionContext const* context_ = nullptr;
    mutable std::string text_;
};

class Engine;

class Context final : public IExecutionContext, public nvinfer1::StubExecutionContext {
  public:
    Context(Voice const& voice, std::shared_ptr<Recording const> recording, Engine const& engine, bool owns_memory);
    ~Context() override;

    IExecutionContext* getPImpl() noexcept override { return this; }
    ICudaEngine const& getEngine() const noexcept override;
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    void setName(char const* name) noexcept override { name_ = name; }
    char const* getName() const noexcept override { return name_.c_str(); }
    std::int32_t getOptimizationProfile() const noexcept override { return profile_; }
    bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept override;
    bool setInputShape(char const* name, Dims const& dims) noexcept override;
    Dims getTensorShape(char const* name) const noexcept override;
    bool allInputDimensionsSpecified() const noexcept override;
    std::int32_t inferShapes(std::int32_t most, char const** names) noexcept override;
    bool setTensorAddress(char const* name, void* data) noexcept override;
    bool setInputTensorAddress(char const* name, void const* data) noexcept override;
    bool setOutputTensorAddress(char const* name, void* data) noexcept override;
    void const* getTensorAddress(char const* name) const noexcept override;
    void* getOutputTensorAddress(char const* name) const noexcept override;
    bool setOutputAllocator(char const* name, nvinfer1::IOutputAllocator* allocator) noexcept override;
    nvinfer1::IOutputAllocator* getOutputAllocator(char const* name) noexcept override;
    std::int64_t getMaxOutputSize(char const* name) const noexcept override;
    std::size_t updateDeviceMemorySizeForShapes() noexcept override;
    void setDeviceMemoryV2(void* memory, std::int64_t size) noexcept override;
    bool setDebugListener(nvinfer1::IDebugListener* listener) noexcept override;
    nvinfer1::IDebugListener* getDebugListener() noexcept override { return listener_; }
    bool setTensorDebugState(char const* name, bool on) noexcept override;
    bool getDebugState(char const* name) const noexcept override { return watched_.count(name) != 0; }
    bool setAllTensorsDebugState(bool on) noexcept override;
    bool setUnfusedTensorsDebugState(bool on) noexcept override;
    bool enqueueV3(cudaStream_t stream) noexcept override;
#if TRTFORGE_DOUBLE_IS_RTX
    bool isStreamCapturable(cudaStream_t) const noexcept override { return !fails("isStreamCapturable"); }
#endif

  private:
    bool known(char const* name, char const* call) const;
    bool ready() const;
    bool place_outputs(cudaStream_t stream);
    bool show_debug_tensors(cudaStream_t stream);
    int read_and_replay(std::map<std::string, Dims> const& shapes, std::map<std::string, void*> const& addresses,
                        NamedValues& outputs) const;
    int compute(std::map<std::string, Dims> const& shapes, std::map<std::string, void*> const& addresses) const;

    Voice voice_;
    Lived lived_;
    std::shared_ptr<Recording const> recording_;
    Engine const& engine_;
    std::string name_;
    std::int32_t profile_ = 0;
    std::map<std::string, Dims> shapes_;
    std::map<std::string, void*> addresses_;
    std::map<std::string, nvinfer1::IOutputAllocator*> allocators_;
    nvinfer1::IDebugListener* listener_ = nullptr;
    std::set<std::string> watched_;
    void* memory_ = nullptr;
    bool owns_memory_;
    std::int64_t memory_size_ = 0;
    // Pieces of work that were put into a stream and have not run.
    std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

class Engine final : public ICudaEngine, public nvinfer1::StubCudaEngine {
  public:
    Engine(Voice const& voice, std::shared_ptr<Recording const> recording, std::string plan, void const* runtime)
        : voice_(voice), lived_("ICudaEngine", voice, runtime), recording_(std::move(recording)),
          plan_(std::move(plan)) {
        mImpl = this;
    }
    void const* life() const { return &lived_; }

    ICudaEngine* getPImpl() noexcept override { return this; }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    char const* getName() const noexcept override { return "TEST DOUBLE"; }
    std::int32_t getNbLayers() const noexcept override {
        return static_cast<std::int32_t>(recording_->layers.size());
    }
    std::int32_t getNbIOTensors() const noexcept override {
        return static_cast<std::int32_t>(recording_->inputs.size() + ports().size());
    }
    char const* getIOTensorName(std::int32_t index) const noexcept override {
        auto const outputs = ports();
        auto const i = static_cast<std::size_t>(index);
        auto const& inputs = recording_->inputs;
        if (index < 0 || i >= inputs.size() + outputs.size()) {
            voice_.error(ErrorCode::kINVALID_ARGUMENT, "getIOTensorName: no tensor " + std::to_string(index));
            return nullptr;
        }
        return i < inputs.size() ? inputs[i].name.c_str() : outputs[i - inputs.size()]->name.c_str();
    }
    DataType getTensorDataType(char const* name) const noexcept override {
        auto const* tensor = recording_->find(name);
        return tensor == nullptr ? DataType::kFLOAT : tensor->type;
    }
    Dims getTensorShape(char const* name) const noexcept override {
        auto const* tensor = recording_->find(name);
        return tensor == nullptr ? no_dims() : tensor->dims;
    }
    nvinfer1::TensorIOMode getTensorIOMode(char const* name) const noexcept override {
        auto const* tensor = recording_->find(name);
        if (tensor == nullptr || tensor->is_debug) {
            return nvinfer1::TensorIOMode::kNONE;
        }
        return recording_->is_input(name) ? nvinfer1::TensorIOMode::kINPUT : nvinfer1::TensorIOMode::kOUTPUT;
    }
    nvinfer1::TensorLocation getTensorLocation(char const*) const noexcept override {
        return nvinfer1::TensorLocation::kDEVICE;
    }
    nvinfer1::TensorFormat getTensorFormat(char const*) const noexcept override {
        return nvinfer1::TensorFormat::kLINEAR;
    }
    nvinfer1::TensorFormat getTensorFormatV2(char const*, std::int32_t) const noexcept override {
        return nvinfer1::TensorFormat::kLINEAR;
    }
    bool isShapeInferenceIO(char const*) const noexcept override { return false; }
    bool isDebugTensor(char const* name) const noexcept override {
        auto const* tensor = recording_->find(name);
        return tensor != nullptr && tensor->is_debug;
    }
    std::int32_t getNbOptimizationProfiles() const noexcept override {
        return static_cast<std::int32_t>(recording_->profiles.size());
    }
    Dims getProfileShape(char const* name, std::int32_t index, OptProfileSelector select) const noexcept override {
        auto const* tensor = recording_->find(name);
        if (index < 0 || index >= getNbOptimizationProfiles() || tensor == nullptr) {
            return no_dims();
        }
        auto const& profile = recording_->profiles[static_cast<std::size_t>(index)];
        auto const range = profile.find(name);
        if (range == profile.end()) {
            return tensor->dims;
        }
        switch (select) {
        case OptProfileSelector::kMIN: return range->second.min;
        case OptProfileSelector::kOPT: return range->second.opt;
        default: return range->second.max;
        }
    }
    nvinfer1::IEngineInspector* createEngineInspector() const noexcept override {
        if (refused(voice_, "createEngineInspector")) {
            return nullptr;
        }
        return new Inspector(voice_, recording_, life());
    }
    IExecutionContext* createExecutionContext(
        nvinfer1::ExecutionContextAllocationStrategy strategy) noexcept override {
        if (refused(voice_, "createExecutionContext", ErrorCode::kFAILED_ALLOCATION)) {
            return nullptr;
        }
        return new Context(voice_, recording_, *this,
                           strategy != nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED);
    }
    nvinfer1::IHostMemory* serialize() const noexcept override {
        return refused(voice_, "serialize") ? nullptr : new HostMemory(voice_, plan_);
    }
    bool isRefittable() const noexcept override { return false; }
    nvinfer1::HardwareCompatibilityLevel getHardwareCompatibilityLevel() const noexcept override {
        return nvinfer1::HardwareCompatibilityLevel::kNONE;
    }
    nvinfer1::ProfilingVerbosity getProfilingVerbosity() const noexcept override {
        return nvinfer1::ProfilingVerbosity::kDETAILED;
    }
    std::int32_t getNbAuxStreams() const noexcept override { return 0; }
    std::int64_t getDeviceMemorySizeV2() const noexcept override { return recording_->device_memory; }
    std::int64_t getDeviceMemorySizeForProfileV2(std::int32_t) const noexcept override {
        return recording_->device_memory;
    }
    std::int64_t getStreamableWeightsSize() const noexcept override { return recording_->weights; }
    std::int64_t getWeightStreamingBudgetV2() const noexcept override { return budget_; }
    bool setWeightStreamingBudgetV2(std::int64_t bytes) noexcept override {
        if (refused(voice_, "setWeightStreamingBudgetV2") || bytes > recording_->weights) {
            return false;
        }
        option("weight_streaming_budget", std::to_string(bytes));
        budget_ = bytes;
        return true;
    }
    std::int64_t getWeightStreamingAutomaticBudget() const noexcept override { return recording_->weights / 2; }
    std::int64_t getWeightStreamingScratchMemorySize() const noexcept override { return 0; }

  private:
    // Outputs that are not only debug tensors.
    std::vector<Tensor const*> ports() const {
        std::vector<Tensor const*> out;
        for (auto const& tensor : recording_->outputs) {
            if (!tensor.is_debug) {
                out.push_back(&tensor);
            }
        }
        return out;
    }

    Voice voice_;
    Lived lived_;
    std::shared_ptr<Recording const> recording_;
    std::string plan_;
    std::int64_t budget_ = 0;
};

class Runtime final : public nvinfer1::IRuntime, public nvinfer1::StubRuntime {
  public:
    explicit Runtime(ILogger* logger) : voice_(logger, nullptr), lived_("IRuntime", voice_) { mImpl = this; }

    nvinfer1::IRuntime* getPImpl() noexcept override { return this; }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    ILogger* getLogger() const noexcept override { return voice_.logger(); }
    bool setMaxThreads(std::int32_t threads) noexcept override {
        threads_ = threads;
        return threads > 0;
    }
    std::int32_t getMaxThreads() const noexcept override { return threads_; }
    void setEngineHostCodeAllowed(bool allowed) noexcept override { host_code_ = allowed; }
    bool getEngineHostCodeAllowed() const noexcept override { return host_code_; }
    ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept override {
        if (refused(voice_, "deserializeCudaEngine", ErrorCode::kFAILED_ALLOCATION)) {
            return nullptr;
        }
        try {
            std::string plan(static_cast<char const*>(blob), size);
            return new Engine(voice_, std::make_shared<Recording const>(read(plan)), plan, &lived_);
        } catch (std::exception const& error) {
            voice_.error(ErrorCode::kINTERNAL_ERROR, std::string("deserializeCudaEngine: ") + error.what());
            return nullptr;
        }
    }

  private:
    Recording read(std::string const& plan) const {
        if (plan.compare(0, 4, magic()) != 0) {
            throw std::runtime_error("the plan's magic tag does not match");
        }
        if (fails("deserializeCudaEngine/version")) {
            throw std::runtime_error("the plan's version tag does not match: it was built by another version");
        }
        auto const json = Json::parse(plan.substr(4));
        if (json.at("sdk_version").integer() != NV_TENSORRT_VERSION) {
            throw std::runtime_error("the plan's version tag does not match: expected " +
                                     std::to_string(NV_TENSORRT_VERSION) + ", got " +
                                     std::to_string(json.at("sdk_version").integer()));
        }
        return Recording::from(json);
    }

    Voice voice_;
    Lived lived_;
    std::int32_t threads_ = 1;
    bool host_code_ = false;
};

} // namespace trtdouble
