//! Flows on Postgres: their rows, races of two servers, crashes at every statement, and fan-in under load.

mod crashes;
mod deadlocks;
mod fan_in;
mod races;
mod rows;
mod throughput;
mod waking;
