//! Suspensions: resume conditions, signals, waitpoints, tokens, steps, timeouts and children.

pub mod children;
pub mod conditions;
pub mod signals;
pub mod steps;
pub mod suspend;
pub mod timeouts;
pub mod tokens;
pub mod waitpoints;
