//! Gates: lanes, quotas, concurrency keys, budgets and fair shares.

pub mod breaches;
pub mod budgets;
pub mod changes;
pub mod fairness;
pub mod lanes;
pub mod promises;
pub mod quotas;
pub mod rows;
