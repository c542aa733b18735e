// The double of NVML (libnvidia-ml.so.1): what trtforge asks of a GPU's clocks, heat and counters. Its numbers are made
// up and never change: 1111 MHz of 2222, 33 °C, 44 W, counters of 12.5 %.

#include "state.h"

#include <cstring>

using trtdouble::fails;

namespace {

// nvmlReturn_t.
constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kUnknown = 999;

int initialised = 0;
// The one device is known by this address, as CUDA's uuid has it.
int the_device = 0;
constexpr char const* kUuid = "GPU-54455354-2044-4f55-424c-45204750552e";

int refusal(char const* call, int injected = kUnknown) {
    if (fails(call)) {
        return injected;
    }
    return initialised > 0 ? kSuccess : kUninitialized;
}

int put(char* out, unsigned length, char const* text) {
    if (length <= std::strlen(text)) {
        return kInsufficientSize;
    }
    std::strcpy(out, text);
    return kSuccess;
}

struct Metric {
    unsigned id;
    int result;
    double value;
    char const* names[3];
};

struct MetricsRequest {
    unsigned version;
    unsigned count;
    void* samples[2];
    Metric metrics[210];
};

} // namespace

#define REFUSE(call)                                                                                                   \
    if (int const refused = refusal(call)) {                                                                           \
        return refused;                                                                                                \
    }

extern "C" {

int nvmlInit_v2() {
    if (fails("nvmlInit")) {
        return 9; // the driver is not loaded
    }
    ++initialised;
    return kSuccess;
}

int nvmlShutdown() {
    REFUSE("nvmlShutdown");
    --initialised;
    return kSuccess;
}

char const* nvmlErrorString(int) { return "an error of the test double"; }

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
    REFUSE("nvmlSystemGetDriverVersion");
    return put(version, length, "0.0 (test double)");
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    REFUSE("nvmlDeviceGetCount");
    *count = 1;
    return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    REFUSE("nvmlDeviceGetHandleByIndex");
    *device = &the_device;
    return index == 0 ? kSuccess : kInvalidArgument;
}

int nvmlDeviceGetHandleByUUID(char const* uuid, void** device) {
    REFUSE("nvmlDeviceGetHandleByUUID");
    *device = &the_device;
    return std::strcmp(uuid, kUuid) == 0 ? kSuccess : kNotFound;
}

int nvmlDeviceGetUUID(void*, char* uuid, unsigned length) {
    REFUSE("nvmlDeviceGetUUID");
    return put(uuid, length, kUuid);
}

int nvmlDeviceGetIndex(void*, unsigned* index) {
    REFUSE("nvmlDeviceGetIndex");
    *index = 0;
    return kSuccess;
}

int nvmlDeviceGetName(void*, char* name, unsigned length) {
    REFUSE("nvmlDeviceGetName");
    return put(name, length, "TEST DOUBLE (no GPU)");
}

int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) {
    REFUSE("nvmlDeviceGetClockInfo");
    *mhz = 1111;
    return kSuccess;
}

int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) {
    REFUSE("nvmlDeviceGetMaxClockInfo");
    *mhz = 2222;
    return kSuccess;
}

int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
    REFUSE("nvmlDeviceGetTemperature");
    *celsius = 33;
    return kSuccess;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
    REFUSE("nvmlDeviceGetPowerUsage");
    *milliwatts = 44'000;
    return kSuccess;
}

// TRTFORGE_DOUBLE_THROTTLE: the bits of nvmlClocksThrottleReason… (4 is the software power cap).
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
    REFUSE("nvmlDeviceGetCurrentClocksThrottleReasons");
    *reasons = static_cast<unsigned long long>(trtdouble::number_from("TRTFORGE_DOUBLE_THROTTLE", 0));
    return kSuccess;
}

int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
    REFUSE("nvmlDeviceGetComputeRunningProcesses");
    *count = 0;
    return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void*, unsigned* utilization) {
    REFUSE("nvmlDeviceGetUtilizationRates");
    utilization[0] = 55;
    utilization[1] = 22;
    return kSuccess;
}

// TRTFORGE_DOUBLE_GPM=0: a chip from before Hopper.
int nvmlGpmQueryDeviceSupport(void*, unsigned* support) {
    REFUSE("nvmlGpmQueryDeviceSupport");
    support[1] = trtdouble::number_from("TRTFORGE_DOUBLE_GPM", 1) != 0 ? 1 : 0;
    return kSuccess;
}

int nvmlGpmSampleAlloc(void** sample) {
    REFUSE("nvmlGpmSampleAlloc");
    *sample = new int(0);
    trtdouble::born("GPM sample", *sample);
    return kSuccess;
}

int nvmlGpmSampleFree(void* sample) {
    REFUSE("nvmlGpmSampleFree");
    trtdouble::died("GPM sample", sample);
    delete static_cast<int*>(sample);
    return kSuccess;
}

int nvmlGpmSampleGet(void*, void* sample) {
    REFUSE("nvmlGpmSampleGet");
    *static_cast<int*>(sample) = 1;
    return kSuccess;
}

int nvmlGpmMetricsGet(MetricsRequest* request) {
    REFUSE("nvmlGpmMetricsGet");
    for (void* sample : request->samples) {
        if (*static_cast<int*>(sample) != 1) {
            return kInvalidArgument;
        }
    }
    for (unsigned i = 0; i < request->count; ++i) {
        request->metrics[i].result = fails("nvmlGpmMetricsGet/metric") ? kNotSupported : kSuccess;
        request->metrics[i].value = 12.5;
        request->metrics[i].names[0] = request->metrics[i].names[1] = request->metrics[i].names[2] = nullptr;
    }
    return kSuccess;
}

} // extern "C"
