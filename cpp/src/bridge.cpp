#include "trtforge/bridge.h"

#include "trtforge-tensorrt-sys/src/bridge.rs.h"

#include <stdexcept>
#include <utility>

namespace trtforge {
namespace {

Sdk const& sdk_of(SdkId sdk) {
    switch (sdk) {
    case SdkId::Rtx: return rtx_sdk();
    case SdkId::TensorRt11: return tensorrt11_sdk();
    case SdkId::TensorRt10:
#ifdef TRTFORGE_WITH_TENSORRT10
        return tensorrt10_sdk();
#else
        break;
#endif
    }
    throw std::invalid_argument("this build has no headers of that SDK");
}

} // namespace

std::int32_t header_version(SdkId sdk) { return sdk_of(sdk).header_version(); }

std::unique_ptr<Builder> make_builder(SdkId sdk, Factories const& factories, rust::Box<LogSink> sink) {
    return sdk_of(sdk).make_builder(factories, std::move(sink));
}

std::unique_ptr<Runtime> make_runtime(SdkId sdk, Factories const& factories, rust::Box<LogSink> sink) {
    return sdk_of(sdk).make_runtime(factories, std::move(sink));
}

} // namespace trtforge
