//! `prove`: what an engine itself says of the precision it runs in.
//!
//! Asking needs the engine alive, and so a GPU. Without one there is no proof, and the record says so: how much of the
//! graph is INT8 is another figure, and stands apart from this one.

use trtforge_evaluate::Int8Share;
use trtforge_onnx::Model;
use trtforge_quantize::UnitKind;
use trtforge_report::EngineProof;
use trtforge_tensorrt::{
    DriverInfo, EngineLayers, Library, NumberType, PrecisionProof, ProductProof, Seen, deserialize,
};

use crate::error::PipelineError;
use crate::record::proof as record;
use crate::stages::engine::Engine;
use crate::stages::rewrite::{Graph, Work};
use crate::store::{Artifact, Fingerprint, Store, StoreError, write_atomic};

/// What the gate is told of INT8 in an engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Int8Found {
    /// Shares of the arithmetic; none where the engine could not be asked.
    pub share: Option<Int8Share>,
    /// Why it could not.
    pub missing: Option<String>,
}

impl Int8Found {
    /// What a record says of it.
    pub fn of(proof: &EngineProof) -> Int8Found {
        let share = proof.int8_share.zip(proof.unproven_share);
        Int8Found {
            share: share.map(|(proven, unproven)| Int8Share { proven, unproven }),
            missing: proof.missing.clone(),
        }
    }
}

/// Asks the engine, where there is a GPU to bring it to life on; the artifact of what it said.
///
/// - `length`: tokens of the row whose arithmetic is counted.
pub fn prove(
    store: &Store,
    library: &Library,
    driver: Option<&DriverInfo>,
    (engine, graph): (&Engine, &Graph),
    length: usize,
) -> Result<(EngineProof, Option<Artifact>), PipelineError> {
    let Some(driver) = driver else {
        return Ok((EngineProof::missing("no GPU is here to ask the engine on"), None));
    };
    let gpu = driver.gpus.first();
    let key = Fingerprint::of("layers")
        .with("plan", engine.plan.hash())
        .with("library", format!("{:?} {}", library.sdk(), library.exact_version()))
        .with("gpu", gpu.map(|gpu| gpu.name.clone()).unwrap_or_default());
    let asked = store.obtain(&key, "json", |path| {
        let bytes =
            std::fs::read(&engine.plan.path).map_err(StoreError::io("read", &engine.plan.path))?;
        let said = deserialize(library, &bytes)?.inspect()?;
        write_atomic(path, said.as_bytes()).map_err(PipelineError::from)
    });
    let artifact = match asked {
        Ok(artifact) => artifact,
        // An engine that does not live here proves nothing; whether that stops the run is for its evaluation to say.
        Err(PipelineError::TensorRt(error)) => {
            return Ok((EngineProof::missing(format!("it could not be asked: {error}")), None));
        }
        Err(error) => return Err(error),
    };
    let said =
        std::fs::read_to_string(&artifact.path).map_err(StoreError::io("read", &artifact.path))?;
    let proof = match EngineLayers::from_json(&said) {
        Err(error) => EngineProof::missing(error.to_string()),
        Ok(layers) => {
            let proof = PrecisionProof::of(&layers, &Model::open(&graph.onnx.path)?);
            record::of(&proof, &layers, share(&proof.products, &graph.account.work, length))
        }
    };
    Ok((proof, Some(artifact)))
}

/// The shares of the arithmetic, by the multiply-accumulates of each product.
///
/// Products with weights are known by name; the rest are those of attentions, which share what these have. Where no arithmetic
/// was counted, every product weighs the same.
pub fn share(products: &[ProductProof], work: &[Work], length: usize) -> Option<Int8Share> {
    let of_attention = |work: &&Work| work.kind == UnitKind::Attention;
    let weighted = |product: &ProductProof| {
        let unnamed = product.node.strip_prefix("node_of_");
        let unnamed = unnamed.map(|output| format!("{}({output})", product.operator));
        let same = |work: &&Work| work.node == product.node || Some(&work.node) == unnamed.as_ref();
        let found = work.iter().filter(|work| !of_attention(work)).find(same);
        found.map(|work| work.macs.at(length) as f64)
    };
    let rest = products.iter().filter(|product| weighted(product).is_none()).count().max(1);
    let attention: u64 = work.iter().filter(of_attention).map(|work| work.macs.at(length)).sum();
    let macs = |product: &ProductProof| match work {
        [] => 1.0,
        _ => weighted(product).unwrap_or(attention as f64 / rest as f64),
    };
    let sum = |wanted: &dyn Fn(Seen) -> bool| -> f64 {
        products.iter().filter(|product| wanted(product.seen)).map(macs).sum()
    };
    let all = sum(&|_| true);
    (all > 0.0).then(|| Int8Share {
        proven: sum(&|seen| seen == Seen::In(NumberType::Int8)) / all,
        unproven: sum(&|seen| seen == Seen::Unproven) / all,
    })
}

#[cfg(test)]
mod tests {
    use trtforge_quantize::Macs;

    use super::*;

    fn product(node: &str, seen: Seen) -> ProductProof {
        ProductProof {
            node: node.to_owned(),
            operator: "MatMul".to_owned(),
            graph: None,
            layer: None,
            seen,
            why: String::new(),
        }
    }

    fn work(node: &str, kind: UnitKind, per_token: u64, per_pair: u64) -> Work {
        Work { node: node.to_owned(), kind, macs: Macs { per_row: 0, per_token, per_pair } }
    }

    #[test]
    fn products_weigh_by_their_arithmetic() {
        let int8 = Seen::In(NumberType::Int8);
        let half = Seen::In(NumberType::Fp16);
        let products = [
            product("q", int8),
            product("scores", Seen::Unproven),
            product("context", half),
            product("node_of_y", half),
        ];
        let work = [
            work("q", UnitKind::Query, 60, 0),
            work("softmax", UnitKind::Attention, 0, 2),
            work("MatMul(y)", UnitKind::Output, 20, 0),
        ];
        // 10 tokens: 600 in q, 200 in y, and 200 of the attention, half in each of its two products.
        let found = share(&products, &work, 10).unwrap();
        assert_eq!((found.proven, found.unproven), (0.6, 0.1));
        // Without any account each of the four weighs the same.
        let found = share(&products, &[], 10).unwrap();
        assert_eq!((found.proven, found.unproven), (0.25, 0.25));
        assert_eq!(share(&[], &work, 10), None);
    }
}
