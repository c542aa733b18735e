// The interface of sdk.h over one TensorRT SDK; the build compiles this file once per SDK.
//
// TRTFORGE_SDK names the SDK (`rtx`, `tensorrt11`, `tensorrt10`). The SDKs' headers define the same names with
// different layouts, so the build also renames their namespaces (-Dnvinfer1=nvinfer1_rtx …): no two compilations
// share a symbol. The libraries are never linked; their factories come in as addresses from dlsym.

#include "builder.h"
#include "runtime.h"

namespace trtforge::TRTFORGE_SDK {
namespace {

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
