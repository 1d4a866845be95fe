//! The program by itself. These tests also make Cargo build it, because the tests of the command line start it.

use std::process::Command;

#[test]
fn the_help_names_the_scenarios() {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge-bench")).arg("--help").output();
    let output = output.expect("the program starts");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && help.contains("queue"), "{help}");
}
