# The project's commands, listed. Each is one line that also works without just.

# List the commands.
default:
    @just --list

# Everything that must pass: formatting, clippy, every test, the documentation.
test:
    scripts/test

# The same without the slow tests and the documentation.
quick:
    scripts/test quick

# Serve on the embedded store with a worker for trying things out.
dev *arguments:
    cargo run -- dev {{arguments}}

# Run a mixed load for ten minutes and fail if anything grows without bound: just soak --minutes 10.
soak *arguments:
    scripts/soak {{arguments}}

# Run a benchmark on a private PostgreSQL: just bench queue.
bench *arguments:
    cargo build --release -p selvedge-bench
    scripts/postgres run bash -c 'target/release/selvedge-bench {{arguments}} --store "$SELVEDGE_TEST_POSTGRES"'

# Make the tarball and the Debian package, in target/package.
package *arguments:
    scripts/package {{arguments}}
