//! Admission on Postgres: no number of servers exceeds a limit together, refused executions are released in time, and no
//! two transactions deadlock at a gate.

mod limits;
mod mixed_load;
mod races;
mod waiting;
mod workers;
