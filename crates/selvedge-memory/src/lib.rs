//! The store in memory: for tests, simulation and trying things out; nothing survives the process.
