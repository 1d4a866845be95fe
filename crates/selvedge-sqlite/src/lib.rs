//! The embedded store: one SQLite file, one engine process, one writer thread.
