// The double of the CUDA driver (libcuda.so.1): the functions that trtforge and cudarc use, over device.h.
//
// What is not here is missing as a symbol, which cudarc and the dynamic linker name.

#include "device.h"
#include "state.h"

#include <cstring>
#include <string>

using namespace trtdouble;

namespace {

using DevicePointer = unsigned long long;

int thread_local current = 0;
bool initialised = false;
int primary_count = 0;
int primary_flags = 0;
// The context is known by this address.
int the_context = 0;

void* host(DevicePointer pointer) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)); }
DevicePointer device(void const* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Counts the call, and says what it returns instead of working.
int refusal(char const* call, int injected) {
    if (fails(call)) {
        return injected;
    }
    if (int const error = sticky_error()) {
        return error;
    }
    return kSuccess;
}

// The same for calls that wait: their injected error is one of work done before, and stays.
int waiting_refusal(char const* call) {
    if (fails(call)) {
        set_sticky_error(kIllegalAddress);
    }
    return kSuccess;
}

int copy(void* to, void const* from, std::size_t bytes, bool to_device, bool from_device) {
    if ((to_device && !is_device_range(to, bytes)) || (from_device && !is_device_range(from, bytes))) {
        misuse("a copy reaches beyond device memory");
        return kIllegalAddress;
    }
    std::memcpy(to, from, bytes);
    return kSuccess;
}

int attribute(int* value, int number) {
    switch (number) {
    case 1: *value = 1024; return kSuccess;                         // threads per block
    case 13: *value = 1'000'000; return kSuccess;                   // clock rate, kHz
    case 16: *value = 2; return kSuccess;                           // multiprocessors
    case 18: *value = 0; return kSuccess;                           // integrated
    case 19: *value = 1; return kSuccess;                           // can map host memory
    case 31: *value = 1; return kSuccess;                           // concurrent kernels
    case 33: *value = 0; return kSuccess;                           // PCI bus
    case 34: *value = 0; return kSuccess;                           // PCI device
    case 36: *value = 1'000'000; return kSuccess;                   // memory clock, kHz
    case 37: *value = 128; return kSuccess;                         // bus width
    case 38: *value = 1 << 20; return kSuccess;                     // L2 bytes
    case 40: *value = 2; return kSuccess;                           // copy engines
    case 41: *value = 1; return kSuccess;                           // unified addressing
    case 50: *value = 0; return kSuccess;                           // PCI domain
    case 75: *value = static_cast<int>(number_from("TRTFORGE_DOUBLE_CAPABILITY", 90)) / 10; return kSuccess;
    case 76: *value = static_cast<int>(number_from("TRTFORGE_DOUBLE_CAPABILITY", 90)) % 10; return kSuccess;
    case 115: *value = 1; return kSuccess;                          // memory pools
    default: not_there(("CUDA device attribute " + std::to_string(number)).c_str());
    }
}

} // namespace

#define REFUSE(call, injected)                                                                                         \
    if (int const refused = refusal(call, injected)) {                                                                 \
        return refused;                                                                                                \
    }

extern "C" {

int cuInit(unsigned flags) {
    REFUSE("cuInit", kNoDevice);
    initialised = flags == 0;
    return initialised ? kSuccess : kInvalidValue;
}

int cuDriverGetVersion(int* version) {
    REFUSE("cuDriverGetVersion", kUnknown);
    *version = 13000;
    return kSuccess;
}

int cuDeviceGetCount(int* count) {
    REFUSE("cuDeviceGetCount", kUnknown);
    *count = initialised ? 1 : 0;
    return initialised ? kSuccess : kNotInitialized;
}

int cuDeviceGet(int* handle, int ordinal) {
    REFUSE("cuDeviceGet", kUnknown);
    *handle = 0;
    return ordinal == 0 ? kSuccess : kInvalidDevice;
}

int cuDeviceGetName(char* name, int length, int) {
    REFUSE("cuDeviceGetName", kUnknown);
    std::strncpy(name, "TEST DOUBLE (no GPU)", static_cast<std::size_t>(length));
    name[length - 1] = '\0';
    return kSuccess;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int) {
    REFUSE("cuDeviceGetUuid", kUnknown);
    std::memcpy(uuid, "TEST DOUBLE GPU.", 16);
    return kSuccess;
}

int cuDeviceGetPCIBusId(char* id, int length, int) {
    REFUSE("cuDeviceGetPCIBusId", kUnknown);
    std::strncpy(id, "0000:00:00.0", static_cast<std::size_t>(length));
    id[length - 1] = '\0';
    return kSuccess;
}

int cuDeviceGetAttribute(int* value, int number, int) {
    REFUSE("cuDeviceGetAttribute", kUnknown);
    return attribute(value, number);
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    REFUSE("cuDeviceTotalMem", kUnknown);
    *bytes = kTotalMemory;
    return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
    REFUSE("cuDevicePrimaryCtxRetain", kOutOfMemory);
    *context = &the_context;
    if (primary_count++ == 0) {
        born("primary context", &the_context);
    }
    return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int) {
    int const refused = refusal("cuDevicePrimaryCtxRelease", kUnknown);
    if (primary_count == 0) {
        misuse("the primary context was released more often than retained");
        return kInvalidContext;
    }
    if (--primary_count == 0) {
        died("primary context", &the_context);
    }
    return refused;
}

int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
    REFUSE("cuDevicePrimaryCtxGetState", kUnknown);
    *flags = static_cast<unsigned>(primary_flags);
    *active = primary_count > 0 ? 1 : 0;
    return kSuccess;
}

