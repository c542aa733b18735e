// What the doubles of TensorRT's objects share. Compiled once per SDK.
#pragma once

#include "device.h"
#include "json.h"
#include "recording.h"
#include "state.h"

#include <NvInfer.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace nvinfer1 {
#include "stubs.h"
} // namespace nvinfer1

#ifdef TRT_MAJOR_RTX
#define TRTFORGE_DOUBLE_NAME "TensorRT-RTX"
#define TRTFORGE_DOUBLE_IS_RTX 1
#else
#define TRTFORGE_DOUBLE_NAME "TensorRT"
#define TRTFORGE_DOUBLE_IS_RTX 0
#endif

namespace trtdouble {

using nvinfer1::DataType;
using nvinfer1::Dims;
using nvinfer1::ErrorCode;
using nvinfer1::IErrorRecorder;
using nvinfer1::ILogger;
using nvinfer1::OptProfileSelector;

// A plan is these letters, then the JSON of its recording.
inline char const* magic() { return TRTFORGE_DOUBLE_IS_RTX ? "vtrt" : "ftrt"; }

inline Dims no_dims() {
    Dims dims{};
    dims.nbDims = -1;
    return dims;
}

// Where an object's messages go: to its recorder where it has one, else to the logger, as with the real library.
class Voice {
  public:
    Voice(ILogger* logger, IErrorRecorder* recorder) : logger_(logger) { record_with(recorder); }
    Voice(Voice const& other) : Voice(other.logger_, other.recorder_) {}
    Voice& operator=(Voice const&) = delete;
    ~Voice() { record_with(nullptr); }

    void record_with(IErrorRecorder* recorder) {
        if (recorder != nullptr) {
            recorder->incRefCount();
        }
        if (recorder_ != nullptr) {
            recorder_->decRefCount();
        }
        recorder_ = recorder;
    }
    IErrorRecorder* recorder() const { return recorder_; }
    ILogger* logger() const { return logger_; }

    void error(ErrorCode code, std::string const& text) const {
        std::string const whole = "[test double] " + text;
        if (recorder_ != nullptr) {
            recorder_->reportError(code, whole.c_str());
        } else {
            logger_->log(ILogger::Severity::kERROR, whole.c_str());
        }
    }
    void info(std::string const& text) const {
        logger_->log(ILogger::Severity::kINFO, ("[test double] " + text).c_str());
    }
    void verbose(std::string const& text) const {
        logger_->log(ILogger::Severity::kVERBOSE, ("[test double] " + text).c_str());
    }

  private:
    ILogger* logger_;
    IErrorRecorder* recorder_ = nullptr;
};

// True when a test told this call to fail; says so as the library would.
inline bool refused(Voice const& voice, char const* call, ErrorCode code = ErrorCode::kINTERNAL_ERROR) {
    if (!fails(call)) {
        return false;
    }
    voice.error(code, std::string(call) + ": told to fail");
    return true;
}

// Keeps the account of one object, and says farewell: whoever drops the logger first is caught.
class Lived {
  public:
    Lived(char const* kind, Voice const& voice, void const* owner = nullptr)
        : kind_(kind), voice_(voice.logger(), nullptr) {
        born(kind_, this, owner);
    }
    Lived(Lived const&) = delete;
    ~Lived() {
        voice_.verbose(std::string("end of ") + kind_);
        died(kind_, this);
    }

  private:
    char const* kind_;
    Voice voice_;
};

class HostMemory final : public nvinfer1::IHostMemory, public nvinfer1::StubHostMemory {
  public:
    HostMemory(Voice const& voice, std::string bytes) : lived_("IHostMemory", voice), bytes_(std::move(bytes)) {
        mImpl = this;
    }
    void* data() const noexcept override { return const_cast<char*>(bytes_.data()); }
    std::size_t size() const noexcept override { return bytes_.size(); }
    nvinfer1::DataType type() const noexcept override { return nvinfer1::DataType::kUINT8; }

  private:
    Lived lived_;
    std::string bytes_;
};

} // namespace trtdouble
