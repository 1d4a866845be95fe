//! Randomness, seeded by the caller: the same seed gives the same lease ids and the same jitter.

use crate::token::TokenKeyId;
use crate::{LeaseId, WaitpointId};
use uuid::Builder;

/// A seeded source of random values.
#[derive(Clone, Debug)]
pub struct Entropy(fastrand::Rng);

/// The source of a transaction that has not begun: always the same values.
impl Default for Entropy {
    fn default() -> Self {
        Entropy::seeded(0)
    }
}

impl Entropy {
    /// Creates a source whose values are determined by `seed`.
    pub fn seeded(seed: u64) -> Self {
        Entropy(fastrand::Rng::with_seed(seed))
    }

    /// Returns a random lease id.
    pub fn lease_id(&mut self) -> LeaseId {
        LeaseId(Builder::from_random_bytes(self.0.u128(..).to_le_bytes()).into_uuid())
    }

    /// Returns a random waitpoint id.
    pub fn waitpoint_id(&mut self) -> WaitpointId {
        WaitpointId(Builder::from_random_bytes(self.0.u128(..).to_le_bytes()).into_uuid())
    }

    /// Returns a random id for a token key.
    pub fn token_key_id(&mut self) -> TokenKeyId {
        TokenKeyId(self.0.i64(1..))
    }

    /// Returns a random number from 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }
}
