//! Suspension on Postgres: its cost, crashes at every statement, and races of everything that ends or resumes a suspended
//! execution.

mod cost;
mod crashes;
mod races;
