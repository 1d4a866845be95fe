//! Chance, handed in by the caller: the same seed gives the same lease ids and the same jitter.

use crate::token::TokenKeyId;
use crate::{LeaseId, WaitpointId};
use uuid::Builder;

/// A seeded source of random values.
#[derive(Clone, Debug)]
pub struct Entropy(fastrand::Rng);

impl Entropy {
    /// A source that is wholly determined by `seed`.
    pub fn seeded(seed: u64) -> Self {
        Entropy(fastrand::Rng::with_seed(seed))
    }

    /// A fresh lease id.
    pub fn lease_id(&mut self) -> LeaseId {
        LeaseId(Builder::from_random_bytes(self.0.u128(..).to_le_bytes()).into_uuid())
    }

    /// A fresh id of a waitpoint.
    pub fn waitpoint_id(&mut self) -> WaitpointId {
        WaitpointId(Builder::from_random_bytes(self.0.u128(..).to_le_bytes()).into_uuid())
    }

    /// A fresh id of a key for tokens.
    pub fn token_key_id(&mut self) -> TokenKeyId {
        TokenKeyId(self.0.i64(1..))
    }

    /// A number between zero and one.
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }
}
