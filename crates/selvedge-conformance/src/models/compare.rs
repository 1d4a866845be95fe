//! Comparison of a store with a reference model.

use std::fmt::Debug;

/// The result of a comparison; the error describes the difference.
pub type Comparison = Result<(), String>;

/// Compares two values. `what` names them in the error.
pub fn expect_equal<T: PartialEq + Debug>(what: impl Fn() -> String, expected: T, got: T) -> Comparison {
    match expected == got {
        true => Ok(()),
        false => Err(format!("{}: expected {expected:?}, got {got:?}", what())),
    }
}
