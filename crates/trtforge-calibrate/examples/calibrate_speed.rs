//! How fast observing and choosing thresholds are: `cargo run --release -p trtforge-calibrate --example calibrate_speed`.
//!
//! Prints medians of repeated runs, with the fastest and slowest, and how many there were.

use std::hint::black_box;
use std::time::Instant;

use trtforge_calibrate::{Guards, Histogram, Method, Observer, Range, threshold};

const REPEATS: usize = 15;
const VALUES: usize = 8 * 128 * 3072;

fn main() {
    let one =
        rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let tensors = [("bell", bell()), ("half zero", half_zero()), ("even", even())];
    for (name, values) in &tensors {
        rate(&format!("range, {name}, 1 thread"), || {
            one.install(|| {
                let mut range = Range::default();
                range.observe(values);
                black_box(range);
            });
        });
        rate(&format!("histogram, {name}, 1 thread"), || {
            let mut histogram = Histogram::new();
            histogram.observe(values);
            black_box(histogram);
        });
        rate(&format!("histogram, {name}, all threads"), || {
            let mut observer = Observer::new([*name], [""; 0]);
            observer.observe(name, values);
            black_box(observer);
        });
    }
    let mut histogram = Histogram::new();
    histogram.observe(&tensors[0].1);
    println!("threshold of {} bins in use:", histogram.bins().len());
    for method in [Method::Entropy, Method::MinMax, Method::Percentile(99.99), Method::Mse] {
        let times = measure(|| drop(black_box(threshold(&histogram, method))));
        println!("  {method}: {}", summary(&times.map(|s| s * 1e3), "ms"));
    }
    let mut observer = Observer::new((0..240).map(|i| format!("tensor {i}")), [""; 0]);
    for (index, name) in observer.tensors().into_iter().enumerate() {
        observer.observe(&name, &tensors[index % 3].1[..200_000 + 1000 * index]);
    }
    let started = Instant::now();
    for method in [Method::Entropy, Method::MinMax, Method::Percentile(99.99), Method::Mse] {
        black_box(observer.calibrate(method, &Guards::default())).expect("finite values calibrate");
    }
    println!(
        "240 tensors, all four methods: {:.0} ms (1 run)",
        started.elapsed().as_secs_f64() * 1e3
    );
}

fn rate(what: &str, run: impl FnMut()) {
    let times = measure(run);
    println!("{what}: {}", summary(&times.map(|s| VALUES as f64 / s / 1e6), "million values/s"));
}

fn measure(mut run: impl FnMut()) -> [f64; REPEATS] {
    run();
    let mut times = [0.0; REPEATS];
    for time in &mut times {
        let started = Instant::now();
        run();
        *time = started.elapsed().as_secs_f64();
    }
    times
}

fn summary(figures: &[f64; REPEATS], unit: &str) -> String {
    let mut sorted = *figures;
    sorted.sort_by(f64::total_cmp);
    let (low, median, high) = (sorted[0], sorted[REPEATS / 2], sorted[REPEATS - 1]);
    format!("{median:.2} {unit} (median of {REPEATS}, {low:.2} to {high:.2})")
}

/// Noise in (0, 1), the same in every run.
fn noise() -> impl Iterator<Item = f32> {
    (0..VALUES as u64).map(|i| {
        let mut x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 31;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((x >> 40) as f32 + 0.5) / 16_777_216.0
    })
}

/// Bell-shaped, as LayerNorm outputs.
fn bell() -> Vec<f32> {
    noise().map(|x| (x / (1.0 - x)).ln()).collect()
}

/// Half of it exactly zero, as after ReLU: equal values in a row.
fn half_zero() -> Vec<f32> {
    bell().into_iter().map(|x| x.max(0.0)).collect()
}

/// Every bin equally likely, the worst for the caches.
fn even() -> Vec<f32> {
    noise().map(|x| 1.999 * x).collect()
}
