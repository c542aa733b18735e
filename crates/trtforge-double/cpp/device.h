// The double's one device: memory that is the host's, streams that hold their work until someone waits for it.
//
// Work is done only when a stream is synchronised, memory freed or an event waited for, so that a caller who forgets
// to wait reads what was there before, and one who frees too early is caught by AddressSanitizer or Valgrind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trtdouble {

// CUresult.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNotInitialized = 3;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;
constexpr int kIllegalAddress = 700;
constexpr int kStreamCaptureUnsupported = 900;
constexpr int kStreamCaptureInvalidated = 901;
constexpr int kUnknown = 999;

constexpr std::uint64_t kTotalMemory = std::uint64_t{8} << 30;

using Work = std::function<int()>;

// The simulated time a copy takes: 5 µs, and 10 GB/s.
double copy_us(std::size_t bytes);

// Puts work into a stream (null: the default one), or into the graph that the stream captures. `microseconds` is what
// it takes on the simulated clock that events read.
int enqueue(void* stream, double microseconds, Work work);

// The error of work that went wrong; once there is one, every call returns it, as a real context does.
int sticky_error();
void set_sticky_error(int error);
// For the next test: no error, no streams, no memory of earlier ones.
void forgive();

// Device memory; null when it is more than the device has.
void* allocate(std::size_t bytes);
bool release(void* memory);
std::size_t allocated();
// Whether these bytes lie inside one live allocation.
bool is_device_range(void const* start, std::size_t bytes);

// Host memory that the driver made or was told of.
void* allocate_pinned(std::size_t bytes);
bool release_pinned(void* memory);
bool is_pinned(void const* start, std::size_t bytes);

void* make_stream();
bool end_stream(void* stream);
bool is_stream(void const* stream);
int synchronize(void* stream);
int synchronize_all();
bool is_idle(void const* stream);

void* make_event(bool timed);
bool end_event(void* event);
int record(void* event, void* stream);
int wait_for(void* stream, void* event);
int synchronize_event(void* event);
int query_event(void* event);
int elapsed_ms(float* out, void* start, void* end);

int begin_capture(void* stream);
int end_capture(void* stream, void** graph);
bool is_capturing(void const* stream);
int instantiate(void** executable, void* graph);
int launch(void* executable, void* stream);
bool end_graph(void* graph);
bool end_executable(void* executable);

} // namespace trtdouble
