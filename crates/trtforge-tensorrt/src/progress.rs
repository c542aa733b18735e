//! One number out of nested phases, for a progress bar.

use crate::builder::Progress;

/// How much of a build is done, from what the builder tells of its phases.
///
/// Phases nest and their number is not known before they start, so this is an estimate; it never goes back.
#[derive(Debug, Clone, Default)]
pub struct BuildShare {
    running: Vec<Phase>,
    share: f64,
}

#[derive(Debug, Clone)]
struct Phase {
    name: String,
    parent: Option<String>,
    steps: u32,
    done: u32,
}

impl BuildShare {
    /// Takes in one event; returns the share of the build that is done, from 0 to 1.
    pub fn update(&mut self, progress: &Progress<'_>) -> f64 {
        match *progress {
            Progress::Started { phase, parent, steps } => self.running.push(Phase {
                name: phase.to_owned(),
                parent: parent.map(str::to_owned),
                steps,
                done: 0,
            }),
            Progress::Step { phase, step } => {
                let running = self.running.iter_mut().rev().find(|running| running.name == phase);
                if let Some(running) = running {
                    running.done = running.done.max(step.saturating_add(1)).min(running.steps);
                }
            }
            Progress::Finished { phase } => {
                if let Some(index) = self.running.iter().rposition(|running| running.name == phase)
                {
                    self.running.remove(index);
                }
            }
        }
        let roots = self.running.iter().filter(|phase| phase.parent.is_none());
        let now = roots.map(|phase| self.share_of(phase, 0)).fold(0.0, f64::max);
        self.share = self.share.max(now);
        self.share
    }

    /// The innermost phase that runs.
    pub fn phase(&self) -> Option<&str> {
        self.running.last().map(|phase| phase.name.as_str())
    }

    /// What is done of a phase: its steps, and of the step that runs what the phases inside it have done.
    fn share_of(&self, phase: &Phase, depth: usize) -> f64 {
        if phase.steps == 0 || depth > self.running.len() {
            return 0.0;
        }
        let inside = self.running.iter().filter(|other| other.parent.as_ref() == Some(&phase.name));
        let step = inside.map(|other| self.share_of(other, depth + 1)).fold(0.0, f64::max);
        ((f64::from(phase.done) + step) / f64::from(phase.steps)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started<'a>(phase: &'a str, parent: Option<&'a str>, steps: u32) -> Progress<'a> {
        Progress::Started { phase, parent, steps }
    }

    #[test]
    fn steps_inside_a_step_count_for_their_part() {
        let mut share = BuildShare::default();
        assert_eq!(share.update(&started("build", None, 4)), 0.0);
        assert_eq!(share.update(&Progress::Step { phase: "build", step: 0 }), 0.25);
        // By hand: one of four, and half of the second: 1.5 / 4.
        assert_eq!(share.update(&started("time", Some("build"), 2)), 0.25);
        assert_eq!(share.update(&Progress::Step { phase: "time", step: 0 }), 0.375);
        assert_eq!(share.phase(), Some("time"));
        // Ending the inner phase must not take back what it had done.
        assert_eq!(share.update(&Progress::Finished { phase: "time" }), 0.375);
        assert_eq!(share.update(&Progress::Step { phase: "build", step: 3 }), 1.0);
        assert_eq!(share.update(&Progress::Finished { phase: "build" }), 1.0);
        assert_eq!(share.phase(), None);
    }

    #[test]
    fn nonsense_stays_between_0_and_1() {
        let mut share = BuildShare::default();
        let events = [
            started("a", Some("a"), 3),
            started("b", None, 0),
            started("c", None, 1),
            Progress::Step { phase: "c", step: 9 },
            Progress::Step { phase: "unknown", step: 1 },
            Progress::Finished { phase: "unknown" },
        ];
        for event in &events {
            assert!((0.0..=1.0).contains(&share.update(event)), "{event:?}");
        }
    }
}