int cuDevicePrimaryCtxSetFlags_v2(int, unsigned flags) {
    REFUSE("cuDevicePrimaryCtxSetFlags", kUnknown);
    primary_flags = static_cast<int>(flags);
    return kSuccess;
}

// Which context is the thread's is known to the host alone: an error of the device does not come back from here.
int cuCtxSetCurrent(void* context) {
    if (fails("cuCtxSetCurrent")) {
        return kInvalidContext;
    }
    current = context == nullptr ? 0 : 1;
    return kSuccess;
}

int cuCtxGetCurrent(void** context) {
    if (fails("cuCtxGetCurrent")) {
        return kInvalidContext;
    }
    *context = current == 0 ? nullptr : &the_context;
    return kSuccess;
}

int cuCtxGetDevice(int* handle) {
    REFUSE("cuCtxGetDevice", kUnknown);
    *handle = 0;
    return current == 0 ? kInvalidContext : kSuccess;
}

int cuCtxSetFlags(unsigned flags) {
    REFUSE("cuCtxSetFlags", kUnknown);
    primary_flags = static_cast<int>(flags);
    return kSuccess;
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    REFUSE("cuCtxGetStreamPriorityRange", kUnknown);
    *least = 0;
    *greatest = -1;
    return kSuccess;
}

int cuCtxSynchronize() {
    waiting_refusal("cuCtxSynchronize");
    return synchronize_all();
}

int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
    REFUSE("cuMemGetInfo", kUnknown);
    *total_bytes = kTotalMemory;
    *free_bytes = kTotalMemory - allocated();
    return kSuccess;
}

int cuMemAlloc_v2(DevicePointer* out, std::size_t bytes) {
    REFUSE("cuMemAlloc", kOutOfMemory);
    if (bytes == 0) {
        return kInvalidValue;
    }
    void* const memory = allocate(bytes);
    *out = device(memory);
    return memory == nullptr ? kOutOfMemory : kSuccess;
}

// Freed even where the error of an earlier call comes back, as the account is of what the caller let go.
int cuMemFree_v2(DevicePointer pointer) {
    int const refused = refusal("cuMemFree", kUnknown);
    if (pointer != 0 && !release(host(pointer))) {
        return kInvalidValue;
    }
    return refused;
}

int cuMemAllocAsync(DevicePointer* out, std::size_t bytes, void*) {
    REFUSE("cuMemAllocAsync", kOutOfMemory);
    if (bytes == 0) {
        return kInvalidValue;
    }
    void* const memory = allocate(bytes);
    *out = device(memory);
    return memory == nullptr ? kOutOfMemory : kSuccess;
}

int cuMemFreeAsync(DevicePointer pointer, void*) {
    int const refused = refusal("cuMemFreeAsync", kUnknown);
    if (pointer != 0 && !release(host(pointer))) {
        return kInvalidValue;
    }
    return refused;
}

int cuMemHostAlloc(void** out, std::size_t bytes, unsigned) {
    REFUSE("cuMemHostAlloc", kOutOfMemory);
    *out = allocate_pinned(bytes);
    return *out == nullptr ? kInvalidValue : kSuccess;
}

int cuMemAllocHost_v2(void** out, std::size_t bytes) {
    REFUSE("cuMemAllocHost", kOutOfMemory);
    *out = allocate_pinned(bytes);
    return *out == nullptr ? kInvalidValue : kSuccess;
}

int cuMemFreeHost(void* memory) {
    int const refused = refusal("cuMemFreeHost", kUnknown);
    return release_pinned(memory) ? refused : kInvalidValue;
}

int cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t bytes) {
    REFUSE("cuMemsetD8", kUnknown);
    if (!is_device_range(host(to), bytes)) {
        misuse("a memset reaches beyond device memory");
        return kInvalidValue;
    }
    std::memset(host(to), value, bytes);
    return kSuccess;
}

int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t bytes, void* stream) {
    REFUSE("cuMemsetD8Async", kUnknown);
    return enqueue(stream, copy_us(bytes), [=] {
        if (!is_device_range(host(to), bytes)) {
            misuse("a memset reaches beyond device memory");
            return kIllegalAddress;
        }
        std::memset(host(to), value, bytes);
        return kSuccess;
    });
}

int cuMemcpyHtoD_v2(DevicePointer to, void const* from, std::size_t bytes) {
    REFUSE("cuMemcpyHtoD", kUnknown);
    synchronize(nullptr);
    return copy(host(to), from, bytes, true, false);
}

int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
    REFUSE("cuMemcpyDtoH", kUnknown);
    synchronize(nullptr);
    return copy(to, host(from), bytes, false, true);
}

int cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
    REFUSE("cuMemcpyDtoD", kUnknown);
    synchronize(nullptr);
    return copy(host(to), host(from), bytes, true, true);
}

// From pageable memory the real one copies to a buffer of its own before it returns.
int cuMemcpyHtoDAsync_v2(DevicePointer to, void const* from, std::size_t bytes, void* stream) {
    REFUSE("cuMemcpyHtoDAsync", kUnknown);
    if (is_pinned(from, bytes)) {
        return enqueue(stream, copy_us(bytes), [=] {
            if (!is_pinned(from, bytes)) {
                misuse("pinned memory was freed while a copy read it");
                return kIllegalAddress;
            }
            return copy(host(to), from, bytes, true, false);
        });
    }
    if (is_capturing(stream)) {
        return kStreamCaptureUnsupported;
    }
    std::string staged(static_cast<char const*>(from), bytes);
    return enqueue(stream, 2 * copy_us(bytes),
                   [=] { return copy(host(to), staged.data(), bytes, true, false); });
}

// To pageable memory the real one returns when the copy is done.
int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, void* stream) {
    REFUSE("cuMemcpyDtoHAsync", kUnknown);
    if (is_pinned(to, bytes)) {
        return enqueue(stream, copy_us(bytes), [=] {
            if (!is_pinned(to, bytes)) {
                misuse("pinned memory was freed while a copy wrote it");
                return kIllegalAddress;
            }
            return copy(to, host(from), bytes, false, true);
        });
    }
    if (is_capturing(stream)) {
        return kStreamCaptureUnsupported;
    }
    int const error =
        enqueue(stream, 2 * copy_us(bytes), [=] { return copy(to, host(from), bytes, false, true); });
    return error != kSuccess ? error : synchronize(stream);
}

int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, void* stream) {
    REFUSE("cuMemcpyDtoDAsync", kUnknown);
    return enqueue(stream, copy_us(bytes), [=] { return copy(host(to), host(from), bytes, true, true); });
}

int cuStreamCreate(void** stream, unsigned) {
    REFUSE("cuStreamCreate", kOutOfMemory);
    *stream = make_stream();
    return kSuccess;
}

int cuStreamCreateWithPriority(void** stream, unsigned, int) {
    REFUSE("cuStreamCreateWithPriority", kOutOfMemory);
    *stream = make_stream();
    return kSuccess;
}

int cuStreamDestroy_v2(void* stream) {
    int const refused = refusal("cuStreamDestroy", kUnknown);
    return end_stream(stream) ? refused : kInvalidHandle;
}

int cuStreamSynchronize(void* stream) {
    waiting_refusal("cuStreamSynchronize");
    return synchronize(stream);
}

int cuStreamQuery(void* stream) {
    REFUSE("cuStreamQuery", kUnknown);
    if (!is_stream(stream)) {
        return kInvalidHandle;
    }
    if (is_idle(stream)) {
        return kSuccess;
    }
    synchronize(stream);
    return kNotReady;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    REFUSE("cuStreamWaitEvent", kUnknown);
    return wait_for(stream, event);
}

int cuStreamBeginCapture_v2(void* stream, int) {
    REFUSE("cuStreamBeginCapture", kUnknown);
    return begin_capture(stream);
}

int cuStreamEndCapture(void* stream, void** graph) {
    if (fails("cuStreamEndCapture")) {
        void* lost = nullptr;
        if (end_capture(stream, &lost) == kSuccess) {
            end_graph(lost);
        }
        *graph = nullptr;
        return kStreamCaptureInvalidated;
    }
    return end_capture(stream, graph);
}

