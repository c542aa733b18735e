//! How busy the parts of a GPU were.

use serde::Serialize;

/// Where the figures of an [`Activity`] come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Hardware counters over the whole stretch (GPM), which chips from Hopper on have.
    Gpm,
    /// What every chip tells: the share of recent time in which any kernel was resident, and in which memory was accessed.
    Polled,
}

/// How busy the parts of a GPU were over a stretch of time; percentages from 0 to 100.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activity {
    /// What ran, in words.
    pub of: String,
    /// How long.
    pub seconds: f64,
    /// Where the figures from `sm_active` on come from.
    pub source: Source,
    /// What `nvidia-smi` calls utilization: that *some* kernel was resident, however small. Mean of the polls.
    pub utilization: Option<f64>,
    /// Share of time in which device memory was accessed, by the same polls.
    pub memory_utilization: Option<f64>,
    /// Polls behind these two.
    pub polls: usize,
    /// Multiprocessors with at least one warp, over all of them and all of the time.
    pub sm_active: Option<f64>,
    /// Warps that were resident, of as many as would fit.
    pub sm_occupancy: Option<f64>,
    /// Multiprocessors at work on a matrix instruction.
    pub tensor_active: Option<f64>,
    /// At work on an integer (INT8) matrix instruction: proof that INT8 runs in INT8.
    pub integer_tensor_active: Option<f64>,
    /// Bandwidth of device memory that was used.
    pub dram_bandwidth: Option<f64>,
    /// From the device over PCIe, in MB (10⁶ bytes) a second.
    pub pcie_sent_mb_per_s: Option<f64>,
    /// To the device.
    pub pcie_received_mb_per_s: Option<f64>,
    /// Why there are no hardware counters.
    pub problem: Option<String>,
}

impl Activity {
    /// What the utilization figure hides: it counts time in which some kernel was resident; the multiprocessors were busy for this share only.
    pub fn misleading(&self) -> Option<String> {
        let (shown, real) = (self.utilization?, self.sm_active?);
        (shown - real >= 10.0).then(|| {
            format!(
                "utilization reads {shown:.0} % (some kernel was resident), while the multiprocessors were busy {real:.0} % of the time"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn activity(utilization: Option<f64>, sm_active: Option<f64>) -> Activity {
        Activity {
            of: "test".into(),
            seconds: 1.0,
            source: Source::Gpm,
            utilization,
            memory_utilization: None,
            polls: 3,
            sm_active,
            sm_occupancy: None,
            tensor_active: None,
            integer_tensor_active: None,
            dram_bandwidth: None,
            pcie_sent_mb_per_s: None,
            pcie_received_mb_per_s: None,
            problem: None,
        }
    }

    #[test]
    fn utilization_misleads_only_where_it_differs() {
        assert_eq!(
            activity(Some(90.0), Some(23.0)).misleading().unwrap(),
            "utilization reads 90 % (some kernel was resident), while the multiprocessors were busy 23 % of the time"
        );
        assert_eq!(activity(Some(90.0), Some(85.0)).misleading(), None);
        assert_eq!(activity(None, Some(85.0)).misleading(), None);
        assert_eq!(activity(Some(90.0), None).misleading(), None);
    }
}
