//! Whose turn it is, and for how long.

use std::time::Duration;

use super::statistics::median;
use super::{How, Subject, Times};

/// How long a benchmark runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time that each entry runs before anything is counted.
    pub warmup: Duration,
    /// Time of each entry that is counted, over all rounds.
    pub duration: Duration,
    /// Counted runs of each entry at most, over all rounds. It also bounds the warm-up.
    pub max_iterations: usize,
    /// Turns that each entry has.
    pub rounds: usize,
}

impl Limits {
    fn rounds(&self) -> usize {
        self.rounds.max(1)
    }

    /// Time and runs of one turn.
    fn turn(&self) -> (f64, usize) {
        let time = self.duration.as_secs_f64() * 1e6 / self.rounds() as f64;
        (time, self.max_iterations.div_ceil(self.rounds()).max(1))
    }
}

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which subject.
    pub subject: usize,
    /// How it runs.
    pub how: How,
}

/// What one entry took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Every counted run, in order.
    pub times: Vec<Times>,
    /// Median total time of each round, in microseconds: what rounds are compared by.
    pub round_medians_us: Vec<f64>,
}

/// Runs all entries by turns.
///
/// Each warms up first. In even rounds they go forward, in odd ones backward, so that a clock that falls, heat and neighbours weigh on all of
/// them alike. The first run of a turn finds the caches full of another engine's data and is not counted.
pub fn measure<S: Subject>(
    subjects: &mut [S],
    entries: &[Entry],
    limits: &Limits,
) -> Result<Vec<Samples>, S::Error> {
    for entry in entries {
        warm_up(&mut subjects[entry.subject], entry.how, limits)?;
    }
    let mut samples = vec![Samples::default(); entries.len()];
    for round in 0..limits.rounds() {
        for index in order(round, entries.len()) {
            let entry = entries[index];
            let turn = turn(&mut subjects[entry.subject], entry.how, limits)?;
            samples[index].round_medians_us.extend(median(turn.iter().map(|times| times.total_us)));
            samples[index].times.extend(turn);
        }
    }
    Ok(samples)
}

/// The order of a round.
fn order(round: usize, entries: usize) -> Box<dyn Iterator<Item = usize>> {
    if round.is_multiple_of(2) { Box::new(0..entries) } else { Box::new((0..entries).rev()) }
}

fn warm_up<S: Subject>(subject: &mut S, how: How, limits: &Limits) -> Result<(), S::Error> {
    let (mut runs, mut us) = (0, 0.0);
    // A graph is captured in the first run and memory is touched; three are the least that is past all that.
    while runs < 3 || (us < limits.warmup.as_secs_f64() * 1e6 && runs < limits.max_iterations) {
        us += subject.run(how)?.total_us;
        runs += 1;
    }
    Ok(())
}

fn turn<S: Subject>(subject: &mut S, how: How, limits: &Limits) -> Result<Vec<Times>, S::Error> {
    let (time, most) = limits.turn();
    subject.run(how)?;
    let (mut runs, mut us) = (Vec::new(), 0.0);
    while runs.is_empty() || (us < time && runs.len() < most) {
        let times = subject.run(how)?;
        us += times.total_us;
        runs.push(times);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    const LIMITS: Limits = Limits {
        warmup: Duration::from_millis(4),
        duration: Duration::from_millis(20),
        max_iterations: 100,
        rounds: 4,
    };

    fn entries(count: usize) -> Vec<Entry> {
        (0..count).map(|subject| Entry { subject, how: How::PLAIN }).collect()
    }

    #[test]
    fn turns_fill_their_time() {
        // 5 ms a turn: five runs of 1 ms, and three of 2 ms (the third ends beyond it). Warm-up: four of 1 ms, three of 2 ms (at least three).
        let mut subjects = [Fake::steady(1000.0), Fake::steady(2000.0)];
        let samples = measure(&mut subjects, &entries(2), &LIMITS).unwrap();
        assert_eq!(samples[0].times.len(), 4 * 5);
        assert_eq!(samples[1].times.len(), 4 * 3);
        assert_eq!(samples[0].round_medians_us, [1000.0; 4]);
        // Uncounted: the warm-up and one a turn.
        assert_eq!(subjects[0].runs, 4 + 4 + 20);
        assert_eq!(subjects[1].runs, 3 + 4 + 12);
    }

    #[test]
    fn every_other_round_goes_backward() {
        let of = |round| order(round, 3).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2)], [vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2]]);
    }

    #[test]
    fn a_subject_without_time_ends_by_its_runs() {
        let mut subjects = [Fake::steady(0.0)];
        let samples = measure(&mut subjects, &entries(1), &LIMITS).unwrap();
        assert_eq!(samples[0].times.len(), 100);
        assert_eq!(subjects[0].runs, 100 + 4 + 100);
        let slow = Limits { rounds: 0, max_iterations: 0, ..LIMITS };
        assert_eq!(measure(&mut subjects, &entries(1), &slow).unwrap()[0].times.len(), 1);
    }

    #[test]
    fn a_failure_ends_it() {
        let mut subjects =
            [Fake::steady(1000.0), Fake { fails_at: Some(9), ..Fake::steady(500.0) }];
        assert_eq!(measure(&mut subjects, &entries(2), &LIMITS).unwrap_err(), "run 9 failed");
    }

    #[test]
    fn one_subject_runs_both_ways() {
        let mut subjects = [Fake::steady(1000.0)];
        let both = [How::PLAIN, How::GRAPH].map(|how| Entry { subject: 0, how });
        let samples = measure(&mut subjects, &both, &LIMITS).unwrap();
        // The fake's graph takes half the time.
        assert_eq!([&samples[0], &samples[1]].map(|one| one.times[0].total_us), [1000.0, 500.0]);
    }
}
