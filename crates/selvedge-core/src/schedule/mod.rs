//! x
pub mod cron;
pub mod times;
