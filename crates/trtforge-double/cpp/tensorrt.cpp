// The factories of TensorRT's double: what the dynamic linker finds in libnvinfer.so.11 or libtensorrt_rtx.so.1.

#include "build.h"
#include "context.h"

namespace {

using namespace trtdouble;

// The first line of every log says what this is.
ILogger* introduced(void* logger) {
    auto* const known = static_cast<ILogger*>(logger);
    Voice(known, nullptr).info("this is a TEST DOUBLE of " TRTFORGE_DOUBLE_NAME
                               ": nothing it says was measured or computed by TensorRT");
    return known;
}

// What the real library returned where there was no driver: neither null nor a pointer.
void* garbage() { return reinterpret_cast<void*>(0x228); }

bool right_version(ILogger* logger, std::int32_t version) {
    if (version == NV_TENSORRT_VERSION) {
        return true;
    }
    Voice(logger, nullptr).error(ErrorCode::kINVALID_ARGUMENT, "the caller's version is " + std::to_string(version));
    return false;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED std::int32_t getInferLibVersion() noexcept {
    return static_cast<std::int32_t>(number_from("TRTFORGE_DOUBLE_VERSION", NV_TENSORRT_VERSION));
}

EXPORTED void* createInferRuntime_INTERNAL(void* logger, std::int32_t version) noexcept {
    auto* const known = introduced(logger);
    if (fails("createInferRuntime/garbage")) {
        return garbage();
    }
    if (!right_version(known, version) || refused(Voice(known, nullptr), "createInferRuntime")) {
        return nullptr;
    }
    return static_cast<nvinfer1::IRuntime*>(new Runtime(known));
}

EXPORTED void* createInferBuilder_INTERNAL(void* logger, std::int32_t version) noexcept {
    auto* const known = introduced(logger);
    if (fails("createInferBuilder/garbage")) {
        return garbage();
    }
    if (!right_version(known, version) || refused(Voice(known, nullptr), "createInferBuilder")) {
        return nullptr;
    }
    return static_cast<nvinfer1::IBuilder*>(new Builder(known));
}
