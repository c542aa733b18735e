//! Which engines are worth choosing from: those that no other beats in both accuracy and cost.

use super::Engine;

/// For each point, whether it is on the Pareto frontier: no other is at least as good in both and better in one.
///
/// - `points`: value (more is better) and cost (less is better); what is not finite is on no frontier and beats nothing.
pub fn on_frontier(points: &[Option<[f64; 2]>]) -> Vec<bool> {
    let finite =
        |point: &Option<[f64; 2]>| point.filter(|found| found.iter().all(|x| x.is_finite()));
    let points: Vec<_> = points.iter().map(finite).collect();
    let beaten = |[value, cost]: [f64; 2]| {
        points.iter().flatten().any(|&[other, price]| {
            other >= value && price <= cost && (other > value || price < cost)
        })
    };
    points.iter().map(|point| point.is_some_and(|point| !beaten(point))).collect()
}

/// Value and size: of the engine, or of the graphs where no run has engines.
pub fn by_size(engines: &[Engine]) -> Vec<Option<[f64; 2]>> {
    let plans = engines.iter().any(|engine| engine.plan_bytes.is_some());
    let size = |engine: &Engine| if plans { engine.plan_bytes } else { engine.onnx_bytes };
    engines.iter().map(|engine| Some([value(engine)?, size(engine)? as f64])).collect()
}

/// Value and median latency in milliseconds.
pub fn by_latency(engines: &[Engine]) -> Vec<Option<[f64; 2]>> {
    let latency = |engine: &Engine| engine.latency.as_ref().map(|found| found.p50_ms);
    engines.iter().map(|engine| Some([value(engine)?, latency(engine)?])).collect()
}

fn value(engine: &Engine) -> Option<f64> {
    engine.evaluation.as_ref().filter(|_| engine.same_rows).map(|found| found.value)
}

pub fn mark(engines: &mut [Engine]) {
    let size = on_frontier(&by_size(engines));
    let latency = on_frontier(&by_latency(engines));
    for (engine, (size, latency)) in engines.iter_mut().zip(size.into_iter().zip(latency)) {
        (engine.best_for_size, engine.best_for_latency) = (size, latency);
    }
}

#[cfg(test)]
mod tests {
    use super::on_frontier;

    #[test]
    fn frontier_by_hand() {
        let points = [
            Some([0.92, 70.0]),
            Some([0.91, 40.0]),
            Some([0.90, 45.0]),
            Some([0.91, 41.0]),
            Some([0.93, f64::NAN]),
            None,
            Some([0.80, 20.0]),
        ];
        // The third is beaten by the second in both, the fourth by the second in size alone; the two without figures beat nothing.
        assert_eq!(on_frontier(&points), [true, true, false, false, false, false, true]);
    }

    #[test]
    fn equal_points_do_not_beat_each_other() {
        assert_eq!(on_frontier(&[Some([1.0, 2.0]), Some([1.0, 2.0])]), [true, true]);
        assert_eq!(on_frontier(&[]), Vec::<bool>::new());
    }
}
