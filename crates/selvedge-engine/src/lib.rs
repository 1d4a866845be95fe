//! The engine: brings the rules and a store together, batches commands, wakes waiters, runs the reconcilers.
