//! The store itself: opening, statements and their plans, transactions, the log, streams, notifications, unreadable
//! rows, the size of rows, silent connections, TLS, connection poolers, locks held by others, and races of two servers for
//! one execution.

mod bounds;
mod clock;
mod coverage;
mod crowds;
mod diagnosis;
mod failover;
mod fixtures;
mod glances;
mod history;
mod keyed_races;
mod log;
mod log_window;
mod notifications;
mod opening;
mod plan_cases;
mod plans;
mod poolers;
mod races;
mod refusals;
mod retention;
mod row_sizes;
mod schedules;
mod silence;
mod statements;
mod streams;
mod tls;
mod transaction;
mod unreadable;
