#include "device.h"

#include "state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace trtdouble {
namespace {

struct Step {
    double microseconds;
    Work work;
};

struct Graph {
    std::vector<Step> steps;
};

struct Stream {
    std::deque<Work> pending;
    // How many pieces of work were ever put in, and how many are done.
    std::uint64_t put = 0;
    std::uint64_t done = 0;
    double clock_us = 0;
    bool capturing = false;
    std::unique_ptr<Graph> captured;
};

struct Event {
    bool timed;
    bool recorded = false;
    Stream* stream = nullptr;
    std::uint64_t after = 0;
    double at_us = 0;
};

struct Device {
    // Work may call back into the device (a copy that checks its addresses).
    std::recursive_mutex mutex;
    int error = kSuccess;
    std::map<std::uintptr_t, std::size_t> memory;
    std::map<std::uintptr_t, std::size_t> pinned;
    std::size_t allocated = 0;
    Stream default_stream;
    std::map<void const*, std::unique_ptr<Stream>> streams;
    std::map<void const*, std::unique_ptr<Event>> events;
    std::map<void const*, std::unique_ptr<Graph>> graphs;
    std::map<void const*, std::unique_ptr<Graph>> executables;
};

Device& device() {
    static auto* const made = new Device;
    return *made;
}

using Lock = std::lock_guard<std::recursive_mutex>;

Stream* stream_of(void const* handle) {
    // 0 is the default stream, 1 the legacy one, 2 that of the thread.
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
        return &device().default_stream;
    }
    auto const found = device().streams.find(handle);
    return found == device().streams.end() ? nullptr : found->second.get();
}

int run_until(Stream& stream, std::uint64_t wanted) {
    while (stream.done < wanted && !stream.pending.empty()) {
        Work const work = std::move(stream.pending.front());
        stream.pending.pop_front();
        ++stream.done;
        int const error = work();
        if (error != kSuccess && device().error == kSuccess) {
            device().error = error;
        }
    }
    return device().error;
}

// A stream that has ended has done all its work.
int run_if_there(Stream* stream, std::uint64_t wanted) {
    bool const there = stream == &device().default_stream || device().streams.count(stream) != 0;
    return there ? run_until(*stream, wanted) : device().error;
}

void put(Stream& stream, double microseconds, Work work) {
    stream.pending.push_back(std::move(work));
    ++stream.put;
    stream.clock_us += microseconds;
}

bool inside(std::map<std::uintptr_t, std::size_t> const& ranges, void const* start, std::size_t bytes) {
    auto const address = reinterpret_cast<std::uintptr_t>(start);
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) {
        return false;
    }
    --after;
    return address - after->first + bytes <= after->second;
}

} // namespace

double copy_us(std::size_t bytes) { return 5.0 + static_cast<double>(bytes) / 10e3; }

int enqueue(void* handle, double microseconds, Work work) {
    Lock lock(device().mutex);
    auto* stream = stream_of(handle);
    if (stream == nullptr) {
        return kInvalidHandle;
    }
    if (stream->capturing) {
        stream->captured->steps.push_back({microseconds, std::move(work)});
    } else {
        put(*stream, microseconds, std::move(work));
    }
    return kSuccess;
}

int sticky_error() {
    Lock lock(device().mutex);
    return device().error;
}

void set_sticky_error(int error) {
    Lock lock(device().mutex);
    if (device().error == kSuccess) {
        device().error = error;
    }
}

void forgive() {
    Lock lock(device().mutex);
    device().error = kSuccess;
    device().default_stream = Stream();
}

void* allocate(std::size_t bytes) {
    Lock lock(device().mutex);
    if (bytes == 0 || bytes > kTotalMemory - device().allocated) {
        return nullptr;
    }
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == nullptr) {
        return nullptr;
    }
    // What nobody wrote reads as large nonsense, never as zeros that happen to be right.
    std::memset(memory, 0xCD, bytes);
    device().memory[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
    device().allocated += bytes;
    born("device memory", memory);
    return memory;
}

