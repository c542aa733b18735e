// What TensorRT calls back into. Private to sdk.cpp, and so compiled once per SDK, inside its namespace.
//
// TensorRT calls these from any of its threads and must never see an exception: each one only stores, or asks Rust
// (whose side catches panics).
#pragma once

#include <NvInfer.h>

#include "trtforge-tensorrt-sys/src/bridge.rs.h"
#include "trtforge/sdk.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace trtforge::TRTFORGE_SDK {

// A rust::Slice rather than a rust::Str: the library's text need not be UTF-8, and building a Slice cannot throw.
inline rust::Slice<std::uint8_t const> text(char const* chars) noexcept {
    if (chars == nullptr) {
        return {};
    }
    return {reinterpret_cast<std::uint8_t const*>(chars), std::strlen(chars)};
}

class Logger final : public nvinfer1::ILogger {
  public:
    explicit Logger(rust::Box<LogSink> sink) : sink_(std::move(sink)) {}
    void log(Severity severity, nvinfer1::AsciiChar const* message) noexcept override {
        sink_->write(static_cast<std::int32_t>(severity), text(message));
    }

  private:
    rust::Box<LogSink> sink_;
};

// Once a recorder is set, TensorRT gives its errors to it and no longer to the logger: it passes them on, so that the
// log is whole and in order.
class ErrorRecorder final : public nvinfer1::IErrorRecorder {
  public:
    explicit ErrorRecorder(Logger& logger) : logger_(logger) {}
    std::int32_t getNbErrors() const noexcept override {
        std::lock_guard<std::mutex> lock(mutex_);
        return static_cast<std::int32_t>(errors_.size());
    }
    nvinfer1::ErrorCode getErrorCode(std::int32_t index) const noexcept override {
        std::lock_guard<std::mutex> lock(mutex_);
        return known(index) ? errors_[static_cast<std::size_t>(index)].first : nvinfer1::ErrorCode::kUNSPECIFIED_ERROR;
    }
    ErrorDesc getErrorDesc(std::int32_t index) const noexcept override {
        std::lock_guard<std::mutex> lock(mutex_);
        return known(index) ? errors_[static_cast<std::size_t>(index)].second.c_str() : "";
    }
    bool hasOverflowed() const noexcept override { return overflowed_; }
    void clear() noexcept override {
        std::lock_guard<std::mutex> lock(mutex_);
        errors_.clear();
        overflowed_ = false;
    }
    // False would mean that the caller may go on as if nothing was wrong.
    bool reportError(nvinfer1::ErrorCode code, ErrorDesc description) noexcept override {
        logger_.log(nvinfer1::ILogger::Severity::kERROR, description);
        try {
            std::lock_guard<std::mutex> lock(mutex_);
            errors_.emplace_back(code, description == nullptr ? "" : description);
        } catch (...) {
            overflowed_ = true;
        }
        return true;
    }
    RefCount incRefCount() noexcept override { return ++references_; }
    RefCount decRefCount() noexcept override { return --references_; }

    rust::Vec<RecordedError> recorded() const {
        std::lock_guard<std::mutex> lock(mutex_);
        rust::Vec<RecordedError> recorded;
        for (auto const& [code, description] : errors_) {
            recorded.push_back({static_cast<std::int32_t>(code), rust::String::lossy(description)});
        }
        return recorded;
    }

    rust::Vec<RecordedError> take() {
        auto taken = recorded();
        clear();
        return taken;
    }

  private:
    bool known(std::int32_t index) const noexcept {
        return index >= 0 && static_cast<std::size_t>(index) < errors_.size();
    }

    Logger& logger_;
    mutable std::mutex mutex_;
    std::vector<std::pair<nvinfer1::ErrorCode, std::string>> errors_;
    std::atomic<bool> overflowed_{false};
    std::atomic<RefCount> references_{0};
};

class ProgressMonitor final : public nvinfer1::IProgressMonitor {
  public:
    explicit ProgressMonitor(Monitor const& monitor) : monitor_(monitor) {}
    void phaseStart(char const* phase, char const* parent, std::int32_t steps) noexcept override {
        monitor_.phase_start(text(phase), text(parent), steps);
    }
    bool stepComplete(char const* phase, std::int32_t step) noexcept override {
        return monitor_.step_complete(text(phase), step);
    }
    void phaseFinish(char const* phase) noexcept override { monitor_.phase_finish(text(phase)); }

  private:
    Monitor const& monitor_;
};

// Gives TensorRT the memory of an output whose size only a run tells, and hears its shape.
class OutputAllocator final : public nvinfer1::IOutputAllocator {
  public:
    explicit OutputAllocator(rust::Box<OutputMemory> memory) : memory_(std::move(memory)) {}
    void* reallocateOutputAsync(char const* /*tensor*/, void* /*current*/, std::uint64_t size, std::uint64_t alignment,
                                cudaStream_t /*stream*/) override {
        return reinterpret_cast<void*>(memory_->reserve(size, alignment));
    }
    void notifyShape(char const* /*tensor*/, nvinfer1::Dims const& dims) noexcept override {
        // A negative count would be the library's fault; a Slice of it would be ours.
        auto const count = dims.nbDims < 0 ? 0U : static_cast<std::size_t>(dims.nbDims);
        memory_->shaped({dims.d, count});
    }

  private:
    rust::Box<OutputMemory> memory_;
};

} // namespace trtforge::TRTFORGE_SDK
