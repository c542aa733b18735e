//! What nodes compute, as a polynomial in one tensor and in the output of one function of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::view::View;

/// Highest power of a variable; GELU's tanh form has 3.
const DEGREE: u8 = 4;
/// How far a formula is followed through the graph.
const DEPTH: usize = 10;

/// `coefficient · xⁱ · fʲ`, by `(i, j)`; no entry is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expression(BTreeMap<(u8, u8), f64>);

impl Expression {
    pub fn of(terms: &[((u8, u8), f64)]) -> Self {
        Self(terms.iter().copied().filter(|(_, coefficient)| *coefficient != 0.0).collect())
    }

    pub fn constant(value: f64) -> Self {
        Self::of(&[((0, 0), value)])
    }

    /// The tensor.
    pub fn x() -> Self {
        Self::of(&[((1, 0), 1.0)])
    }

    /// The function.
    pub fn f() -> Self {
        Self::of(&[((0, 1), 1.0)])
    }

    pub fn coefficient(&self, x: u8, f: u8) -> f64 {
        self.0.get(&(x, f)).copied().unwrap_or(0.0)
    }

    /// Whether no term but these has a coefficient, each within `tolerance` of the one expected, relative to it.
    pub fn is(&self, terms: &[((u8, u8), f64)], tolerance: f64) -> bool {
        let close = |(power, expected): &((u8, u8), f64)| {
            let found = self.coefficient(power.0, power.1);
            (found - expected).abs() <= tolerance * expected.abs()
        };
        self.0.len() == terms.len() && terms.iter().all(close)
    }

    fn plus(&self, other: &Self, sign: f64) -> Self {
        let mut sum = self.clone();
        for (power, coefficient) in &other.0 {
            *sum.0.entry(*power).or_default() += sign * coefficient;
        }
        sum.0.retain(|_, coefficient| *coefficient != 0.0);
        sum
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let power = (a.0 + b.0, a.1 + b.1);
                if power.0 > DEGREE || power.1 > DEGREE {
                    return None;
                }
                *product.0.entry(power).or_default() += x * y;
            }
        }
        product.0.retain(|_, coefficient| *coefficient != 0.0);
        Some(product)
    }

    /// The number, if no variable is left.
    fn number(&self) -> Option<f64> {
        let constant = self.0.keys().all(|power| *power == (0, 0));
        constant.then(|| self.coefficient(0, 0))
    }
}

/// Reads formulas, from tensors whose meaning is given.
pub(super) struct Reader<'v, 'm> {
    pub view: &'v View<'m>,
    pub known: HashMap<&'m str, Expression>,
    /// The nodes of what was read so far.
    pub nodes: BTreeSet<usize>,
}

impl<'v, 'm> Reader<'v, 'm> {
    pub fn new(view: &'v View<'m>, x: &'m str) -> Self {
        let known = HashMap::from([(x, Expression::x())]);
        Self { view, known, nodes: BTreeSet::new() }
    }

    /// What a tensor is; `None` when other operators or tensors are in it.
    pub fn read(&mut self, tensor: &'m str) -> Option<Expression> {
        self.read_to(tensor, DEPTH)
    }

    fn read_to(&mut self, tensor: &'m str, depth: usize) -> Option<Expression> {
        if let Some(known) = self.known.get(tensor) {
            return Some(known.clone());
        }
        if self.view.is_constant(tensor) {
            return self.view.scalar(tensor).map(Expression::constant);
        }
        let node = self.view.producer(tensor)?;
        let left = depth.checked_sub(1)?;
        let a = self.read_to(self.view.input(node, 0)?, left)?;
        let b = match self.view.input(node, 1) {
            Some(name) => Some(self.read_to(name, left)?),
            None => None,
        };
        let result = self.apply(node, &a, b.as_ref())?;
        self.nodes.insert(node);
        self.known.insert(tensor, result.clone());
        Some(result)
    }

    fn apply(&self, node: usize, a: &Expression, b: Option<&Expression>) -> Option<Expression> {
        let is = |op: &str| self.view.is(node, op);
        match b {
            None if is("Neg") => a.times(&Expression::constant(-1.0)),
            Some(b) if is("Add") => Some(a.plus(b, 1.0)),
            Some(b) if is("Sub") => Some(a.plus(b, -1.0)),
            Some(b) if is("Mul") => a.times(b),
            Some(b) if is("Div") => {
                let divisor = b.number().filter(|&divisor| divisor != 0.0)?;
                a.times(&Expression::constant(1.0 / divisor))
            }
            Some(b) if is("Pow") => match b.number()? {
                2.0 => a.times(a),
                3.0 => a.times(a)?.times(a),
                _ => None,
            },
            _ => None,
        }
    }

    /// The tensors that a formula could be about, the nearest first.
    pub fn candidates(view: &View<'m>, tensor: &'m str) -> Vec<&'m str> {
        let (mut found, mut level) = (vec![tensor], vec![tensor]);
        for _ in 0..DEPTH {
            let mut next = vec![];
            for name in level {
                let Some(node) = view.producer(name) else { continue };
                if !["Neg", "Add", "Sub", "Mul", "Div", "Pow"].iter().any(|op| view.is(node, op)) {
                    continue;
                }
                let inputs = view.node(node).input.iter().map(String::as_str);
                next.extend(inputs.filter(|input| !view.is_constant(input)));
            }
            next.retain(|name| !found.contains(name));
            next.dedup();
            found.extend(&next);
            level = next;
            // A formula has a handful of tensors; what is longer is the network before it.
            if found.len() > 16 {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_add_and_multiply() {
        let x = Expression::x();
        let square = x.times(&x).unwrap();
        // (x² + 2)(x − f) = x³ − x²f + 2x − 2f
        let product =
            square.plus(&Expression::constant(2.0), 1.0).times(&x.plus(&Expression::f(), -1.0));
        let expected = [((3, 0), 1.0), ((2, 1), -1.0), ((1, 0), 2.0), ((0, 1), -2.0)];
        assert!(product.unwrap().is(&expected, 0.0));
        assert!(!x.is(&[((1, 0), 1.1)], 0.05) && x.is(&[((1, 0), 1.01)], 0.05));
        assert!(!x.is(&[((1, 0), 1.0), ((0, 0), 1.0)], 0.1), "a term is missing");
        assert_eq!(x.plus(&x, -1.0), Expression::default());
        let cube = square.times(&x).unwrap();
        assert_eq!(cube.times(&square), None, "the degree is limited");
    }
}