bool release(void* memory) {
    Lock lock(device().mutex);
    auto const found = device().memory.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == device().memory.end()) {
        misuse("device memory was freed that is not there");
        return false;
    }
    synchronize_all();
    device().allocated -= found->second;
    device().memory.erase(found);
    died("device memory", memory);
    std::free(memory);
    return true;
}

std::size_t allocated() {
    Lock lock(device().mutex);
    return device().allocated;
}

bool is_device_range(void const* start, std::size_t bytes) {
    Lock lock(device().mutex);
    return inside(device().memory, start, bytes);
}

void* allocate_pinned(std::size_t bytes) {
    Lock lock(device().mutex);
    void* memory = bytes == 0 ? nullptr : std::malloc(bytes);
    if (memory != nullptr) {
        std::memset(memory, 0xCD, bytes);
        device().pinned[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
        born("pinned memory", memory);
    }
    return memory;
}

bool release_pinned(void* memory) {
    Lock lock(device().mutex);
    if (device().pinned.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) {
        misuse("pinned memory was freed that is not there");
        return false;
    }
    died("pinned memory", memory);
    std::free(memory);
    return true;
}

bool is_pinned(void const* start, std::size_t bytes) {
    Lock lock(device().mutex);
    return inside(device().pinned, start, bytes);
}

void* make_stream() {
    Lock lock(device().mutex);
    auto stream = std::make_unique<Stream>();
    void* const handle = stream.get();
    device().streams[handle] = std::move(stream);
    born("stream", handle);
    return handle;
}

bool end_stream(void* handle) {
    Lock lock(device().mutex);
    auto const found = device().streams.find(handle);
    if (found == device().streams.end()) {
        misuse("a stream was destroyed that is not there");
        return false;
    }
    // The real one lets its work finish.
    run_until(*found->second, found->second->put);
    for (auto& [name, event] : device().events) {
        if (event->stream == found->second.get()) {
            event->stream = nullptr;
        }
    }
    device().streams.erase(found);
    died("stream", handle);
    return true;
}

bool is_stream(void const* handle) {
    Lock lock(device().mutex);
    return stream_of(handle) != nullptr;
}

int synchronize(void* handle) {
    Lock lock(device().mutex);
    auto* stream = stream_of(handle);
    if (stream == nullptr) {
        return kInvalidHandle;
    }
    if (stream->capturing) {
        return kStreamCaptureUnsupported;
    }
    return run_until(*stream, stream->put);
}

int synchronize_all() {
    Lock lock(device().mutex);
    run_until(device().default_stream, device().default_stream.put);
    for (auto& [handle, stream] : device().streams) {
        run_until(*stream, stream->put);
    }
    return device().error;
}

bool is_idle(void const* handle) {
    Lock lock(device().mutex);
    auto const* stream = stream_of(handle);
    return stream == nullptr || stream->pending.empty();
}

void* make_event(bool timed) {
    Lock lock(device().mutex);
    auto event = std::make_unique<Event>();
    event->timed = timed;
    void* const handle = event.get();
    device().events[handle] = std::move(event);
    born("event", handle);
    return handle;
}

bool end_event(void* handle) {
    Lock lock(device().mutex);
    if (device().events.erase(handle) == 0) {
        misuse("an event was destroyed that is not there");
        return false;
    }
    died("event", handle);
    return true;
}

int record(void* handle, void* stream_handle) {
    Lock lock(device().mutex);
    auto const found = device().events.find(handle);
    auto* stream = stream_of(stream_handle);
    if (found == device().events.end() || stream == nullptr) {
        return kInvalidHandle;
    }
    auto& event = *found->second;
    if (stream->capturing) {
        // Orders work inside the graph, which is in order anyway; it has no time.
        event.recorded = false;
        return kSuccess;
    }
    event.recorded = true;
    event.stream = stream;
    event.after = stream->put;
    event.at_us = stream->clock_us;
    return kSuccess;
}

int wait_for(void* stream_handle, void* handle) {
    Lock lock(device().mutex);
    auto const found = device().events.find(handle);
    auto* stream = stream_of(stream_handle);
    if (found == device().events.end() || stream == nullptr) {
        return kInvalidHandle;
    }
    auto const event = *found->second;
    if (event.stream == nullptr || event.stream == stream || stream->capturing) {
        return kSuccess;
    }
    stream->clock_us = std::max(stream->clock_us, event.at_us);
    put(*stream, 0, [event] { return run_if_there(event.stream, event.after); });
    return kSuccess;
}

int synchronize_event(void* handle) {
    Lock lock(device().mutex);
    auto const found = device().events.find(handle);
    if (found == device().events.end()) {
        return kInvalidHandle;
    }
    auto const& event = *found->second;
    return event.stream == nullptr ? device().error : run_until(*event.stream, event.after);
}

int query_event(void* handle) {
    Lock lock(device().mutex);
    auto const found = device().events.find(handle);
    if (found == device().events.end()) {
        return kInvalidHandle;
    }
    auto const& event = *found->second;
    if (event.stream == nullptr || event.stream->done >= event.after) {
        return device().error;
    }
    // Time passes while one asks: the next question finds it done.
    run_until(*event.stream, event.after);
    return kNotReady;
}

int elapsed_ms(float* out, void* start, void* end) {
    Lock lock(device().mutex);
    auto const first = device().events.find(start);
    auto const second = device().events.find(end);
    if (first == device().events.end() || second == device().events.end()) {
        return kInvalidHandle;
    }
    auto const &from = *first->second, &to = *second->second;
    if (!from.timed || !to.timed || !from.recorded || !to.recorded) {
        return kInvalidHandle;
    }
    for (auto const* event : {&from, &to}) {
        if (event->stream != nullptr && event->stream->done < event->after) {
            return kNotReady;
        }
    }
    *out = static_cast<float>((to.at_us - from.at_us) / 1e3);
    return kSuccess;
}

int begin_capture(void* handle) {
    Lock lock(device().mutex);
    auto* stream = stream_of(handle);
    if (stream == nullptr) {
        return kInvalidHandle;
    }
    // The default stream cannot be captured, nor one that is captured already.
    if (stream == &device().default_stream || stream->capturing) {
        return kStreamCaptureUnsupported;
    }
    stream->capturing = true;
    stream->captured = std::make_unique<Graph>();
    return kSuccess;
}

int end_capture(void* handle, void** out) {
    Lock lock(device().mutex);
    auto* stream = stream_of(handle);
    if (stream == nullptr || !stream->capturing) {
        return kInvalidValue;
    }
    stream->capturing = false;
    auto graph = std::move(stream->captured);
    *out = graph.get();
    born("graph", *out);
    device().graphs[*out] = std::move(graph);
    return kSuccess;
}

bool is_capturing(void const* handle) {
    Lock lock(device().mutex);
    auto const* stream = stream_of(handle);
    return stream != nullptr && stream->capturing;
}

int instantiate(void** executable, void* handle) {
    Lock lock(device().mutex);
    auto const found = device().graphs.find(handle);
    if (found == device().graphs.end()) {
        return kInvalidValue;
    }
    auto copy = std::make_unique<Graph>(*found->second);
    *executable = copy.get();
    born("graph executable", *executable);
    device().executables[*executable] = std::move(copy);
    return kSuccess;
}

int launch(void* executable, void* handle) {
    Lock lock(device().mutex);
    auto const found = device().executables.find(executable);
    auto* stream = stream_of(handle);
    if (found == device().executables.end() || stream == nullptr) {
        return kInvalidHandle;
    }
    for (auto const& step : found->second->steps) {
        put(*stream, step.microseconds, step.work);
    }
    return kSuccess;
}

bool end_graph(void* graph) {
    Lock lock(device().mutex);
    if (device().graphs.erase(graph) == 0) {
        misuse("a graph was destroyed that is not there");
        return false;
    }
    died("graph", graph);
    return true;
}

bool end_executable(void* executable) {
    Lock lock(device().mutex);
    if (device().executables.erase(executable) == 0) {
        misuse("a graph executable was destroyed that is not there");
        return false;
    }
    died("graph executable", executable);
    return true;
}

} // namespace trtdouble
