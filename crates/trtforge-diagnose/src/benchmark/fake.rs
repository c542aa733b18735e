//! A subject whose times are made up.

use super::{DeviceTimes, How, Subject, Times};

/// Takes the same time in every run: half of it with a graph. A tenth each is spent on copies, twice that on pageable ones.
pub struct Fake {
    pub us: f64,
    pub enqueue_us: f64,
    pub runs: usize,
    pub fails_at: Option<usize>,
}

impl Fake {
    pub fn steady(us: f64) -> Self {
        Self { us, enqueue_us: us * 0.1, runs: 0, fails_at: None }
    }
}

impl Subject for Fake {
    type Error = String;

    fn run(&mut self, how: How) -> Result<Times, String> {
        self.runs += 1;
        if self.fails_at == Some(self.runs) {
            return Err(format!("run {} failed", self.runs));
        }
        let us = if how.graph { self.us / 2.0 } else { self.us };
        let copy = us * if how.pinned { 0.1 } else { 0.2 };
        let device = DeviceTimes {
            enqueue_us: if how.graph { 5.0 } else { self.enqueue_us },
            copy_in_us: copy,
            compute_us: us * 0.7,
            copy_out_us: copy,
        };
        Ok(Times { total_us: us, device: Some(device) })
    }
}
