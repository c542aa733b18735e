//! NVML, asked.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, GpmSample, Nvml};

use super::{Activity, ClockState, CountersError, Handle, Source, Wanted};

/// Between two looks at the utilization; NVML itself averages over about as long.
const POLL: Duration = Duration::from_millis(100);

/// Two GPM samples must lie this far apart.
const LEAST_APART: Duration = Duration::from_millis(100);

/// Metrics that are asked for, in the order of [`Activity`].
const METRICS: [GpmMetricId; 7] = [
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::ImmaTensorUtil,
    GpmMetricId::DramBwUtil,
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
];

/// The counters of one GPU.
pub struct Counters {
    nvml: Nvml,
    index: u32,
    driver: Option<String>,
}

impl Counters {
    /// Opens the library and finds the GPU by its number; it must bear the name that CUDA gives it, or be the only one that does.
    pub fn open(library: &OsStr, wanted: &Wanted<'_>) -> Result<Self, CountersError> {
        let refused = |error: NvmlError| CountersError::Library {
            library: library.to_string_lossy().into_owned(),
            reason: error.to_string(),
        };
        let nvml = Nvml::builder().lib_path(library).init().map_err(refused)?;
        let index = find(&nvml, wanted).map_err(refused)?;
        let Ok(index) = index else {
            let (name, known) = (wanted.name.to_owned(), index.unwrap_err());
            return Err(CountersError::NoSuchGpu { name, known });
        };
        let driver = nvml.sys_driver_version().ok();
        Ok(Self { nvml, index, driver })
    }

    /// Version of the GPU driver.
    pub fn driver_version(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    fn device(&self) -> Result<Device<'_>, NvmlError> {
        self.nvml.device_by_index(self.index)
    }

    /// Clocks and heat now. What a chip does not tell is absent.
    pub fn state(&self) -> ClockState {
        let Ok(device) = self.device() else { return ClockState::default() };
        let others = device.running_compute_processes().ok().map(|processes| {
            processes.iter().filter(|process| process.pid != std::process::id()).count() as u32
        });
        ClockState {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            max_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            throttle_reasons: device.current_throttle_reasons().map(in_words).unwrap_or_default(),
            other_processes: others,
        }
    }

    /// Does `work` and says how busy the GPU was meanwhile.
    ///
    /// Work shorter than a tenth of a second has no hardware counters, which need two samples that far apart.
    pub fn watch<T>(&self, of: &str, work: impl FnOnce() -> T) -> (T, Activity) {
        let done = AtomicBool::new(false);
        let (first, start) = (self.sample(), Instant::now());
        let (result, polls) = thread::scope(|scope| {
            let polls = scope.spawn(|| self.poll(&done));
            // Ends the polls when `work` panics too: a scope waits for its threads.
            let ender = Ender(&done);
            let result = work();
            drop(ender);
            (result, polls.join().unwrap_or_default())
        });
        let elapsed = start.elapsed();
        let mean = |of: fn(&(u32, u32)) -> u32| {
            let sum: u32 = polls.iter().map(of).sum();
            (!polls.is_empty()).then(|| f64::from(sum) / polls.len() as f64)
        };
        let metrics = first.and_then(|first| self.metrics(&first, elapsed));
        let found = metrics.as_ref().copied().unwrap_or_default();
        let mega = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1e6);
        let activity = Activity {
            of: of.to_owned(),
            seconds: elapsed.as_secs_f64(),
            source: if metrics.is_ok() { Source::Gpm } else { Source::Polled },
            utilization: mean(|poll| poll.0),
            memory_utilization: mean(|poll| poll.1),
            polls: polls.len(),
            sm_active: found[0],
            sm_occupancy: found[1],
            tensor_active: found[2],
            integer_tensor_active: found[3],
            dram_bandwidth: found[4],
            pcie_sent_mb_per_s: mega(found[5]),
            pcie_received_mb_per_s: mega(found[6]),
            problem: metrics.err(),
        };
        (result, activity)
    }

    fn sample(&self) -> Result<GpmSample<'_>, String> {
        let sample = || {
            let device = self.device()?;
            if device.gpm_support()? { device.gpm_sample() } else { Err(NvmlError::NotSupported) }
        };
        sample().map_err(|error| match error {
            NvmlError::NotSupported => {
                "this chip has no hardware counters (GPM); those from Hopper on do".to_owned()
            }
            error => format!("no hardware counters (GPM): {error}"),
        })
    }

    fn metrics(
        &self,
        first: &GpmSample<'_>,
        elapsed: Duration,
    ) -> Result<[Option<f64>; METRICS.len()], String> {
        if elapsed < LEAST_APART {
            return Err(format!(
                "the work took {} ms; hardware counters (GPM) need {} ms",
                elapsed.as_millis(),
                LEAST_APART.as_millis()
            ));
        }
        let second = self.sample()?;
        let results = gpm_metrics_get(&self.nvml, first, &second, &METRICS)
            .map_err(|error| format!("no hardware counters (GPM): {error}"))?;
        let mut found = [None; METRICS.len()];
        for result in results.into_iter().flatten() {
            if let Some(at) = METRICS.iter().position(|metric| *metric == result.metric_id) {
                found[at] = result.value.is_finite().then_some(result.value);
            }
        }
        Ok(found)
    }

    /// Utilization of kernels and memory, until `done`.
    fn poll(&self, done: &AtomicBool) -> Vec<(u32, u32)> {
        let mut polls = Vec::new();
        let Ok(device) = self.device() else { return polls };
        let mut next = Instant::now() + POLL;
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
            if Instant::now() >= next {
                polls
                    .extend(device.utilization_rates().ok().map(|rates| (rates.gpu, rates.memory)));
                next += POLL;
            }
        }
        polls
    }
}

struct Ender<'d>(&'d AtomicBool);

impl Drop for Ender<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The library's number of the GPU, else the names of those it has.
fn find(nvml: &Nvml, wanted: &Wanted<'_>) -> Result<Result<u32, Vec<String>>, NvmlError> {
    let count = nvml.device_count()?;
    let names: Vec<String> = (0..count)
        .map(|index| nvml.device_by_index(index)?.name())
        .collect::<Result<_, NvmlError>>()?;
    let by_number = match wanted.handle() {
        Handle::Index(index) => u32::try_from(index).ok(),
        Handle::Uuid(uuid) => nvml.device_by_uuid(uuid).and_then(|device| device.index()).ok(),
    };
    let is_it = |index: u32| names.get(index as usize).is_some_and(|name| name == wanted.name);
    if let Some(index) = by_number.filter(|&index| is_it(index)) {
        return Ok(Ok(index));
    }
    // CUDA may count the fastest first: a name that only one of them has is proof enough.
    let mut alike = (0..count).filter(|&index| is_it(index));
    Ok(match (alike.next(), alike.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(names),
    })
}

/// The reasons that hold clocks down. An idle GPU is not throttled.
fn in_words(reasons: ThrottleReasons) -> Vec<String> {
    let words = [
        (ThrottleReasons::SW_POWER_CAP, "software power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "software thermal slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware thermal slowdown"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hardware power brake"),
        (ThrottleReasons::SYNC_BOOST, "held back by another GPU of its sync boost group"),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks are set"),
    ];
    words
        .into_iter()
        .filter(|(flag, _)| reasons.contains(*flag))
        .map(|(_, word)| word.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_no_throttling() {
        assert!(in_words(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(in_words(ThrottleReasons::NONE).is_empty());
        assert_eq!(
            in_words(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN),
            ["software power cap", "hardware slowdown"]
        );
    }
}
