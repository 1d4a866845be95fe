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

# Run the server for development.
dev *arguments:
    cargo run -- {{arguments}}

# Run the benchmarks against a private PostgreSQL.
bench *arguments:
    scripts/postgres run cargo bench --workspace {{arguments}}
