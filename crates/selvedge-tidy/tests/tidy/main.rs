//! The rules of the repository, each a test. Known exceptions stand in tables beside the rules.

mod architecture;
mod comments;
mod crates;
mod markdown;
mod names;
mod sizes;