int cuStreamIsCapturing(void* stream, int* status) {
    REFUSE("cuStreamIsCapturing", kUnknown);
    *status = is_capturing(stream) ? 1 : 0;
    return kSuccess;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    REFUSE("cuGraphInstantiate", kOutOfMemory);
    return instantiate(executable, graph);
}

int cuGraphUpload(void*, void*) {
    REFUSE("cuGraphUpload", kUnknown);
    return kSuccess;
}

int cuGraphLaunch(void* executable, void* stream) {
    REFUSE("cuGraphLaunch", kUnknown);
    return launch(executable, stream);
}

int cuGraphExecDestroy(void* executable) {
    int const refused = refusal("cuGraphExecDestroy", kUnknown);
    return end_executable(executable) ? refused : kInvalidValue;
}

int cuGraphDestroy(void* graph) {
    int const refused = refusal("cuGraphDestroy", kUnknown);
    return end_graph(graph) ? refused : kInvalidValue;
}

int cuEventCreate(void** event, unsigned flags) {
    REFUSE("cuEventCreate", kOutOfMemory);
    constexpr unsigned kDisableTiming = 2;
    *event = make_event((flags & kDisableTiming) == 0);
    return kSuccess;
}

int cuEventDestroy_v2(void* event) {
    int const refused = refusal("cuEventDestroy", kUnknown);
    return end_event(event) ? refused : kInvalidHandle;
}

int cuEventRecord(void* event, void* stream) {
    REFUSE("cuEventRecord", kUnknown);
    return record(event, stream);
}

int cuEventSynchronize(void* event) {
    waiting_refusal("cuEventSynchronize");
    return synchronize_event(event);
}

int cuEventQuery(void* event) {
    REFUSE("cuEventQuery", kUnknown);
    return query_event(event);
}

int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    REFUSE("cuEventElapsedTime", kUnknown);
    return elapsed_ms(milliseconds, start, end);
}

int cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    REFUSE("cuEventElapsedTime", kUnknown);
    return elapsed_ms(milliseconds, start, end);
}

int cuGetErrorName(int error, char const** name) {
    switch (error) {
    case kSuccess: *name = "CUDA_SUCCESS"; return kSuccess;
    case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; return kSuccess;
    case kOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return kSuccess;
    case kNotInitialized: *name = "CUDA_ERROR_NOT_INITIALIZED"; return kSuccess;
    case kNoDevice: *name = "CUDA_ERROR_NO_DEVICE"; return kSuccess;
    case kInvalidDevice: *name = "CUDA_ERROR_INVALID_DEVICE"; return kSuccess;
    case kInvalidContext: *name = "CUDA_ERROR_INVALID_CONTEXT"; return kSuccess;
    case kInvalidHandle: *name = "CUDA_ERROR_INVALID_HANDLE"; return kSuccess;
    case kNotReady: *name = "CUDA_ERROR_NOT_READY"; return kSuccess;
    case kIllegalAddress: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return kSuccess;
    case kStreamCaptureUnsupported: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; return kSuccess;
    case kStreamCaptureInvalidated: *name = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; return kSuccess;
    case kUnknown: *name = "CUDA_ERROR_UNKNOWN"; return kSuccess;
    default: *name = nullptr; return kInvalidValue;
    }
}

int cuGetErrorString(int error, char const** text) {
    switch (error) {
    case kSuccess: *text = "no error"; return kSuccess;
    case kInvalidValue: *text = "invalid argument"; return kSuccess;
    case kOutOfMemory: *text = "out of memory"; return kSuccess;
    case kNotInitialized: *text = "initialization error"; return kSuccess;
    case kNoDevice: *text = "no CUDA-capable device is detected"; return kSuccess;
    case kInvalidDevice: *text = "invalid device ordinal"; return kSuccess;
    case kInvalidContext: *text = "invalid device context"; return kSuccess;
    case kInvalidHandle: *text = "invalid resource handle"; return kSuccess;
    case kNotReady: *text = "device not ready"; return kSuccess;
    case kIllegalAddress: *text = "an illegal memory access was encountered"; return kSuccess;
    case kStreamCaptureUnsupported: *text = "operation not permitted when stream is capturing"; return kSuccess;
    case kStreamCaptureInvalidated: *text = "operation failed due to a previous error during capture"; return kSuccess;
    case kUnknown: *text = "unknown error"; return kSuccess;
    default: *text = nullptr; return kInvalidValue;
    }
}

} // extern "C"
